//! Compares two time ranges or label sets of a service.

use axum::extract::Path;
use maud::{Markup, html};
use wingbeat_pprof::{Flame, FunctionRow, Medium, Metric, Picture, Request, View, compare, signed};
use wingbeat_text::{grouped, share, shortened};

use super::{
    choice::{Choice, Choices},
    figures::Figures,
    range::{self, BASE, FIELDS, Fields, span_shown},
    service::{ServiceQuery, factors, function_rows, notes, points, side},
    timeline::{self, Pen, Timeline},
};
use crate::{
    ApiError, App,
    console::{
        assets::Asset,
        components::{kept, name},
        flame,
        layout::{Page, Tab},
        links::{Params, encoded},
        page_context::PageContext,
    },
    profiles::{Reading, Span, now_ns},
};

/// Fewer standard deviations may be chance.
const DEVIATIONS_MIN: f64 = 2.0;

/// Labels of the baseline.
pub(super) const BASE_LABEL: &str = "base_label";

/// One side of the comparison.
struct Half {
    choice: Choice,
    span: Span,
    timeline: Timeline,
    reading: Reading,
    /// Per second; for a gauge, the mean.
    rate: f64,
}

/// Both sides.
struct Pair {
    choices: Choices,
    before: Half,
    after: Half,
    found: Result<Found, String>,
}

struct Found {
    picture: Picture,
    rows: Vec<FunctionRow>,
}

/// The time ranges to compare: the baseline precedes, with the same length.
fn spans(query: &ServiceQuery, newest_ns: i64) -> Result<(Span, Span), ApiError> {
    let now_ns = now_ns();
    let after = FIELDS.read(&query.params, now_ns)?;
    let after = after.unwrap_or_else(|| range::usual(newest_ns, now_ns));
    let length_ns = after.until_ns - after.from_ns;
    let before = Span { from_ns: after.from_ns - length_ns, until_ns: after.from_ns };
    Ok((BASE.read(&query.params, now_ns)?.unwrap_or(before), after))
}

fn load(app: &App, query: &ServiceQuery) -> Result<Pair, ApiError> {
    let all = query.series(app)?;
    let after = query.choice(&all, "label")?;
    let before = query.choice(&all, BASE_LABEL)?;
    let spans = spans(query, after.newest_ns())?;
    // Both timelines show both ranges, with a margin.
    let (first, last) =
        (spans.0.from_ns.min(spans.1.from_ns), spans.0.until_ns.max(spans.1.until_ns));
    let room = (last - first) / 20;
    let wide = Span { from_ns: first - room, until_ns: last + room };
    let half = |choice: Choice, span: Span| {
        let timeline = Timeline::of(&choice, &points(app, &choice, wide)?, wide);
        let reading = app.profiles.read(&choice.ids(), span, now_ns())?;
        let (_, rate) = factors(app, query, &choice, &reading)?;
        Ok::<_, ApiError>(Half { choice, span, timeline, reading, rate })
    };
    let (before, after) = (half(before, spans.0)?, half(after, spans.1)?);
    let found = found(query, &before, &after);
    Ok(Pair { choices: Choices::of(&all), before, after, found })
}

/// Compares both as rates, so that the lengths may differ.
fn found(query: &ServiceQuery, before: &Half, after: &Half) -> Result<Found, String> {
    let of = |half: &Half, which: &str| {
        let found = half.reading.profile.as_ref().and_then(|it| side(it, &half.choice));
        found.ok_or_else(|| format!("No profiles in the time range {which}."))
    };
    let (left, right) = (of(before, "Before")?, of(after, "After")?);
    let totals = Metric::of_totals(&left, &right);
    let metric = Metric {
        before: totals.before * before.rate,
        after: totals.after * after.rate,
        before_sd: totals.before_sd * before.rate,
        after_sd: totals.after_sd * after.rate,
    };
    let explanation = compare(&left, &right, metric).map_err(|error| format!("{error}."))?;
    let flame = Flame::of(&left, &right, &explanation);
    let figures = &after.choice.figures;
    let title = format!("{} {}", query.service, figures.name());
    let search = flame::search(&query.params);
    let request = Request {
        view: view(&query.params),
        medium: Medium::Page,
        title: &title,
        search: search.as_deref(),
    };
    let picture = flame.draw(request, &|value| figures.rate(value));
    Ok(Found { picture, rows: flame.functions() })
}

fn view(params: &Params) -> View {
    match params.get("view").and_then(View::named) {
        Some(View::Vanished) => View::Vanished,
        _ => View::Difference,
    }
}

pub(in crate::console) async fn show(
    context: PageContext,
    Path((_, service)): Path<(String, String)>,
    params: Params,
) -> Result<Page, ApiError> {
    let query = ServiceQuery::of(&context, service.clone(), &params);
    let app = context.app.clone();
    let pair = context.app.profiles.run(move || load(&app, &query)).await??;
    let of_service = format!("{}/{}", context.at("profiles"), encoded(&service));
    let path = format!("{of_service}/compare");
    let content = html! {
        h1 { a href=(params.only(&["type", "label", "from", "until", "last"]).at(&of_service)) {
            (name(&shortened(&service, 200))) } ": comparison" }
        form method="get" action=(path) {
            (kept(&params, &["type", "label", BASE_LABEL, "from", "until", "last", "base_from", "base_until",
                "base_last", "frame"]))
            div class="filter" { (pair.choices.select_type(&pair.after.choice.figures)) }
            (half(&path, &params, &pair, ("Before", &pair.before, BASE, BASE_LABEL)))
            (half(&path, &params, &pair, ("After", &pair.after, FIELDS, "label")))
            p class="actions" {
                button { "Compare" } " " a class="button" href=(swapped(&params, &pair).at(&path)) { "Swap" }
                " " span class="quiet" data-drag hidden { "Drag over the bars to select a time range." }
            }
        }
        @match &pair.found {
            Ok(found) => (shown(&path, &params, &pair, found)),
            Err(reason) => p class="note" { (reason) },
        }
    };
    let title = format!("{}: comparison", shortened(&service, 60));
    Ok(Page::of(&context, Tab::Profiles, &title, &[Asset::Flame, Asset::Timeline], &content))
}

fn swapped(params: &Params, pair: &Pair) -> Params {
    let swapped = FIELDS.write(params, pair.before.span);
    let mut swapped = BASE.write(&swapped, pair.after.span).with("label", "").with(BASE_LABEL, "");
    for label in params.all("label") {
        swapped = swapped.and(BASE_LABEL, label);
    }
    for label in params.all(BASE_LABEL) {
        swapped = swapped.and("label", label);
    }
    swapped.with("frame", "")
}

fn half(
    path: &str,
    params: &Params,
    pair: &Pair,
    (word, half, fields, label_field): (&str, &Half, Fields, &str),
) -> Markup {
    let figures = &half.choice.figures;
    let total = half.reading.profile.as_ref().and_then(|it| side(it, &half.choice));
    // Writes defaults into the address, so that changing one range does not move the other.
    let fixed = BASE.write(&FIELDS.write(params, pair.after.span), pair.before.span);
    let pen = Pen { path, params: &fixed, fields, marked: Some(half.span), label: "" };
    html! {
        fieldset class="half" {
            legend { (word) }
            div class="filter" {
                (timeline::fields(fields, half.span))
                (pair.choices.select_labels(params, label_field))
            }
            p class="quiet" {
                (span_shown(half.reading.span)) ": "
                @match total {
                    Some(side) => { strong { (figures.rate(side.total() * half.rate)) } " from "
                        (grouped(half.reading.windows)) " profiles" },
                    None => "nothing",
                }
            }
            (notes(&half.reading, half.span))
            @if !half.timeline.is_empty() { (half.timeline.draw(&half.choice, pen)) }
        }
    }
}

fn shown(path: &str, params: &Params, pair: &Pair, found: &Found) -> Markup {
    let current = view(params);
    let link = |view: View, words: &str| {
        let value = if view == View::Difference { "" } else { view.name() };
        let is_current = (current == view).then_some("true");
        html! { a href={ (params.with("view", value).with("frame", "").at(path)) "#flame" } aria-current=[is_current] { (words) } }
    };
    let views = html! {
        nav class="choice" aria-label="Widths" {
            (link(View::Difference, "After")) (link(View::Vanished, "Before"))
        }
    };
    html! {
        h2 id="flame" { "Flame graph of the difference" }
        (flame::section(&found.picture, (path, params), "flame", &views))
        (functions(path, params, &pair.after.choice.figures, found))
    }
}

fn functions(path: &str, params: &Params, figures: &Figures, found: &Found) -> Markup {
    let search = flame::search(params).unwrap_or_default().to_lowercase();
    let shows_all = params.get("show") == Some("all");
    let named = found.rows.iter().filter(|row| row.name.to_lowercase().contains(&search));
    let is_clear = |row: &&FunctionRow| {
        [row.own, row.total].iter().any(|it| it.deviations().abs() >= DEVIATIONS_MIN)
    };
    let (clear, chance): (Vec<&FunctionRow>, Vec<&FunctionRow>) = named.partition(is_clear);
    let rows = if shows_all { [clear, chance.clone()].concat() } else { clear };
    let (shown, has_more) = function_rows(params, rows.len());
    html! {
        h2 id="functions" { "Functions by change" }
        @if rows.is_empty() { p { "No function changed by more than noise." } } @else { (table((path, params), figures, &rows[..shown])) }
        p class="quiet" {
            @if shown < rows.len() { "The first " (shown) " of " (grouped(rows.len())) ". " }
            @if !shows_all && !chance.is_empty() {
                (grouped(chance.len())) " more changed within noise. "
                a href={ (params.with("show", "all").at(path)) "#functions" } { "Show all" }
            }
            @if has_more { " " a href={ (params.with("rows", "more").at(path)) "#functions" } { "Show more" } }
        }
    }
}

fn table((path, params): (&str, &Params), figures: &Figures, rows: &[&FunctionRow]) -> Markup {
    let graph = |row: &FunctionRow| {
        format!("{}#flame", params.with("search", row.name.as_str()).with("frame", "").at(path))
    };
    let write = |value: f64| figures.rate(value);
    html! {
        div class="scroll fit" tabindex="0" role="region" aria-label="Functions" {
            table class="tops changed stacked" {
                thead { tr { th { "Function" } th class="number" { "Self before" } th class="number" { "after" }
                    th class="number" { "Difference" } td {} th class="number" { "Total" } } }
                tbody { @for row in rows {
                    tr {
                        th scope="row" { a href=(graph(row)) { (name(&shortened(&row.name, 120))) } }
                        td class="number" { (write(row.own.before)) }
                        td class="number" { (write(row.own.after)) }
                        td class="number" { (signed(row.own, &write)) }
                        td class="number" { (step(row)) }
                        td class="number" { (signed(row.total, &write)) }
                    }
                } }
            }
        }
        p class="quiet" { "± is twice the standard deviation." }
    }
}

/// Relative change of a function's self time.
fn step(row: &FunctionRow) -> String {
    match (row.own.before > 0.0, row.own.after > 0.0) {
        (true, true) => share::change(row.own.difference() / row.own.before),
        (true, false) => "gone".to_owned(),
        (false, true) => "new".to_owned(),
        (false, false) => String::new(),
    }
}

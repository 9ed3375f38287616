//! Compares two time ranges or label sets of a service.

use axum::extract::Path;
use maud::{Markup, html};
use wingbeat_pprof::{Flame, FunctionRow, Medium, Metric, Picture, Request, View, compare, signed};
use wingbeat_text::{grouped, share, shortened};

use super::{
    choice::{Choice, Choices},
    figures::Figures,
    range::{self, BASE, FIELDS, Fields, span_shown},
    service::{ServiceQuery, factors, function_rows, points, side},
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
    profiles::{Reading, Series, Span, now_ns},
};

/// Fewer standard deviations may be chance.
const DEVIATIONS_MIN: f64 = 2.0;

const SECOND_NS: i64 = 1_000_000_000;

/// A version without profiles for that long has ended.
const GAP_NS: i64 = 300 * SECOND_NS;

/// Labels of the baseline.
const BASE_LABEL: &str = "base_label";

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

/// Labels that name a version.
const VERSION: [&str; 5] =
    ["version", "service_version", "service.version", "service_git_ref", "app_version"];

/// Comparisons of a time range that are one click away, with their words: an hour and a day before, and the deploy
/// before. `all` are the series of all labels.
pub(super) fn presets(
    all: &[Series],
    span: Span,
    now_ns: i64,
    params: &Params,
) -> Vec<(String, Params)> {
    let params = params.only(&["type", "label", "search"]);
    let labels: Vec<&str> = params.all("label").collect();
    let with_base = |before: Span| {
        let both = BASE.write(&FIELDS.write(&params, span), before);
        labels.iter().fold(both, |params, label| params.and(BASE_LABEL, *label))
    };
    let length_ns = span.until_ns - span.from_ns;
    let previous = Span { from_ns: span.from_ns - length_ns, until_ns: span.from_ns };
    let mut found = vec![("the previous time range".to_owned(), with_base(previous))];
    for (words, apart_ns) in
        [("an hour before", 3600 * SECOND_NS), ("a day before", 86_400 * SECOND_NS)]
    {
        // A longer range would overlap, and an equal one is the previous.
        if length_ns < apart_ns {
            let before =
                Span { from_ns: span.from_ns - apart_ns, until_ns: span.until_ns - apart_ns };
            found.push((words.to_owned(), with_base(before)));
        }
    }
    found.extend(deploy_before(all, span, now_ns, &params));
    found
}

/// The comparison of the newest version, or of the selected one, with the one before. `None` without two versions.
fn deploy_before(
    all: &[Series],
    span: Span,
    now_ns: i64,
    params: &Params,
) -> Option<(String, Params)> {
    let label =
        VERSION.iter().find(|label| all.iter().any(|it| it.labels.contains_key(**label)))?;
    // In the order of their first profiles, with the time of their newest.
    let mut versions: Vec<(&str, i64)> = Vec::new();
    let mut in_order: Vec<&Series> = all.iter().collect();
    in_order.sort_by_key(|series| series.id);
    for series in in_order {
        let Some(version) = series.labels.get(*label) else { continue };
        match versions.iter_mut().find(|(known, _)| known == version) {
            Some((_, newest_ns)) => *newest_ns = series.newest_ns.max(*newest_ns),
            None => versions.push((version, series.newest_ns)),
        }
    }
    let others =
        || params.all("label").filter(|it| it.split_once('=').map(|it| it.0) != Some(label));
    let chosen = params.all("label").find_map(|it| it.split_once('=').filter(|it| it.0 == *label));
    let current = match chosen {
        Some((_, version)) => versions.iter().position(|(known, _)| *known == version)?,
        None => versions.len().checked_sub(1)?,
    };
    let (before, newest_ns) = versions.get(current.checked_sub(1)?)?;
    let length_ns = span.until_ns - span.from_ns;
    // If it still runs, both are compared at the same time.
    let until_ns =
        if *newest_ns >= span.until_ns.min(now_ns) - GAP_NS { span.until_ns } else { *newest_ns };
    let until_ns = until_ns.min(span.until_ns);
    let range = Span { from_ns: until_ns - length_ns, until_ns };
    let mut both = BASE.write(&FIELDS.write(&params.with("label", ""), span), range);
    for other in others() {
        both = both.and("label", other).and(BASE_LABEL, other);
    }
    let both = both.and("label", format!("{label}={}", versions[current].0));
    let both = both.and(BASE_LABEL, format!("{label}={before}"));
    Some((format!("version {}", shortened(before, 40)), both))
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
                    th class="number" { "Difference" } th class="number" { "" } th class="number" { "Total" } } }
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

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NS: i64 = 3600 * SECOND_NS;
    const NOW_NS: i64 = 1000 * HOUR_NS;

    fn series(id: i64, version: &str, newest_ns: i64) -> Series {
        Series {
            id,
            service: "web".to_owned(),
            name: "process_cpu".to_owned(),
            labels: [("version".to_owned(), version.to_owned())].into(),
            types: Vec::new(),
            shown: 0,
            newest_ns,
        }
    }

    #[test]
    fn comparisons_with_what_was_before() {
        let span = Span { from_ns: NOW_NS - HOUR_NS / 2, until_ns: NOW_NS };
        let check = |all: &[Series], query: &[(&str, &str)], expected: &[(&str, &str)]| {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let params = Params::of(query.iter().map(owned).collect());
            let found = presets(all, span, NOW_NS, &params);
            let found = found.iter().map(|(words, params)| {
                let of = |name| params.all(name).collect::<Vec<_>>().join(" ");
                let from = of("base_from").get(8..16).unwrap_or_default().to_owned();
                (words.clone(), format!("{from} {}: {}", of("base_label"), of("label")))
            });
            let expected = expected.iter().map(owned);
            assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        };
        let usual = [
            ("the previous time range", "11T15:00 : "),
            ("an hour before", "11T14:30 : "),
            ("a day before", "10T15:30 : "),
        ];
        check(&[], &[], &usual);
        check(&[series(1, "a", NOW_NS)], &[], &usual);
        let deploy = |before| [&usual[..], &[before]].concat();
        // The version before has ended, or still runs elsewhere.
        let ended = [series(1, "a", NOW_NS - 2 * HOUR_NS), series(2, "b", NOW_NS)];
        check(&ended, &[], &deploy(("version a", "11T13:30 version=a: version=b")));
        let both = [series(2, "b", NOW_NS), series(1, "a", NOW_NS - SECOND_NS)];
        check(&both, &[], &deploy(("version a", "11T15:30 version=a: version=b")));
        let all = [series(1, "a", 0), series(2, "b", NOW_NS), series(3, "c", NOW_NS)];
        let query = [("label", "host=x"), ("label", "version=c")];
        let labels = "host=x version=c: host=x version=c";
        let expected = [
            ("the previous time range", format!("11T15:00 {labels}")),
            ("an hour before", format!("11T14:30 {labels}")),
            ("a day before", format!("10T15:30 {labels}")),
            ("version b", "11T15:30 host=x version=b: host=x version=c".to_owned()),
        ];
        let expected: Vec<(&str, &str)> =
            expected.iter().map(|(words, range)| (*words, range.as_str())).collect();
        check(&all, &query, &expected);
    }
}

//! Comparison of any two reports. `ask` is the form that selects them.

mod ask;
mod cause;
mod judge;
mod reference;

use axum::extract::Path;
use maud::{Markup, html};
use uuid::Uuid;
use wingbeat_text::{grouped, plural, share};
use wingbeat_track::{
    explain,
    model::{
        BenchmarkName, ProfileInfo, Report, Slug, TestbedName, short_hash, short_id,
        threshold::matches_glob,
    },
    store::{Known, ReportSummary},
};

pub(super) use self::{
    ask::ask,
    cause::{picture, show as cause},
};
use self::{
    ask::form,
    judge::{CompareRow, Comparison, MeasureSummary, compare, history},
    reference::{find, start_of},
};
use super::{
    assets::Asset,
    components::{
        Part, Tone, commit, kept, moment, name, outcome, percent, select, shortened, sortable,
    },
    layout::{Page, Tab},
    links::{Params, encoded, is_glob},
    page_context::PageContext,
};
use crate::{ApiError, database::Kind, names::Names};

/// Rows per page.
const ROWS: usize = 500;

pub(super) async fn show(
    context: PageContext,
    Path((_, sides)): Path<(String, String)>,
    params: Params,
) -> Result<Page, ApiError> {
    let (before, after) = split(&sides)?;
    let sides = reports_of(&context, (before, after), &params).await?;
    let profiles = profiles(&context, [sides.before.uuid, sides.after.uuid]).await?;
    let comparison = comparison(&context, sides.before, sides.after).await?;
    let title = format!("{before}..{after}");
    let path = context.at(format_args!("compare/{}..{}", encoded(before), encoded(after)));
    let content = html! {
        h1 { "Compare " (name(&shown(&context, before))) " with " (name(&shown(&context, after))) }
        (sides_of(&context, &comparison))
        @if let Some(newest) = &sides.newest { (since_start(&context, before, &comparison, newest)) }
        (warnings(&comparison))
        (summary(&context, &path, &params, &comparison))
        (rows(&context, (&path, &params), &comparison, &profiles))
        (missing(&context, &comparison))
        details class="again" {
            summary { "Compare something else" }
            (form(&context, &params, (Some(before), Some(after)), &sides.known, &[]))
        }
    };
    Ok(Page::of(&context, Tab::Compare, &title, &[Asset::Table], &content))
}

/// Splits the address into both sides.
fn split(sides: &str) -> Result<(&str, &str), ApiError> {
    sides.split_once("..").filter(|(a, b)| !a.is_empty() && !b.is_empty()).ok_or_else(|| {
        ApiError::bad_request(
            "invalid address: it must end with BEFORE..AFTER, each a branch, a commit or a report",
        )
    })
}

/// The reports of both sides.
struct Sides {
    before: ReportSummary,
    after: ReportSummary,
    /// Newest report of the first side, if the second side's branch started before it.
    newest: Option<ReportSummary>,
    /// All names of the project.
    known: Known,
}

async fn reports_of(
    context: &PageContext,
    (before, after): (&str, &str),
    params: &Params,
) -> Result<Sides, ApiError> {
    let testbed = params.get("testbed").and_then(|name| TestbedName::new(name).ok());
    let (first, second) = (before.to_owned(), after.to_owned());
    let names = context.names.clone();
    let read = context.read(move |database, project| {
        let results = &database.results;
        let side = |text: &str, testbed| find(database, project, &names, text, testbed);
        let mut before = side(&first, testbed.as_ref())?;
        // By default both sides are of the same testbed, if possible.
        let wanted = testbed.as_ref().unwrap_or(&before.testbed);
        let after = match side(&second, Some(wanted)) {
            Err(_) if testbed.is_none() => side(&second, None)?,
            found => found?,
        };
        if testbed.is_none() && before.testbed != after.testbed {
            let same = side(&first, Some(&after.testbed));
            before = same.ok().filter(|it| it.testbed == after.testbed).unwrap_or(before);
        }
        let start = start_of(database, &names, &first, &after)?;
        let newest =
            start.as_ref().filter(|start| start.uuid != before.uuid).map(|_| before.clone());
        let before = start.unwrap_or(before);
        Ok(Sides { before, after, newest, known: results.known(&project.stored)? })
    });
    read.await
}

async fn profiles(
    context: &PageContext,
    reports: [Uuid; 2],
) -> Result<[Vec<ProfileInfo>; 2], ApiError> {
    let read = context.read(move |database, _| {
        let [before, after] = reports.map(|report| database.results.profiles(report));
        Ok([before?, after?])
    });
    read.await
}

/// Reads both sides and their history concurrently.
async fn comparison(
    context: &PageContext,
    before: ReportSummary,
    after: ReportSummary,
) -> Result<Comparison, ApiError> {
    let report = |uuid| {
        context.read(move |database, _| {
            let gone = || ApiError::not_found("one of both reports was deleted meanwhile");
            database.results.measured(uuid)?.ok_or_else(gone)
        })
    };
    // A history that already contains the change cannot detect it: the older side goes first.
    let is_mirrored = before.branch == after.branch
        && before.testbed == after.testbed
        && after.start_time < before.start_time;
    let (before, after) = if is_mirrored { (after, before) } else { (before, after) };
    let (first, second) = (before.uuid, after.uuid);
    let past = context.read(move |database, _| history(&database.results, &before, second));
    let (past, before, after) = tokio::try_join!(past, report(first), report(second))?;
    let judge = context.read(move |_, _| Ok(compare(&past, before, after)));
    let comparison = judge.await?;
    Ok(if is_mirrored { comparison.mirrored() } else { comparison })
}

fn shown(context: &PageContext, side: &str) -> String {
    if let Ok(report) = Uuid::try_parse(side) {
        return format!("report {}", short_id(report));
    }
    match side.len() {
        40 if side.bytes().all(|byte| byte.is_ascii_hexdigit()) => short_hash(side).to_owned(),
        _ => shortened(&context.names.shown(Kind::Branch, side)),
    }
}

fn sides_of(context: &PageContext, comparison: &Comparison) -> Markup {
    let forge = context.project.url.as_deref();
    let side = |word: &str, report: &Report| {
        html! {
            div class="side" {
                h2 { (word) }
                p { a href={ (context.at("reports/")) (report.uuid) } { (moment(report.start_time)) } }
                p { (context.branch(&report.branch)) " " (commit(report.hash.as_deref(), forge)) }
                p class="quiet" { (context.testbed(&report.testbed)) }
            }
        }
    };
    let back =
        context.at(format_args!("compare/{}..{}", comparison.after.uuid, comparison.before.uuid));
    html! {
        div class="sides" {
            (side("Before", &comparison.before))
            a class="swap" href=(back) title="Exchange both" aria-label="Exchange both" { "⇄" }
            (side("After", &comparison.after))
        }
    }
}

/// Why the first side is not its newest report.
fn since_start(
    context: &PageContext,
    before: &str,
    comparison: &Comparison,
    newest: &ReportSummary,
) -> Markup {
    let with_newest =
        context.at(format_args!("compare/{}..{}", newest.uuid, comparison.after.uuid));
    html! {
        p class="quiet" {
            "Compared with " (name(&shown(context, before))) " where the branch began. "
            a href=(with_newest) { "Compare with its newest report" } " of " (moment(newest.start_time)) "."
        }
    }
}

fn warnings(comparison: &Comparison) -> Markup {
    let Comparison { before, after, environment, .. } = comparison;
    html! {
        @if before.testbed != after.testbed {
            p class="note" { "Both were measured on different testbeds, so that the machines differ and not \
                only the code." }
        }
        @if !environment.is_empty() {
            div class="note" {
                p { "The environment changed in between:" }
                ul class="changes" { @for change in environment { li { (change) } } }
            }
        }
    }
}

fn summary(context: &PageContext, path: &str, params: &Params, comparison: &Comparison) -> Markup {
    html! {
        @if comparison.rows.is_empty() {
            p { "The two reports share no metrics. " a href=(context.at("compare")) { "Compare something else" } }
        } @else {
            div class="scroll fit" tabindex="0" role="region" aria-label="Summary" {
                table class="summary stacked" {
                    thead { tr {
                        th { "Measure" } th class="number" { "Worse" } th class="number" { "Better" }
                        th class="number" title="Perhaps a change, one without a better direction, or one that most metrics share" { "Perhaps" }
                        th class="number" { "Unchanged" }
                        th class="number" title="With too little history, or too noisy" { "Unknown" }
                        th class="number" title="Geometric mean of after ÷ before over all metrics" { "Mean" }
                    } }
                    tbody { @for measure in &comparison.measures { (summary_row(context, path, params, measure)) } }
                }
            }
            (evidence(comparison))
        }
    }
}

/// Evidence behind the verdicts.
fn evidence(comparison: &Comparison) -> Markup {
    let Comparison { before, after, judged_by, is_mirrored, .. } = comparison;
    let older = if *is_mirrored { after } else { before };
    let unknown: usize = comparison.measures.iter().map(|it| it.unknown).sum();
    html! {
        p class="quiet" {
            "Judged by the " (plural(*judged_by, "report")) " up to the one of " (moment(older.start_time)) "."
            @if *is_mirrored { " The second side is the older one: the change from it to the first was judged, and is shown the other way round." }
        }
        @if unknown > 0 {
            p class="note" {
                (plural(unknown, "metric")) " could not be judged: fewer than five earlier reports, or too noisy. "
                code { "wingbeat compare" } " measures both commits by turns, and needs no history."
            }
        }
    }
}

fn summary_row(
    context: &PageContext,
    path: &str,
    params: &Params,
    summary: &MeasureSummary,
) -> Markup {
    let MeasureSummary { measure, metrics, worse, better, perhaps, unknown, mean } = summary;
    let unchanged = metrics - worse - better - perhaps - unknown;
    let count = |number: usize, class: &'static str| {
        let class = if number == 0 { "quiet" } else { class };
        html! { td class="number" { span class=(class) { (grouped(number)) } } }
    };
    let tone = match mean {
        Some(mean) if worse + better > 0 => Tone::of(*mean, measure),
        _ => Tone::Neutral,
    };
    let of_measure = params.with("measure", measure.slug.as_str()).with("page", "").at(path);
    html! {
        tr {
            th scope="row" { a href=(of_measure) { (context.measure(measure)) } }
            (count(*worse, "bad")) (count(*better, "good")) (count(*perhaps, ""))
            (count(unchanged, "")) (count(*unknown, ""))
            td class="number" { (percent(*mean, tone)) }
        }
    }
}

fn rows(
    context: &PageContext,
    (path, params): (&str, &Params),
    comparison: &Comparison,
    profiles: &[Vec<ProfileInfo>; 2],
) -> Markup {
    // If nothing can be judged, shows everything to the reader.
    let is_unknown = comparison.rows.iter().all(|row| row.verdict.outcome.is_unknown());
    let shows_all = is_unknown || params.get("show") == Some("all");
    let measure = params.get("measure");
    let glob = params.get("benchmark");
    let fits = |row: &&CompareRow| {
        (shows_all || row.is_relevant())
            && measure.is_none_or(|measure| row.measure.slug.as_str() == measure)
            && glob.is_none_or(|glob| {
                let name = context.names.shown(Kind::Benchmark, row.benchmark.as_str());
                matches_glob(glob, &name) || (!is_glob(glob) && name.contains(glob))
            })
    };
    let mut rows: Vec<&CompareRow> = comparison.rows.iter().filter(fits).collect();
    let sorted = sort(&mut rows, params, &context.names);
    let relevant = comparison.rows.iter().filter(|row| row.is_relevant()).count();
    let part = Part::of(params, rows.len(), ROWS);
    let head = |text, key, is_number| {
        sortable(text, key, (params, path), (sorted.0.as_str(), sorted.1), is_number)
    };
    html! {
        @if !comparison.rows.is_empty() {
            (row_filter(context, path, params, comparison))
            p class="quiet" {
                @if rows.is_empty() && relevant == 0 { "No metric is known to have changed. " }
                @else { (plural(rows.len(), "metric")) " shown of " (grouped(comparison.rows.len())) ". " }
                @if is_unknown { "None of them can be judged." }
                @else if shows_all { a href=(params.with("show", "").at(path)) { "Only what changed" } }
                @else { a href=(params.with("show", "all").at(path)) { "Show all" } }
            }
        }
        @if !rows.is_empty() {
            div class="scroll" tabindex="0" role="region" aria-label="Metrics" {
                table class="compared stacked" data-sort[rows.len() <= ROWS] {
                    thead { tr {
                        (head("Benchmark", "benchmark", false)) (head("Measure", "measure", false))
                        (head("Before", "before", true)) (head("After", "after", true))
                        (head("Change", "change", true))
                        th { "Significance" }
                    } }
                    tbody { @for row in part.take(rows) { (line(context, comparison, row, profiles)) } }
                }
            }
            (part.links(params, path))
        }
    }
}

fn row_filter(
    context: &PageContext,
    path: &str,
    params: &Params,
    comparison: &Comparison,
) -> Markup {
    let measures = comparison
        .measures
        .iter()
        .map(|it| (it.measure.slug.as_str(), context.names.measure(&it.measure)));
    html! {
        form class="filter" method="get" action=(path) role="search" {
            (select("Measure", "measure", Some("all"), measures, params.get("measure")))
            label class="wide" { span { "Benchmark" }
                input type="search" name="benchmark" value=[params.get("benchmark")]
                    placeholder="a part of the name, or a glob: parse/*";
            }
            label class="check" {
                input type="checkbox" name="show" value="all" checked[params.get("show").is_some()];
                span { "also what did not change" }
            }
            (kept(params, &["measure", "benchmark", "show", "page"]))
            button { "Show" }
        }
    }
}

/// Sorts rows as the query asks; by default worse ones first, then by size of the change.
fn sort(rows: &mut [&CompareRow], params: &Params, names: &Names) -> (String, bool) {
    let key = params.get("sort").unwrap_or("significance");
    let is_descending = params.get("direction") == Some("desc");
    let size = |row: &CompareRow| row.change.map_or(0.0, f64::abs);
    rows.sort_by(|a, b| {
        let order = match key {
            "benchmark" => names.order(Kind::Benchmark, a.benchmark.as_str(), b.benchmark.as_str()),
            "measure" => names.measure(&a.measure).cmp(names.measure(&b.measure)),
            "before" => a.before.total_cmp(&b.before),
            "after" => a.after.total_cmp(&b.after),
            "change" => a.change.unwrap_or(0.0).total_cmp(&b.change.unwrap_or(0.0)),
            _ => {
                let by_outcome = a.verdict.outcome.cmp(&b.verdict.outcome);
                return by_outcome.then_with(|| size(b).total_cmp(&size(a)));
            }
        };
        if is_descending { order.reverse() } else { order }
    });
    (key.to_owned(), is_descending)
}

fn line(
    context: &PageContext,
    comparison: &Comparison,
    row: &CompareRow,
    profiles: &[Vec<ProfileInfo>; 2],
) -> Markup {
    let CompareRow { benchmark, measure, before, after, change, verdict } = row;
    let scale = measure.scale(*before, Some(*after));
    let tone = match change {
        Some(change) if row.is_relevant() => Tone::of(*change, measure),
        _ => Tone::Neutral,
    };
    let plot = Params::default()
        .and("branch", comparison.after.branch.as_str())
        .and("testbed", comparison.after.testbed.as_str())
        .and("benchmark", benchmark.as_str())
        .and("measure", measure.slug.as_str())
        .at(&context.at("plot"));
    let [first, second] = profiles;
    let is_explained = explain::comparable([first, second], benchmark, measure).is_some();
    let visible = verdict.smallest_visible.filter(|visible| *visible > 0.0);
    html! {
        tr {
            th scope="row" { a href=(plot) { (context.benchmark(benchmark)) } }
            td { (context.measure(measure)) }
            td class="number" data-value=(before) { (scale.with_unit(*before)) }
            td class="number" data-value=(after) { (scale.with_unit(*after)) }
            td class="number" data-value=[*change] { (percent(*change, tone)) }
            td data-value=(verdict.outcome as u8) {
                (outcome(verdict.outcome))
                @if row.is_relevant() { div class="reason" { (verdict.reason.text(measure)) } }
                @else if let Some(visible) = visible {
                    span class="quiet" { "; visible from " (share::size(visible)) }
                }
                @if is_explained {
                    div { a href=(cause::address(context, comparison, row)) { "Functions by change" } }
                }
            }
        }
    }
}

fn missing(context: &PageContext, comparison: &Comparison) -> Markup {
    let side = |words: &str, missing: &[(BenchmarkName, Slug)]| {
        html! {
            @if !missing.is_empty() {
                details {
                    summary { (plural(missing.len(), "metric")) " " (words) }
                    ul { @for (benchmark, measure) in missing.iter().take(ROWS) {
                        li { (context.benchmark(benchmark)) " " span class="quiet" { (context.names.shown(Kind::Measure, measure.as_str())) } }
                    } }
                }
            }
        }
    };
    html! {
        (side("only before", &comparison.only_before))
        (side("only after", &comparison.only_after))
    }
}

//! Any two reports beside each other.

use axum::{
    extract::Path,
    response::{IntoResponse as _, Redirect, Response},
};
use maud::{Markup, html};
use wingbeat_text::{grouped, plural, share};
use wingbeat_track::{
    model::{Report, TestbedName, short_hash, threshold::matches_glob},
    store::{Known, ReportFilter, ReportSummary},
};

use super::{
    assets::Asset,
    data::{
        compare::{CompareRow, Comparison, MeasureSummary, compare},
        reference::find,
    },
    layout::{Page, Tab},
    links::{Params, encoded},
    parts::{
        Part, Tone, commit, kept, moment, name, outcome, percent, select, shortened, sortable,
    },
    visit::Visit,
};
use crate::ApiError;

/// Rows of a page.
const ROWS: usize = 500;

/// Reports that the form offers.
const OFFERED: usize = 40;

/// The form that asks what to compare; with both answers, the comparison itself.
pub(super) async fn ask(visit: Visit, params: Params) -> Result<Response, ApiError> {
    if let (Some(before), Some(after)) = (params.get("before"), params.get("after")) {
        let path = visit.at(format_args!("compare/{}..{}", encoded(before), encoded(after)));
        let kept = params.with("before", "").with("after", "");
        return Ok(Redirect::to(&kept.at(&path)).into_response());
    }
    let read = visit.read(|databases, project| {
        let known = databases.results.known(&project.stored)?;
        let filter =
            ReportFilter { project: Some(project.stored.clone()), ..ReportFilter::default() };
        Ok((known, databases.results.reports(&filter, OFFERED)?))
    });
    let (known, reports) = read.await?;
    let content = html! {
        h1 { "Compare" }
        p { "Each side is a branch (its newest report), a commit by the first digits of its hash, or a report \
             by its UUID." }
        (form(&visit, &params, (params.get("before"), params.get("after")), &known, &reports))
    };
    Ok(Page::of(&visit, Tab::Compare, "Compare", &[], &content).into_response())
}

pub(super) async fn show(
    visit: Visit,
    Path((_, sides)): Path<(String, String)>,
    params: Params,
) -> Result<Page, ApiError> {
    let Some((before, after)) =
        sides.split_once("..").filter(|(a, b)| !a.is_empty() && !b.is_empty())
    else {
        return Err(ApiError::bad_request(
            "this address names no two sides: it ends with BEFORE..AFTER, each a branch, a commit or a report",
        ));
    };
    let testbed = params.get("testbed").and_then(|name| TestbedName::new(name).ok());
    let (first, second) = (before.to_owned(), after.to_owned());
    let read = visit.read(move |databases, project| {
        let results = &databases.results;
        let before = find(databases, project, &first, testbed.as_ref())?;
        // Without a wish the second side is of the same machine, if that can be.
        let wanted = testbed.as_ref().unwrap_or(&before.testbed);
        let after = match find(databases, project, &second, Some(wanted)) {
            Err(_) if testbed.is_none() => find(databases, project, &second, None)?,
            found => found?,
        };
        let gone = || ApiError::not_found("one of both reports was deleted meanwhile");
        let before = results.report(before.uuid)?.ok_or_else(gone)?;
        let after = results.report(after.uuid)?.ok_or_else(gone)?;
        Ok((results.known(&project.stored)?, compare(results, before, after)?))
    });
    let (known, comparison) = read.await?;
    let title = format!("{before}..{after}");
    let path = visit.at(format_args!("compare/{}..{}", encoded(before), encoded(after)));
    let content = html! {
        h1 { "Compare " (name(&shown(before))) " with " (name(&shown(after))) }
        (sides_of(&visit, &comparison))
        (warnings(&comparison))
        (summary(&visit, &path, &params, &comparison))
        (rows(&visit, &path, &params, &comparison))
        (missing(&comparison))
        details class="again" {
            summary { "Compare something else" }
            (form(&visit, &params, (Some(before), Some(after)), &known, &[]))
        }
    };
    Ok(Page::of(&visit, Tab::Compare, &title, &[Asset::Table], &content))
}

/// A side as a heading shows it.
fn shown(side: &str) -> String {
    match side.len() {
        40 if side.bytes().all(|byte| byte.is_ascii_hexdigit()) => short_hash(side).to_owned(),
        _ => shortened(side),
    }
}

fn form(
    visit: &Visit,
    params: &Params,
    (before, after): (Option<&str>, Option<&str>),
    known: &Known,
    reports: &[ReportSummary],
) -> Markup {
    html! {
        form class="filter" method="get" action=(visit.at("compare")) {
            label class="wide" { span { "Before" }
                input name="before" value=[before] list="sides" required placeholder="main";
            }
            label class="wide" { span { "After" }
                input name="after" value=[after] list="sides" required placeholder="a branch, a commit";
            }
            (select("Testbed", "testbed", Some("any"),
                known.testbeds.iter().map(|it| (it.as_str(), it.as_str())), params.get("testbed")))
            button { "Compare" }
            datalist id="sides" {
                @for branch in &known.branches { option value=(branch) {} }
                @for report in reports.iter().filter(|report| report.hash.is_some()) {
                    option value=[report.hash.as_deref()] {
                        (report.branch) ", " (moment(report.start_time))
                    }
                }
            }
        }
    }
}

fn sides_of(visit: &Visit, comparison: &Comparison) -> Markup {
    let forge = visit.project.url.as_deref();
    let side = |word: &str, report: &Report| {
        html! {
            div class="side" {
                h2 { (word) }
                p { a href={ (visit.at("reports/")) (report.uuid) } { (moment(report.start_time)) } }
                p { (name(report.branch.as_str())) " " (commit(report.hash.as_deref(), forge)) }
                p class="quiet" { (name(report.testbed.as_str())) }
            }
        }
    };
    let back =
        visit.at(format_args!("compare/{}..{}", comparison.after.uuid, comparison.before.uuid));
    html! {
        div class="sides" {
            (side("Before", &comparison.before))
            a class="swap" href=(back) title="Exchange both" aria-label="Exchange both" { "⇄" }
            (side("After", &comparison.after))
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

fn summary(visit: &Visit, path: &str, params: &Params, comparison: &Comparison) -> Markup {
    html! {
        @if comparison.rows.is_empty() {
            p { "Both have no metric in common. " a href=(visit.at("compare")) { "Compare something else" } }
        } @else {
            div class="scroll fit" tabindex="0" role="region" aria-label="Summary" {
                table class="summary" {
                    thead { tr {
                        th { "Measure" } th class="number" { "Worse" } th class="number" { "Better" }
                        th class="number" { "Other" } th class="number" { "Unchanged" }
                        th class="number" title="Geometric mean of after ÷ before over all metrics" { "Mean" }
                    } }
                    tbody { @for measure in &comparison.measures { (summary_row(path, params, measure)) } }
                }
            }
        }
    }
}

fn summary_row(path: &str, params: &Params, summary: &MeasureSummary) -> Markup {
    let MeasureSummary { measure, metrics, worse, better, other, mean } = summary;
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
            th scope="row" { a href=(of_measure) { (name(&measure.name)) } }
            (count(*worse, "bad")) (count(*better, "good")) (count(*other, ""))
            (count(metrics - worse - better - other, ""))
            td class="number" { (percent(*mean, tone)) }
        }
    }
}

fn rows(visit: &Visit, path: &str, params: &Params, comparison: &Comparison) -> Markup {
    let shows_all = params.get("show") == Some("all");
    let measure = params.get("measure");
    let glob = params.get("benchmark");
    let fits = |row: &&CompareRow| {
        (shows_all || row.is_relevant())
            && measure.is_none_or(|measure| row.measure.slug.as_str() == measure)
            && glob.is_none_or(|glob| {
                let name = row.benchmark.as_str();
                matches_glob(glob, name) || (!glob.contains(['*', '?']) && name.contains(glob))
            })
    };
    let mut rows: Vec<&CompareRow> = comparison.rows.iter().filter(fits).collect();
    let sorted = sort(&mut rows, params);
    let relevant = comparison.rows.iter().filter(|row| row.is_relevant()).count();
    let part = Part::of(params, rows.len(), ROWS);
    let head = |text, key, is_number| {
        sortable(text, key, (params, path), (sorted.0.as_str(), sorted.1), is_number)
    };
    html! {
        @if !comparison.rows.is_empty() {
            (row_filter(path, params, comparison))
            p class="quiet" {
                @if rows.is_empty() && relevant == 0 { "No metric changed by more than its noise. " }
                @else { (plural(rows.len(), "metric")) " shown of " (grouped(comparison.rows.len())) ". " }
                @if shows_all { a href=(params.with("show", "").at(path)) { "Only what changed" } }
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
                    tbody { @for row in part.take(rows) { (line(visit, comparison, row)) } }
                }
            }
            (part.links(params, path))
        }
    }
}

fn row_filter(path: &str, params: &Params, comparison: &Comparison) -> Markup {
    let measures =
        comparison.measures.iter().map(|it| (it.measure.slug.as_str(), &*it.measure.name));
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

/// Sorts rows as the query asks; else what is worse first, and the larger change.
fn sort(rows: &mut [&CompareRow], params: &Params) -> (String, bool) {
    let key = params.get("sort").unwrap_or("significance");
    let is_descending = params.get("direction") == Some("desc");
    let size = |row: &CompareRow| row.change.map_or(0.0, f64::abs);
    rows.sort_by(|a, b| {
        let order = match key {
            "benchmark" => a.benchmark.cmp(&b.benchmark),
            "measure" => a.measure.slug.cmp(&b.measure.slug),
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

fn line(visit: &Visit, comparison: &Comparison, row: &CompareRow) -> Markup {
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
        .at(&visit.at("plot"));
    let visible = verdict.smallest_visible.filter(|visible| *visible > 0.0);
    html! {
        tr {
            th scope="row" { a href=(plot) { (name(benchmark.as_str())) } }
            td { (name(&measure.name)) }
            td class="number" data-value=(before) { (scale.with_unit(*before)) }
            td class="number" data-value=(after) { (scale.with_unit(*after)) }
            td class="number" data-value=[*change] { (percent(*change, tone)) }
            td data-value=(verdict.outcome as u8) {
                (outcome(verdict.outcome))
                @if row.is_relevant() { div class="reason" { (verdict.reason) } }
                @else if let Some(visible) = visible {
                    span class="quiet" { "; visible from " (share::size(visible)) }
                }
            }
        }
    }
}

fn missing(comparison: &Comparison) -> Markup {
    let side =
        |words: &str,
         missing: &[(wingbeat_track::model::BenchmarkName, wingbeat_track::model::Slug)]| {
            html! {
                @if !missing.is_empty() {
                    details {
                        summary { (plural(missing.len(), "metric")) " " (words) }
                        ul { @for (benchmark, measure) in missing.iter().take(ROWS) {
                            li { (name(benchmark.as_str())) " " span class="quiet" { (measure) } }
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

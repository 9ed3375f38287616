//! The table of all series, a project's first page.

use axum::response::{IntoResponse as _, Redirect, Response};
use maud::{Markup, html};
use uuid::Uuid;
use wingbeat_text::{grouped, plural};

use super::{
    assets::Asset,
    data::{
        choice::{Choice, readable},
        series::{self, Alerts, SeriesRow},
    },
    layout::{Page, Tab},
    links::{Params, encoded},
    parts::{Part, Tone, commit, day, kept, percent, sortable},
    pins,
    spark::spark,
    visit::Visit,
};
use crate::{ApiError, names::Names, registry::Kind};

/// Rows per page.
const ROWS: usize = 200;

/// The page, or a redirect from one of the client's plot addresses.
pub(super) async fn show(visit: Visit, params: Params) -> Result<Response, ApiError> {
    let asked = params.clone();
    let names = visit.names.clone();
    let read = visit.read(move |databases, project| {
        if let Some(readable) = readable(databases, project, &asked)? {
            return Ok(Err(readable));
        }
        let choice = Choice::of(databases, project, &asked, &names)?;
        let rows = series::rows(databases, project, &choice)?;
        let alerts = Alerts::read(databases, project)?;
        Ok(Ok((choice, rows, alerts, pins::first(databases, project)?)))
    });
    let (choice, mut rows, alerts, pinned) = match read.await? {
        Ok(found) => found,
        Err(readable) => return Ok(Redirect::to(&readable.at(&visit.at("plot"))).into_response()),
    };
    let total = rows.len();
    if params.get("changed").is_some() {
        rows.retain(|row| row.last_change_point.as_ref().is_some_and(|change| change.is_recent));
    }
    let sorted = sort(&mut rows, &params, &visit.names);
    let content = html! {
        h1 { "Series" }
        (pins::links(&visit, &pinned))
        (filter(&visit, &params, &choice))
        @if rows.is_empty() { (empty(&visit, &params, &choice, total)) }
        @else { (table(&visit, &params, (&rows, &alerts), (sorted.0.as_str(), sorted.1))) }
    };
    Ok(Page::of(&visit, Tab::Series, "Series", &[Asset::Table], &content).into_response())
}

/// Sorts rows as the query asks; returns the key, and whether the order is descending.
fn sort(rows: &mut [SeriesRow], params: &Params, names: &Names) -> (String, bool) {
    let key = params.get("sort").unwrap_or("benchmark");
    let is_descending = params.get("direction") == Some("desc");
    let number = |row: &SeriesRow| match key {
        "change" => row.change_30d.unwrap_or(f64::NEG_INFINITY),
        "newest" => row.newest.value,
        "step" => row
            .last_change_point
            .as_ref()
            .map_or(f64::NEG_INFINITY, |it| it.time.unix_timestamp() as f64),
        _ => 0.0,
    };
    rows.sort_by(|a, b| {
        let by_key = match key {
            "measure" => names.measure(&a.measure).cmp(names.measure(&b.measure)),
            "testbed" => names.order(Kind::Testbed, a.testbed.as_str(), b.testbed.as_str()),
            "benchmark" => names.order(Kind::Benchmark, a.benchmark.as_str(), b.benchmark.as_str()),
            _ => number(a).total_cmp(&number(b)),
        };
        let by_key = if is_descending { by_key.reverse() } else { by_key };
        by_key.then_with(|| (&a.benchmark, &a.measure.slug).cmp(&(&b.benchmark, &b.measure.slug)))
    });
    (key.to_owned(), is_descending)
}

fn filter(visit: &Visit, params: &Params, choice: &Choice) -> Markup {
    let own = ["branch", "testbed", "measure", "benchmark", "changed", "page"];
    html! {
        form class="filter" method="get" action=(visit.base) role="search" {
            (visit.select_branch(&choice.known, choice.no_branch(), choice.branches.first().map(|it| it.as_str())))
            (visit.select_testbed(&choice.known, Some("all"), params.get("testbed")))
            (visit.select_measure(&choice.known, params.get("measure")))
            label class="wide" { span { "Benchmark" }
                input type="search" name="benchmark" value=[params.get("benchmark")]
                    placeholder="a name, or a glob: parse/*";
            }
            label class="check" {
                input type="checkbox" name="changed" value="yes" checked[params.get("changed").is_some()];
                span { "changed in 30 days" }
            }
            (kept(params, &own))
            button { "Show" }
        }
    }
}

fn empty(visit: &Visit, params: &Params, choice: &Choice, total: usize) -> Markup {
    html! {
        @if params.get("changed").is_some() && total > 0 {
            p { "None of the " (plural(total, "series")) " changed its level in the last 30 days." }
        } @else if params.iter().next().is_some() {
            p { (choice.nothing()) " " a href=(visit.base) { "Show all" } }
        } @else {
            p { "There are no results yet. They come with " code { "bencher run" } " or "
                code { "wingbeat run --host" } "." }
        }
    }
}

fn table(
    visit: &Visit,
    params: &Params,
    (rows, alerts): (&[SeriesRow], &Alerts),
    sorted: (&str, bool),
) -> Markup {
    let has_testbeds = rows.iter().any(|row| row.testbed != rows[0].testbed);
    let part = Part::of(params, rows.len(), ROWS);
    let head = |text, key, is_number| sortable(text, key, (params, &visit.base), sorted, is_number);
    let plot_all =
        params.only(&["branch", "testbed", "measure", "benchmark"]).at(&visit.at("plot"));
    html! {
        p class="quiet" { (grouped(rows.len())) " series · " a href=(plot_all) { "plot them" } }
        div class="scroll" tabindex="0" role="region" aria-label="Series" {
            table class="series stacked" data-sort[rows.len() <= ROWS] {
                thead { tr {
                    (head("Benchmark", "benchmark", false))
                    (head("Measure", "measure", false))
                    @if has_testbeds { (head("Testbed", "testbed", false)) }
                    (head("Newest", "newest", true))
                    (head("30 days", "change", true))
                    th { "Trend" }
                    (head("Last change of level", "step", true))
                } }
                tbody { @for row in part.take(rows) { (line(visit, row, alerts.of(row), has_testbeds)) } }
            }
        }
        (part.links(params, &visit.base))
    }
}

fn line(visit: &Visit, row: &SeriesRow, alert: Option<Uuid>, has_testbeds: bool) -> Markup {
    let SeriesRow { benchmark, measure, newest, .. } = row;
    let plot = Params::default()
        .and("branch", row.branch.as_str())
        .and("testbed", row.testbed.as_str())
        .and("benchmark", benchmark.as_str())
        .and("measure", measure.slug.as_str())
        .at(&visit.at("plot"));
    // A change is good or bad only if the level changed, not if the noise was high.
    let change = row.last_change_point.as_ref();
    let recent = change.filter(|change| change.is_recent).and_then(|change| change.relative);
    let tone = recent.map_or(Tone::Neutral, |relative| Tone::of(relative, measure));
    let forge = visit.project.url.as_deref();
    html! {
        tr {
            th scope="row" {
                a href=(plot) { (visit.benchmark(benchmark)) }
                @if let Some(alert) = alert {
                    " " a class="tag bad" href={ (visit.at("alerts/")) (alert) } { "alert" }
                }
            }
            td { (visit.measure(measure)) }
            @if has_testbeds { td { (visit.testbed(&row.testbed)) } }
            td class="number" data-value=(newest.value) {
                a href={ (visit.at("reports/")) (newest.report) "#" (encoded(benchmark.as_str())) } {
                    (measure.ladder().format(newest.value))
                }
            }
            td class="number" data-value=[row.change_30d] { (percent(row.change_30d, tone)) }
            td { a class="plain" href=(plot) aria-label="Plot" tabindex="-1" { (spark(&row.spark, tone)) } }
            @if let Some(change) = change {
                @let tone = change.relative.map_or(Tone::Neutral, |it| Tone::of(it, measure));
                td data-value=(change.time.unix_timestamp()) {
                    (percent(change.relative, tone)) " "
                    a href={ (visit.at("reports/")) (change.report) } { (day(change.time)) } " "
                    (commit(change.hash.as_deref(), forge))
                }
            } @else if alert.is_some() {
                td class="quiet" title="A level counts as new once several reports have it" { "too new to tell" }
            } @else { td class="quiet" { "none" } }
        }
    }
}

//! The table of all series, a project's first page.

use std::collections::{HashMap, HashSet};

use axum::response::{IntoResponse as _, Redirect, Response};
use maud::{Markup, html};
use uuid::Uuid;
use wingbeat_text::{grouped, plural};
use wingbeat_track::{
    model::{AlertStatus, BenchmarkName, BranchName, Slug, TestbedName},
    store::{AlertFilter, PlotQuery, ReportFilter},
};

use super::{
    assets::Asset,
    choice::{Choice, readable},
    components::{Part, Tone, commit, day, kept, percent, sortable, spark},
    layout::{Page, Tab},
    links::{Params, encoded},
    page_context::PageContext,
    pins,
};
use crate::{
    ApiError,
    database::{Database, Kind, Project, SeriesRow},
    names::Names,
    series,
};

/// Rows per page.
const ROWS: usize = 200;

/// The page, or a redirect from one of the client's plot addresses.
pub(super) async fn show(context: PageContext, params: Params) -> Result<Response, ApiError> {
    let asked = params.clone();
    let names = context.names.clone();
    let read = context.read(move |database, project| {
        if let Some(readable) = readable(database, project, &asked)? {
            return Ok(Err(readable));
        }
        let choice = Choice::of(database, project, &asked, &names)?;
        let rows = rows(database, project, &choice)?;
        let alerts = Alerts::read(database, project, &rows)?;
        Ok(Ok((choice, rows, alerts, pins::first(database, project)?)))
    });
    let (choice, mut rows, alerts, pinned) = match read.await? {
        Ok(found) => found,
        Err(readable) => return Ok(Redirect::to(&readable.at(&context.at("plot"))).into_response()),
    };
    let total = rows.len();
    if params.get("changed").is_some() {
        rows.retain(|row| row.last_change_point.as_ref().is_some_and(|change| change.is_recent));
    }
    let sorted = sort(&mut rows, &params, &context.names);
    let content = html! {
        h1 { "Series" }
        (pins::links(&context, &pinned))
        (filter(&context, &params, &choice))
        @if rows.is_empty() { (empty(&context, &params, &choice, total)) }
        @else { (table(&context, &params, (&rows, &alerts), (sorted.0.as_str(), sorted.1))) }
    };
    Ok(Page::of(&context, Tab::Series, "Series", &[Asset::Table], &content).into_response())
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

fn filter(context: &PageContext, params: &Params, choice: &Choice) -> Markup {
    let own = ["branch", "testbed", "measure", "benchmark", "changed", "page"];
    html! {
        form class="filter" method="get" action=(context.base) role="search" {
            (context.select_branch(&choice.known, choice.no_branch(), choice.branches.first().map(|it| it.as_str())))
            (context.select_testbed(&choice.known, Some("all"), params.get("testbed")))
            (context.select_measure(&choice.known, params.get("measure")))
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

fn empty(context: &PageContext, params: &Params, choice: &Choice, total: usize) -> Markup {
    html! {
        @if params.get("changed").is_some() && total > 0 {
            p { "None of the " (plural(total, "series")) " changed its level in the last 30 days." }
        } @else if params.iter().next().is_some() {
            p { (choice.nothing()) " " a href=(context.base) { "Show all" } }
        } @else {
            p { "There are no results yet. Upload some with " code { "bencher run" } " or "
                code { "wingbeat run --host" } "." }
        }
    }
}

fn table(
    context: &PageContext,
    params: &Params,
    (rows, alerts): (&[SeriesRow], &Alerts),
    sorted: (&str, bool),
) -> Markup {
    let has_testbeds = rows.iter().any(|row| row.testbed != rows[0].testbed);
    let part = Part::of(params, rows.len(), ROWS);
    let head =
        |text, key, is_number| sortable(text, key, (params, &context.base), sorted, is_number);
    let plot_all =
        params.only(&["branch", "testbed", "measure", "benchmark"]).at(&context.at("plot"));
    html! {
        form id="together" class="line" method="get" action=(context.at("plot")) {
            span class="quiet" { (grouped(rows.len())) " series · " a href=(plot_all) { "plot them" } }
            @for (name, value) in params.only(&["branch", "testbed", "measure"]).iter() {
                input type="hidden" name=(name) value=(value);
            }
            input type="hidden" name="charts" value="measure";
            button { "Plot ticked ones together" }
        }
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
                tbody { @for row in part.take(rows) { (line(context, row, alerts.of(row), has_testbeds)) } }
            }
        }
        (part.links(params, &context.base))
    }
}

fn line(
    context: &PageContext,
    row: &SeriesRow,
    alert: Option<&NewestAlert>,
    has_testbeds: bool,
) -> Markup {
    let SeriesRow { benchmark, measure, newest, .. } = row;
    let plot = Params::default()
        .and("branch", row.branch.as_str())
        .and("testbed", row.testbed.as_str())
        .and("benchmark", benchmark.as_str())
        .and("measure", measure.slug.as_str())
        .at(&context.at("plot"));
    // A change is good or bad only if the level changed, not if the noise was high.
    let change = row.last_change_point.as_ref();
    let recent = change.filter(|change| change.is_recent).and_then(|change| change.relative);
    let tone = recent.map_or(Tone::Neutral, |relative| Tone::of(relative, measure));
    let forge = context.project.url.as_deref();
    html! {
        tr {
            th scope="row" {
                input type="checkbox" form="together" name="benchmark" value=(benchmark.as_str())
                    aria-label={ "Tick " (context.names.shown(Kind::Benchmark, benchmark.as_str())) };
                a href=(plot) { (context.benchmark(benchmark)) }
                @if let Some(alert) = alert {
                    " " a class="tag bad" href={ (context.at("alerts/")) (alert.uuid) } { "alert" }
                }
            }
            td { (context.measure(measure)) }
            @if has_testbeds { td { (context.testbed(&row.testbed)) } }
            td class="number" data-value=(newest.value) {
                a href={ (context.at("reports/")) (newest.report) "#" (encoded(benchmark.as_str())) } {
                    (measure.ladder().format(newest.value))
                }
            }
            td class="number" data-value=[row.change_30d] { (percent(row.change_30d, tone)) }
            td { a class="plain" href=(plot) aria-label="Plot" tabindex="-1" { (spark(&row.spark, tone)) } }
            @if let Some(change) = change {
                @let tone = change.relative.map_or(Tone::Neutral, |it| Tone::of(it, measure));
                td data-value=(change.time.unix_timestamp()) {
                    (percent(change.relative, tone)) " "
                    a href={ (context.at("reports/")) (change.report) } { (day(change.time)) } " "
                    (commit(change.hash.as_deref(), forge))
                }
            } @else if alert.is_some_and(|alert| alert.is_new) {
                td class="quiet" title="A level counts as new once several reports have it" { "too new to tell" }
            } @else { td class="quiet" { "none" } }
        }
    }
}

/// Maximum newest reports considered.
const REPORTS_MAX: usize = 1000;

/// All series of a selection.
pub(super) fn rows(
    database: &Database,
    project: &Project,
    choice: &Choice,
) -> Result<Vec<SeriesRow>, ApiError> {
    if choice.missing.is_some() {
        return Ok(Vec::new());
    }
    if let Some(mut rows) = series::kept(database, project, &choice.branches)? {
        let benchmarks: HashSet<_> = choice.benchmarks.iter().collect();
        rows.retain(|row| {
            (choice.testbeds.is_empty() || choice.testbeds.contains(&row.testbed))
                && (choice.measures.is_empty() || choice.measures.contains(&row.measure.slug))
                && (benchmarks.is_empty() || benchmarks.contains(&row.benchmark))
        });
        return Ok(rows);
    }
    // The first report of a branch has just arrived.
    let query = PlotQuery {
        branches: choice.branches.clone(),
        testbeds: choice.testbeds.clone(),
        benchmarks: choice.benchmarks.clone(),
        measures: choice.measures.clone(),
        reports_max: REPORTS_MAX,
        ..PlotQuery::of(project.stored.clone())
    };
    let plot = database.results.plot(&query)?;
    Ok(plot.series.iter().filter_map(|one| series::row(&plot, one)).collect())
}

/// The newest active alert of each series with any.
#[derive(Debug, Default)]
pub(super) struct Alerts(HashMap<(BranchName, TestbedName, BenchmarkName, Slug), NewestAlert>);

#[derive(Debug)]
pub(super) struct NewestAlert {
    uuid: Uuid,
    /// Whether too few reports came since to tell a new level from an outlier.
    is_new: bool,
}

/// Maximum alerts read.
const ALERTS_MAX: usize = 1000;

/// Reports after which a new level would have been found.
const LEVEL_REPORTS: usize = 5;

impl Alerts {
    pub(super) fn read(
        database: &Database,
        project: &Project,
        rows: &[SeriesRow],
    ) -> Result<Self, ApiError> {
        let shown: HashSet<_> = rows.iter().map(|row| (&row.branch, &row.testbed)).collect();
        let active = AlertFilter { status: Some(AlertStatus::Active), ..project.alerts(false) };
        let mut all = HashMap::new();
        let mut since = HashMap::new();
        // Newest first, and the last insertion wins.
        for it in database.results.alerts(&active, ALERTS_MAX)?.into_iter().rev() {
            if !shown.contains(&(&it.branch, &it.testbed)) {
                continue;
            }
            let place = (it.branch, it.testbed);
            let since = match since.get(&place) {
                Some(since) => *since,
                None => {
                    let (branch, testbed) = place.clone();
                    let reports = ReportFilter {
                        branch: Some(branch),
                        testbed: Some(testbed),
                        ..ReportFilter::of(&project.stored)
                    };
                    let newest = database.results.reports(&reports, LEVEL_REPORTS)?;
                    *since.entry(place.clone()).or_insert(newest.last().map(|it| it.start_time))
                }
            };
            let is_new = since.is_none_or(|since| it.start_time >= since);
            let (branch, testbed) = place;
            let key = (branch, testbed, it.alert.benchmark, it.measure.slug);
            all.insert(key, NewestAlert { uuid: it.alert.uuid, is_new });
        }
        Ok(Self(all))
    }

    pub(super) fn of(&self, row: &SeriesRow) -> Option<&NewestAlert> {
        let SeriesRow { branch, testbed, benchmark, measure, .. } = row;
        let key = (branch.clone(), testbed.clone(), benchmark.clone(), measure.slug.clone());
        self.0.get(&key)
    }
}

//! One report: a summary sentence, changes first, the rest folded.

use std::{cmp::Reverse, collections::HashMap};

use axum::extract::Path;
use maud::{Markup, html};
use uuid::Uuid;
use wingbeat_text::{grouped, plural, share};
use wingbeat_track::{
    model::{
        Alert, AlertStatus, BenchmarkName, Measure, Metric, Notice, Outcome, PastReport, Report,
        Verdict, short_hash,
    },
    output::{Page as Found, verdict},
    store::HistoryLimits,
};

use super::{
    assets::Asset,
    layout::{Page, Tab},
    links::Params,
    parts::{Tone, commit, moment, outcome, percent},
    visit::Visit,
    withdraw,
};
use crate::{ApiError, api::notices_of, registry::Kind};

/// A metric with its verdict and alert.
struct Line<'a> {
    iteration: u32,
    benchmark: &'a BenchmarkName,
    measure: &'a Measure,
    metric: &'a Metric,
    verdict: Option<&'a Verdict>,
    alert: Option<&'a Alert>,
}

pub(super) async fn show(
    visit: Visit,
    Path((_, id)): Path<(String, String)>,
) -> Result<Page, ApiError> {
    let uuid = Uuid::try_parse(&id).map_err(|_| absent(&id))?;
    let read = visit.read(move |databases, project| {
        let found = databases.results.report(uuid)?;
        let report = found.filter(|it| it.project == project.stored).ok_or_else(|| absent(&id))?;
        let last = HistoryLimits { reports: 1, sampled_reports: 0 };
        let baseline = databases.results.history(&report, last)?.reports.pop();
        Ok((report, baseline, notices_of(databases, uuid)?))
    });
    let (report, baseline, noticed) = read.await?;
    let content = html! {
        h1 { (verdict_line(&visit.names.put_into_report(&report))) }
        (facts(&visit, &report, baseline.as_ref()))
        (failures(&visit, &report))
        (notices(&noticed))
        (metrics(&visit, &report))
        (environment(&report, baseline.as_ref()))
        p class="quiet" {
            a href={ "/v0/projects/" (visit.project.slug) "/reports/" (report.uuid) } { "As JSON" }
        }
        (withdraw::form(&visit, &report))
    };
    let branch = visit.names.shown(Kind::Branch, report.branch.as_str());
    let title = match &report.hash {
        Some(hash) => format!("{branch} at {}", short_hash(hash)),
        None => format!("Report on {branch}"),
    };
    Ok(Page::of(&visit, Tab::Reports, &title, &[Asset::Table], &content))
}

pub(super) fn absent(id: &str) -> ApiError {
    let id: String = id.chars().take(80).collect();
    ApiError::not_found(format!("this project has no report {id:?}; it may have been deleted"))
}

/// The report in one line, as `wingbeat run` prints it.
fn verdict_line(report: &Report) -> String {
    let text = verdict(&Found::of(report, &[]));
    let mut chars = text.chars();
    chars.next().map(char::to_uppercase).into_iter().flatten().chain(chars).collect()
}

fn facts(visit: &Visit, report: &Report, baseline: Option<&PastReport>) -> Markup {
    let forge = visit.project.url.as_deref();
    html! {
        dl class="facts" {
            div { dt { "Branch" } dd { (visit.branch(&report.branch)) } }
            div { dt { "Commit" } dd { (commit(report.hash.as_deref(), forge)) } }
            div { dt { "Testbed" } dd { (visit.testbed(&report.testbed)) } }
            div { dt { "Measured" } dd { (moment(report.start_time)) } }
            @if let Some(start) = &report.start_point {
                div { dt { "Start point" } dd {
                    (visit.branch(&start.branch)) " "
                    @if start.hash.is_some() { (commit(start.hash.as_deref(), forge)) }
                    @if start.until.is_none() {
                        p class="quiet" { "It had no report on this testbed when this one came, so there was \
                            nothing to compare with." }
                    }
                } }
            }
            @if let Some(baseline) = baseline {
                div { dt { "Before it" } dd {
                    a href={ (visit.at("reports/")) (baseline.uuid) } { (moment(baseline.start_time)) } " "
                    (commit(baseline.hash.as_deref(), forge)) " · "
                    a href={ (visit.at("compare/")) (baseline.uuid) ".." (report.uuid) } { "compare" }
                } }
            }
            @if let Some(confirmed) = report.confirms {
                div { dt { "Measured again" } dd {
                    a href={ (visit.at("reports/")) (confirmed) } { "the alerts of this report" }
                } }
            }
        }
    }
}

fn failures(visit: &Visit, report: &Report) -> Markup {
    html! {
        @if report.failures().next().is_some() {
            section class="note" {
                h2 { "Failed" }
                ul { @for (_, failure) in report.failures() {
                    li { (visit.benchmark(&failure.name)) ": " (failure.reason) }
                } }
            }
        }
    }
}

/// Notices about the whole report from judging it.
fn notices(noticed: &[Notice]) -> Markup {
    html! {
        @if !noticed.is_empty() {
            section class="note" {
                h2 { "Noticed" }
                ul { @for notice in noticed { li { (notice.text) } } }
            }
        }
    }
}

impl Line<'_> {
    fn outcome(&self) -> Outcome {
        self.verdict.map_or(Outcome::NotJudged, |verdict| verdict.outcome)
    }

    fn is_active(&self) -> bool {
        self.alert.is_some_and(|alert| alert.status == AlertStatus::Active)
    }

    fn is_loud(&self) -> bool {
        self.alert.is_some() || self.outcome() <= Outcome::TooNoisy
    }
}

/// All metrics, most relevant first.
fn lines(report: &Report) -> Vec<Line<'_>> {
    let key = |alert: &Alert| (alert.iteration, alert.benchmark.clone(), alert.measure.clone());
    let alerts: HashMap<_, _> = report.alerts.iter().map(|alert| (key(alert), alert)).collect();
    let line = |(place, (iteration, benchmark, measure, metric)): (usize, _)| {
        let (benchmark, measure): (&wingbeat_track::model::BenchmarkResults, &Measure) =
            (benchmark, measure);
        let alert = (iteration, benchmark.name.clone(), measure.slug.clone());
        Line {
            iteration,
            benchmark: &benchmark.name,
            measure,
            metric,
            verdict: report.verdicts.get(place),
            alert: alerts.get(&alert).copied(),
        }
    };
    let mut lines: Vec<_> = report.metrics().enumerate().map(line).collect();
    let size = |line: &Line<'_>| {
        line.verdict.and_then(|it| it.change).map_or(0.0, |change| change.relative.abs())
    };
    lines.sort_by(|a, b| {
        let weight = |line: &Line<'_>| (Reverse(line.is_active()), line.outcome());
        weight(a).cmp(&weight(b)).then_with(|| match a.is_loud() {
            true => size(b).total_cmp(&size(a)),
            false => a.benchmark.cmp(b.benchmark),
        })
    });
    lines
}

fn metrics(visit: &Visit, report: &Report) -> Markup {
    let lines = lines(report);
    let loud = lines.iter().take_while(|line| line.is_loud()).count();
    let (loud, quiet) = lines.split_at(loud);
    html! {
        @if !loud.is_empty() { (table(visit, report, loud)) }
        @if !quiet.is_empty() {
            details open[loud.is_empty() && quiet.len() <= 200] {
                summary { (summary(quiet)) }
                (table(visit, report, quiet))
            }
        }
    }
}

/// `14 metrics without a change, 2 with too little history`.
fn summary(lines: &[Line<'_>]) -> String {
    let count = |outcome| lines.iter().filter(|line| line.outcome() == outcome).count();
    let few = [
        (count(Outcome::NoChange), "without a change"),
        (count(Outcome::TooLittleHistory), "with too little history"),
        (count(Outcome::NotJudged), "not judged"),
    ];
    let mut parts = Vec::new();
    for (number, words) in few.into_iter().filter(|(number, _)| *number > 0) {
        let counted = match parts.is_empty() {
            true => plural(number, "metric"),
            false => grouped(number),
        };
        parts.push(format!("{counted} {words}"));
    }
    parts.join(", ")
}

fn table(visit: &Visit, report: &Report, lines: &[Line<'_>]) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Metrics" {
            table class="metrics stacked" data-sort="" {
                thead { tr {
                    th { "Benchmark" } th { "Measure" } th class="number" { "Value" }
                    th class="number" { "Baseline" } th class="number" { "Change" }
                    th class="number" title="The change lies there with 95 % confidence" { "95 %" }
                    th { "Verdict" }
                    th class="number" title="The smallest change that nine of ten such reports would have shown" {
                        "Visible from"
                    }
                } }
                tbody { @for line in lines { (row(visit, report, line)) } }
            }
        }
    }
}

fn row(visit: &Visit, report: &Report, line: &Line<'_>) -> Markup {
    let Line { measure, metric, verdict, .. } = line;
    let baseline = verdict.and_then(|it| it.boundary).and_then(|boundary| boundary.baseline);
    let scale = measure.scale(metric.value, baseline);
    let change = verdict.and_then(|it| it.change);
    let interval = change.and_then(|it| Some(share::interval(it.lower?, it.upper?)));
    let is_found = line.outcome().stands_out();
    let tone = match change {
        Some(change) if is_found => Tone::of(change.relative, measure),
        _ => Tone::Neutral,
    };
    let visible = verdict.and_then(|it| it.smallest_visible);
    let plot = Params::default()
        .and("branch", report.branch.as_str())
        .and("testbed", report.testbed.as_str())
        .and("benchmark", line.benchmark.as_str())
        .and("measure", measure.slug.as_str())
        .at(&visit.at("plot"));
    html! {
        tr {
            th scope="row" id=(line.benchmark.as_str()) {
                a href=(plot) { (visit.benchmark(line.benchmark)) }
                @if report.iterations.len() > 1 { span class="quiet" { " #" (line.iteration + 1) } }
            }
            td { (visit.measure(measure)) }
            td class="number" data-value=(metric.value) {
                (scale.with_spread(metric.value, (metric.lower_value, metric.upper_value)))
            }
            td class="number" data-value=[baseline] {
                @if let Some(baseline) = baseline { (scale.with_unit(baseline)) }
            }
            td class="number" data-value=[change.map(|it| it.relative)] {
                @if let Some(change) = change { (percent(Some(change.relative), tone)) }
            }
            td class="number" { (interval.unwrap_or_default()) }
            td {
                @if let Some(alert) = line.alert {
                    a href={ (visit.at("alerts/")) (alert.uuid) } { (outcome(line.outcome())) }
                    @if alert.status != AlertStatus::Active { span class="quiet" { " " (alert.status) } }
                } @else { (outcome(line.outcome())) }
                @if let Some(verdict) = verdict && (is_found || line.outcome() == Outcome::TooNoisy) {
                    div class="reason" { (verdict.reason) }
                }
            }
            td class="number" data-value=[visible] {
                @if let Some(visible) = visible {
                    @if visible > 0.0 { (share::size(visible)) } @else { "any" }
                }
            }
        }
    }
}

fn environment(report: &Report, baseline: Option<&PastReport>) -> Markup {
    let facts = report.environment.lasting();
    let changes = baseline.map(|it| report.environment.changes_since(&it.environment));
    html! {
        section {
            h2 { "Environment" }
            @match &changes {
                Some(changes) if !changes.is_empty() => {
                    p { "It differs from that of the report before:" }
                    ul class="changes" { @for change in changes { li { (change) } } }
                }
                Some(_) if !facts.is_empty() => p { "It is that of the report before." },
                _ => {}
            }
            @if facts.is_empty() { p class="quiet" { "Nothing is known about it." } } @else {
                dl class="facts" { @for (fact, value) in &facts {
                    div { dt { (fact) } dd { (value) } }
                } }
            }
        }
    }
}

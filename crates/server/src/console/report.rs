//! One report: a summary sentence, changes first, the rest folded.

use axum::{Form, extract::Path, response::Redirect};
use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;
use wingbeat_text::{grouped, plural, share};
use wingbeat_track::{
    model::{AlertStatus, Notice, Outcome, PastReport, Report, short_hash},
    output::{ReportRow, verdict_of},
    store::HistoryLimits,
};

use super::{
    assets::Asset,
    components::{Tone, commit, moment, outcome, percent},
    layout::{Page, Tab},
    links::Params,
    page_context::PageContext,
};
use crate::{
    ApiError, access::Right, api::notices_of, database::Kind, series, storage::StorageError,
};

pub(super) async fn show(
    context: PageContext,
    Path((_, id)): Path<(String, String)>,
) -> Result<Page, ApiError> {
    let uuid = Uuid::try_parse(&id).map_err(|_| absent(&id))?;
    let read = context.read(move |database, project| {
        let found = database.results.report(uuid)?;
        let report = found.filter(|it| it.project == project.stored).ok_or_else(|| absent(&id))?;
        let last = HistoryLimits { reports: 1, sampled_reports: 0 };
        let baseline = database.results.history(&report, last)?.reports.pop();
        Ok((report, baseline, notices_of(database, uuid)?))
    });
    let (report, baseline, noticed) = read.await?;
    let rows = ReportRow::by_weight(&report, &[]);
    let content = html! {
        h1 { (headline(&context, &report, &rows)) }
        (facts(&context, &report, baseline.as_ref()))
        (failures(&context, &report))
        (notices(&noticed))
        (metrics(&context, &report, &rows))
        (environment(&report, baseline.as_ref()))
        p class="quiet" {
            a href={ "/v0/projects/" (context.project.slug) "/reports/" (report.uuid) } { "As JSON" }
        }
        (withdraw_form(&context, &report))
    };
    let branch = context.names.shown(Kind::Branch, report.branch.as_str());
    let title = match &report.hash {
        Some(hash) => format!("{branch} at {}", short_hash(hash)),
        None => format!("Report on {branch}"),
    };
    Ok(Page::of(&context, Tab::Reports, &title, &[Asset::Table], &content))
}

pub(super) fn absent(id: &str) -> ApiError {
    let id: String = id.chars().take(80).collect();
    ApiError::not_found(format!("this project has no report {id:?}; it may have been deleted"))
}

/// The report in one line, as `wingbeat run` prints it, with current names.
fn headline(context: &PageContext, report: &Report, rows: &[ReportRow<'_>]) -> String {
    let text = verdict_of(report, rows, &|row| {
        let benchmark = context.names.shown(Kind::Benchmark, row.benchmark.name.as_str());
        format!("{benchmark} {}", context.names.measure(row.measure))
    });
    let mut chars = text.chars();
    chars.next().map(char::to_uppercase).into_iter().flatten().chain(chars).collect()
}

fn facts(context: &PageContext, report: &Report, baseline: Option<&PastReport>) -> Markup {
    let forge = context.project.url.as_deref();
    html! {
        dl class="facts" {
            div { dt { "Branch" } dd { (context.branch(&report.branch)) } }
            div { dt { "Commit" } dd { (commit(report.hash.as_deref(), forge)) } }
            div { dt { "Testbed" } dd { (context.testbed(&report.testbed)) } }
            div { dt { "Measured" } dd { (moment(report.start_time)) } }
            @if let Some(start) = &report.start_point {
                div { dt { "Start point" } dd {
                    (context.branch(&start.branch)) " "
                    @if start.hash.is_some() { (commit(start.hash.as_deref(), forge)) }
                    @if start.until.is_none() {
                        p class="quiet" { "It had no report on this testbed when this one came, so there was \
                            nothing to compare with." }
                    }
                } }
            }
            @if let Some(baseline) = baseline {
                div { dt { "Before it" } dd {
                    a href={ (context.at("reports/")) (baseline.uuid) } { (moment(baseline.start_time)) } " "
                    (commit(baseline.hash.as_deref(), forge)) " · "
                    a href={ (context.at("compare/")) (baseline.uuid) ".." (report.uuid) } { "compare" }
                } }
            }
            @if let Some(confirmed) = report.confirms {
                div { dt { "Measured again" } dd {
                    a href={ (context.at("reports/")) (confirmed) } { "the alerts of this report" }
                } }
            }
        }
    }
}

fn failures(context: &PageContext, report: &Report) -> Markup {
    html! {
        @if report.failures().next().is_some() {
            section class="note" {
                h2 { "Failed" }
                ul { @for (_, failure) in report.failures() {
                    li { (context.benchmark(&failure.name)) ": " (failure.reason) }
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

fn metrics(context: &PageContext, report: &Report, rows: &[ReportRow<'_>]) -> Markup {
    let loud = rows.iter().take_while(|row| row.is_loud()).count();
    let (loud, quiet) = rows.split_at(loud);
    html! {
        @if !loud.is_empty() { (table(context, report, loud)) }
        @if !quiet.is_empty() {
            details open[loud.is_empty() && quiet.len() <= 200] {
                summary { (summary(quiet)) }
                (table(context, report, quiet))
            }
        }
    }
}

/// `14 metrics without a change, 2 with too little history`.
fn summary(rows: &[ReportRow<'_>]) -> String {
    let count = |outcome| rows.iter().filter(|row| row.outcome() == outcome).count();
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

fn table(context: &PageContext, report: &Report, rows: &[ReportRow<'_>]) -> Markup {
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
                tbody { @for it in rows { (row(context, report, it)) } }
            }
        }
    }
}

fn row(context: &PageContext, report: &Report, row: &ReportRow<'_>) -> Markup {
    let ReportRow { measure, metric, verdict, .. } = row;
    let benchmark = &row.benchmark.name;
    let change = verdict.and_then(|it| it.change);
    let is_found = row.outcome().stands_out();
    let tone = match change {
        Some(change) if is_found => Tone::of(change.relative, measure),
        _ => Tone::Neutral,
    };
    let visible = verdict.and_then(|it| it.smallest_visible);
    let plot = Params::default()
        .and("branch", report.branch.as_str())
        .and("testbed", report.testbed.as_str())
        .and("benchmark", benchmark.as_str())
        .and("measure", measure.slug.as_str())
        .at(&context.at("plot"));
    html! {
        tr {
            th scope="row" id=(benchmark.as_str()) {
                a href=(plot) { (context.benchmark(benchmark)) }
                @if report.iterations.len() > 1 { span class="quiet" { " #" (row.iteration + 1) } }
            }
            td { (context.measure(measure)) }
            td class="number" data-value=(metric.value) { (row.value_text()) }
            td class="number" data-value=[row.baseline()] { (row.baseline_text()) }
            td class="number" data-value=[change.map(|it| it.relative)] {
                @if let Some(change) = change { (percent(Some(change.relative), tone)) }
            }
            td class="number" { (row.interval_text()) }
            td {
                @if let Some(alert) = row.alert {
                    a href={ (context.at("alerts/")) (alert.uuid) } { (outcome(row.outcome())) }
                    @if alert.status != AlertStatus::Active { span class="quiet" { " " (alert.status) } }
                } @else { (outcome(row.outcome())) }
                @if is_found || row.outcome() == Outcome::TooNoisy {
                    div class="reason" { (row.reason_text()) }
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

/// Maximum characters of a reason.
const REASON_MAX: usize = 1000;

/// The form that withdraws the report, for users with the right.
fn withdraw_form(context: &PageContext, report: &Report) -> Markup {
    html! {
        @if context.may(Right::Manage) {
            details {
                summary { "Delete this report" }
                form class="settle" method="post"
                    action=(context.at(format_args!("reports/{}/withdraw", report.uuid))) {
                    label class="wide" { span { "Reason (optional)" }
                        input name="reason" maxlength=(REASON_MAX) autocomplete="off"
                            placeholder="measured on a busy machine";
                    }
                    button { "Delete it" }
                }
                p class="quiet" {
                    "No list, plot or history has it afterwards, its alerts go with it, and later reports are                      compared with others. This cannot be undone here."
                }
            }
        }
    }
}

/// Fields of the form.
#[derive(Debug, Deserialize)]
pub(super) struct Fields {
    #[serde(default)]
    reason: String,
}

pub(super) async fn withdraw(
    context: PageContext,
    Path((_, id)): Path<(String, String)>,
    Form(fields): Form<Fields>,
) -> Result<Redirect, ApiError> {
    let uuid = Uuid::try_parse(&id).map_err(|_| absent(&id))?;
    let reason: String = fields.reason.trim().chars().take(REASON_MAX).collect();
    let project = context.project.stored.clone();
    let write = context.write(move |database| {
        let results = &mut database.results;
        let is_its = results.report(uuid)?.is_some_and(|report| report.project == project);
        let reason = (!reason.is_empty()).then_some(reason);
        let withdrawn = if is_its { results.withdraw(uuid, reason)? } else { None };
        Ok::<_, StorageError>(withdrawn.is_some())
    });
    if !write.await? {
        return Err(absent(&id));
    }
    series::touch(&context.app, context.project.id);
    Ok(Redirect::to(&context.at("reports?deleted=yes")))
}

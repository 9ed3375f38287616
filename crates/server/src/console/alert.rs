//! One alert: the crossed limit, the onset, related changes, and the form that changes its status.

use axum::{
    Form,
    extract::Path,
    response::{Redirect, Response},
};
use maud::{Markup, html};
use serde::Deserialize;
use time::Duration;
use uuid::Uuid;
use wingbeat_track::{
    model::{AlertStatus, Past, PastPoint, PastReport},
    plot::Chart,
    store::{AlertFilter, HistoryLimits, PlotQuery, ReportFilter, Store, StoreError, StoredAlert},
};

use super::{
    alerts::{ALERTS_MAX, status_tag, table},
    assets::Asset,
    cause::{self, Of},
    components::{Tone, commit, moment, percent},
    layout::{Page, Tab},
    links::Params,
    page_context::PageContext,
    plot::figures,
};
use crate::{ApiError, access::Right, database::Kind, storage::StorageError};

/// Maximum reports drawn around the alert.
const REPORTS_MAX: usize = 120;

/// An alert with its context.
struct Found {
    alert: StoredAlert,
    reason: String,
    others: Vec<StoredAlert>,
    /// The last report within the limit.
    before: Option<PastReport>,
    /// Commit of the first report beyond the limit: the level may have changed before the alert was raised.
    first_hash: Option<String>,
    chart: Chart,
}

/// Reports before the alert that are searched for the first one beyond the limit.
const LEVEL_REPORTS_MAX: usize = 100;

/// Time plotted before an alert.
const BEFORE: Duration = Duration::days(90);
const AFTER: Duration = Duration::days(30);

pub(super) async fn show(
    context: PageContext,
    Path((_, id)): Path<(String, String)>,
    params: Params,
) -> Result<Page, ApiError> {
    let uuid = Uuid::try_parse(&id).map_err(|_| absent())?;
    let found = find(&context, uuid).await?;
    let stored = &found.alert;
    let of = Of::Alert(uuid);
    let why = cause::find(&context, of.clone(), &params).await?;
    let path = context.at(format_args!("alerts/{uuid}"));
    let benchmark = context.names.shown(Kind::Benchmark, stored.alert.benchmark.as_str());
    let title = format!("{benchmark} {}", context.names.measure(&stored.measure));
    let content = html! {
        h1 { (headline(&context, stored)) }
        @if !found.reason.is_empty() { p { (found.reason) } }
        (facts(&context, &found))
        @if let Some(why) = &why { (cause::section(&context, &of, (&path, &params), why)) }
        (settling(&context, stored))
        h2 { "Around it" }
        (figures(&found.chart)?)
        @if !found.others.is_empty() {
            h2 { "Other alerts of the same report" }
            (table(&context, &found.others.iter().collect::<Vec<_>>()))
        }
    };
    Ok(Page::of(&context, Tab::Alerts, &title, &[Asset::Plot, Asset::Flame], &content))
}

/// The image of the cause, for embedding.
pub(super) async fn picture(
    context: PageContext,
    Path((_, id, picture)): Path<(String, String, String)>,
    params: Params,
) -> Result<Response, ApiError> {
    let uuid = Uuid::try_parse(&id).map_err(|_| absent())?;
    cause::file(&context, Of::Alert(uuid), &picture, &params).await
}

fn absent() -> ApiError {
    ApiError::not_found("this project has no such alert; its report may have been deleted")
}

/// The alert with this UUID, if it belongs to the project.
async fn find(context: &PageContext, uuid: Uuid) -> Result<Found, ApiError> {
    let names = context.names.clone();
    let read = context.read(move |database, project| {
        let results = &database.results;
        let of_project = ReportFilter::of(&project.stored);
        let reports = of_project.clone();
        let this = AlertFilter { reports, uuid: Some(uuid), ..AlertFilter::default() };
        let alert = results.alerts(&this, 1)?.pop().ok_or_else(absent)?;
        let time = Some(alert.start_time);
        let reports = ReportFilter { since: time, until: time, ..of_project };
        let of_report = AlertFilter { reports, ..AlertFilter::default() };
        let mut others = results.alerts(&of_report, ALERTS_MAX)?;
        others.retain(|it| it.report == alert.report && it.alert.uuid != uuid);
        let report = results.report(alert.report)?.ok_or_else(absent)?;
        let limits = HistoryLimits { reports: LEVEL_REPORTS_MAX, sampled_reports: 0 };
        let (before, first_hash) = turn(&results.history(&report, limits)?, &alert);
        let is_its = |verdict: &&wingbeat_track::model::Verdict| {
            verdict.benchmark == alert.alert.benchmark
                && verdict.measure == alert.alert.measure
                && verdict.iteration == alert.alert.iteration
        };
        let reason = report.verdicts.iter().find(is_its);
        let reason = reason.map(|verdict| verdict.reason.text(&alert.measure)).unwrap_or_default();
        let mut branches = vec![alert.branch.clone()];
        branches.extend(report.start_point.map(|start| start.branch));
        let query = PlotQuery {
            branches,
            testbeds: vec![alert.testbed.clone()],
            benchmarks: vec![alert.alert.benchmark.clone()],
            measures: vec![alert.alert.measure.clone()],
            since: alert.start_time.checked_sub(BEFORE),
            until: alert.start_time.checked_add(AFTER),
            reports_max: REPORTS_MAX,
            ..PlotQuery::of(project.stored.clone())
        };
        let mut plot = results.plot(&query)?;
        names.put_into(&mut plot);
        let chart = Chart::new(project.name.clone(), &plot);
        Ok(Found { alert, reason, others, before, first_hash, chart })
    });
    read.await
}

/// The last report within the limit, and the commit of the first one beyond.
fn turn(past: &Past, stored: &StoredAlert) -> (Option<PastReport>, Option<String>) {
    let series = past.find(&stored.alert.benchmark, &stored.measure);
    let Some((series, limit)) = series.zip(stored.limit()) else {
        return (past.reports.last().cloned(), stored.hash.clone());
    };
    let (within, beyond) = series.split_at_limit(stored.alert.limit, limit);
    let report = |point: Option<&PastPoint>| past.reports.get(point?.report);
    let first_hash = report(beyond.first()).map_or(&stored.hash, |first| &first.hash).clone();
    (report(within.last()).cloned(), first_hash)
}

fn headline(context: &PageContext, stored: &StoredAlert) -> Markup {
    let StoredAlert { alert, measure, value, .. } = stored;
    let scale = measure.scale(*value, stored.limit());
    let change = stored.change();
    html! {
        (context.benchmark(&alert.benchmark)) ": " (context.names.measure(measure)) " is " (scale.with_unit(*value))
        @if let Some(limit) = stored.limit() {
            ", " (alert.limit.side()) " " (scale.with_unit(limit))
        }
        @if change.is_some() {
            " (" (percent(change, change.map_or(Tone::Neutral, |it| Tone::of(it, measure)))) ")"
        }
    }
}

fn facts(context: &PageContext, found: &Found) -> Markup {
    let Found { alert: stored, before, .. } = found;
    let forge = context.project.url.as_deref();
    let plot = Params::default()
        .and("branch", stored.branch.as_str())
        .and("testbed", stored.testbed.as_str())
        .and("benchmark", stored.alert.benchmark.as_str())
        .and("measure", stored.alert.measure.as_str())
        .at(&context.at("plot"));
    html! {
        dl class="facts" {
            div { dt { "Status" } dd { (status_tag(stored.alert.status)) @if let Some(changed) = stored.changed {
                " since " (moment(changed))
            } @if let Some(reason) = &stored.alert.reason { ": " (reason) } } }
            div { dt { "Report" } dd {
                a href={ (context.at("reports/")) (stored.report) } { (moment(stored.start_time)) }
            } }
            div { dt { "Branch" } dd { (context.branch(&stored.branch)) } }
            div { dt { "Testbed" } dd { (context.testbed(&stored.testbed)) } }
            div { dt { "Commits" } dd { (commits(context, found)) } }
            @if let Some(before) = before {
                div { dt { "Compare" } dd {
                    a href={ (context.at("compare/")) (before.uuid) ".." (stored.report) } {
                        "with the last report within the limit"
                    }
                } }
            }
            div { dt { "History" } dd { a href=(plot) { "plot of the series" } } }
            @if let Some((range, address)) = range_link(forge, found) {
                div { dt { "Changes" } dd { a href=(address) rel="noreferrer" { code { (range) } } } }
            }
        }
    }
}

/// The commits between which the level changed.
fn commits(context: &PageContext, found: &Found) -> Markup {
    let forge = context.project.url.as_deref();
    html! {
        @if let Some(before) = &found.before { "after " (commit(before.hash.as_deref(), forge)) ", at " }
        (commit(found.first_hash.as_deref(), forge))
    }
}

/// Forge link to the changes between both commits.
fn range_link(forge: Option<&str>, found: &Found) -> Option<(String, String)> {
    let is_hash = |hash: &&str| hash.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let first = found.before.as_ref()?.hash.as_deref().filter(is_hash)?;
    let last = found.first_hash.as_deref().filter(is_hash)?;
    let forge = forge?.trim_end_matches('/').trim_end_matches(".git");
    let is_web = forge.starts_with("https://") || forge.starts_with("http://");
    let short = |hash: &str| wingbeat_track::model::short_hash(hash).to_owned();
    (is_web && first != last).then(|| {
        (format!("{}...{}", short(first), short(last)), format!("{forge}/compare/{first}...{last}"))
    })
}

/// Form to dismiss the alert, for users with the right.
fn settling(context: &PageContext, stored: &StoredAlert) -> Markup {
    let action = context.at(format_args!("alerts/{}", stored.alert.uuid));
    let (is_active, is_silenced) =
        (stored.alert.status == AlertStatus::Active, stored.alert.status == AlertStatus::Silenced);
    html! {
        @if context.may(Right::Write) {
            form class="settle" method="post" action=(action) {
                label class="wide" { span { "Reason (optional)" }
                    input name="reason" maxlength="1000" autocomplete="off"
                        placeholder="the new allocator is worth it";
                }
                @if is_active {
                    button name="status" value="dismissed" title="This alert is settled; the next one counts" {
                        "Dismiss"
                    }
                } @else { button name="status" value="active" { "Make active again" } }
                @if !is_silenced {
                    button name="status" value="silenced"
                        title="Later alerts of the same series do not count either" { "Silence the series" }
                }
            }
        }
    }
}

/// New status of an alert.
#[derive(Debug, Deserialize)]
pub(super) struct Settle {
    status: AlertStatus,
    #[serde(default)]
    reason: String,
}

/// Maximum characters of a reason.
pub(super) const REASON_MAX: usize = 1000;

pub(super) async fn settle(
    context: PageContext,
    Path((_, id)): Path<(String, Uuid)>,
    Form(form): Form<Settle>,
) -> Result<Redirect, ApiError> {
    let reason: String = form.reason.trim().chars().take(REASON_MAX).collect();
    // Fails if the alert is of another project.
    let series = find(&context, id).await?.alert;
    context
        .write(move |database| {
            let reason = (!reason.is_empty()).then_some(reason);
            database.results.set_alert_status(id, form.status, reason.clone())?;
            let others = match form.status {
                AlertStatus::Silenced => active_of_series(&database.results, &series)?,
                _ => Vec::new(),
            };
            for other in others {
                database.results.set_alert_status(other, form.status, reason.clone())?;
            }
            Ok::<_, StorageError>(())
        })
        .await?;
    Ok(Redirect::to(&context.at(format_args!("alerts/{id}"))))
}

fn active_of_series(results: &Store, one: &StoredAlert) -> Result<Vec<Uuid>, StoreError> {
    let reports = ReportFilter {
        branch: Some(one.branch.clone()),
        testbed: Some(one.testbed.clone()),
        ..ReportFilter::of(&one.project)
    };
    let status = Some(AlertStatus::Active);
    let active = AlertFilter { reports, status, ..AlertFilter::default() };
    let is_same = |other: &StoredAlert| {
        other.alert.benchmark == one.alert.benchmark && other.measure.slug == one.measure.slug
    };
    let found = results.alerts(&active, ALERTS_MAX)?;
    Ok(found.iter().filter(|it| is_same(it)).map(|it| it.alert.uuid).collect())
}

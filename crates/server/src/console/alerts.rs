//! The list of alerts, and forms to dismiss them.

use axum::{Form, response::Redirect};
use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;
use wingbeat_text::grouped;
use wingbeat_track::{
    model::{AlertStatus, BranchName},
    store::{AlertFilter, Known, ReportFilter, StoredAlert},
};

use super::{
    components::{Part, Tone, commit, day, moment, percent, select},
    layout::{Page, Tab},
    links::Params,
    page_context::PageContext,
};
use crate::{ApiError, access::Right, storage::StorageError};

/// Alerts per page.
const ROWS: usize = 100;

/// Maximum alerts read.
pub(super) const ALERTS_MAX: usize = 20_000;

const STATUSES: [(&str, &str); 3] =
    [("active", "active"), ("dismissed", "dismissed"), ("silenced", "silenced")];

pub(super) async fn list(context: PageContext, params: Params) -> Result<Page, ApiError> {
    let asked = params.clone();
    let read = context.read(move |database, project| {
        let known = database.results.known(&project.stored)?;
        let reports = ReportFilter {
            branch: asked.get("branch").and_then(|name| BranchName::new(name).ok()),
            ..ReportFilter::of(&project.stored)
        };
        let status = match asked.get("status") {
            None => Some(AlertStatus::Active),
            Some("all") => None,
            Some(word) => Some(status(word)?),
        };
        let alerts =
            database.results.alerts(&AlertFilter { reports, status, uuid: None }, ALERTS_MAX)?;
        Ok((known, alerts))
    });
    let (known, alerts) = read.await?;
    let path = context.at("alerts");
    let part = Part::of(&params, alerts.len(), ROWS);
    let content = html! {
        h1 { "Alerts" }
        (filter(&context, &path, &params, &known))
        @if alerts.is_empty() {
            p { @if params.get("status").is_none() {
                "No alert is active. "
                a href=(params.with("status", "all").at(&path)) { "Show settled ones" }
            } @else { "There are no such alerts." } }
        } @else {
            (by_report(&context, &path, &part.take(&alerts).collect::<Vec<_>>()))
            (part.links(&params, &path))
        }
    };
    Ok(Page::of(&context, Tab::Alerts, "Alerts", &[], &content))
}

fn status(word: &str) -> Result<AlertStatus, ApiError> {
    match word {
        "active" => Ok(AlertStatus::Active),
        "dismissed" => Ok(AlertStatus::Dismissed),
        "silenced" => Ok(AlertStatus::Silenced),
        _ => Err(ApiError::bad_request(
            "alerts have no such status; ask for active, dismissed, silenced or all",
        )),
    }
}

fn filter(context: &PageContext, path: &str, params: &Params, known: &Known) -> Markup {
    let chosen = params.get("status").unwrap_or("active");
    let statuses = STATUSES.into_iter().chain([("all", "all")]);
    html! {
        form class="filter" method="get" action=(path) role="search" {
            (select("Status", "status", None, statuses, Some(chosen)))
            (context.select_branch(known, Some("all"), params.get("branch")))
            button { "Show" }
        }
    }
}

/// Alerts grouped by the report that raised them.
fn by_report(context: &PageContext, path: &str, alerts: &[&StoredAlert]) -> Markup {
    let forge = context.project.url.as_deref();
    html! {
        @for alerts in alerts.chunk_by(|a, b| a.report == b.report) {
            @let first = alerts[0];
            @let active = alerts.iter().filter(|it| it.alert.status == AlertStatus::Active).count();
            section class="group" {
                header {
                    h2 {
                        a href={ (context.at("reports/")) (first.report) } { (moment(first.start_time)) } " "
                        (context.branch(&first.branch)) " " (commit(first.hash.as_deref(), forge))
                        " " span class="quiet" { (context.testbed(&first.testbed)) }
                    }
                    @if context.may(Right::Write) && active > 1 {
                        form method="post" action=(path) {
                            input type="hidden" name="report" value=(first.report);
                            button { "Dismiss all " (grouped(active)) }
                        }
                    }
                }
                (table(context, alerts))
            }
        }
    }
}

pub(super) fn table(context: &PageContext, alerts: &[&StoredAlert]) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Alerts" {
            table class="alerted stacked" {
                thead { tr {
                    th { "Benchmark" } th { "Measure" } th class="number" { "Value" }
                    th class="number" { "Limit" } th class="number" { "Change" } th { "Status" }
                } }
                tbody { @for alert in alerts { (line(context, alert)) } }
            }
        }
    }
}

fn line(context: &PageContext, stored: &StoredAlert) -> Markup {
    let StoredAlert { alert, measure, value, .. } = stored;
    let scale = measure.scale(*value, stored.limit());
    let change = stored.change();
    html! {
        tr {
            th scope="row" {
                a href={ (context.at("alerts/")) (alert.uuid) } { (context.benchmark(&alert.benchmark)) }
            }
            td { (context.measure(measure)) }
            td class="number" { (scale.with_unit(*value)) }
            td class="number" {
                @if let Some(limit) = stored.limit() {
                    span class="quiet" { (alert.limit.side()) } " " (scale.with_unit(limit))
                }
            }
            td class="number" {
                (percent(change, change.map_or(Tone::Neutral, |it| Tone::of(it, measure))))
            }
            td { (status_tag(alert.status)) @if let Some(changed) = stored.changed {
                " " span class="quiet" { (day(changed)) }
            } @if let Some(reason) = &alert.reason { div class="reason" { (reason) } } }
        }
    }
}

pub(super) fn status_tag(status: AlertStatus) -> Markup {
    let class = if status == AlertStatus::Active { "tag bad" } else { "tag" };
    html! { span class=(class) { (status) } }
}

/// Dismisses all active alerts of a report.
#[derive(Debug, Deserialize)]
pub(super) struct DismissAll {
    report: Uuid,
}

pub(super) async fn dismiss_all(
    context: PageContext,
    Form(form): Form<DismissAll>,
) -> Result<Redirect, ApiError> {
    let project = context.project.stored.clone();
    context
        .write(move |database| {
            let report = database.results.report(form.report)?;
            let alerts = report.filter(|it| it.project == project).map(|it| it.alerts);
            for alert in alerts.unwrap_or_default() {
                if alert.status == AlertStatus::Active {
                    let status = AlertStatus::Dismissed;
                    database.results.set_alert_status(alert.uuid, status, None)?;
                }
            }
            Ok::<_, StorageError>(())
        })
        .await?;
    Ok(Redirect::to(&context.at("alerts")))
}

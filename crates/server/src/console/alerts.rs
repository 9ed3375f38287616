//! The list of alerts by cause, and the form that dismisses them.

mod steps;

use std::collections::HashSet;

use axum::{Form, response::Redirect};
use maud::{Markup, html};
use uuid::Uuid;
use wingbeat_text::{grouped, plural};
use wingbeat_track::{
    model::AlertStatus,
    store::{AlertFilter, ReportFilter, StoreError, StoredAlert},
};

use self::steps::Step;
use super::{
    alert::REASON_MAX,
    choice::Choice,
    components::{Part, Tone, archived_ones, commit, day, moment, percent, select},
    layout::{Page, Tab},
    links::Params,
    page_context::PageContext,
};
use crate::{
    ApiError,
    access::Right,
    database::{Database, Kind, Project},
};

/// Causes per page.
const ROWS: usize = 50;

/// Newest alerts of a cause that the page lists.
const ALERTS_SHOWN: usize = 10;

/// Maximum alerts read.
pub(super) const ALERTS_MAX: usize = 20_000;

const STATUSES: [(&str, &str); 4] =
    [("active", "active"), ("dismissed", "dismissed"), ("silenced", "silenced"), ("all", "all")];

pub(super) async fn list(context: PageContext, params: Params) -> Result<Page, ApiError> {
    let asked = params.clone();
    let names = context.names.clone();
    let read = context.read(move |database, project| {
        let choice = Choice::of(database, project, &asked, &names)?;
        let alerts = chosen(database, project, &asked, &choice)?;
        let count = alerts.len();
        Ok((choice, count, Step::all(database, project, alerts)?))
    });
    let (choice, alerts, steps) = read.await?;
    let path = context.at("alerts");
    let part = Part::of(&params, steps.len(), ROWS);
    let content = html! {
        h1 { "Alerts" }
        @if let Some(count) = params.get("settled").and_then(|count| count.parse::<usize>().ok()) {
            p class="note good" role="status" { (plural(count, "alert")) " dismissed." }
        }
        (filter(&context, &path, &params, &choice))
        @if steps.is_empty() { (empty(&path, &params, &choice)) } @else {
            p class="quiet" {
                (plural(steps.len(), "cause")) ", " (plural(alerts, "alert")) ". A change of a level raises an alert in \
                 each report until the new level is known; they are one row."
                @if alerts == ALERTS_MAX { " These are the newest ones: choose a branch or testbed for older ones." }
            }
            (settling(&context, &path, &params, &part.take(&steps).collect::<Vec<_>>()))
            (part.links(&params, &path))
        }
    };
    Ok(Page::of(&context, Tab::Alerts, "Alerts", &[], &content))
}

/// The alerts that a query asks for, newest first.
fn chosen(
    database: &Database,
    project: &Project,
    asked: &Params,
    choice: &Choice,
) -> Result<Vec<StoredAlert>, ApiError> {
    if choice.missing.is_some() {
        return Ok(Vec::new());
    }
    // Without a branch the choice is the main one, but alerts are of all.
    let branches: HashSet<_> =
        choice.branches.iter().filter(|_| asked.get("branch").is_some()).collect();
    let testbeds: HashSet<_> = choice.testbeds.iter().collect();
    let benchmarks: HashSet<_> = choice.benchmarks.iter().collect();
    let measures: HashSet<_> = choice.measures.iter().collect();
    let only = |count: usize| count == 1;
    let reports = ReportFilter {
        branch: branches.iter().next().filter(|_| only(branches.len())).map(|it| (*it).clone()),
        testbed: testbeds.iter().next().filter(|_| only(testbeds.len())).map(|it| (*it).clone()),
        ..ReportFilter::of(&project.stored)
    };
    let status = match asked.get("status") {
        None => Some(AlertStatus::Active),
        Some("all") => None,
        Some(word) => Some(status(word)?),
    };
    let is_archived = asked.get("archived").is_some();
    let filter = AlertFilter { reports, status, ..project.alerts(is_archived) };
    let mut alerts = database.results.alerts(&filter, ALERTS_MAX)?;
    alerts.retain(|it| {
        (branches.is_empty() || branches.contains(&it.branch))
            && (testbeds.is_empty() || testbeds.contains(&it.testbed))
            && (benchmarks.is_empty() || benchmarks.contains(&it.alert.benchmark))
            && (measures.is_empty() || measures.contains(&it.measure.slug))
    });
    Ok(alerts)
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

fn filter(context: &PageContext, path: &str, params: &Params, choice: &Choice) -> Markup {
    let chosen = params.get("status").unwrap_or("active");
    html! {
        form class="filter" method="get" action=(path) role="search" {
            (select("Status", "status", None, STATUSES.into_iter(), Some(chosen)))
            (context.select_branch(&choice.known, Some("all"), params.get("branch")))
            (context.select_testbed(&choice.known, Some("all"), params.get("testbed")))
            (context.select_measure(&choice.known, params.get("measure")))
            label class="wide" { span { "Benchmark" }
                input type="search" name="benchmark" value=[params.get("benchmark")]
                    placeholder="a name, or a glob: parse/*";
            }
            (archived_ones(params))
            button { "Show" }
        }
    }
}

fn empty(path: &str, params: &Params, choice: &Choice) -> Markup {
    html! {
        @if choice.missing.is_some() { p { (choice.nothing()) " " a href=(path) { "Show all" } } }
        @else if params.get("status").is_none_or(|status| status == "active") {
            p { "No alert is active. "
                a href=(params.with("status", "all").with("settled", "").at(path)) { "Show settled ones" } }
        } @else { p { "There are no such alerts." } }
    }
}

/// The causes, with a form for users who may dismiss their alerts. It leads back to the same page.
fn settling(context: &PageContext, path: &str, params: &Params, steps: &[&Step]) -> Markup {
    let is_active = |step: &&Step| step.count(AlertStatus::Active) > 0;
    if !context.may(Right::Write) || !steps.iter().any(is_active) {
        return by_cause(context, params, steps, false);
    }
    let action = params.with("settled", "").with("select", "").at(path);
    let select_all = params.with("settled", "").with("select", "all").at(path);
    html! {
        form method="post" action=(action) {
            (by_cause(context, params, steps, true))
            div class="settle" {
                label class="wide" { span { "Reason (optional)" }
                    input name="reason" maxlength=(REASON_MAX) autocomplete="off" placeholder="the new allocator is worth it";
                }
                button title="Dismisses the active alerts of the selected causes" { "Settle selected" }
                a class="button" href=(select_all) { "Select all on this page" }
            }
        }
    }
}

fn by_cause(context: &PageContext, params: &Params, steps: &[&Step], has_boxes: bool) -> Markup {
    let is_selected = params.get("select").is_some();
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Causes" {
            table class="causing stacked" {
                thead { tr {
                    @if has_boxes { td {} }
                    th { "Benchmark" } th { "Measure" } th class="number" { "Change" } th class="number" { "Level" }
                    th { "Since" } th class="number" { "Reports" } th { "Newest" } th { "Status" }
                } }
                tbody { @for step in steps { (cause(context, step, has_boxes, is_selected)) } }
            }
        }
    }
}

fn cause(context: &PageContext, step: &Step, has_boxes: bool, is_selected: bool) -> Markup {
    let (oldest, newest) = (step.oldest(), step.newest());
    let StoredAlert { alert, measure, .. } = newest;
    let (value, before) = (step.value(), step.baseline());
    let scale = measure.scale(value, before);
    let change = step.change();
    let active = step.count(AlertStatus::Active);
    let benchmark = context.names.shown(Kind::Benchmark, alert.benchmark.as_str());
    let name = format!("{benchmark}, {}", context.names.measure(measure));
    html! {
        tr {
            @if has_boxes {
                td { @if active > 0 {
                    input type="checkbox" name="cause" value=(step.name()) checked[is_selected]
                        aria-label={ "Select " (name) };
                } }
            }
            th scope="row" {
                a href={ (context.at("alerts/")) (alert.uuid) } { (context.benchmark(&alert.benchmark)) }
                div class="quiet" { (context.branch(&newest.branch)) " · " (context.testbed(&newest.testbed)) }
            }
            td { (context.measure(measure)) }
            td class="number" {
                (percent(change, change.map_or(Tone::Neutral, |it| Tone::of(it, measure))))
            }
            td class="number" {
                @if let Some(before) = before { span class="quiet" { (scale.with_unit(before)) " → " } }
                (scale.with_unit(value))
            }
            td { (report(context, oldest)) " " (commit(oldest.hash.as_deref(), context.project.url.as_deref())) }
            td class="number" { (grouped(step.reports())) }
            td { @if newest.report != oldest.report { (report(context, newest)) } }
            td {
                @if active > 0 && active < step.alerts().len() {
                    span class="tag bad" { (grouped(active)) " active" } " "
                    span class="quiet" { (grouped(step.alerts().len() - active)) " settled" }
                } @else { (status_tag(alert.status)) }
                @if let Some(reason) = &alert.reason { div class="reason" { (reason) } }
            }
        }
        @if step.alerts().len() > 1 { (alerts_of(context, step, has_boxes)) }
    }
}

fn report(context: &PageContext, alert: &StoredAlert) -> Markup {
    html! { a href={ (context.at("reports/")) (alert.report) } { (moment(alert.start_time)) } }
}

/// A row that unfolds to the alerts of a cause.
fn alerts_of(context: &PageContext, step: &Step, has_boxes: bool) -> Markup {
    let (all, active) = (step.alerts(), step.count(AlertStatus::Active));
    let forge = context.project.url.as_deref();
    html! {
        tr class="more" {
            td colspan=(if has_boxes { 9 } else { 8 }) {
                details {
                    summary { "Its " (plural(all.len(), "alert")) }
                    ul {
                        @for it in all.iter().rev().take(ALERTS_SHOWN) {
                            li {
                                a href={ (context.at("alerts/")) (it.alert.uuid) } { (moment(it.start_time)) } " "
                                (commit(it.hash.as_deref(), forge)) " "
                                (it.measure.scale(it.value, it.limit()).with_unit(it.value)) " "
                                @if it.alert.status != AlertStatus::Active { (status_tag(it.alert.status)) }
                            }
                        }
                    }
                    @if all.len() > ALERTS_SHOWN { p class="quiet" { "And " (grouped(all.len() - ALERTS_SHOWN)) " earlier." } }
                    @if has_boxes && active > 0 {
                        button name="only" value=(step.name()) { "Settle " (plural(active, "alert")) " of this cause" }
                    }
                }
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

/// Dismisses the active alerts of the selected causes, or of a single one.
pub(super) async fn dismiss(
    context: PageContext,
    params: Params,
    Form(fields): Form<Vec<(String, String)>>,
) -> Result<Redirect, ApiError> {
    let fields = Params::of(fields);
    let reason = fields.get("reason").map(|it| it.trim().chars().take(REASON_MAX).collect());
    let only = fields.get("only");
    let causes = only.into_iter().chain(fields.all("cause").filter(|_| only.is_none()));
    let causes = causes.map(ends).collect::<Result<Vec<_>, _>>()?;
    let project = context.project.clone();
    let write = context.write(move |database| {
        database.together(|database| {
            let mut alerts = HashSet::new();
            for ends in causes {
                alerts.extend(active_between(database, &project, ends)?);
            }
            for alert in &alerts {
                let reason: Option<String> = reason.clone();
                database.results.set_alert_status(*alert, AlertStatus::Dismissed, reason)?;
            }
            Ok::<_, StoreError>(alerts.len())
        })
    });
    let settled = write.await?.to_string();
    Ok(Redirect::to(&params.with("settled", settled).at(&context.at("alerts"))))
}

/// The alerts at the ends of a cause, see [`Step::name`].
fn ends(name: &str) -> Result<[Uuid; 2], ApiError> {
    let ends = name.split_once("..").map(|(first, last)| [first, last].map(Uuid::try_parse));
    match ends {
        Some([Ok(first), Ok(last)]) => Ok([first, last]),
        _ => Err(ApiError::bad_request(
            "a cause to settle is not named by two alerts; open the list of alerts anew, and select there",
        )),
    }
}

/// The active alerts of a series from one of its alerts to another. None if they are of another project or were deleted.
fn active_between(
    database: &Database,
    project: &Project,
    ends: [Uuid; 2],
) -> Result<Vec<Uuid>, StoreError> {
    let of_project = || ReportFilter::of(&project.stored);
    let one = |uuid| {
        let filter =
            AlertFilter { reports: of_project(), uuid: Some(uuid), ..AlertFilter::default() };
        Ok::<_, StoreError>(database.results.alerts(&filter, 1)?.pop())
    };
    let (Some(first), Some(last)) = (one(ends[0])?, one(ends[1])?) else { return Ok(Vec::new()) };
    let reports = ReportFilter {
        branch: Some(first.branch.clone()),
        testbed: Some(first.testbed.clone()),
        since: Some(first.start_time),
        until: Some(last.start_time),
        ..of_project()
    };
    let status = Some(AlertStatus::Active);
    let filter = AlertFilter { reports, status, ..AlertFilter::default() };
    let mut found = database.results.alerts(&filter, ALERTS_MAX)?;
    found.retain(|it| {
        (&it.alert.benchmark, &it.alert.measure, it.alert.limit)
            == (&first.alert.benchmark, &first.alert.measure, first.alert.limit)
    });
    Ok(found.iter().map(|it| it.alert.uuid).collect())
}

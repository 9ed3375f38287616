//! The list of reports.

use maud::{Markup, html};
use wingbeat_text::grouped;
use wingbeat_track::{
    model::{BranchName, TestbedName},
    store::{Known, ReportFilter, ReportSummary},
};

use super::{
    components::{Part, archived_ones, commit, moment},
    layout::{Page, Tab},
    links::Params,
    page_context::PageContext,
};
use crate::ApiError;

/// Reports per page.
const ROWS: usize = 50;

/// Maximum reports listed.
const REPORTS_MAX: usize = 10_000;

pub(super) async fn list(context: PageContext, params: Params) -> Result<Page, ApiError> {
    let asked = params.clone();
    let read = context.read(move |database, project| {
        let known = database.results.known(&project.stored)?;
        let branch = asked.get("branch").and_then(|name| BranchName::new(name).ok());
        let testbed = asked.get("testbed").and_then(|name| TestbedName::new(name).ok());
        let is_archived = asked.get("archived").is_some();
        let filter = ReportFilter { branch, testbed, ..project.reports(is_archived) };
        Ok((known, database.results.reports(&filter, REPORTS_MAX)?))
    });
    let (known, reports) = read.await?;
    let path = context.at("reports");
    let part = Part::of(&params, reports.len(), ROWS);
    let content = html! {
        h1 { "Reports" }
        @if params.get("deleted").is_some() { p class="note good" role="status" { "The report was deleted." } }
        (filter(&context, &path, &params, &known))
        @if reports.is_empty() { p { "There are no reports." } } @else {
            (table(&context, part.take(&reports)))
            (part.links(&params, &path))
        }
    };
    Ok(Page::of(&context, Tab::Reports, "Reports", &[], &content))
}

fn filter(context: &PageContext, path: &str, params: &Params, known: &Known) -> Markup {
    html! {
        form class="filter" method="get" action=(path) role="search" {
            (context.select_branch(known, Some("all"), params.get("branch")))
            (context.select_testbed(known, Some("all"), params.get("testbed")))
            (archived_ones(params))
            button { "Show" }
        }
    }
}

pub(super) fn table<'a>(
    context: &PageContext,
    reports: impl Iterator<Item = &'a ReportSummary>,
) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Reports" {
            table class="reports stacked" {
                thead { tr {
                    th { "Report" } th { "Branch" } th { "Commit" } th { "Testbed" }
                    th class="number" { "Metrics" } th { "Alerts" } td {}
                } }
                tbody { @for report in reports { (line(context, report)) } }
            }
        }
    }
}

fn line(context: &PageContext, report: &ReportSummary) -> Markup {
    let settled = report.alerts - report.active_alerts.min(report.alerts);
    let compare =
        Params::default().with("after", report.uuid.to_string()).at(&context.at("compare"));
    html! {
        tr {
            th scope="row" {
                a href={ (context.at("reports/")) (report.uuid) } { (moment(report.start_time)) }
            }
            td { (context.branch(&report.branch)) }
            td { (commit(report.hash.as_deref(), context.project.url.as_deref())) }
            td { (context.testbed(&report.testbed)) }
            td class="number" { (grouped(report.metrics)) }
            td {
                @if report.active_alerts > 0 {
                    span class="tag bad" { (grouped(report.active_alerts)) " active" } " "
                }
                @if settled > 0 { span class="quiet" { (grouped(settled)) " settled" } " " }
                @if report.failures > 0 {
                    span class="tag maybe" { (grouped(report.failures)) " failed" }
                }
                @if report.confirms.is_some() { span class="quiet" { "measured again" } }
            }
            td { a href=(compare) { "Compare" } }
        }
    }
}

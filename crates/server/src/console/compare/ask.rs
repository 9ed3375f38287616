//! Selection of two reports to compare.

use std::collections::HashSet;

use axum::response::{IntoResponse as _, Redirect, Response};
use maud::{Markup, html};
use wingbeat_track::{
    model::BranchName,
    store::{Known, ReportFilter, ReportSummary},
};

use crate::{
    ApiError,
    console::{
        choice::main_branch,
        components::moment,
        layout::{Page, Tab},
        links::{Params, encoded},
        page_context::PageContext,
    },
    database::Kind,
};

/// Maximum reports offered by the form.
const OFFERED: usize = 40;

/// The form that selects both reports; redirects to the comparison once both are given.
pub(in crate::console) async fn ask(
    context: PageContext,
    params: Params,
) -> Result<Response, ApiError> {
    if let (Some(before), Some(after)) = (params.get("before"), params.get("after")) {
        let path = context.at(format_args!("compare/{}..{}", encoded(before), encoded(after)));
        let kept = params.with("before", "").with("after", "");
        return Ok(Redirect::to(&kept.at(&path)).into_response());
    }
    let read = context.read(|database, project| {
        let known = database.results.known(&project.stored)?;
        let filter = ReportFilter::of(&project.stored);
        let main = main_branch(database, project, &known)?;
        Ok((known, database.results.reports(&filter, OFFERED)?, main))
    });
    let (known, reports, main) = read.await?;
    let content = html! {
        h1 { "Compare" }
        p { "Each side is a branch (its newest report), a commit by the first digits of its hash, or a report \
             by its UUID." }
        (form(&context, &params, (params.get("before"), params.get("after")), &known, &reports))
        (offers(&context, main.as_ref(), &reports))
    };
    Ok(Page::of(&context, Tab::Compare, "Compare", &[], &content).into_response())
}

pub(super) fn form(
    context: &PageContext,
    params: &Params,
    (before, after): (Option<&str>, Option<&str>),
    known: &Known,
    reports: &[ReportSummary],
) -> Markup {
    html! {
        form class="filter" method="get" action=(context.at("compare")) {
            label class="wide" { span { "Before" }
                input name="before" value=[before] list="sides" required placeholder="main";
            }
            label class="wide" { span { "After" }
                input name="after" value=[after] list="sides" required placeholder="a branch, a commit";
            }
            (context.select_testbed(known, Some("any"), params.get("testbed")))
            button { "Compare" }
            datalist id="sides" {
                @for (branch, shown) in context.choices(Kind::Branch, known.branches.iter().map(|it| it.as_str())) {
                    option value=(branch) { @if shown != branch { (shown) } }
                }
                @for report in reports.iter().filter(|report| report.hash.is_some()) {
                    option value=[report.hash.as_deref()] {
                        (context.names.shown(Kind::Branch, report.branch.as_str())) ", " (moment(report.start_time))
                    }
                }
            }
        }
    }
}

/// Branches of the newest reports, each against the main one.
fn offers(context: &PageContext, main: Option<&BranchName>, reports: &[ReportSummary]) -> Markup {
    let mut seen = HashSet::new();
    let others = reports.iter().filter(|it| main != Some(&it.branch) && seen.insert(&it.branch));
    let others: Vec<_> = others.take(10).collect();
    html! {
        @if let Some(main) = main && !others.is_empty() {
            h2 { "Newest branches" }
            ul class="changes" { @for report in others {
                @let sides = format!("compare/{}..{}", encoded(main.as_str()), encoded(report.branch.as_str()));
                li {
                    a href=(context.at(sides)) { (context.branch(main)) " with " (context.branch(&report.branch)) }
                    " " span class="quiet" { (moment(report.start_time)) }
                }
            } }
        }
    }
}

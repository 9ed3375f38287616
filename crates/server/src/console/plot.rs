//! The plot: charts of the series that a query selects, and their reports.

mod choose;
pub(super) mod view;

use axum::response::{IntoResponse as _, Redirect, Response};
use maud::{Markup, PreEscaped, html};
use time::{Date, Duration, OffsetDateTime, format_description::well_known::Iso8601};
use wingbeat_text::grouped;
use wingbeat_track::{
    plot::{Chart, Figures, Stamp, TOOLS},
    store::{Plot, PlotQuery},
};

use super::{
    assets::Asset,
    choice::{Choice, readable},
    components::{commit, moment, name},
    layout::{Page, Tab},
    links::Params,
    page_context::PageContext,
    pins,
};
use crate::{
    ApiError,
    database::{Database, Project},
};

/// Maximum newest reports of a plot.
const REPORTS_MAX: usize = 5000;

/// Maximum series of a plot: ones without alerts and changes are dropped first.
const LINES_MAX: usize = 2000;

/// Reports listed before expanding.
const LISTED: usize = 20;

/// Parameters of a plot.
const OWN: [&str; 11] = [
    "branch",
    "testbed",
    "benchmark",
    "measure",
    "from",
    "to",
    view::SCALE,
    view::COLUMNS,
    view::CHARTS,
    view::HIDDEN,
    view::ZOOM,
];

pub(super) async fn show(context: PageContext, params: Params) -> Result<Response, ApiError> {
    let (choice, chart) = match read(&context, &params).await? {
        Ok(found) => found,
        Err(readable) => return Ok(Redirect::to(&readable.at(&context.at("plot"))).into_response()),
    };
    let asked = params.get("plot").map(str::to_owned);
    let read = context.read(move |database, project| {
        let pinned = asked.map(|id| pins::find(database, project, &id)).transpose()?;
        Ok((pins::first(database, project)?, pinned.flatten()))
    });
    let (pinned, shown) = read.await?;
    let embed = params.only(&OWN).at(&format!("/perf/{}/embed", context.project.slug));
    let content = html! {
        h1 { @if let Some(pin) = &shown { (name(&pin.title())) } @else { "Plot" } }
        (pins::links(&context, &pinned))
        (choose::form(&context, &params, &choice))
        (view::legend(&context.at("plot"), &params, &chart))
        @if chart.panels.is_empty() && !chart.names.is_empty() {
            p { "All lines are hidden." }
        } @else if chart.panels.is_empty() {
            p { (choice.nothing()) " " a href=(context.at("plot")) { "Plot the main branch" } }
        } @else {
            (figures(&chart)?)
            (reports(&context, &chart))
            details class="share" {
                summary { "Embed" }
                p { a href=(embed) { "The charts alone" } ", to embed in a page:" }
                pre { code { (frame(&context, &embed)) } }
            }
            (pins::form(&context, &params, &choice))
        }
    };
    Ok(Page::of(&context, Tab::Plot, "Plot", script(&chart), &content).into_response())
}

/// The charts alone, for embedding.
pub(super) async fn embed(context: PageContext, params: Params) -> Result<Response, ApiError> {
    let (choice, chart) = match read(&context, &params).await? {
        Ok(found) => found,
        Err(readable) => {
            return Ok(Redirect::to(&readable.at(&context.at("embed"))).into_response());
        }
    };
    let address =
        format!("{}{}", context.app.settings.public_url, params.only(&OWN).at(&context.at("plot")));
    let content = html! {
        h1 { a href=(address) target="_blank" rel="noopener" { bdi { (context.project.name) } } }
        @if chart.panels.is_empty() { p { (choice.nothing()) } } @else { (figures(&chart)?) }
    };
    Ok(Page::embedded(&context.project.name, script(&chart), &content).into_response())
}

/// HTML to copy.
fn frame(context: &PageContext, embed: &str) -> String {
    let address = format!("{}{embed}", context.app.settings.public_url);
    let iframe =
        html! { iframe src=(address) width="100%" height="420" title=(context.project.name) {} };
    iframe.into_string()
}

/// Without a chart there is nothing to zoom.
fn script(chart: &Chart) -> &'static [Asset] {
    if chart.panels.is_empty() { &[] } else { &[Asset::Plot] }
}

/// The chart of a query, or the equivalent readable query.
async fn read(
    context: &PageContext,
    params: &Params,
) -> Result<Result<(Choice, Chart), Params>, ApiError> {
    let asked = params.clone();
    let (range, look) = (Range::of(params)?, view::look(params)?);
    let names = context.names.clone();
    let read = move |database: &Database, project: &Project| {
        if let Some(readable) = readable(database, project, &asked)? {
            return Ok(Err(readable));
        }
        let choice = Choice::of(database, project, &asked, &names)?;
        let mut plot = range.plot(database, project, &choice)?;
        names.put_into(&mut plot);
        let chart = Chart::with(project.name.clone(), &plot, &look).first(LINES_MAX);
        Ok(Ok((choice, chart)))
    };
    context.read(read).await
}

/// The days shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    from: Option<OffsetDateTime>,
    to: Option<OffsetDateTime>,
}

impl Range {
    fn of(params: &Params) -> Result<Self, ApiError> {
        let midnight = |field: &str| match params.get(field) {
            None => Ok(None),
            Some(text) => match Date::parse(text, &Iso8601::DATE) {
                Ok(date) => Ok(Some(date.midnight().assume_utc())),
                Err(_) => {
                    let text: String = text.chars().take(40).collect();
                    Err(ApiError::bad_request(format!(
                        "invalid date {text:?}: expected one like 2026-11-25"
                    )))
                }
            },
        };
        let end = |day: OffsetDateTime| day.checked_add(Duration::DAY - Duration::NANOSECOND);
        Ok(Self { from: midnight("from")?, to: midnight("to")?.and_then(end) })
    }

    fn plot(
        self,
        database: &Database,
        project: &Project,
        choice: &Choice,
    ) -> Result<Plot, ApiError> {
        if choice.missing.is_some() {
            return Ok(Plot::default());
        }
        let query = PlotQuery {
            branches: choice.branches.clone(),
            testbeds: choice.testbeds.clone(),
            benchmarks: choice.benchmarks.clone(),
            measures: choice.measures.clone(),
            since: self.from,
            until: self.to,
            reports_max: REPORTS_MAX,
            ..PlotQuery::of(project.stored.clone())
        };
        Ok(database.results.plot(&query)?)
    }
}

/// The charts of a page. The script finds their elements by name.
pub(super) fn figures(chart: &Chart) -> Result<Markup, ApiError> {
    let failed = |error: serde_json::Error| {
        ApiError::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    };
    let parts = Figures::of(chart).map_err(failed)?;
    Ok(html! {
        section class=(if chart.panels.len() == 1 { "charts single" } else { "charts" }) {
            p class="quiet" { (parts.summary) }
            @if chart.panels.len() > 1 { p class="quiet" { (PreEscaped(parts.order)) } }
            @if chart.left_out > 0 {
                p class="note" {
                    (grouped(chart.left_out)) " more series are left out, those without alerts and changes \
                     first; choose fewer benchmarks to see them."
                }
            }
            (PreEscaped(parts.key))
            (PreEscaped(TOOLS))
            @for (panel, figure) in chart.panels.iter().zip(&parts.figures) {
                // If a chart does not fit, its own title is out of view.
                p class="narrow" { (name(&panel.name())) " "
                    span class="quiet" { (panel.measure.direction.words()) } }
                figure { (PreEscaped(figure)) }
            }
            @for line in &parts.footer { p class="quiet" { (line) } }
            div id="tip" role="status" hidden {}
            script type="application/json" id="data" { (PreEscaped(&parts.data)) }
        }
    })
}

/// Reports of the charts, newest first. The script filters them by range.
fn reports(context: &PageContext, chart: &Chart) -> Markup {
    let forge = context.project.url.as_deref();
    let stamps: Vec<(usize, &Stamp)> = chart.stamps.iter().enumerate().rev().collect();
    let row = |(place, stamp): &(usize, &Stamp)| {
        html! {
            tr data-place=(chart.column(*place).number) {
                td { a href={ (context.at("reports/")) (stamp.report) } { (moment(stamp.time)) } }
                td { (commit(stamp.hash.as_deref(), forge)) }
                td { (name(stamp.branch.as_str())) }
                td { (name(stamp.testbed.as_str())) }
                td { (stamp.news.join("; ")) }
            }
        }
    };
    let head = html! { thead { tr {
        th { "Report" } th { "Commit" } th { "Branch" } th { "Testbed" } th { "Environment" }
    } } };
    let (first, rest) = stamps.split_at(stamps.len().min(LISTED));
    html! {
        section id="range" {
            h2 { "Reports " span id="range-text" class="quiet" { (grouped(stamps.len())) } }
            p id="range-links" class="actions" hidden { a id="range-compare" href=(context.at("compare")) {
                "Compare the first with the last" } }
            div class="scroll" tabindex="0" role="region" aria-label="Reports" {
                table id="range-first" { (head) tbody { @for stamp in first { (row(stamp)) } } }
            }
            @if !rest.is_empty() {
                details id="range-rest" {
                    summary { (grouped(rest.len())) " older ones" }
                    div class="scroll" tabindex="0" role="region" aria-label="Older reports" {
                        table { (head) tbody { @for stamp in rest { (row(stamp)) } } }
                    }
                }
            }
        }
    }
}

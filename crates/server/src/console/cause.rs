//! Why a metric changed, from the profiles before and after: for the page of an alert and for two reports.

use axum::response::Response;
use maud::{Markup, html};
use uuid::Uuid;
use wingbeat_text::{grouped, share, shell_word};
use wingbeat_track::{
    explain::{self, Medium, NoSources, Pair, Picture, Request, Unexplained, View, written},
    model::{BenchmarkName, ProfileInfo, ProfileKind, Slug, short_id},
    store::{AlertFilter, ReportFilter},
};

use super::{components::name, flame, links::Params, page_context::PageContext};
use crate::{
    ApiError,
    database::{Database, Kind, Visibility},
    names::Names,
};

/// Rows of the function table.
const FUNCTIONS_MAX: usize = 25;

/// Parameters of the view; only the script uses `frame`.
const LOOK: [&str; 3] = ["view", "search", "frame"];

/// What to explain.
#[derive(Debug, Clone)]
pub(super) enum Of {
    Alert(Uuid),
    Reports { before: Uuid, after: Uuid, benchmark: BenchmarkName, measure: Slug },
}

/// The explanation.
pub(super) struct Cause {
    pair: Pair,
    picture: Picture,
    view: View,
}

/// A benchmark, and both of its profiles.
type Explained = (BenchmarkName, Result<Pair, Unexplained>);

/// Both profiles with a picture, or why there is none; `None` if none is expected.
pub(super) async fn find(
    context: &PageContext,
    of: Of,
    params: &Params,
) -> Result<Option<Result<Cause, String>>, ApiError> {
    // The views of single profiles are separate pictures.
    let view = match params.get("view").and_then(View::named) {
        Some(View::Vanished) => View::Vanished,
        _ => View::Difference,
    };
    draw(context, of, view, Medium::Page, flame::search(params)).await
}

/// A standalone picture: `difference.svg`, `vanished.svg`, `before.svg` or `after.svg`.
pub(super) async fn file(
    context: &PageContext,
    of: Of,
    picture: &str,
    params: &Params,
) -> Result<Response, ApiError> {
    let view = picture.strip_suffix(".svg").and_then(View::named).ok_or_else(|| {
        ApiError::not_found(
            "there is no such picture; there are difference.svg, vanished.svg, before.svg and after.svg",
        )
    })?;
    let missing = |why: &str| ApiError::not_found(format!("no picture: {why}"));
    let cause = draw(context, of, view, Medium::File, flame::search(params)).await?;
    let cause = cause.ok_or_else(|| missing("nothing was profiled"))?;
    Ok(flame::file(cause.map_err(|why| missing(&why))?.picture.svg))
}

/// Reads, compares and draws, off the request threads.
async fn draw(
    context: &PageContext,
    of: Of,
    view: View,
    medium: Medium,
    search: Option<String>,
) -> Result<Option<Result<Cause, String>>, ApiError> {
    let names = context.names.clone();
    let read = context.read(move |database, project| {
        let of_project = ReportFilter::of(&project.stored);
        match explained(database, of_project, &of)? {
            None | Some((_, Err(Unexplained::NoProfile | Unexplained::Measure))) => Ok(None),
            Some((_, Err(Unexplained::Store(error)))) => Err(error.into()),
            Some((_, Err(reason))) => Ok(Some(Err(reason.to_string()))),
            Some((benchmark, Ok(pair))) => {
                let title = title(&names, &benchmark, &pair);
                let request = Request { view, medium, title: &title, search: search.as_deref() };
                let picture = pair.picture(request);
                Ok(Some(Ok(Cause { pair, picture, view })))
            }
        }
    });
    read.await
}

/// The benchmark and both of its profiles. `None` if the project has no such alert or report.
fn explained(
    database: &Database,
    of_project: ReportFilter,
    of: &Of,
) -> Result<Option<Explained>, ApiError> {
    let results = &database.results;
    match of {
        Of::Alert(uuid) => {
            let reports = of_project;
            let filter = AlertFilter { reports, uuid: Some(*uuid), ..AlertFilter::default() };
            let Some(stored) = results.alerts(&filter, 1)?.pop() else { return Ok(None) };
            let Some(report) = results.report(stored.report)? else { return Ok(None) };
            let pair = explain::of_alert(results, &report, &stored.alert, &NoSources);
            Ok(Some((stored.alert.benchmark, pair)))
        }
        Of::Reports { before, after, benchmark, measure } => {
            let (before, after) = (results.report(*before)?, results.report(*after)?);
            let Some((before, after)) = before.zip(after) else { return Ok(None) };
            let pair =
                explain::of_reports(results, [&before, &after], (benchmark, measure), &NoSources);
            Ok(Some((benchmark.clone(), pair)))
        }
    }
}

fn title(names: &Names, benchmark: &BenchmarkName, pair: &Pair) -> String {
    let benchmark = names.shown(Kind::Benchmark, benchmark.as_str());
    format!("{benchmark}: {}", names.measure(&pair.measure))
}

/// The section of the page at this path.
pub(super) fn section(
    context: &PageContext,
    of: &Of,
    (path, params): (&str, &Params),
    found: &Result<Cause, String>,
) -> Markup {
    let is_looked_at = params.iter().any(|(name, _)| LOOK.contains(&name));
    let is_open = is_looked_at || matches!(of, Of::Reports { .. });
    html! {
        h2 id="cause" { "Cause" }
        @match found {
            Err(reason) => p class="quiet" { "Not known: " (reason) "." },
            Ok(cause) => {
                p { (context.measure(&cause.pair.measure)) ": " (cause.pair.whole()) }
                ul class="causes" { @for sentence in cause.pair.sentences() { li { bdi { (sentence) } } } }
                details open[is_open] {
                    summary { "Flame graph of the difference" }
                    (picture(path, params, cause))
                }
                details open[matches!(of, Of::Reports { .. })] {
                    summary { "Functions by change" }
                    (functions(context, &cause.pair))
                    (commands(context, of))
                }
            }
        }
    }
}

/// Commands that reproduce the result locally.
fn commands(context: &PageContext, of: &Of) -> Markup {
    let what = match of {
        Of::Alert(alert) => format!("--alert {alert}"),
        Of::Reports { before, after, benchmark, measure } => {
            let benchmark = shell_word(benchmark.as_str());
            format!("--reports {before}..{after} --benchmark {benchmark} --measure {measure}")
        }
    };
    // Public projects need no key.
    let key = if context.project.visibility == Visibility::Public { "" } else { " --key KEY" };
    html! {
        p class="quiet" { "The same on your machine, as a table and as a picture:" }
        pre { "wingbeat import --host " (context.app.settings.public_url) " --project " (context.project.slug) (key) "\n"
            "wingbeat diff " bdi { (what) } "\n"
            "wingbeat diff " bdi { (what) } " -o cause.svg" }
    }
}

fn picture(path: &str, params: &Params, cause: &Cause) -> Markup {
    let pictures = if path.ends_with("/cause") { path.to_owned() } else { format!("{path}/cause") };
    let here = |query: Params| format!("{}#cause", query.at(path));
    let view = |view: View, words: &str| {
        // The default view is omitted from the address.
        let value = if view == View::Difference { "" } else { view.name() };
        let current = (cause.view == view).then_some("true");
        html! { a href=(here(params.with("view", value).with("frame", ""))) aria-current=[current] { (words) } }
    };
    let file = |view: View| {
        let address = params
            .with("view", "")
            .with("frame", "")
            .at(&format!("{pictures}/{}.svg", view.name()));
        html! { a href=(address) { (view.name()) } }
    };
    let views = html! {
        nav class="choice" aria-label="Widths" {
            (view(View::Difference, "As it is now")) (view(View::Vanished, "What vanished"))
        }
    };
    html! {
        (flame::section(&cause.picture, (path, params), "cause", &views))
        p class="quiet" { "The pictures alone: "
            (file(View::Before)) ", " (file(View::After)) ", " (file(View::Difference)) ", " (file(View::Vanished)) "." }
    }
}

fn samples(profile: &ProfileInfo) -> String {
    match profile.kind {
        ProfileKind::Instructions => "exact counts of instructions".to_owned(),
        kind => format!("{} {kind} samples", grouped(profile.samples)),
    }
}

fn functions(context: &PageContext, pair: &Pair) -> Markup {
    let Pair { measure, explanation, before, after, .. } = pair;
    let report = |profile: &ProfileInfo| {
        html! { a href={ (context.at("reports/")) (profile.report) } { (short_id(profile.report)) } }
    };
    html! {
        div class="scroll fit" tabindex="0" role="region" aria-label="Functions" {
            table class="functions stacked" {
                thead { tr { th { "Function" } th class="number" { "Before" } th class="number" { "After" }
                    th class="number" { "Difference" } th class="number" { "Of the change" } } }
                tbody { @for (function, change, part) in explanation.listed().take(FUNCTIONS_MAX) {
                    tr {
                        th scope="row" { (name(&wingbeat_text::shortened(function, 80))) }
                        td class="number" { (written(measure, change.before)) }
                        td class="number" { (written(measure, change.after)) }
                        td class="number" { (explain::signed(change, measure)) }
                        td class="number" { (wingbeat_text::or_dash(part, share::change)) }
                    }
                } }
            }
        }
        p class="quiet" {
            "Each of your functions with what it calls of others: the differences add up to the change. \
             ± is twice the standard deviation. The profile after (report " (report(after)) ") has " (samples(after))
            ", the one before (report " (report(before)) ") has " (samples(before)) ". A server has no sources: \
             here lines are compared by their numbers, and by the commands below where they went."
        }
    }
}

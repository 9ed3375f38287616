//! Lists of a project's branches, testbeds, benchmarks and measures, and a page for each of them.

use axum::extract::Path;
use maud::{Markup, html};
use wingbeat_text::plural;
use wingbeat_track::{
    model::{BranchName, Measure, TestbedName, threshold::matches_glob},
    store::{Known, ReportFilter, ReportSummary},
};

use super::{
    layout::{Page, Tab},
    links::{Params, encoded},
    parts::{Part, kept, name},
    reports,
    visit::Visit,
};
use crate::ApiError;

/// Names of a page.
const ROWS: usize = 200;

/// Newest reports on the page of a name.
const REPORTS: usize = 10;

/// A kind of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Benchmarks,
    Measures,
    Branches,
    Testbeds,
}

const KINDS: [Kind; 4] = [Kind::Benchmarks, Kind::Measures, Kind::Branches, Kind::Testbeds];

impl Kind {
    fn path(self) -> &'static str {
        match self {
            Self::Benchmarks => "benchmarks",
            Self::Measures => "measures",
            Self::Branches => "branches",
            Self::Testbeds => "testbeds",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Benchmarks => "Benchmarks",
            Self::Measures => "Measures",
            Self::Branches => "Branches",
            Self::Testbeds => "Testbeds",
        }
    }

    /// The parameter of other pages that chooses one.
    fn field(self) -> &'static str {
        match self {
            Self::Benchmarks => "benchmark",
            Self::Measures => "measure",
            Self::Branches => "branch",
            Self::Testbeds => "testbed",
        }
    }

    fn names(self, known: &Known) -> Vec<String> {
        match self {
            Self::Benchmarks => known.benchmarks.iter().map(ToString::to_string).collect(),
            Self::Measures => known.measures.iter().map(ToString::to_string).collect(),
            Self::Branches => known.branches.iter().map(ToString::to_string).collect(),
            Self::Testbeds => known.testbeds.iter().map(ToString::to_string).collect(),
        }
    }
}

pub(super) async fn benchmarks(visit: Visit, params: Params) -> Result<Page, ApiError> {
    list(visit, params, Kind::Benchmarks).await
}

pub(super) async fn measures(visit: Visit, params: Params) -> Result<Page, ApiError> {
    list(visit, params, Kind::Measures).await
}

pub(super) async fn branches(visit: Visit, params: Params) -> Result<Page, ApiError> {
    list(visit, params, Kind::Branches).await
}

pub(super) async fn testbeds(visit: Visit, params: Params) -> Result<Page, ApiError> {
    list(visit, params, Kind::Testbeds).await
}

pub(super) async fn benchmark(
    visit: Visit,
    path: Path<(String, String)>,
) -> Result<Page, ApiError> {
    one(visit, path, Kind::Benchmarks).await
}

pub(super) async fn measure(visit: Visit, path: Path<(String, String)>) -> Result<Page, ApiError> {
    one(visit, path, Kind::Measures).await
}

pub(super) async fn branch(visit: Visit, path: Path<(String, String)>) -> Result<Page, ApiError> {
    one(visit, path, Kind::Branches).await
}

pub(super) async fn testbed(visit: Visit, path: Path<(String, String)>) -> Result<Page, ApiError> {
    one(visit, path, Kind::Testbeds).await
}

async fn list(visit: Visit, params: Params, kind: Kind) -> Result<Page, ApiError> {
    let read = visit.read(|databases, project| Ok(databases.results.known(&project.stored)?));
    let mut names = kind.names(&read.await?);
    if let Some(asked) = params.get("name") {
        names.retain(|name| matches_glob(asked, name) || name.contains(asked));
    }
    let path = visit.at(kind.path());
    let part = Part::of(&params, names.len(), ROWS);
    let content = html! {
        h1 { (kind.title()) }
        (kinds(&visit, kind))
        form class="filter" method="get" action=(path) role="search" {
            label class="wide" { span { "Name" }
                input type="search" name="name" value=[params.get("name")] placeholder="a part, or a glob: parse/*";
            }
            (kept(&params, &["name", "page"]))
            button { "Show" }
        }
        @if names.is_empty() { p { "There is none." } } @else {
            ul class="names" { @for one in part.take(&names) {
                li { a href={ (path) "/" (encoded(one)) } { (name(&written(kind, one))) } }
            } }
            (part.links(&params, &path))
        }
    };
    Ok(Page::of(&visit, Tab::Names, kind.title(), &[], &content))
}

/// A name as people know it.
fn written(kind: Kind, text: &str) -> String {
    match kind {
        Kind::Measures => Measure::named(text).name.into_owned(),
        _ => text.to_owned(),
    }
}

fn kinds(visit: &Visit, current: Kind) -> Markup {
    html! {
        nav class="tabs minor" aria-label="Names" {
            @for kind in KINDS {
                a href=(visit.at(kind.path())) aria-current=[(kind == current).then_some("page")] {
                    (kind.title())
                }
            }
        }
    }
}

async fn one(
    visit: Visit,
    Path((_, id)): Path<(String, String)>,
    kind: Kind,
) -> Result<Page, ApiError> {
    let asked = id.clone();
    let read = visit.read(move |databases, project| {
        let known = databases.results.known(&project.stored)?;
        let names = kind.names(&known);
        let slug = wingbeat_track::model::Slug::of(&asked);
        let found = names.iter().find(|name| **name == asked);
        let found = found
            .or_else(|| names.iter().find(|name| wingbeat_track::model::Slug::of(name) == slug));
        let Some(found) = found.cloned() else {
            let asked: String = asked.chars().take(80).collect();
            let kind = kind.field();
            return Err(ApiError::not_found(format!("this project has no {kind} {asked:?}")));
        };
        let filter = ReportFilter {
            project: Some(project.stored.clone()),
            branch: BranchName::new(&found).ok().filter(|_| kind == Kind::Branches),
            testbed: TestbedName::new(&found).ok().filter(|_| kind == Kind::Testbeds),
            ..ReportFilter::default()
        };
        let reports = match kind {
            Kind::Branches | Kind::Testbeds => databases.results.reports(&filter, REPORTS)?,
            Kind::Benchmarks | Kind::Measures => Vec::new(),
        };
        Ok((found, reports))
    });
    let (found, reports) = read.await?;
    let content = html! {
        h1 { (name(&written(kind, &found))) }
        (actions(&visit, kind, &found))
        (newest(&visit, &reports))
    };
    Ok(Page::of(&visit, Tab::Names, &found, &[], &content))
}

fn actions(visit: &Visit, kind: Kind, found: &str) -> Markup {
    let of_it = Params::default().with(kind.field(), found);
    html! {
        p class="actions" {
            a class="button" href=(of_it.at(&visit.base)) { "Series" }
            a class="button" href=(of_it.at(&visit.at("plot"))) { "Plot" }
            @if matches!(kind, Kind::Branches | Kind::Testbeds) {
                a class="button" href=(of_it.at(&visit.at("reports"))) { "Reports" }
            }
            @if kind == Kind::Branches {
                a class="button" href=(Params::default().with("after", found).at(&visit.at("compare"))) {
                    "Compare"
                }
            }
        }
    }
}

fn newest(visit: &Visit, reports: &[ReportSummary]) -> Markup {
    html! {
        @if !reports.is_empty() {
            h2 { "Newest " (plural(reports.len(), "report")) }
            (reports::table(visit, reports.iter()))
        }
    }
}

//! Lists of a project's branches, testbeds, benchmarks and measures, and a page for each.

use std::collections::HashMap;

use axum::{Form, extract::Path, response::Redirect};
use maud::{Markup, html};
use serde::Deserialize;
use time::OffsetDateTime;
use wingbeat_text::plural;
use wingbeat_track::{
    model::{BranchName, Measure, TestbedName, threshold::matches_glob},
    store::{Known, ReportFilter, ReportSummary},
};

use super::{
    components::{Part, archived_ones, kept, name},
    layout::{Page, Tab},
    links::{Params, encoded},
    page_context::PageContext,
    reports,
};
use crate::{
    ApiError,
    access::Right,
    api::names::check_name,
    database::{Database, Entity, EntityChange, EntityFilter, Kind, Project},
};

/// Names per page.
const ROWS: usize = 200;

/// Maximum names read per kind.
const NAMES_MAX: u64 = 100_000;

/// Newest reports on the page of a name.
const REPORTS: usize = 10;

/// The kinds in tab order, with their path segments and titles.
const KINDS: [(Kind, &str, &str); 4] = [
    (Kind::Benchmark, "benchmarks", "Benchmarks"),
    (Kind::Measure, "measures", "Measures"),
    (Kind::Branch, "branches", "Branches"),
    (Kind::Testbed, "testbeds", "Testbeds"),
];

/// Path segment and title.
fn plural_of(kind: Kind) -> (&'static str, &'static str) {
    let found = KINDS.iter().find(|(known, ..)| *known == kind);
    found.map_or(("benchmarks", "Benchmarks"), |(_, path, title)| (*path, *title))
}

/// Names in the results of a kind's entities.
fn stored_names(kind: Kind, known: &Known) -> Vec<String> {
    fn texts<T: ToString>(all: &[T]) -> Vec<String> {
        all.iter().map(ToString::to_string).collect()
    }
    match kind {
        Kind::Benchmark => texts(&known.benchmarks),
        Kind::Measure => texts(&known.measures),
        Kind::Branch => texts(&known.branches),
        Kind::Testbed => texts(&known.testbeds),
    }
}

/// A name in the list.
struct Entry {
    stored: String,
    shown: String,
    is_archived: bool,
}

/// All current names of a kind.
fn entries(database: &Database, project: &Project, kind: Kind) -> Result<Vec<Entry>, ApiError> {
    let mut entities = HashMap::new();
    for is_archived in [false, true] {
        let filter = EntityFilter { is_archived, limit: NAMES_MAX, ..EntityFilter::default() };
        let found = database.entities(project.id, kind, &filter);
        let (found, _) = found?;
        entities
            .extend(found.into_iter().map(|entity| (entity.stored, (entity.name, is_archived))));
    }
    let known = database.results.known(&project.stored)?;
    let entry = |stored: String| {
        let (shown, is_archived) =
            entities.remove(&stored).unwrap_or_else(|| (written(kind, &stored), false));
        Entry { stored, shown, is_archived }
    };
    Ok(stored_names(kind, &known).into_iter().map(entry).collect())
}

pub(super) async fn list(
    context: PageContext,
    params: Params,
    kind: Kind,
) -> Result<Page, ApiError> {
    let read = context.read(move |database, project| entries(database, project, kind));
    let mut names = read.await?;
    let shows_archived = params.get("archived").is_some();
    names.retain(|name| name.is_archived == shows_archived);
    if let Some(asked) = params.get("name") {
        names.retain(|name| matches_glob(asked, &name.shown) || name.shown.contains(asked));
    }
    let (path, title) = plural_of(kind);
    let place = context.at(path);
    let part = Part::of(&params, names.len(), ROWS);
    let content = html! {
        h1 { (title) }
        (kinds(&context, kind))
        form class="filter" method="get" action=(place) role="search" {
            label class="wide" { span { "Name" }
                input type="search" name="name" value=[params.get("name")] placeholder="a part, or a glob: parse/*";
            }
            (archived_ones(&params))
            (kept(&params, &["name", "archived", "page"]))
            button { "Show" }
        }
        @if names.is_empty() { p { "There is none." } } @else {
            ul class="names" { @for one in part.take(&names) {
                li { a href={ (place) "/" (encoded(&one.stored)) } { (name(&one.shown)) } }
            } }
            (part.links(&params, &place))
        }
    };
    Ok(Page::of(&context, Tab::Names, title, &[], &content))
}

/// Display name of an entity that was not renamed.
fn written(kind: Kind, text: &str) -> String {
    match kind {
        Kind::Measure => Measure::named(text).name.into_owned(),
        _ => text.to_owned(),
    }
}

fn kinds(context: &PageContext, current: Kind) -> Markup {
    html! {
        nav class="tabs minor" aria-label="Names" {
            @for (kind, path, title) in KINDS {
                a href=(context.at(path)) aria-current=[(kind == current).then_some("page")] { (title) }
            }
        }
    }
}

/// The entity of a path: by name in the results, else by UUID, slug or name.
fn find(
    database: &Database,
    project: &Project,
    kind: Kind,
    asked: &str,
) -> Result<Option<Entity>, ApiError> {
    let database = &database;
    let stored = database.entity_stored(project.id, kind, asked)?;
    match stored {
        Some(found) => Ok(Some(found)),
        None => Ok(database.entity(project.id, kind, asked)?),
    }
}

pub(super) async fn one(
    context: PageContext,
    Path((_, id)): Path<(String, String)>,
    kind: Kind,
) -> Result<Page, ApiError> {
    let read = context.read(move |database, project| {
        let entity = find(database, project, kind, &id)?;
        let stored = entity.as_ref().map_or(id.as_str(), |entity| &entity.stored);
        let known = database.results.known(&project.stored)?;
        if entity.is_none() && !stored_names(kind, &known).iter().any(|name| name == stored) {
            return Err(absent(kind, &id));
        }
        let filter = ReportFilter {
            branch: BranchName::new(stored).ok().filter(|_| kind == Kind::Branch),
            testbed: TestbedName::new(stored).ok().filter(|_| kind == Kind::Testbed),
            ..ReportFilter::of(&project.stored)
        };
        let reports = match kind {
            Kind::Branch | Kind::Testbed => database.results.reports(&filter, REPORTS)?,
            Kind::Benchmark | Kind::Measure => Vec::new(),
        };
        Ok((stored.to_owned(), entity, reports))
    });
    let (stored, entity, reports) = read.await?;
    let shown =
        entity.as_ref().map_or_else(|| written(kind, &stored), |entity| entity.name.clone());
    let content = html! {
        h1 { (name(&shown)) }
        @if shown != stored { p class="quiet" { "Results call it " (name(&stored)) "." } }
        @let is_archived = entity.as_ref().is_some_and(|entity| entity.archived.is_some());
        (actions(&context, kind, &stored, is_archived))
        (newest(&context, &reports))
        @if let Some(entity) = entity.filter(|_| context.may(Right::Write)) { (form(&context, &entity)) }
    };
    Ok(Page::of(&context, Tab::Names, &shown, &[], &content))
}

fn absent(kind: Kind, asked: &str) -> ApiError {
    let (asked, kind): (String, _) = (asked.chars().take(80).collect(), kind.word());
    ApiError::not_found(format!("this project has no {kind} {asked:?}"))
}

fn actions(context: &PageContext, kind: Kind, stored: &str, is_archived: bool) -> Markup {
    let of_it = Params::default().with(kind.word(), stored);
    let lists = of_it.with("archived", if is_archived { "yes" } else { "" });
    html! {
        p class="actions" {
            a class="button" href=(of_it.at(&context.base)) { "Series" }
            a class="button" href=(of_it.at(&context.at("plot"))) { "Plot" }
            @if matches!(kind, Kind::Branch | Kind::Testbed) {
                a class="button" href=(lists.at(&context.at("reports"))) { "Reports" }
            }
            a class="button" href=(lists.at(&context.at("alerts"))) { "Alerts" }
            @if kind == Kind::Branch {
                a class="button" href=(Params::default().with("after", stored).at(&context.at("compare"))) {
                    "Compare"
                }
            }
        }
    }
}

fn newest(context: &PageContext, reports: &[ReportSummary]) -> Markup {
    html! {
        @if !reports.is_empty() {
            h2 { "Newest " (plural(reports.len(), "report")) }
            (reports::table(context, reports.iter()))
        }
    }
}

/// Form to rename or archive it.
fn form(context: &PageContext, entity: &Entity) -> Markup {
    let place =
        context.at(format_args!("{}/{}", plural_of(entity.kind).0, encoded(&entity.stored)));
    let is_archived = entity.archived.is_some();
    html! {
        h2 { "Change it" }
        form class="filter" method="post" action=(place) {
            label class="wide" { span { "Name" }
                input name="name" value=(entity.name) required maxlength="1024" autocomplete="off";
            }
            label class="check" {
                input type="checkbox" name="archived" value="yes" checked[is_archived];
                span { "archived: lists leave it out with its alerts, its results stay" }
            }
            button { "Save" }
        }
    }
}

/// Fields of the form.
#[derive(Debug, Deserialize)]
pub(super) struct Fields {
    name: String,
    /// Absent if unchecked.
    archived: Option<String>,
}

pub(super) async fn change(
    context: PageContext,
    Path((_, id)): Path<(String, String)>,
    Form(form): Form<Fields>,
    kind: Kind,
) -> Result<Redirect, ApiError> {
    let asked = id.clone();
    let read = context.read(move |database, project| find(database, project, kind, &asked));
    let entity = read.await?.ok_or_else(|| absent(kind, &id))?;
    let name = form.name.trim().to_owned();
    check_name(kind, &name)?;
    let change = EntityChange {
        name: Some(name).filter(|name| *name != entity.name),
        is_archived: Some(form.archived.is_some()),
        ..EntityChange::default()
    };
    let write = context.write(move |database| {
        database.change_entity(entity.id, &change, OffsetDateTime::now_utc())
    });
    match write.await? {
        Some(Ok(_)) => {
            let place =
                format_args!("{}/{}", plural_of(kind).0, encoded(&entity.stored)).to_string();
            Ok(Redirect::to(&context.at(place)))
        }
        Some(Err(_)) => Err(ApiError::conflict(format!(
            "another {} of this project has this name; choose another one",
            kind.word()
        ))),
        None => Err(absent(kind, &id)),
    }
}

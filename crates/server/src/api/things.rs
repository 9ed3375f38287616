//! `/v0/projects/{project}/branches`, `/testbeds`, `/benchmarks` and `/measures`: the same five routes each.

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::IntoParams;
use wingbeat_track::store::{ReportFilter, Use};

use super::{
    names::{check_hash, check_name, check_units, find, make, refusal, slug},
    request::{Asked, Body, Created, Listed, Paging},
    run::clone_thresholds,
    shapes::{
        JsonBenchmark, JsonBranch, JsonMeasure, JsonNewThing, JsonRunStartPoint, JsonTestbed,
        JsonUpdateThing,
    },
    view::{View, branch_name, testbed_name},
};
use crate::{
    ApiError, App,
    registry::{Kind, NewThing, Project, Start, Thing, ThingChange, ThingFilter},
    storage::Databases,
};

/// A kind of thing with its JSON format.
pub(super) trait Shape: Serialize + Send + Sized + 'static {
    const KIND: Kind;

    fn of(view: &View<'_>, thing: &Thing) -> Result<Self, ApiError>;
}

impl Shape for JsonBranch {
    const KIND: Kind = Kind::Branch;

    fn of(view: &View<'_>, thing: &Thing) -> Result<Self, ApiError> {
        view.branch(thing)
    }
}

impl Shape for JsonTestbed {
    const KIND: Kind = Kind::Testbed;

    fn of(view: &View<'_>, thing: &Thing) -> Result<Self, ApiError> {
        Ok(view.testbed(thing))
    }
}

impl Shape for JsonBenchmark {
    const KIND: Kind = Kind::Benchmark;

    fn of(view: &View<'_>, thing: &Thing) -> Result<Self, ApiError> {
        Ok(view.benchmark(thing))
    }
}

impl Shape for JsonMeasure {
    const KIND: Kind = Kind::Measure;

    fn of(view: &View<'_>, thing: &Thing) -> Result<Self, ApiError> {
        Ok(view.measure(thing))
    }
}

/// What a list of things can be sorted by.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum Sort {
    Name,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Query {
    #[allow(dead_code, reason = "there is one order; others are refused as they are read")]
    #[param(inline)]
    sort: Option<Sort>,
    /// Exactly this name.
    name: Option<String>,
    /// A part of the name or slug.
    search: Option<String>,
    /// Whether archived ones are listed, instead of the others.
    archived: Option<bool>,
}

pub(super) async fn list<S: Shape>(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Asked(paging): Asked<Paging>,
    Asked(query): Asked<Query>,
) -> Result<Listed<S>, ApiError> {
    let read = move |databases: &Databases| {
        let filter = ThingFilter {
            name: query.name.as_deref(),
            search: query.search.as_deref(),
            is_archived: query.archived.unwrap_or(false),
            descending: paging.is_descending(false),
            limit: paging.limit(),
            offset: paging.offset(),
        };
        let (things, count) = databases.registry.things(project.id, S::KIND, &filter)?;
        let view = View::of(databases, &project);
        let things = things.iter().map(|thing| S::of(&view, thing));
        Ok::<_, ApiError>(Listed(things.collect::<Result<_, _>>()?, count))
    };
    app.storage.read(read).await
}

pub(super) async fn view<S: Shape>(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<S>, ApiError> {
    let read = move |databases: &Databases| {
        let thing = find(&databases.registry, project.id, S::KIND, &id)?;
        S::of(&View::of(databases, &project), &thing)
    };
    app.storage.read(read).await.map(Json)
}

pub(super) async fn create<S: Shape>(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Body(new): Body<JsonNewThing>,
) -> Result<Created<S>, ApiError> {
    check_name(S::KIND, &new.name)?;
    check_units(new.units.as_deref())?;
    let own_slug = slug(new.slug.as_deref())?;
    if S::KIND == Kind::Measure && new.units.is_none() {
        return Err(ApiError::bad_request("a measure needs `units`, such as \"seconds (s)\""));
    }
    let create = move |databases: &mut Databases| {
        let now = OffsetDateTime::now_utc();
        let thing = databases.registry.together(|registry| {
            let units = new.units.as_deref().filter(|_| S::KIND == Kind::Measure);
            let made = NewThing { name: &new.name, slug: own_slug, units };
            let thing = make(registry, project.id, S::KIND, &made, now)?;
            if let Some(start) = new.start_point.filter(|_| S::KIND == Kind::Branch) {
                begin(registry, &project, &thing, &start, now)?;
            }
            Ok::<_, ApiError>(thing)
        })?;
        S::of(&View::of(databases, &project), &thing)
    };
    app.storage.write(create).await.map(Created)
}

pub(super) async fn update<S: Shape>(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Path((_, id)): Path<(String, String)>,
    Body(change): Body<JsonUpdateThing>,
) -> Result<Json<S>, ApiError> {
    if let Some(name) = &change.name {
        check_name(S::KIND, name)?;
    }
    check_units(change.units.as_deref())?;
    let wanted = ThingChange {
        slug: slug(change.slug.as_deref())?,
        name: change.name,
        units: change.units.filter(|_| S::KIND == Kind::Measure),
        is_archived: change.archived,
    };
    let start = change.start_point.filter(|_| S::KIND == Kind::Branch);
    let update = move |databases: &mut Databases| {
        let now = OffsetDateTime::now_utc();
        let thing = databases.registry.together(|registry| {
            let thing = find(registry, project.id, S::KIND, &id)?;
            if let Some(start) = &start {
                begin(registry, &project, &thing, start, now)?;
            }
            let changed = registry.change_thing(thing.id, &wanted, now)?.unwrap_or(Ok(thing));
            let name = wanted.name.as_deref().unwrap_or(&id);
            changed.map_err(|conflict| refusal(S::KIND, name, conflict))
        })?;
        S::of(&View::of(databases, &project), &thing)
    };
    app.storage.write(update).await.map(Json)
}

pub(super) async fn delete<S: Shape>(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Path((_, id)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let delete = move |databases: &mut Databases| {
        let thing = find(&databases.registry, project.id, S::KIND, &id)?;
        if is_used(databases, &project, &thing)? {
            let word = S::KIND.word();
            return Err(ApiError::conflict(format!(
                "reports use the {word} {:?}: archive it instead, or delete those reports first",
                thing.name
            )));
        }
        let deleted = databases.registry.delete_thing(thing.id)?;
        deleted.map_err(|conflict| refusal(S::KIND, &thing.name, conflict))?;
        Ok(StatusCode::NO_CONTENT)
    };
    app.storage.write(delete).await
}

fn is_used(databases: &Databases, project: &Project, thing: &Thing) -> Result<bool, ApiError> {
    let results = &databases.results;
    let of_project =
        || ReportFilter { project: Some(project.stored.clone()), ..ReportFilter::default() };
    Ok(match thing.kind {
        Kind::Branch => {
            let filter = ReportFilter { branch: Some(branch_name(thing)?), ..of_project() };
            results.report_count(&filter)? > 0
        }
        Kind::Testbed => {
            let filter = ReportFilter { testbed: Some(testbed_name(thing)?), ..of_project() };
            results.report_count(&filter)? > 0
        }
        Kind::Benchmark => results.is_used(&project.stored, Use::Benchmark(&thing.stored))?,
        Kind::Measure => results.is_used(&project.stored, Use::Measure(&thing.stored))?,
    })
}

/// Sets the start point of a branch's next report.
fn begin(
    registry: &crate::registry::Registry,
    project: &Project,
    branch: &Thing,
    start: &JsonRunStartPoint,
    now: OffsetDateTime,
) -> Result<(), ApiError> {
    check_hash(start.hash.as_deref())?;
    let from = match &start.branch {
        Some(name) => Some(find(registry, project.id, Kind::Branch, name)?),
        None => None,
    };
    if let (Some(from), Some(true)) = (&from, start.clone_thresholds) {
        clone_thresholds(registry, project, from, branch, now)?;
    }
    let start = Start {
        branch: from.map(|from| from.stored),
        hash: start.hash.clone(),
        max_versions: start.max_versions,
        is_reset: start.reset.unwrap_or(false),
    };
    Ok(registry.set_start(branch.id, &start)?)
}

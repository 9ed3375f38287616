//! `/v0/projects/{project}/branches`, `/testbeds`, `/benchmarks` and `/measures`: the same five routes each.

use axum::{Json, extract::Path, http::StatusCode};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::IntoParams;
use wingbeat_track::store::{ReportFilter, Use};

use super::{
    names::{check_hash, check_name, check_units, find, make, refusal, slug},
    request::{Asked, Body, Created, InProject, Listed, Paging},
    run::clone_thresholds,
    shapes::{
        JsonBenchmark, JsonBranch, JsonMeasure, JsonNewEntity, JsonRunStartPoint, JsonTestbed,
        JsonUpdateEntity,
    },
    view::{View, branch_name, testbed_name},
};
use crate::{
    ApiError,
    database::{Database, Entity, EntityChange, EntityFilter, Kind, NewEntity, Project, Start},
};

/// A kind of entity with its JSON format.
pub(super) trait Shape: Serialize + Send + Sized + 'static {
    const KIND: Kind;

    fn of(view: &View<'_>, entity: &Entity) -> Result<Self, ApiError>;
}

impl Shape for JsonBranch {
    const KIND: Kind = Kind::Branch;

    fn of(view: &View<'_>, entity: &Entity) -> Result<Self, ApiError> {
        view.branch(entity)
    }
}

impl Shape for JsonTestbed {
    const KIND: Kind = Kind::Testbed;

    fn of(view: &View<'_>, entity: &Entity) -> Result<Self, ApiError> {
        Ok(view.testbed(entity))
    }
}

impl Shape for JsonBenchmark {
    const KIND: Kind = Kind::Benchmark;

    fn of(view: &View<'_>, entity: &Entity) -> Result<Self, ApiError> {
        Ok(view.entity(entity))
    }
}

impl Shape for JsonMeasure {
    const KIND: Kind = Kind::Measure;

    fn of(view: &View<'_>, entity: &Entity) -> Result<Self, ApiError> {
        Ok(view.measure(entity))
    }
}

/// Sort keys of a list of entities.
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
    /// Exact name.
    name: Option<String>,
    /// Part of the name or slug.
    search: Option<String>,
    /// Lists archived ones instead of the others.
    archived: Option<bool>,
}

pub(super) async fn list<S: Shape>(
    asked: InProject,
    Asked(paging): Asked<Paging>,
    Asked(query): Asked<Query>,
) -> Result<Listed<S>, ApiError> {
    let read = move |view: &View<'_>| {
        let filter = EntityFilter {
            name: query.name.as_deref(),
            search: query.search.as_deref(),
            is_archived: query.archived.unwrap_or(false),
            descending: paging.is_descending(false),
            limit: paging.limit(),
            offset: paging.offset(),
        };
        let (entities, count) = view.database.entities(view.project.id, S::KIND, &filter)?;
        let entities = entities.iter().map(|entity| S::of(view, entity));
        Ok(Listed(entities.collect::<Result<_, _>>()?, count))
    };
    asked.read(read).await
}

pub(super) async fn view<S: Shape>(
    asked: InProject,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<S>, ApiError> {
    let read = move |view: &View<'_>| {
        let entity = find(view.database, view.project.id, S::KIND, &id)?;
        S::of(view, &entity)
    };
    asked.read(read).await.map(Json)
}

pub(super) async fn create<S: Shape>(
    asked: InProject,
    Body(new): Body<JsonNewEntity>,
) -> Result<Created<S>, ApiError> {
    check_name(S::KIND, &new.name)?;
    check_units(new.units.as_deref())?;
    let own_slug = slug(new.slug.as_deref())?;
    if S::KIND == Kind::Measure && new.units.is_none() {
        return Err(ApiError::bad_request("a measure needs `units`, such as \"seconds (s)\""));
    }
    let create = move |database: &mut Database, project: &Project| {
        let now = OffsetDateTime::now_utc();
        let entity = database.together(|database| {
            let units = new.units.as_deref().filter(|_| S::KIND == Kind::Measure);
            let made = NewEntity { name: &new.name, slug: own_slug, units };
            let entity = make(database, project.id, S::KIND, &made, now)?;
            if let Some(start) = new.start_point.filter(|_| S::KIND == Kind::Branch) {
                begin(database, project, &entity, &start, now)?;
            }
            Ok::<_, ApiError>(entity)
        })?;
        S::of(&View::of(database, project), &entity)
    };
    asked.write(create).await.map(Created)
}

pub(super) async fn update<S: Shape>(
    asked: InProject,
    Path((_, id)): Path<(String, String)>,
    Body(change): Body<JsonUpdateEntity>,
) -> Result<Json<S>, ApiError> {
    if let Some(name) = &change.name {
        check_name(S::KIND, name)?;
    }
    check_units(change.units.as_deref())?;
    let wanted = EntityChange {
        slug: slug(change.slug.as_deref())?,
        name: change.name,
        units: change.units.filter(|_| S::KIND == Kind::Measure),
        is_archived: change.archived,
    };
    let start = change.start_point.filter(|_| S::KIND == Kind::Branch);
    let update = move |database: &mut Database, project: &Project| {
        let now = OffsetDateTime::now_utc();
        let entity = database.together(|database| {
            let entity = find(database, project.id, S::KIND, &id)?;
            if let Some(start) = &start {
                begin(database, project, &entity, start, now)?;
            }
            let changed = database.change_entity(entity.id, &wanted, now)?.unwrap_or(Ok(entity));
            let name = wanted.name.as_deref().unwrap_or(&id);
            changed.map_err(|conflict| refusal(S::KIND, name, conflict))
        })?;
        S::of(&View::of(database, project), &entity)
    };
    asked.write(update).await.map(Json)
}

pub(super) async fn delete<S: Shape>(
    asked: InProject,
    Path((_, id)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let delete = move |database: &mut Database, project: &Project| {
        let entity = find(database, project.id, S::KIND, &id)?;
        if is_used(database, project, &entity)? {
            let word = S::KIND.word();
            return Err(ApiError::conflict(format!(
                "reports use the {word} {:?}: archive it instead, or delete those reports first",
                entity.name
            )));
        }
        let deleted = database.delete_entity(entity.id)?;
        deleted.map_err(|conflict| refusal(S::KIND, &entity.name, conflict))?;
        Ok(StatusCode::NO_CONTENT)
    };
    asked.write(delete).await
}

fn is_used(database: &Database, project: &Project, entity: &Entity) -> Result<bool, ApiError> {
    let results = &database.results;
    let of_project = || ReportFilter::of(&project.stored);
    Ok(match entity.kind {
        Kind::Branch => {
            let filter = ReportFilter { branch: Some(branch_name(entity)?), ..of_project() };
            results.report_count(&filter)? > 0
        }
        Kind::Testbed => {
            let filter = ReportFilter { testbed: Some(testbed_name(entity)?), ..of_project() };
            results.report_count(&filter)? > 0
        }
        Kind::Benchmark => results.is_used(&project.stored, Use::Benchmark(&entity.stored))?,
        Kind::Measure => results.is_used(&project.stored, Use::Measure(&entity.stored))?,
    })
}

/// Sets the start point of a branch's next report.
fn begin(
    database: &Database,
    project: &Project,
    branch: &Entity,
    start: &JsonRunStartPoint,
    now: OffsetDateTime,
) -> Result<(), ApiError> {
    check_hash(start.hash.as_deref())?;
    let from = match &start.branch {
        Some(name) => Some(find(database, project.id, Kind::Branch, name)?),
        None => None,
    };
    if let (Some(from), Some(true)) = (&from, start.clone_thresholds) {
        clone_thresholds(database, project, from, branch, now)?;
    }
    let start = Start {
        branch: from.map(|from| from.stored),
        hash: start.hash.clone(),
        max_versions: start.max_versions,
        is_reset: start.reset.unwrap_or(false),
    };
    Ok(database.set_start(branch.id, &start)?)
}

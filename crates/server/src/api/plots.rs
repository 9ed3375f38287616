//! `/v0/projects/{project}/plots`

use axum::{Json, extract::Path, http::StatusCode};
use serde::Deserialize;
use time::OffsetDateTime;
use utoipa::IntoParams;

use super::{
    names::find,
    request::{Asked, Body, Created, InProject, Listed, Paging, uuid},
    shapes::{JsonNewPlot, JsonPlot, JsonUpdatePlot},
    view::View,
};
use crate::{
    ApiError,
    database::{Database, Kind, PinnedPlot, PlotFilter, Project},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum Sort {
    Index,
    Title,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Query {
    #[param(inline)]
    sort: Option<Sort>,
    /// Exact title.
    title: Option<String>,
    /// Part of the title.
    search: Option<String>,
}

pub(super) async fn list(
    asked: InProject,
    Asked(paging): Asked<Paging>,
    Asked(query): Asked<Query>,
) -> Result<Listed<JsonPlot>, ApiError> {
    asked
        .read(move |view| {
            let database = &view.database;
            let filter = PlotFilter {
                title: query.title.as_deref(),
                search: query.search.as_deref(),
                by_title: query.sort == Some(Sort::Title),
                descending: paging.is_descending(false),
                limit: paging.limit(),
                offset: paging.offset(),
            };
            let (plots, count) = database.plots(view.project.id, filter)?;
            let plots = plots.iter().map(|plot| shape(database, view.project, plot));
            Ok(Listed(plots.collect::<Result<_, _>>()?, count))
        })
        .await
}

pub(super) async fn view(
    asked: InProject,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<JsonPlot>, ApiError> {
    let read = move |view: &View<'_>| {
        let database = &view.database;
        shape(database, view.project, &one(database, view.project, &id)?)
    };
    asked.read(read).await.map(Json)
}

pub(super) async fn create(
    asked: InProject,
    Body(new): Body<JsonNewPlot>,
) -> Result<Created<JsonPlot>, ApiError> {
    check_title(new.settings.title.as_deref())?;
    let create = move |database: &mut Database, project: &Project| {
        let database = &database;
        let mut entities = Vec::new();
        for (kind, uuids) in [
            (Kind::Branch, &new.branches),
            (Kind::Testbed, &new.testbeds),
            (Kind::Benchmark, &new.benchmarks),
            (Kind::Measure, &new.measures),
        ] {
            for uuid in uuids {
                entities.push(find(database, project.id, kind, &uuid.to_string())?.id);
            }
        }
        let now = OffsetDateTime::now_utc();
        let made = database.create_plot(project.id, &new.settings, &entities, new.index, now)?;
        let plot = one(database, project, &made.to_string())?;
        shape(database, project, &plot)
    };
    asked.write(create).await.map(Created)
}

pub(super) async fn update(
    asked: InProject,
    Path((_, id)): Path<(String, String)>,
    Body(change): Body<JsonUpdatePlot>,
) -> Result<Json<JsonPlot>, ApiError> {
    check_title(change.title.as_ref().and_then(Option::as_deref))?;
    let update = move |database: &mut Database, project: &Project| {
        let database = &database;
        let mut plot = one(database, project, &id)?;
        if let Some(title) = change.title {
            plot.settings.title = title;
        }
        let settings = &mut plot.settings;
        settings.x_axis = change.x_axis.unwrap_or(settings.x_axis);
        settings.y_axis = change.y_axis.unwrap_or(settings.y_axis);
        settings.window_s = change.window.unwrap_or(settings.window_s);
        database.change_plot(project.id, &plot, change.index, OffsetDateTime::now_utc())?;
        let plot = one(database, project, &id)?;
        shape(database, project, &plot)
    };
    asked.write(update).await.map(Json)
}

pub(super) async fn delete(
    asked: InProject,
    Path((_, id)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let delete = move |database: &mut Database, project: &Project| {
        let plot = one(database, project, &id)?;
        database.delete_plot(plot.id)?;
        Ok(StatusCode::NO_CONTENT)
    };
    asked.write(delete).await
}

fn one(database: &Database, project: &Project, id: &str) -> Result<PinnedPlot, ApiError> {
    let found = database.plot(project.id, uuid(id, "plot")?)?;
    found.ok_or_else(|| ApiError::not_found(format!("this project has no plot {id}")))
}

fn check_title(title: Option<&str>) -> Result<(), ApiError> {
    match title.map(|title| title.trim().len()) {
        Some(0) => Err(ApiError::bad_request("the title is empty: leave it out instead")),
        Some(65..) => Err(ApiError::bad_request("the title has more than 64 bytes")),
        _ => Ok(()),
    }
}

fn shape(database: &Database, project: &Project, plot: &PinnedPlot) -> Result<JsonPlot, ApiError> {
    let mut entities = Vec::new();
    for row in &plot.entities {
        entities.extend(database.entity_of_row(*row)?);
    }
    let of = |kind| {
        entities.iter().filter(|entity| entity.kind == kind).map(|entity| entity.uuid).collect()
    };
    Ok(JsonPlot {
        uuid: plot.uuid,
        project: project.uuid,
        settings: plot.settings.clone(),
        branches: of(Kind::Branch),
        testbeds: of(Kind::Testbed),
        benchmarks: of(Kind::Benchmark),
        measures: of(Kind::Measure),
        created: plot.created,
        modified: plot.modified,
    })
}

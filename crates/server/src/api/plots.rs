//! `/v0/projects/{project}/plots`

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::StatusCode,
};
use serde::Deserialize;
use time::OffsetDateTime;
use utoipa::IntoParams;

use super::{
    names::find,
    request::{Asked, Body, Created, Listed, Paging, uuid},
    shapes::{JsonNewPlot, JsonPlot, JsonUpdatePlot, JsonXAxis, JsonYAxis},
};
use crate::{
    ApiError, App,
    registry::{Kind, PinnedPlot, PlotFilter, PlotSettings, Project, Registry},
    storage::Databases,
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
    /// Exactly this title.
    title: Option<String>,
    /// A part of the title.
    search: Option<String>,
}

pub(super) async fn list(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Asked(paging): Asked<Paging>,
    Asked(query): Asked<Query>,
) -> Result<Listed<JsonPlot>, ApiError> {
    let read = move |databases: &Databases| {
        let filter = PlotFilter {
            title: query.title.as_deref(),
            search: query.search.as_deref(),
            by_title: query.sort == Some(Sort::Title),
            descending: paging.is_descending(false),
            limit: paging.limit(),
            offset: paging.offset(),
        };
        let (plots, count) = databases.registry.plots(project.id, filter)?;
        let plots = plots.iter().map(|plot| shape(&databases.registry, &project, plot));
        Ok::<_, ApiError>(Listed(plots.collect::<Result<_, _>>()?, count))
    };
    app.storage.read(read).await
}

pub(super) async fn view(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<JsonPlot>, ApiError> {
    let read = move |databases: &Databases| {
        let plot = one(&databases.registry, &project, &id)?;
        shape(&databases.registry, &project, &plot)
    };
    app.storage.read(read).await.map(Json)
}

pub(super) async fn create(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Body(new): Body<JsonNewPlot>,
) -> Result<Created<JsonPlot>, ApiError> {
    check_title(new.title.as_deref())?;
    let create = move |databases: &mut Databases| {
        let registry = &databases.registry;
        let mut things = Vec::new();
        for (kind, uuids) in [
            (Kind::Branch, &new.branches),
            (Kind::Testbed, &new.testbeds),
            (Kind::Benchmark, &new.benchmarks),
            (Kind::Measure, &new.measures),
        ] {
            for uuid in uuids {
                things.push(find(registry, project.id, kind, &uuid.to_string())?.id);
            }
        }
        let settings = PlotSettings {
            title: new.title,
            lower_value: new.lower_value,
            upper_value: new.upper_value,
            lower_boundary: new.lower_boundary,
            upper_boundary: new.upper_boundary,
            x_axis: word(new.x_axis)?,
            y_axis: word(new.y_axis)?,
            window_s: new.window,
        };
        let now = OffsetDateTime::now_utc();
        let made = registry.create_plot(project.id, &settings, &things, new.index, now)?;
        let plot = one(registry, &project, &made.to_string())?;
        shape(registry, &project, &plot)
    };
    app.storage.write(create).await.map(Created)
}

pub(super) async fn update(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Path((_, id)): Path<(String, String)>,
    Body(change): Body<JsonUpdatePlot>,
) -> Result<Json<JsonPlot>, ApiError> {
    check_title(change.title.as_ref().and_then(Option::as_deref))?;
    let update = move |databases: &mut Databases| {
        let registry = &databases.registry;
        let mut plot = one(registry, &project, &id)?;
        if let Some(title) = change.title {
            plot.settings.title = title;
        }
        plot.settings.window_s = change.window.unwrap_or(plot.settings.window_s);
        registry.change_plot(project.id, &plot, change.index, OffsetDateTime::now_utc())?;
        let plot = one(registry, &project, &id)?;
        shape(registry, &project, &plot)
    };
    app.storage.write(update).await.map(Json)
}

pub(super) async fn delete(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Path((_, id)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let delete = move |databases: &mut Databases| {
        let plot = one(&databases.registry, &project, &id)?;
        databases.registry.delete_plot(plot.id)?;
        Ok::<_, ApiError>(StatusCode::NO_CONTENT)
    };
    app.storage.write(delete).await
}

fn one(registry: &Registry, project: &Project, id: &str) -> Result<PinnedPlot, ApiError> {
    let found = registry.plot(project.id, uuid(id, "plot")?)?;
    found.ok_or_else(|| ApiError::not_found(format!("this project has no plot {id}")))
}

fn check_title(title: Option<&str>) -> Result<(), ApiError> {
    match title.map(|title| title.trim().len()) {
        Some(0) => Err(ApiError::bad_request("the title is empty: leave it out instead")),
        Some(65..) => Err(ApiError::bad_request("the title has more than 64 bytes")),
        _ => Ok(()),
    }
}

/// Database encoding of the axis: JSON without the quotes.
fn word(axis: impl serde::Serialize) -> Result<String, ApiError> {
    let json = serde_json::to_value(axis).ok();
    let text = json.as_ref().and_then(serde_json::Value::as_str).map(str::to_owned);
    text.ok_or_else(|| ApiError::bad_request("the axis of the plot has no name"))
}

fn shape(registry: &Registry, project: &Project, plot: &PinnedPlot) -> Result<JsonPlot, ApiError> {
    let mut things = Vec::new();
    for row in &plot.things {
        things.extend(registry.thing_of_row(*row)?);
    }
    let of =
        |kind| things.iter().filter(|thing| thing.kind == kind).map(|thing| thing.uuid).collect();
    let PlotSettings { title, lower_value, upper_value, lower_boundary, upper_boundary, .. } =
        plot.settings.clone();
    Ok(JsonPlot {
        uuid: plot.uuid,
        project: project.uuid,
        title,
        lower_value,
        upper_value,
        lower_boundary,
        upper_boundary,
        x_axis: match plot.settings.x_axis.as_str() {
            "version" => JsonXAxis::Version,
            _ => JsonXAxis::DateTime,
        },
        y_axis: match plot.settings.y_axis.as_str() {
            "linear" => JsonYAxis::Linear,
            "log" => JsonYAxis::Log,
            _ => JsonYAxis::Auto,
        },
        window: plot.settings.window_s,
        branches: of(Kind::Branch),
        testbeds: of(Kind::Testbed),
        benchmarks: of(Kind::Benchmark),
        measures: of(Kind::Measure),
        created: plot.created,
        modified: plot.modified,
    })
}

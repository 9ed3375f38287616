//! `/v0/projects/{project}/perf` and `/metrics`: series, their picture, and single metrics.

use std::{sync::Arc, thread};

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::header,
    response::IntoResponse,
};
use serde::Deserialize;
use tokio::task::JoinSet;
use utoipa::IntoParams;
use uuid::Uuid;
use wingbeat_track::{
    plot::{self, Chart},
    store::Plot,
};

use super::{
    reports::time_of_ms,
    request::{Asked, uuid},
    shapes::JsonOneMetric,
    view::{View, Wanted},
};
use crate::{
    ApiError, App,
    names::Names,
    registry::{Kind, Project, Thing},
    storage::Databases,
    stream,
};

/// Connections that read one answer at most.
const READERS_MAX: usize = 4;

/// Benchmarks for which another connection pays.
const BENCHMARKS_MIN: usize = 16;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Query {
    /// UUIDs with commas between them.
    branches: String,
    /// UUIDs with commas between them, or nothing between two. All heads of a branch are one series here.
    #[serde(default)]
    #[allow(dead_code, reason = "the client sends it; a branch is one series whatever its heads")]
    heads: Option<String>,
    testbeds: String,
    /// As `heads`. There are no specs here.
    #[serde(default)]
    #[allow(dead_code, reason = "the client sends it; there are no specs here")]
    specs: Option<String>,
    benchmarks: String,
    measures: String,
    /// Milliseconds since 1970.
    #[serde(default)]
    #[param(minimum = -62167219200000_i64, maximum = 253402300799999_i64)]
    start_time: Option<i64>,
    /// Milliseconds since 1970.
    #[serde(default)]
    #[param(minimum = -62167219200000_i64, maximum = 253402300799999_i64)]
    end_time: Option<i64>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ImageQuery {
    /// What stands above the picture.
    title: Option<String>,
}

impl Query {
    fn wanted(&self, databases: &Databases, project: &Project) -> Result<Wanted, ApiError> {
        let things = |kind, list: &str| things(databases, project, kind, list);
        Ok(Wanted {
            branches: things(Kind::Branch, &self.branches)?,
            testbeds: things(Kind::Testbed, &self.testbeds)?,
            benchmarks: things(Kind::Benchmark, &self.benchmarks)?,
            measures: things(Kind::Measure, &self.measures)?,
            since: self.start_time.map(time_of_ms).transpose()?,
            until: self.end_time.map(time_of_ms).transpose()?,
        })
    }
}

/// The things of a list of UUIDs, in its order. What is unknown has no series.
fn things(
    databases: &Databases,
    project: &Project,
    kind: Kind,
    list: &str,
) -> Result<Vec<Thing>, ApiError> {
    let mut found = Vec::new();
    for text in list.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        if Uuid::try_parse(text).is_err() {
            let word = kind.word();
            return Err(ApiError::bad_request(format!("{text:?} is no UUID of a {word}")));
        }
        found.extend(databases.registry.thing(project.id, kind, text)?);
    }
    Ok(found)
}

pub(super) async fn perf(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Asked(query): Asked<Query>,
) -> Result<impl IntoResponse, ApiError> {
    let project = Arc::new(project);
    let of = Arc::clone(&project);
    let wanted = app.storage.read(move |databases| query.wanted(databases, &of)).await?;
    let plot = plot_in_parts(&app, &project, &wanted).await?;
    let read = move |databases: &Databases| View::of(databases, &project).series(&wanted, plot);
    let answer = app.storage.read(read).await?;
    Ok(stream::json(move |to| answer.write(to)))
}

/// The series of many benchmarks, read by several connections at a time.
async fn plot_in_parts(
    app: &App,
    project: &Arc<Project>,
    wanted: &Wanted,
) -> Result<Plot, ApiError> {
    let read = |wanted: Wanted| {
        let (app, project) = (app.clone(), Arc::clone(project));
        async move {
            app.storage.read(move |databases| View::of(databases, &project).plot(&wanted)).await
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(READERS_MAX);
    let part = wanted.benchmarks.len().div_ceil(threads).max(BENCHMARKS_MIN);
    let mut reading = JoinSet::new();
    for benchmarks in wanted.benchmarks.chunks(part) {
        reading.spawn(read(Wanted { benchmarks: benchmarks.to_vec(), ..wanted.clone() }));
    }
    let mut whole = Plot::default();
    for (done, part) in reading.join_all().await.into_iter().enumerate() {
        let mut part = part?;
        if done == 0 {
            whole.reports = part.reports;
        } else if whole.reports != part.reports {
            // Somebody stored or withdrew a report in between.
            return read(wanted.clone()).await;
        }
        whole.series.append(&mut part.series);
    }
    Ok(whole)
}

/// The series as a picture, for pages that show it as one.
pub(super) async fn image(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Asked(query): Asked<Query>,
    Asked(image): Asked<ImageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let read = move |databases: &Databases| {
        let view = View::of(databases, &project);
        let mut plot = view.plot(&query.wanted(databases, &project)?)?;
        Names::read(databases, &project)?.put_into(&mut plot);
        let title = image.title.unwrap_or_else(|| project.name.clone());
        Ok::<_, ApiError>((plot, title))
    };
    let (found, title) = app.storage.read(read).await?;
    let svg = plot::svg(&Chart::new(title, &found));
    let fresh = "private, max-age=0, no-cache";
    Ok(([(header::CONTENT_TYPE, "image/svg+xml"), (header::CACHE_CONTROL, fresh)], svg))
}

pub(super) async fn metric(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<JsonOneMetric>, ApiError> {
    let metric = uuid(&id, "metric")?;
    let read = move |databases: &Databases| View::of(databases, &project).metric(metric);
    let missing = || ApiError::not_found(format!("this project has no metric {id}"));
    app.storage.read(read).await?.map(Json).ok_or_else(missing)
}

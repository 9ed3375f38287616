//! `/v0/projects/{project}/perf` and `/metrics`: series, their plot, and single metrics.

use std::{sync::Arc, thread};

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::{StatusCode, header},
    response::IntoResponse,
};
use serde::Deserialize;
use time::Duration;
use tokio::task::JoinError;
use utoipa::IntoParams;
use uuid::Uuid;
use wingbeat_track::{
    plot::{self, Chart},
    store::{Plot, PlotQuery},
};

use super::{
    reports::time_of_ms,
    request::{Asked, uuid},
    shapes::JsonOneMetric,
    view::{View, Wanted},
};
use crate::{
    ApiError, App,
    database::{Database, Entity, Kind, Project},
    names::Names,
    stream,
};

/// Maximum connections that read one answer.
const READERS_MAX: usize = 4;

/// Number of reports that justifies another connection.
const REPORTS_MIN: usize = 32;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Query {
    /// UUIDs, separated by commas.
    branches: String,
    /// UUIDs or nothing, separated by commas. All heads of a branch are one series here.
    #[allow(dead_code, reason = "the client sends it; a branch is one series whatever its heads")]
    heads: Option<String>,
    testbeds: String,
    /// Like `heads`. There are no specs here.
    #[allow(dead_code, reason = "the client sends it; there are no specs here")]
    specs: Option<String>,
    benchmarks: String,
    measures: String,
    /// Milliseconds since 1970.
    #[param(minimum = -62167219200000_i64, maximum = 253402300799999_i64)]
    start_time: Option<i64>,
    /// Milliseconds since 1970.
    #[param(minimum = -62167219200000_i64, maximum = 253402300799999_i64)]
    end_time: Option<i64>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ImageQuery {
    /// Title of the image.
    title: Option<String>,
}

impl Query {
    fn wanted(&self, database: &Database, project: &Project) -> Result<Wanted, ApiError> {
        let entities = |kind, list: &str| entities(database, project, kind, list);
        Ok(Wanted {
            branches: entities(Kind::Branch, &self.branches)?,
            testbeds: entities(Kind::Testbed, &self.testbeds)?,
            benchmarks: entities(Kind::Benchmark, &self.benchmarks)?,
            measures: entities(Kind::Measure, &self.measures)?,
            since: self.start_time.map(time_of_ms).transpose()?,
            until: self.end_time.map(time_of_ms).transpose()?,
        })
    }
}

/// Things of a list of UUIDs, in its order. Unknown ones have no series.
fn entities(
    database: &Database,
    project: &Project,
    kind: Kind,
    list: &str,
) -> Result<Vec<Entity>, ApiError> {
    let mut found = Vec::new();
    for text in list.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        if Uuid::try_parse(text).is_err() {
            let word = kind.word();
            return Err(ApiError::bad_request(format!("{text:?} is not the UUID of a {word}")));
        }
        found.extend(database.entity(project.id, kind, text)?);
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
    let wanted = app.storage.read(move |database| query.wanted(database, &of)).await?;
    let plot = plot_in_parts(&app, &project, &wanted).await?;
    let read = move |database: &Database| View::of(database, &project).series(&wanted, plot);
    let answer = app.storage.read(read).await?;
    Ok(stream::json(move |to| answer.write(to)))
}

/// Series of many reports, read over several connections in parallel.
async fn plot_in_parts(
    app: &App,
    project: &Arc<Project>,
    wanted: &Wanted,
) -> Result<Plot, ApiError> {
    let (of, asked) = (Arc::clone(project), wanted.clone());
    let find = app.storage.read(move |database| {
        let Some(query) = View::of(database, &of).plot_query(&asked)? else { return Ok(None) };
        let times = database.results.plot_times(&query)?;
        Ok::<_, ApiError>(Some((query, times)))
    });
    let Some((query, times)) = find.await? else { return Ok(Plot::default()) };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(READERS_MAX);
    let part = times.len().div_ceil(threads).max(REPORTS_MIN);
    // Parts start at a change of timestamp, so that reports of equal time stay together.
    let mut begins: Vec<_> = times.chunks(part).skip(1).filter_map(|it| it.first()).collect();
    begins.dedup();
    let mut reading = Vec::new();
    let mut since = query.since;
    for until in begins.into_iter().map(Some).chain([None]) {
        let end = until.map(|until| *until - Duration::NANOSECOND);
        let query = PlotQuery { since, until: end.or(query.until), ..query.clone() };
        let read = move |database: &Database| Ok::<_, ApiError>(database.results.plot(&query)?);
        let app = app.clone();
        reading.push(tokio::spawn(async move { app.storage.read(read).await }));
        since = until.copied();
    }
    let mut whole = Plot::default();
    for part in reading {
        let failed =
            |error: JoinError| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
        whole.append(part.await.map_err(failed)??);
    }
    Ok(whole)
}

/// The series as an image, for embedding in pages.
pub(super) async fn image(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Asked(query): Asked<Query>,
    Asked(image): Asked<ImageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let read = move |database: &Database| {
        let wanted = query.wanted(database, &project)?;
        let asked = View::of(database, &project).plot_query(&wanted)?;
        let plot = asked.map(|asked| database.results.plot(&asked)).transpose()?;
        let mut plot = plot.unwrap_or_default();
        Names::read(database, &project)?.put_into(&mut plot);
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
    let read = move |database: &Database| View::of(database, &project).metric(metric);
    let missing = || ApiError::not_found(format!("this project has no metric {id}"));
    app.storage.read(read).await?.map(Json).ok_or_else(missing)
}

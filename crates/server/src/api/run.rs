//! Receives a report: parsed by the adapter, named by the registry, judged against its history, stored, answered.
//!
//!
//! ```text
//! body → results → project, things, thresholds → history → verdicts → results.db → answer
//!        adapter   registry (written)            read                 written      read
//! ```
//!
//! Each step is idempotent: repeating an idempotency key yields the same report.

mod intake;
mod names;
mod project;

use axum::{Extension, extract::State, http::StatusCode};
use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_track::{
    decide,
    judge::{self, Background, Branching, Judged, Rules},
    model::{BranchName, Notice, Report, Slug, Threshold, ThresholdModel, threshold::Test},
};

use self::{intake::Intake, names::name_all};
pub(super) use self::{
    names::{Named, clone_thresholds, thresholds},
    project::named as project_named,
};
use super::{
    request::{Body, Created},
    shapes::{JsonNewReport, JsonNewRun, JsonReport},
    view::View,
};
use crate::{ApiError, App, access::Caller, registry::Project, series, storage::Databases};

/// Models in addition to the stored thresholds.
pub(super) struct Rest {
    /// For this report only. Overrides a stored one of the same measure.
    pub(super) thresholds: Vec<Threshold>,
    /// Used without a threshold.
    pub(super) otherwise: Option<ThresholdModel>,
}

/// `POST /v0/run`
pub(super) async fn run(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(new): Body<JsonNewRun>,
) -> Result<Created<JsonReport>, ApiError> {
    let project = project::of_run(&app, &caller, &new).await?;
    let intake = Intake::of_run(new)?;
    receive(&app, &caller, project, intake).await.map(Created)
}

/// `POST /v0/projects/{project}/reports`
pub(super) async fn report(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(project): Extension<Project>,
    Body(new): Body<JsonNewReport>,
) -> Result<Created<JsonReport>, ApiError> {
    receive(&app, &caller, project, Intake::of_report(new)?).await.map(Created)
}

async fn receive(
    app: &App,
    caller: &Caller,
    project: Project,
    intake: Intake,
) -> Result<JsonReport, ApiError> {
    let uuid = intake.idempotency_key.unwrap_or_else(Uuid::now_v7);
    let known = {
        let project = project.clone();
        app.storage.read(move |databases| find(databases, &project, uuid)).await?
    };
    if let Some(known) = known {
        return Ok(known);
    }
    let user = caller.user();
    let now = OffsetDateTime::now_utc();
    let parse = move |_: &Databases| {
        let results = intake.results()?;
        Ok::<_, ApiError>((intake, results))
    };
    let (intake, mut iterations) = app.storage.read(parse).await?;
    let named = {
        let project = project.clone();
        let name = move |databases: &mut Databases| {
            let named = name_all(&databases.registry, &project, &intake, &mut iterations, now)?;
            Ok::<_, ApiError>((named, intake, iterations))
        };
        app.storage.write(name).await?
    };
    let (named, intake, iterations) = named;
    let report = Report {
        hash: intake.hash.clone(),
        end_time: intake.end_time,
        adapter: intake.adapter,
        iterations,
        ..Report::new(
            uuid,
            project.stored.clone(),
            named.branch_name.clone(),
            named.testbed_name.clone(),
            intake.start_time,
        )
    };
    let branch = named.branch.id;
    let otherwise = project.judges_by_default.then(|| ThresholdModel::new(Test::Auto));
    let rest = Rest { thresholds: Vec::new(), otherwise };
    let decide = move |databases: &Databases| judged(databases, report, &named, rest);
    let Judged { report, notices, .. } = app.storage.read(decide).await?;
    let row = project.id;
    let store = move |databases: &mut Databases| {
        // Writes the row first: a row without a report is harmless, a report without a row would be invisible.
        databases.registry.add_report(report.uuid, row, user, now)?;
        keep_notices(databases, report.uuid, &notices)?;
        databases.results.insert(&report)?;
        if report.epoch > 0 {
            databases.results.settle_replaced_heads(&report.project, &report.branch)?;
        }
        databases.registry.clear_start(branch)?;
        Ok::<_, ApiError>(())
    };
    app.storage.write(store).await?;
    series::touch(app, row);
    let answer = move |databases: &Databases| find(databases, &project, uuid);
    let missing = || ApiError::not_found("the report was stored, and has been deleted since");
    app.storage.read(answer).await?.ok_or_else(missing)
}

/// The report of that UUID, if already stored. One of another project is a conflict.
fn find(
    databases: &Databases,
    project: &Project,
    uuid: Uuid,
) -> Result<Option<JsonReport>, ApiError> {
    let row = databases.registry.report(uuid)?;
    if row.is_some_and(|row| row.project != project.id) {
        return Err(ApiError::conflict(format!(
            "the idempotency key {uuid} belongs to a report of another project; send a new one"
        )));
    }
    View::of(databases, project).report(uuid)
}

/// Judges a report against its history with the stored thresholds.
pub(super) fn judged(
    databases: &Databases,
    mut report: Report,
    named: &Named,
    rest: Rest,
) -> Result<Judged, ApiError> {
    let branching = Branching {
        start_point: named.start.branch.as_deref().map(BranchName::new).transpose().map_err(
            |error| ApiError::bad_request(format!("the start point cannot be used: {error}")),
        )?,
        hash: named.start.hash.clone(),
        max_versions: named.start.max_versions,
        is_reset: named.start.is_reset,
    };
    // Substitutions for missing data show in the report's start point.
    let mut remarks = Vec::new();
    judge::settle(&mut report, &branching, None, Some(&databases.results), &mut remarks)?;
    let background = Background::read(&report, Some(&databases.results))?;
    let threshold = |(measure, model): &(Slug, ThresholdModel)| Threshold {
        measure: measure.clone(),
        benchmark: None,
        model: *model,
    };
    // The last of equals wins.
    let mut thresholds: Vec<_> = named.thresholds.iter().map(threshold).collect();
    thresholds.extend(rest.thresholds);
    let rules =
        Rules { thresholds, otherwise: rest.otherwise, settings: decide::Settings::default() };
    Ok(judge::judge(report, &rules, &background, &[]))
}

/// Stores the notices of a report that has a row.
pub(super) fn keep_notices(
    databases: &Databases,
    report: Uuid,
    notices: &[Notice],
) -> Result<(), ApiError> {
    if notices.is_empty() {
        return Ok(());
    }
    let json = serde_json::to_string(notices).map_err(|error| {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        ApiError::new(status, format!("the notices cannot be written: {error}"))
    })?;
    Ok(databases.registry.set_notices(report, &json)?)
}

/// Notices from judging a report. Omits kinds unknown to this version.
pub(crate) fn notices_of(databases: &Databases, report: Uuid) -> Result<Vec<Notice>, ApiError> {
    let Some(json) = databases.registry.notices(report)? else { return Ok(Vec::new()) };
    let all: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap_or_default();
    Ok(all.into_iter().filter_map(|it| serde_json::from_value(it).ok()).collect())
}

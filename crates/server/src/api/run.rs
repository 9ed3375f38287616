//! Receives a report: parsed by the adapter, named by the registry, judged against its history, stored, answered.
//!
//! ```text
//! body → results → project, entities, thresholds → verdicts → results.db → answer
//!        adapter   registry (written)              history    written
//! ```
//!
//! [`take`] does this for both APIs. Each step is idempotent: repeating an idempotency key yields the same report.

mod names;
mod new_report;

use axum::{Extension, extract::State, http::StatusCode};
use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_track::{
    evaluate::{self, Background, Branching, Judged, Rules},
    model::{
        BranchName, Notice, Report, Results, Slug, Threshold, ThresholdModel, threshold::Test,
    },
    store::Document,
    verdict,
};

use self::names::name_all;
pub(super) use self::{
    names::{Named, clone_thresholds, set_thresholds, thresholds},
    new_report::{check_time, project_named},
};
use super::{
    names::Reach,
    request::{Body, Created},
    shapes::{JsonNewReport, JsonNewRun, JsonReport},
    view::View,
};
use crate::{
    ApiError, App,
    access::Caller,
    registry::{Project, Registry},
    series,
    storage::Databases,
};

/// `POST /v0/run`
pub(super) async fn run(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(new): Body<JsonNewRun>,
) -> Result<Created<JsonReport>, ApiError> {
    let project = new_report::project_of_run(&app, &caller, &new).await?;
    receive(&app, &caller, project, new_report::of_run(new)?).await.map(Created)
}

/// `POST /v0/projects/{project}/reports`
pub(super) async fn report(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(project): Extension<Project>,
    Body(new): Body<JsonNewReport>,
) -> Result<Created<JsonReport>, ApiError> {
    receive(&app, &caller, project, new).await.map(Created)
}

async fn receive(
    app: &App,
    caller: &Caller,
    project: Project,
    new: JsonNewReport,
) -> Result<JsonReport, ApiError> {
    let adapter = new_report::check(&new)?;
    let uuid = new.idempotency_key.unwrap_or_else(Uuid::now_v7);
    let (of, reach) = (project.clone(), Reach::of(caller));
    let parse = move || new_report::results(&new, adapter).map(|results| (new, results));
    let name =
        move |registry: &Registry, (new, mut iterations): (JsonNewReport, Vec<Results>), now| {
            let (named, own) = name_all(registry, &of, &new, &mut iterations, (reach, now))?;
            let (branch, testbed) = (named.branch_name.clone(), named.testbed_name.clone());
            let report = Report {
                hash: new.hash.filter(|hash| !hash.is_empty()),
                end_time: new.end_time,
                adapter,
                iterations,
                ..Report::new(uuid, of.stored.clone(), branch, testbed, new.start_time)
            };
            Ok((named, report, own))
        };
    let taken = take(app, caller, &project, uuid, parse, name).await?;
    let answer = move |databases: &Databases| {
        let view = View::of(databases, &project);
        match taken {
            Taken::Stored(report, notices) => view.stored(&report, notices),
            Taken::AlreadyThere => view.report(uuid),
            Taken::OfAnotherProject => Err(ApiError::conflict(format!(
                "the idempotency key {uuid} belongs to a report of another project; send a new one"
            ))),
        }
    };
    let missing = || ApiError::not_found("the report was stored, and has been deleted since");
    app.storage.read(answer).await?.ok_or_else(missing)
}

/// What became of a report.
pub(super) enum Taken {
    /// As it was stored, with the notices about it.
    Stored(Box<Report>, Vec<Notice>),
    AlreadyThere,
    OfAnotherProject,
}

/// Stores a report, judging it if it has no verdicts. `parse` runs if it is new, and `name` in one transaction, which
/// creates missing entities and returns thresholds for this report only.
pub(super) async fn take<P: Send + 'static>(
    app: &App,
    caller: &Caller,
    project: &Project,
    uuid: Uuid,
    parse: impl FnOnce() -> Result<P, ApiError> + Send + 'static,
    name: impl FnOnce(&Registry, P, OffsetDateTime) -> Result<(Named, Report, Vec<Threshold>), ApiError>
    + Send
    + 'static,
) -> Result<Taken, ApiError> {
    let (user, now, row) = (caller.user(), OffsetDateTime::now_utc(), project.id);
    let reach = Reach::of(caller);
    let known = move |databases: &Databases| {
        if databases.registry.report(uuid)?.is_some_and(|known| known.project != row) {
            return Ok(Err(Taken::OfAnotherProject));
        }
        match databases.results.project_of_report(uuid)? {
            Some(_) => Ok(Err(Taken::AlreadyThere)),
            None => parse().map(Ok),
        }
    };
    let parsed = match app.storage.read(known).await? {
        Ok(parsed) => parsed,
        Err(known) => {
            if matches!(known, Taken::AlreadyThere) {
                // It may exist without a row, for example by a copied store.
                let enter = move |databases: &mut Databases| {
                    databases.registry.add_report(uuid, row, user, now).map(drop)
                };
                app.storage.write(move |databases| Ok::<_, ApiError>(enter(databases)?)).await?;
            }
            return Ok(known);
        }
    };
    let name = move |databases: &mut Databases| name(&databases.registry, parsed, now);
    let (named, report, thresholds) = app.storage.write(name).await?;
    let branch = named.branch.id;
    let otherwise = project.judges_by_default.then(|| ThresholdModel::new(Test::Auto));
    // A confirming report decides about another report, and is not judged itself.
    let (report, notices) = if report.verdicts.is_empty() && report.confirms.is_none() {
        let decide =
            move |databases: &Databases| judged(databases, report, &named, thresholds, otherwise);
        let Judged { report, notices, .. } = app.storage.read(decide).await?;
        (report, notices)
    } else {
        (report, Vec::new())
    };
    let store = move |databases: &mut Databases| {
        // Writes the row first: a row without a report is harmless, a report without a row would be invisible.
        databases.registry.add_report(uuid, row, user, now)?;
        keep_notices(databases, uuid, &notices)?;
        let is_new = databases.results.take(Document::Report(Box::new(report.clone())))?;
        if reach == Reach::Project {
            // A report of an earlier head may arrive after one of a later head.
            databases.results.settle_replaced_heads(&report.project, &report.branch)?;
            databases.registry.clear_start(branch)?;
        }
        Ok::<_, ApiError>(match is_new {
            true => Taken::Stored(Box::new(report), notices),
            false => Taken::AlreadyThere,
        })
    };
    let taken = app.storage.write(store).await?;
    series::touch(app, row);
    Ok(taken)
}

/// Judges a report against its history with the stored thresholds, and with those for this report only, which override
/// them. `otherwise` applies without a threshold.
fn judged(
    databases: &Databases,
    mut report: Report,
    named: &Named,
    own_thresholds: Vec<Threshold>,
    otherwise: Option<ThresholdModel>,
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
    evaluate::settle(&mut report, &branching, None, Some(&databases.results), &mut remarks)?;
    let background = Background::read(&report, Some(&databases.results))?;
    let threshold = |(measure, model): &(Slug, ThresholdModel)| Threshold {
        measure: measure.clone(),
        benchmark: None,
        model: *model,
    };
    // The last of equals wins.
    let mut thresholds: Vec<_> = named.thresholds.iter().map(threshold).collect();
    thresholds.extend(own_thresholds);
    let rules = Rules { thresholds, otherwise, settings: verdict::Settings::default() };
    Ok(evaluate::evaluate(report, &rules, &background, &[]))
}

/// Stores the notices of a report that has a row.
fn keep_notices(databases: &Databases, report: Uuid, notices: &[Notice]) -> Result<(), ApiError> {
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

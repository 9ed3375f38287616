//! Receives a report: parsed by the adapter, named, judged against its history, stored, answered.
//!
//! ```text
//! body → results → project, entities, thresholds → verdicts → store → answer
//!        adapter                                   history
//! ```
//!
//! [`take`] does this for both APIs, and stores all of it in one transaction. Repeating an idempotency key yields the
//! same report.

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
    database::{Database, Project},
    series,
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
    let parse = move || {
        let iterations = new_report::results(&new, adapter)?;
        // Outputs are large, and have been read.
        Ok((JsonNewReport { results: Vec::new(), ..new }, iterations))
    };
    let name =
        move |database: &Database, (new, iterations): &(JsonNewReport, Vec<Results>), now| {
            let mut iterations = iterations.clone();
            let (named, own) = name_all(database, &of, new, &mut iterations, (reach, now))?;
            let (branch, testbed) = (named.branch_name.clone(), named.testbed_name.clone());
            let report = Report {
                hash: new.hash.clone().filter(|hash| !hash.is_empty()),
                end_time: new.end_time,
                adapter,
                iterations,
                ..Report::new(uuid, of.stored.clone(), branch, testbed, new.start_time)
            };
            Ok((named, report, own))
        };
    let taken = take(app, caller, &project, uuid, (parse, name)).await?;
    let answer = move |database: &Database| {
        let view = View::of(database, &project);
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

/// A report with its entities, and with the thresholds that are for it alone.
type Ready = (Named, Report, Vec<Threshold>);

/// Stores a report, judging it if it has no verdicts. `parse` runs if it is new. `name` finds or creates its entities.
pub(super) async fn take<P: Send + 'static>(
    app: &App,
    caller: &Caller,
    project: &Project,
    uuid: Uuid,
    (parse, name): (
        impl FnOnce() -> Result<P, ApiError> + Send + 'static,
        impl Fn(&Database, &P, OffsetDateTime) -> Result<Ready, ApiError> + Send + 'static,
    ),
) -> Result<Taken, ApiError> {
    let (user, now, stored) = (caller.user(), OffsetDateTime::now_utc(), project.stored.clone());
    let reach = Reach::of(caller);
    let otherwise = project.judges_by_default.then(|| ThresholdModel::new(Test::Auto));
    let judge = move |database: &Database, (named, report, own): &Ready| -> Result<_, ApiError> {
        // A confirming report decides about another report, and is not judged itself.
        match report.verdicts.is_empty() && report.confirms.is_none() {
            true => judged(database, report.clone(), named, own, otherwise),
            false => Ok((report.clone(), Vec::new())),
        }
    };
    let look = move |database: &Database| match database.results.project_of_report(uuid)? {
        Some(project) if project == stored => Ok::<_, ApiError>(Err(Taken::AlreadyThere)),
        Some(_) => Ok(Err(Taken::OfAnotherProject)),
        None => {
            let parsed = parse()?;
            // Many reports can be judged at once, and one at a time be written. New names have no history.
            let ahead = database.peek(|database| {
                let ready = name(database, &parsed, now)?;
                let judged = judge(database, &ready)?;
                Ok::<_, ApiError>((ready, judged))
            });
            Ok(Ok((parsed, name, judge, ahead)))
        }
    };
    let (parsed, name, judge, ahead) = match app.storage.read(look).await? {
        Ok(new) => new,
        Err(known) => return Ok(known),
    };
    let store = move |database: &Database| {
        let ready = name(database, &parsed, now)?;
        let (report, notices) = match ahead {
            Some((then, judged)) if then == ready => judged,
            _ => judge(database, &ready)?,
        };
        database.note_receipt(uuid, user, json(&notices)?.as_deref(), now)?;
        let is_new = database.results.take(Document::Report(Box::new(report.clone())))?;
        if reach == Reach::Project {
            // A report of an earlier head may arrive after one of a later head.
            database.results.settle_replaced_heads(&report.project, &report.branch)?;
            database.clear_start(ready.0.branch.id)?;
        }
        Ok::<_, ApiError>(match is_new {
            true => Taken::Stored(Box::new(report), notices),
            false => Taken::AlreadyThere,
        })
    };
    let taken = app.storage.write(move |database| database.together(store)).await?;
    series::touch(app, project.id);
    Ok(taken)
}

/// Judges a report against its history with the stored thresholds, and with those for this report only, which override
/// them. `otherwise` applies without a threshold.
fn judged(
    database: &Database,
    mut report: Report,
    named: &Named,
    own_thresholds: &[Threshold],
    otherwise: Option<ThresholdModel>,
) -> Result<(Report, Vec<Notice>), ApiError> {
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
    evaluate::settle(&mut report, &branching, None, Some(&database.results), &mut remarks)?;
    let threshold = |(measure, model): &(Slug, ThresholdModel)| Threshold {
        measure: measure.clone(),
        benchmark: None,
        model: *model,
    };
    // The last of equals wins.
    let mut thresholds: Vec<_> = named.thresholds.iter().map(threshold).collect();
    thresholds.extend_from_slice(own_thresholds);
    let rules = Rules { thresholds, otherwise, settings: verdict::Settings::default() };
    let background = Background::read(&report, &rules, Some(&database.results))?;
    let Judged { report, notices, .. } = evaluate::evaluate(report, &rules, &background, &[]);
    Ok((report, notices))
}

/// Notices in JSON; `None` without any.
fn json(notices: &[Notice]) -> Result<Option<String>, ApiError> {
    if notices.is_empty() {
        return Ok(None);
    }
    serde_json::to_string(notices).map(Some).map_err(|error| {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        ApiError::new(status, format!("the notices cannot be written: {error}"))
    })
}

/// Notices from judging a report. Omits kinds unknown to this version.
pub(crate) fn notices_of(database: &Database, report: Uuid) -> Result<Vec<Notice>, ApiError> {
    let Some(json) = database.notices(report)? else { return Ok(Vec::new()) };
    let all: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap_or_default();
    Ok(all.into_iter().filter_map(|it| serde_json::from_value(it).ok()).collect())
}

//! `POST /v1/reports`: receives documents, one per line. Each is stored separately, so an interrupted client sends all
//! of them again; stored ones change nothing.

use std::collections::{BTreeSet, HashMap};

use axum::{Extension, Json, body::Bytes, extract::State};
use serde::Deserialize;
use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_track::{
    explain::{self, Explained},
    model::{ProjectName, Report, Slug, ThresholdModel, threshold::Test},
    remote::{Instructions, RefusedDocument, Taken},
    store::{Document, Retention, StoreError},
};

use super::resolve_names::resolve_names;
use crate::{
    ApiError, App,
    access::{Caller, Right, Role},
    api::{
        run::{Rest, judged, keep_notices, project_named},
        view::View,
    },
    registry::Project,
    series,
    storage::Databases,
};

struct Line {
    document: Document,
    instructions: Instructions,
}

/// Additional data of a report.
#[derive(Deserialize)]
struct Additions {
    #[serde(default)]
    run: Instructions,
}

/// Outcome of one document.
enum Outcome {
    Stored,
    AlreadyThere,
    Refused(String),
}

pub(super) async fn reports(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Result<Json<Taken>, ApiError> {
    let lines = app.storage.read(move |_: &Databases| parse(&body)).await?;
    let mut taken = Taken::default();
    let mut projects = HashMap::new();
    let is_single = lines.len() == 1;
    let mut profiled = BTreeSet::new();
    for Line { document, instructions } in lines {
        let uuid = document.uuid();
        let outcome = match document {
            Document::Report(report) => {
                let project = project(&app, &caller, &mut projects, &report.project).await?;
                let outcome = store(&app, &caller, &project, *report, instructions).await?;
                if is_single && !matches!(outcome, Outcome::Refused(_)) {
                    (taken.report, taken.judged) = view(&app, project, uuid).await?;
                }
                outcome
            }
            Document::Profile(profile) => {
                profiled.insert(profile.about.report);
                note(&app, &caller, Document::Profile(profile)).await?
            }
            other => note(&app, &caller, other).await?,
        };
        match outcome {
            Outcome::Stored => taken.stored += 1,
            Outcome::AlreadyThere => taken.already_there += 1,
            Outcome::Refused(reason) => taken.refused.push(RefusedDocument { uuid, reason }),
        }
    }
    if !profiled.is_empty() {
        taken.explained = explain(&app, profiled).await?;
    }
    Ok(Json(taken))
}

/// Deletes redundant profiles after an upload; returns the explanations.
async fn explain(app: &App, reports: BTreeSet<Uuid>) -> Result<Vec<Explained>, ApiError> {
    let projects = reports.clone();
    let tidy = move |databases: &mut Databases| {
        let results = &mut databases.results;
        let named = projects.iter().map(|report| results.project_of_report(*report));
        let named = named.collect::<Result<Vec<_>, _>>()?;
        for project in named.into_iter().flatten().collect::<BTreeSet<_>>() {
            results.tidy_profiles(&project, Retention::default())?;
        }
        Ok::<_, ApiError>(())
    };
    app.storage.write(tidy).await?;
    let read = move |databases: &Databases| {
        let mut explained = Vec::new();
        for report in reports {
            if let Some(report) = databases.results.report(report)? {
                explained.extend(explain::of_report(
                    &databases.results,
                    &report,
                    &explain::NoSources,
                )?);
            }
        }
        Ok::<_, ApiError>(explained)
    };
    app.storage.read(read).await
}

fn parse(body: &[u8]) -> Result<Vec<Line>, ApiError> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(body.split(|byte| *byte == b'\n')) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let refused = |reason: String| {
            ApiError::bad_request(format!("document {number} is broken: {reason}"))
        };
        let document = Document::parse(line).map_err(refused)?;
        let instructions = match &document {
            Document::Report(report) if report.verdicts.is_empty() => {
                let additions: Additions =
                    serde_json::from_slice(line).map_err(|error| refused(error.to_string()))?;
                additions.run
            }
            _ => Instructions::default(),
        };
        lines.push(Line { document, instructions });
    }
    if lines.is_empty() {
        return Err(ApiError::bad_request("the request has no documents: send one in each line"));
    }
    Ok(lines)
}

/// Finds the project by its name in reports, then by its display name; created on first use.
async fn project(
    app: &App,
    caller: &Caller,
    known: &mut HashMap<ProjectName, Project>,
    name: &ProjectName,
) -> Result<Project, ApiError> {
    if let Some(project) = known.get(name) {
        return Ok(project.clone());
    }
    let stored = stored(app, name.clone()).await?;
    let id = stored.map_or_else(|| name.to_string(), |project| project.uuid.to_string());
    let found = project_named(app, caller, id, name.as_str(), Ok(Slug::of(name.as_str()))).await?;
    known.insert(name.clone(), found.clone());
    Ok(found)
}

async fn stored(app: &App, name: ProjectName) -> Result<Option<Project>, ApiError> {
    let find = move |databases: &Databases| databases.registry.project_stored(&name);
    app.storage.read(move |databases| Ok::<_, ApiError>(find(databases)?)).await
}

/// Stores a report, judging it if it has no verdicts.
async fn store(
    app: &App,
    caller: &Caller,
    project: &Project,
    mut report: Report,
    instructions: Instructions,
) -> Result<Outcome, ApiError> {
    let (uuid, now) = (report.uuid, OffsetDateTime::now_utc());
    let (user, row) = (caller.user(), project.id);
    let known = move |databases: &Databases| {
        let other = databases.registry.report(uuid)?.is_some_and(|known| known.project != row);
        Ok::<_, ApiError>((other, databases.results.project_of_report(uuid)?.is_some()))
    };
    match app.storage.read(known).await? {
        (true, _) => {
            let reason = "it belongs to another project of this server".to_owned();
            return Ok(Outcome::Refused(reason));
        }
        (_, true) => {
            // It may exist already, for example by a copied store.
            let enter = move |databases: &mut Databases| {
                databases.registry.add_report(uuid, row, user, now).map(drop)
            };
            app.storage.write(move |databases| Ok::<_, ApiError>(enter(databases)?)).await?;
            return Ok(Outcome::AlreadyThere);
        }
        _ => {}
    }
    let named = {
        let (project, instructions) = (project.clone(), instructions.clone());
        let name = move |databases: &mut Databases| {
            let named =
                resolve_names(&databases.registry, &project, &mut report, &instructions, now)?;
            Ok::<_, ApiError>((named, report))
        };
        app.storage.write(name).await
    };
    let (named, mut report) = match named {
        Ok(named) => named,
        Err(error) if error.status.is_client_error() => return Ok(Outcome::Refused(error.message)),
        Err(error) => return Err(error),
    };
    let branch = named.branch.id;
    let mut notices = Vec::new();
    // A confirming report decides about another report, and is not judged itself.
    if report.verdicts.is_empty() && report.confirms.is_none() {
        let model = || ThresholdModel::new(Test::Auto);
        let rest = Rest {
            thresholds: instructions.thresholds,
            otherwise: project.judges_by_default.then(model),
        };
        let decide = move |databases: &Databases| judged(databases, report, &named, rest);
        let judged = app.storage.read(decide).await?;
        (report, notices) = (judged.report, judged.notices);
    }
    let store = move |databases: &mut Databases| {
        // Writes the row first: a row without a report is harmless, a report without a row would be invisible.
        databases.registry.add_report(report.uuid, row, user, now)?;
        keep_notices(databases, report.uuid, &notices)?;
        let (of_project, of_branch) = (report.project.clone(), report.branch.clone());
        let outcome = take(databases, Document::Report(Box::new(report)))?;
        // A report of an earlier head may arrive after one of a later head.
        databases.results.settle_replaced_heads(&of_project, &of_branch)?;
        databases.registry.clear_start(branch)?;
        Ok::<_, ApiError>(outcome)
    };
    let outcome = app.storage.write(store).await?;
    series::touch(app, row);
    Ok(outcome)
}

/// Stores an alert decision, a withdrawal, or a profile of a report.
async fn note(app: &App, caller: &Caller, document: Document) -> Result<Outcome, ApiError> {
    let right = match &document {
        Document::Withdrawal(_) => Right::Manage,
        Document::AlertChange(_) | Document::Profile(_) | Document::Report(_) => Right::Write,
    };
    let about = document.clone();
    let find = move |databases: &Databases| {
        let name = match about {
            Document::Report(report) => Some(report.project),
            Document::AlertChange(change) => databases.results.project_of_alert(change.alert)?,
            Document::Withdrawal(taken) => databases.results.project_of_report(taken.report)?,
            Document::Profile(profile) => {
                databases.results.project_of_report(profile.about.report)?
            }
        };
        let Some(name) = name else { return Ok(None) };
        Ok::<_, ApiError>(databases.registry.project_stored(&name)?)
    };
    // Its subject may arrive later. Members may write to all projects.
    let project = app.storage.read(find).await?;
    let is_allowed = match &project {
        Some(project) => caller.has(right, Some(project)),
        None => caller.has_role(Role::Member),
    };
    if !is_allowed {
        return Err(match caller {
            Caller::Anonymous => ApiError::unauthorized("this needs a key: send one with --key"),
            _ => ApiError::forbidden(
                "the caller may not change alerts or withdraw reports of this project",
            ),
        });
    }
    let outcome = app.storage.write(move |databases| take(databases, document)).await?;
    if let Some(project) = project {
        series::touch(app, project.id);
    }
    Ok(outcome)
}

fn take(databases: &mut Databases, document: Document) -> Result<Outcome, ApiError> {
    match databases.results.take(document) {
        Ok(true) => Ok(Outcome::Stored),
        Ok(false) => Ok(Outcome::AlreadyThere),
        Err(StoreError::Invalid(invalid)) => Ok(Outcome::Refused(invalid.to_string())),
        Err(error) => Err(error.into()),
    }
}

type Views = (Option<serde_json::Value>, Option<Box<Report>>);

async fn view(app: &App, project: Project, uuid: Uuid) -> Result<Views, ApiError> {
    let read = move |databases: &Databases| {
        let json = View::of(databases, &project).report(uuid)?;
        let json = json.map(serde_json::to_value).transpose();
        let json = json.map_err(|error| {
            let status = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
            ApiError::new(status, format!("the answer cannot be written: {error}"))
        })?;
        Ok::<_, ApiError>((json, databases.results.report(uuid)?.map(Box::new)))
    };
    app.storage.read(read).await
}

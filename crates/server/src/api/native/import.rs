//! `POST /v1/reports`: receives documents, one per line. Each is stored separately, so an interrupted client sends all
//! of them again; stored ones change nothing.

use std::collections::{BTreeSet, HashMap};

use axum::{Extension, Json, body::Bytes, extract::State};
use serde::Deserialize;
use uuid::Uuid;
use wingbeat_track::{
    explain::{self, Explained},
    model::{ProjectName, Report, Slug},
    remote::{Instructions, RefusedDocument, Taken as Answer},
    store::{Document, Retention, StoreError},
};

use super::resolve_names::resolve_names;
use crate::{
    ApiError, App,
    access::{Caller, Right, Role},
    api::{
        names::Reach,
        run::{Taken, check_time, project_named, take},
        shapes::JsonReport,
        view::View,
    },
    database::{Database, Project},
    series,
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
) -> Result<Json<Answer>, ApiError> {
    let lines = app.storage.read(move |_: &Database| parse(&body)).await?;
    let mut taken = Answer::default();
    let mut projects = HashMap::new();
    let is_single = lines.len() == 1;
    let mut profiled = BTreeSet::new();
    for Line { document, instructions } in lines {
        let uuid = document.uuid();
        let outcome = match document {
            Document::Report(report) => {
                let project = project(&app, &caller, &mut projects, &report.project).await?;
                let (outcome, views) =
                    store(&app, &caller, &project, *report, instructions, is_single).await?;
                (taken.report, taken.judged) = views;
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
    let tidy = move |database: &mut Database| {
        let results = &mut database.results;
        let named = projects.iter().map(|report| results.project_of_report(*report));
        let named = named.collect::<Result<Vec<_>, _>>()?;
        for project in named.into_iter().flatten().collect::<BTreeSet<_>>() {
            results.tidy_profiles(&project, Retention::default())?;
        }
        Ok::<_, ApiError>(())
    };
    app.storage.write(tidy).await?;
    let read = move |database: &Database| {
        let mut explained = Vec::new();
        for report in reports {
            if let Some(report) = database.results.report(report)? {
                explained.extend(explain::of_report(
                    &database.results,
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
    let find = move |database: &Database| database.project_stored(&name);
    app.storage.read(move |database| Ok::<_, ApiError>(find(database)?)).await
}

/// Stores a report, judging it if it has no verdicts. A single one is returned as stored.
async fn store(
    app: &App,
    caller: &Caller,
    project: &Project,
    mut report: Report,
    instructions: Instructions,
    is_single: bool,
) -> Result<(Outcome, Views), ApiError> {
    if let Err(error) = check_time(report.start_time) {
        return Ok((Outcome::Refused(error.message), Views::default()));
    }
    let (uuid, of) = (report.uuid, project.clone());
    let reach = Reach::of(caller);
    if reach == Reach::Report {
        // A confirming report decides about the alerts of another one, and a judged one names the head of its branch.
        if report.confirms.is_some() {
            let reason = "a report that confirms another one needs a key".to_owned();
            return Ok((Outcome::Refused(reason), Views::default()));
        }
        report.verdicts.clear();
        report.alerts.clear();
    }
    let name = move |database: &Database, report: &Report, now| {
        let mut report = report.clone();
        let named = resolve_names(database, &of, &mut report, &instructions, (reach, now))?;
        Ok((named, report, instructions.thresholds.clone()))
    };
    let taken = match take(app, caller, project, uuid, (|| Ok(report), name)).await {
        Ok(taken) => taken,
        Err(error) if error.status.is_client_error() => {
            return Ok((Outcome::Refused(error.message), Views::default()));
        }
        Err(error) => return Err(error),
    };
    let outcome = match &taken {
        Taken::Stored(..) => Outcome::Stored,
        Taken::AlreadyThere => Outcome::AlreadyThere,
        Taken::OfAnotherProject => {
            let reason = "it belongs to another project of this server".to_owned();
            return Ok((Outcome::Refused(reason), Views::default()));
        }
    };
    if !is_single {
        return Ok((outcome, Views::default()));
    }
    let project = project.clone();
    let read = move |database: &Database| {
        let view = View::of(database, &project);
        let (json, report) = match taken {
            Taken::Stored(report, notices) => (view.stored(&report, notices)?, Some(report)),
            _ => (view.report(uuid)?, database.results.report(uuid)?.map(Box::new)),
        };
        Ok::<_, ApiError>((json, report))
    };
    Ok((outcome, app.storage.read(read).await?))
}

/// Stores an alert decision, a withdrawal, or a profile of a report.
async fn note(app: &App, caller: &Caller, document: Document) -> Result<Outcome, ApiError> {
    let right = match &document {
        Document::Withdrawal(_) => Right::Manage,
        Document::AlertChange(_) | Document::Profile(_) | Document::Report(_) => Right::Write,
    };
    let about = document.clone();
    let find = move |database: &Database| {
        let name = match about {
            Document::Report(report) => Some(report.project),
            Document::AlertChange(change) => database.results.project_of_alert(change.alert)?,
            Document::Withdrawal(taken) => database.results.project_of_report(taken.report)?,
            Document::Profile(profile) => {
                database.results.project_of_report(profile.about.report)?
            }
        };
        let Some(name) = name else { return Ok(None) };
        Ok::<_, ApiError>(database.project_stored(&name)?)
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
    let outcome = app.storage.write(move |database| take_note(database, document)).await?;
    if let Some(project) = project {
        series::touch(app, project.id);
    }
    Ok(outcome)
}

fn take_note(database: &mut Database, document: Document) -> Result<Outcome, ApiError> {
    match database.results.take(document) {
        Ok(true) => Ok(Outcome::Stored),
        Ok(false) => Ok(Outcome::AlreadyThere),
        Err(StoreError::Invalid(invalid)) => Ok(Outcome::Refused(invalid.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// A report in Bencher's JSON, and as stored.
type Views = (Option<JsonReport>, Option<Box<Report>>);

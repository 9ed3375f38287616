//! A request to store results: its checks, what it leaves to the server, and its project, created on first use.

use std::collections::BTreeMap;

use time::{Duration, OffsetDateTime};
use uuid::Uuid;
use wingbeat_track::{
    adapter::{Adapter, AdapterError},
    model::{ProjectName, Results, Slug},
};

use crate::{
    ApiError, App,
    access::{Caller, Right, Role},
    api::{
        names::check_hash,
        shapes::{JsonNewReport, JsonNewRun, JsonReportSettings},
    },
    database::{Database, NewProject, Project, Visibility},
};

/// How much clocks may differ, as for pushed profiles.
const AHEAD_MAX: Duration = Duration::minutes(10);

/// Languages of the client's former adapters. They mean: detect.
const LANGUAGES: [&str; 11] =
    ["c_sharp", "cpp", "dart", "go", "java", "js", "python", "ruby", "rust", "shell", "zig"];

/// The client's description of its environment.
#[derive(Debug, Clone, Default)]
struct Context(BTreeMap<String, String>);

impl Context {
    fn of(context: Option<&BTreeMap<String, String>>) -> Self {
        Self(context.cloned().unwrap_or_default())
    }

    fn get(&self, key: &str) -> Option<&str> {
        let value = self.0.get(&format!("bencher.dev/v0/{key}"))?.trim();
        (!value.is_empty()).then_some(value)
    }
}

/// The report of a run. What the request does not state comes from the context.
pub(super) fn of_run(new: JsonNewRun) -> Result<JsonNewReport, ApiError> {
    if new.job.is_some() {
        return Err(ApiError::bad_request(
            "this server has no machines that run benchmarks: run them locally, without --image",
        ));
    }
    let context = Context::of(new.context.as_ref());
    let or_context =
        |given: Option<String>, key: &str| given.or_else(|| context.get(key).map(str::to_owned));
    let branch = or_context(new.branch, "branch/ref/name");
    let testbed = or_context(new.testbed, "testbed/os");
    Ok(JsonNewReport {
        idempotency_key: new.idempotency_key,
        branch: branch.unwrap_or_else(|| "main".to_owned()),
        hash: or_context(new.hash, "branch/hash"),
        start_point: new.start_point,
        testbed: testbed.unwrap_or_else(|| "localhost".to_owned()),
        thresholds: new.thresholds,
        start_time: new.start_time,
        end_time: new.end_time,
        results: new.results,
        settings: new.settings,
    })
}

/// Rejects an invalid request. Returns the adapter of its results.
pub(super) fn check(new: &JsonNewReport) -> Result<Adapter, ApiError> {
    if new.end_time < new.start_time {
        return Err(ApiError::bad_request(format!(
            "the report ends at {}, before it begins at {}",
            new.end_time, new.start_time
        )));
    }
    check_time(new.start_time)?;
    check_hash(new.hash.as_deref())?;
    check_hash(new.start_point.as_ref().and_then(|start| start.hash.as_deref()))?;
    adapter(new.settings.as_ref().and_then(|settings| settings.adapter.as_deref()))
}

/// Rejects a report of the future: it would stay the newest until then, and hide all that come meanwhile. Bencher takes
/// them, but whoever sends one means another time: a clock is wrong, or milliseconds were taken for seconds.
pub(in crate::api) fn check_time(start: OffsetDateTime) -> Result<(), ApiError> {
    let now = OffsetDateTime::now_utc();
    if start - now <= AHEAD_MAX {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "the report begins at {start}, but here it is {now}: set the clock of the machine that measured, or the time \
         given for it (`--backdate`)"
    )))
}

/// Parsed outputs: one per iteration, or one in total if folded.
pub(super) fn results(new: &JsonNewReport, adapter: Adapter) -> Result<Vec<Results>, ApiError> {
    let JsonReportSettings { average, fold, .. } = new.settings.clone().unwrap_or_default();
    let parse = |(number, output): (usize, &String)| {
        adapter.parse(output.as_bytes(), average).map_err(|error| refusal(number, &error))
    };
    let parsed = (1..).zip(&new.results).map(parse).collect::<Result<Vec<_>, _>>()?;
    Ok(match fold {
        Some(fold) => vec![fold.fold(parsed)],
        None => parsed,
    })
}

fn adapter(name: Option<&str>) -> Result<Adapter, ApiError> {
    match name {
        None => Ok(Adapter::Magic),
        Some(language) if LANGUAGES.contains(&language) => Ok(Adapter::Magic),
        Some(name) => name.parse().map_err(|error: AdapterError| {
            ApiError::bad_request(format!("the results cannot be read: {error}"))
        }),
    }
}

fn refusal(number: usize, error: &AdapterError) -> ApiError {
    ApiError::bad_request(format!("the results of iteration {number} cannot be read: {error}"))
}

/// Project of a run, if the caller may add results to it.
pub(super) async fn project_of_run(
    app: &App,
    caller: &Caller,
    new: &JsonNewRun,
) -> Result<Project, ApiError> {
    let context = Context::of(new.context.as_ref());
    let (id, name) = match (&new.project, caller) {
        (Some(id), _) => (id.clone(), id.clone()),
        (None, Caller::ProjectKey { .. }) => {
            return Err(ApiError::bad_request(
                "a project's key was sent without a project: pass --project",
            ));
        }
        (None, _) => derived(&context)?,
    };
    let slug = Slug::new(&id).map_err(|error| {
        ApiError::bad_request(format!(
            "there is no project {id:?}, and none can be created with that name: {error}"
        ))
    });
    project_named(app, caller, id, &name, slug).await
}

/// The project with this UUID, slug or name, if the caller may add results to it. Creates an absent one with the name
/// and slug, unless there is a reason against the slug. Refusals have the name alone, which the caller knows.
pub(in crate::api) async fn project_named(
    app: &App,
    caller: &Caller,
    id: String,
    name: &str,
    slug: Result<Slug, ApiError>,
) -> Result<Project, ApiError> {
    let known = {
        let id = id.clone();
        app.storage.read(move |database| Ok::<_, ApiError>(database.project(&id)?)).await?
    };
    let allows_anonymous = app.settings.allow_anonymous_runs;
    if let Some(project) = known {
        return match may_add(caller, &project, allows_anonymous) {
            true => Ok(project),
            false => Err(not_allowed(caller, name)),
        };
    }
    let is_open = allows_anonymous && *caller == Caller::Anonymous;
    if !caller.has_role(Role::Member) && !is_open {
        return Err(not_allowed(caller, name));
    }
    if Uuid::try_parse(&id).is_ok() {
        return Err(ApiError::not_found(format!("there is no project with the UUID {id}")));
    }
    let slug = slug?;
    let name = ProjectName::new(name).or_else(|_| ProjectName::new(slug.as_str()));
    let name = name.map_err(|error| ApiError::bad_request(error.to_string()))?;
    let visibility = visibility_of_new(caller);
    let new = NewProject { name, slug: Some(slug), url: None, visibility };
    let make = move |database: &mut Database| {
        // Another run may have created it in the meantime.
        let known = database.project(&id)?;
        match known {
            Some(known) => Ok::<_, ApiError>(known),
            None => Ok(database.create_project(&new, OffsetDateTime::now_utc())?),
        }
    };
    app.storage.write(make).await
}

/// Visibility of a project created by a run. An anonymous sender could not read or extend a private one.
fn visibility_of_new(caller: &Caller) -> Visibility {
    match caller {
        Caller::Anonymous => Visibility::Public,
        Caller::User { .. } | Caller::ProjectKey { .. } => Visibility::default(),
    }
}

fn may_add(caller: &Caller, project: &Project, allows_anonymous: bool) -> bool {
    match caller {
        Caller::Anonymous => allows_anonymous && project.visibility == Visibility::Public,
        known => known.has(Right::Write, Some(project)),
    }
}

fn not_allowed(caller: &Caller, project: &str) -> ApiError {
    match caller {
        Caller::Anonymous => ApiError::unauthorized(format!(
            "results for the project {project:?} need a key: send one with --key; members of the server \
             create keys on its pages"
        )),
        Caller::ProjectKey { .. } => ApiError::forbidden(format!(
            "the key belongs to another project than {project:?}, or that project does not exist"
        )),
        Caller::User { .. } => ApiError::forbidden(format!(
            "the user may read {project:?}, but not add results: an admin can change the user's role to member"
        )),
    }
}

/// Slug and name of a project that the client did not name: as in Bencher's server, one repository on one machine is
/// one project.
fn derived(context: &Context) -> Result<(String, String), ApiError> {
    let missing = || {
        ApiError::bad_request(
            "the run has no project, and no repository to derive one from: pass --project",
        )
    };
    let name = context.get("repo/name").ok_or_else(missing)?;
    let part = |key: &str, digits: usize| {
        let text = Slug::of(context.get(key).unwrap_or("0")).to_string();
        text.chars().take(digits).collect::<String>()
    };
    let head: String = Slug::of(name).as_str().chars().take(42).collect();
    let text = format!("{head}-{}-{}", part("repo/hash", 7), part("testbed/fingerprint", 13));
    Ok((Slug::of(&text).to_string(), name.to_owned()))
}

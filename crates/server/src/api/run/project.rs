//! Project of a run: the one named, or one created on first use.

use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_track::model::{ProjectName, Slug};

use super::new_report::Context;
use crate::{
    ApiError, App,
    access::{Caller, Right, Role},
    api::shapes::JsonNewRun,
    registry::{NewProject, Project, Visibility},
    storage::Databases,
};

/// Project of a run, if the caller may add results to it.
pub(super) async fn of_run(
    app: &App,
    caller: &Caller,
    new: &JsonNewRun,
) -> Result<Project, ApiError> {
    let context = Context::of(new.context.as_ref());
    let (id, name) = match (&new.project, caller) {
        (Some(id), _) => (id.clone(), id.clone()),
        (None, Caller::ProjectKey { .. }) => {
            return Err(ApiError::bad_request(
                "a project's key was sent without a project: name it with --project",
            ));
        }
        (None, _) => derived(&context)?,
    };
    let slug = Slug::new(&id).map_err(|error| {
        ApiError::bad_request(format!(
            "there is no project {id:?}, and none can be made of that name: {error}"
        ))
    });
    named(app, caller, id, &name, slug).await
}

/// The project with this UUID, slug or name, if the caller may add results to it. Creates an absent one with the name
/// and slug, unless there is a reason against the slug.
pub(in crate::api) async fn named(
    app: &App,
    caller: &Caller,
    id: String,
    name: &str,
    slug: Result<Slug, ApiError>,
) -> Result<Project, ApiError> {
    let known = {
        let id = id.clone();
        app.storage
            .read(move |databases| Ok::<_, ApiError>(databases.registry.project(&id)?))
            .await?
    };
    let allows_anonymous = app.settings.allow_anonymous_runs;
    if let Some(project) = known {
        check(caller, &project, allows_anonymous)?;
        return Ok(project);
    }
    let is_open = allows_anonymous && *caller == Caller::Anonymous;
    if !caller.has_role(Role::Member) && !is_open {
        return Err(refusal(caller, &id));
    }
    if Uuid::try_parse(&id).is_ok() {
        return Err(ApiError::not_found(format!("there is no project with the UUID {id}")));
    }
    let slug = slug?;
    let name = ProjectName::new(name).or_else(|_| ProjectName::new(slug.as_str()));
    let name = name.map_err(|error| ApiError::bad_request(error.to_string()))?;
    let visibility = visibility_of_new(caller);
    let new = NewProject { name, slug: Some(slug), url: None, visibility };
    let make = move |databases: &mut Databases| {
        // Another run may have created it in the meantime.
        let known = databases.registry.project(&id)?;
        match known {
            Some(known) => Ok::<_, ApiError>(known),
            None => Ok(databases.registry.create_project(&new, OffsetDateTime::now_utc())?),
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

fn check(caller: &Caller, project: &Project, allows_anonymous: bool) -> Result<(), ApiError> {
    let is_public = project.visibility == Visibility::Public;
    let is_allowed = match caller {
        Caller::Anonymous => allows_anonymous && is_public,
        known => known.has(Right::Write, Some(project)),
    };
    if is_allowed { Ok(()) } else { Err(refusal(caller, project.slug.as_str())) }
}

fn refusal(caller: &Caller, project: &str) -> ApiError {
    match caller {
        Caller::Anonymous => ApiError::unauthorized(format!(
            "results for the project {project:?} need a key: send one with --key; members of the server \
             make keys on its pages"
        )),
        Caller::ProjectKey { .. } => ApiError::forbidden(format!(
            "the key is that of another project than {project:?}, or there is no such project"
        )),
        Caller::User { .. } => ApiError::forbidden(format!(
            "the user may read {project:?}, and not add results to it: an admin can make the user a member"
        )),
    }
}

/// Slug and name of a project that the client did not name: as in Bencher's server, one repository on one machine is
/// one project.
fn derived(context: &Context) -> Result<(String, String), ApiError> {
    let missing = || {
        ApiError::bad_request(
            "the run names no project and comes from no repository: name it with --project",
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

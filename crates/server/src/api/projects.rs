//! `/v0/projects`, and `/v0/organizations`, of which a server has one.

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::StatusCode,
};
use serde::Deserialize;
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};
use utoipa::IntoParams;
use wingbeat_track::model::ProjectName;

use super::{
    names::slug,
    request::{Asked, Body, Created, Listed, Paging},
    shapes::{
        JsonAllowed, JsonNewProject, JsonOrganization, JsonProject, JsonUpdateProject,
        JsonVisibility,
    },
    view,
};
use crate::{
    ApiError, App,
    access::{Caller, Right, Role},
    database::{Database, NewProject, Project, ProjectChange, Visibility},
};

/// Sort keys of a list of projects.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum Sort {
    Name,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Query {
    #[allow(dead_code, reason = "there is one order; others are refused as they are read")]
    #[param(inline)]
    sort: Option<Sort>,
    /// Exact name.
    name: Option<String>,
    /// Part of the name or slug.
    search: Option<String>,
}

pub(super) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Asked(paging): Asked<Paging>,
    Asked(query): Asked<Query>,
) -> Result<Listed<JsonProject>, ApiError> {
    let read = |database: &Database| Ok::<_, ApiError>(database.projects()?);
    let mut projects = app.storage.read(read).await?;
    let sought = query.search.map(|text| text.to_lowercase());
    projects.retain(|project| {
        let has = |text: &str| {
            project.name.to_lowercase().contains(text) || project.slug.as_str().contains(text)
        };
        caller.has(Right::Read, Some(project))
            && query.name.as_ref().is_none_or(|name| *name == project.name)
            && sought.as_deref().is_none_or(has)
    });
    if paging.is_descending(false) {
        projects.reverse();
    }
    let (page, count) = paging.of(projects);
    Ok(Listed(page.iter().map(view::project).collect(), count))
}

pub(super) async fn view(Extension(project): Extension<Project>) -> Json<JsonProject> {
    Json(view::project(&project))
}

pub(super) async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(organization): Path<String>,
    Body(new): Body<JsonNewProject>,
) -> Result<Created<JsonProject>, ApiError> {
    is_ours(&organization)?;
    if !caller.has_role(Role::Member) {
        return Err(match caller {
            Caller::Anonymous => {
                ApiError::unauthorized("creating a project needs a key: send a user's key")
            }
            _ => ApiError::forbidden(
                "creating a project needs a member's key; this one has fewer rights",
            ),
        });
    }
    check_url(new.url.as_deref())?;
    let name = ProjectName::new(&new.name);
    let new = NewProject {
        name: name.map_err(|error| ApiError::bad_request(error.to_string()))?,
        slug: slug(new.slug.as_deref())?,
        url: new.url,
        visibility: new.visibility.map(visibility).unwrap_or_default(),
    };
    let create = move |database: &mut Database| {
        if let Some(slug) = &new.slug
            && database.project(slug.as_str())?.is_some()
        {
            return Err(taken(slug.as_str()));
        }
        Ok(database.create_project(&new, OffsetDateTime::now_utc())?)
    };
    let project = app.storage.write(create).await?;
    Ok(Created(view::project(&project)))
}

pub(super) async fn update(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Body(change): Body<JsonUpdateProject>,
) -> Result<Json<JsonProject>, ApiError> {
    if let Some(name) = &change.name {
        ProjectName::new(name).map_err(|error| ApiError::bad_request(error.to_string()))?;
    }
    check_url(change.url.as_ref().and_then(Option::as_deref))?;
    let change = ProjectChange {
        name: change.name,
        slug: slug(change.slug.as_deref())?,
        url: change.url,
        visibility: change.visibility.map(visibility),
        judges_by_default: None,
    };
    let update = move |database: &mut Database| {
        let now = OffsetDateTime::now_utc();
        let changed = database.change_project(project.id, &change, now)?;
        let asked = change.slug.as_ref().map_or(project.slug.as_str(), |slug| slug.as_str());
        changed.ok_or_else(|| taken(asked))
    };
    let project = app.storage.write(update).await?;
    Ok(Json(view::project(&project)))
}

pub(super) async fn delete(
    State(app): State<App>,
    Extension(project): Extension<Project>,
) -> Result<StatusCode, ApiError> {
    let uuid = project.uuid;
    let delete = move |database: &mut Database| {
        database.delete_project(project.id, "its project was deleted by the API")?;
        Ok::<_, ApiError>(StatusCode::NO_CONTENT)
    };
    let done = app.storage.write(delete).await?;
    app.forget_profiles(uuid).await;
    Ok(done)
}

/// Whether the caller has a permission in a project, in the client's terms.
pub(super) async fn allowed(
    Extension(caller): Extension<Caller>,
    Extension(project): Extension<Project>,
    Path((_, permission)): Path<(String, String)>,
) -> Result<Json<JsonAllowed>, ApiError> {
    let right = match permission.as_str() {
        "view" => Right::Read,
        "create" | "edit" => Right::Write,
        "delete" | "manage" => Right::Manage,
        "view_role" => Right::SignedIn,
        "create_role" | "edit_role" | "delete_role" => Right::Admin,
        other => return Err(no_permission(other)),
    };
    Ok(Json(JsonAllowed { allowed: caller.has(right, Some(&project)) }))
}

fn no_permission(asked: &str) -> ApiError {
    ApiError::bad_request(format!(
        "there is no permission {asked:?}; there are view, create, edit, delete, manage, view_role, create_role, \
         edit_role and delete_role"
    ))
}

/// The same of the organization: members make projects, and admins manage users.
pub(super) async fn allowed_in_organization(
    Extension(caller): Extension<Caller>,
    Path((id, permission)): Path<(String, String)>,
) -> Result<Json<JsonAllowed>, ApiError> {
    is_ours(&id)?;
    let allowed = match permission.as_str() {
        "view" => true,
        "create" => caller.has_role(Role::Member),
        // Nobody can change or delete it.
        "edit" | "delete" | "manage" => false,
        "view_role" | "create_role" | "edit_role" | "delete_role" => caller.has_role(Role::Admin),
        other => return Err(no_permission(other)),
    };
    Ok(Json(JsonAllowed { allowed }))
}

/// Days of usage, of which there is no other period: nobody pays.
const USAGE: Duration = Duration::days(30);

pub(super) async fn usage(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    is_ours(&id)?;
    let end = OffsetDateTime::now_utc();
    let start = end - USAGE;
    let read = move |database: &Database| Ok::<_, ApiError>(database.counts(start)?);
    let metrics = app.storage.read(read).await?.metrics;
    let time = |time: OffsetDateTime| time.format(&Rfc3339).unwrap_or_default();
    Ok(Json(json!({
        "organization": view::organization().uuid,
        "kind": "self_hosted_free",
        "start_time": time(start),
        "end_time": time(end),
        // The client reads 32 bits.
        "metrics": u32::try_from(metrics).unwrap_or(u32::MAX),
    })))
}

pub(super) async fn refuse_organization() -> ApiError {
    ApiError::forbidden(format!(
        "a server has one organization, {:?}, which cannot be changed: make projects in it",
        view::organization().slug
    ))
}

pub(super) async fn organizations() -> Listed<JsonOrganization> {
    Listed(vec![view::organization()], 1)
}

pub(super) async fn organization(
    Path(id): Path<String>,
) -> Result<Json<JsonOrganization>, ApiError> {
    is_ours(&id)?;
    Ok(Json(view::organization()))
}

pub(super) async fn list_of_organization(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    paging: Asked<Paging>,
    query: Asked<Query>,
) -> Result<Listed<JsonProject>, ApiError> {
    is_ours(&id)?;
    list(State(app), Extension(caller), paging, query).await
}

fn is_ours(organization: &str) -> Result<(), ApiError> {
    let ours = view::organization();
    if organization == ours.slug || organization.eq_ignore_ascii_case(&ours.uuid.to_string()) {
        return Ok(());
    }
    Err(ApiError::not_found(format!(
        "there is no organization {organization:?}: this server has one, {:?}",
        ours.slug
    )))
}

/// Validates a project's URL: pages link to it, so it must not be a script.
fn check_url(url: Option<&str>) -> Result<(), ApiError> {
    let is_link = |url: &str| {
        let is_web = url.starts_with("https://") || url.starts_with("http://");
        is_web && url.len() <= 1024 && url.bytes().all(|byte| byte.is_ascii_graphic())
    };
    match url {
        Some(url) if !is_link(url) => Err(ApiError::bad_request(format!(
            "{:?} is not a valid project address: it must begin with https:// or http:// and contain no blanks",
            url.chars().take(80).collect::<String>()
        ))),
        _ => Ok(()),
    }
}

fn visibility(visibility: JsonVisibility) -> Visibility {
    match visibility {
        JsonVisibility::Public => Visibility::Public,
        JsonVisibility::Private => Visibility::Internal,
    }
}

fn taken(slug: &str) -> ApiError {
    ApiError::conflict(format!("there is another project with the slug {slug:?}"))
}

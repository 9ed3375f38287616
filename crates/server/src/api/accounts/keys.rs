//! Keys of projects and of users.

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::StatusCode,
};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::{
    super::request::{Asked, Listed, Paging},
    shapes::{JsonKey, JsonKeyCreated, JsonNewKey, JsonUpdateKey},
    users::{self, Wanted},
};
use crate::{
    ApiError, App,
    access::{Caller, KeyKind, KeyText, Means},
    registry::{Key, KeyOwner, NO_END, NewKey, Project, Registry, User, key_name_fault},
    storage::StorageError,
};

type Created = (StatusCode, Json<JsonKeyCreated>);

/// Path parameters of one key.
#[derive(Debug, serde::Deserialize)]
pub(super) struct OneKey {
    key: String,
    user: Option<String>,
}

pub(super) async fn list_of_project(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Asked(wanted): Asked<Wanted>,
    Asked(paging): Asked<Paging>,
) -> Result<Listed<JsonKey>, ApiError> {
    let owner = KeyOwner::Project(project.id);
    let keys =
        app.storage.read(move |databases| listed(&databases.registry, owner, wanted.revoked));
    Ok(wanted.page(paging, keys.await?, name, |key| JsonKey::of_project(key, project.uuid)))
}

pub(super) async fn create_of_project(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Extension(caller): Extension<Caller>,
    Json(new): Json<JsonNewKey>,
) -> Result<Created, ApiError> {
    let owner = KeyOwner::Project(project.id);
    let (key, text) = create(&app, owner, caller.user(), new).await?;
    let shown = JsonKey::of_project(&key, project.uuid).with_text(&text);
    Ok((StatusCode::CREATED, Json(shown)))
}

pub(super) async fn view_of_project(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Path(path): Path<OneKey>,
) -> Result<Json<JsonKey>, ApiError> {
    let owner = KeyOwner::Project(project.id);
    let key = app.storage.read(move |databases| one(&databases.registry, owner, &path.key)).await?;
    Ok(Json(JsonKey::of_project(&key, project.uuid)))
}

pub(super) async fn rename_of_project(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Path(path): Path<OneKey>,
    Json(update): Json<JsonUpdateKey>,
) -> Result<Json<JsonKey>, ApiError> {
    let owner = KeyOwner::Project(project.id);
    let rename =
        app.storage.write(move |databases| rename(&databases.registry, owner, &path.key, update));
    Ok(Json(JsonKey::of_project(&rename.await?, project.uuid)))
}

pub(super) async fn revoke_of_project(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Path(path): Path<OneKey>,
) -> Result<StatusCode, ApiError> {
    let owner = KeyOwner::Project(project.id);
    app.storage.write(move |databases| revoke(&databases.registry, owner, &path.key)).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn list_of_user(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(user): Path<String>,
    Asked(wanted): Asked<Wanted>,
    Asked(paging): Asked<Paging>,
) -> Result<Listed<JsonKey>, ApiError> {
    let read = app.storage.read(move |databases| {
        let user = users::of(&databases.registry, &caller, &user)?;
        let keys = listed(&databases.registry, KeyOwner::User(user.id), wanted.revoked)?;
        Ok::<_, ApiError>((user, keys))
    });
    let (user, keys) = read.await?;
    Ok(wanted.page(paging, keys, name, |key| JsonKey::of_user(key, user.uuid)))
}

/// Creates a key of the calling user. Keys cannot create keys, because a leaked one could then renew itself forever.
pub(super) async fn create_of_user(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Json(new): Json<JsonNewKey>,
) -> Result<Created, ApiError> {
    let asks = caller.clone();
    let read = app.storage.read(move |databases| users::of(&databases.registry, &asks, &id));
    let user: User = read.await?;
    if !matches!(caller, Caller::User { id, by: Means::Session, .. } if id == user.id) {
        return Err(ApiError::forbidden(format!(
            "users make their keys themselves, and not by another key: sign in at {}/console/account, or use \
             `wingbeat serve key create --user` on the server",
            app.settings.public_url
        )));
    }
    let (key, text) = create(&app, KeyOwner::User(user.id), None, new).await?;
    Ok((StatusCode::CREATED, Json(JsonKey::of_user(&key, user.uuid).with_text(&text))))
}

pub(super) async fn view_of_user(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(path): Path<OneKey>,
) -> Result<Json<JsonKey>, ApiError> {
    let read = app.storage.read(move |databases| {
        let (user, owner) = path.owner(&databases.registry, &caller)?;
        let key = one(&databases.registry, owner, &path.key)?;
        Ok::<_, ApiError>(JsonKey::of_user(&key, user.uuid))
    });
    Ok(Json(read.await?))
}

pub(super) async fn rename_of_user(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(path): Path<OneKey>,
    Json(update): Json<JsonUpdateKey>,
) -> Result<Json<JsonKey>, ApiError> {
    let write = app.storage.write(move |databases| {
        let (user, owner) = path.owner(&databases.registry, &caller)?;
        let key = rename(&databases.registry, owner, &path.key, update)?;
        Ok::<_, ApiError>(JsonKey::of_user(&key, user.uuid))
    });
    Ok(Json(write.await?))
}

pub(super) async fn revoke_of_user(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(path): Path<OneKey>,
) -> Result<StatusCode, ApiError> {
    let write = app.storage.write(move |databases| {
        let (_, owner) = path.owner(&databases.registry, &caller)?;
        revoke(&databases.registry, owner, &path.key)
    });
    write.await?;
    Ok(StatusCode::NO_CONTENT)
}

impl OneKey {
    fn owner(&self, registry: &Registry, caller: &Caller) -> Result<(User, KeyOwner), ApiError> {
        let user = users::of(registry, caller, self.user.as_deref().unwrap_or_default())?;
        let owner = KeyOwner::User(user.id);
        Ok((user, owner))
    }
}

fn name(key: &Key) -> &str {
    &key.name
}

/// Active keys, or revoked ones.
fn listed(registry: &Registry, owner: KeyOwner, is_revoked: bool) -> Result<Vec<Key>, ApiError> {
    let mut keys = registry.keys(owner).map_err(StorageError::from)?;
    keys.retain(|key| key.revoked.is_some() == is_revoked);
    Ok(keys)
}

async fn create(
    app: &App,
    owner: KeyOwner,
    creator: Option<i64>,
    new: JsonNewKey,
) -> Result<(Key, KeyText), ApiError> {
    if let Some(fault) = key_name_fault(&new.name) {
        return Err(ApiError::bad_request(fault));
    }
    let kind = match owner {
        KeyOwner::User(_) => KeyKind::User,
        KeyOwner::Project(_) => KeyKind::Project,
    };
    let text = KeyText::random(kind)?;
    let now = OffsetDateTime::now_utc();
    let expires = now + new.ttl.map_or(NO_END, |ttl| Duration::seconds(ttl.into()));
    let new = NewKey { owner, name: new.name, hash: text.digest(), creator, expires };
    let key = app.storage.write(move |databases| {
        databases.registry.create_key(&new, now).map_err(StorageError::from)
    });
    Ok((key.await?, text))
}

fn one(registry: &Registry, owner: KeyOwner, id: &str) -> Result<Key, ApiError> {
    let key = match Uuid::try_parse(id) {
        Ok(uuid) => registry.key(owner, uuid).map_err(StorageError::from)?,
        Err(_) => None,
    };
    key.ok_or_else(|| no_key(id))
}

fn rename(
    registry: &Registry,
    owner: KeyOwner,
    id: &str,
    update: JsonUpdateKey,
) -> Result<Key, ApiError> {
    let key = one(registry, owner, id)?;
    let Some(name) = update.name else { return Ok(key) };
    if let Some(fault) = key_name_fault(&name) {
        return Err(ApiError::bad_request(fault));
    }
    let renamed = registry.rename_key(owner, key.uuid, &name).map_err(StorageError::from)?;
    renamed.ok_or_else(|| no_key(id))
}

fn revoke(registry: &Registry, owner: KeyOwner, id: &str) -> Result<(), ApiError> {
    let key = one(registry, owner, id)?;
    let now = OffsetDateTime::now_utc();
    registry.revoke_key(owner, key.uuid, now).map_err(StorageError::from)?;
    Ok(())
}

fn no_key(id: &str) -> ApiError {
    ApiError::not_found(format!("there is no key {id:?} here; keys are named by their UUIDs"))
}

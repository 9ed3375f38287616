//! Keys of projects and of users: the same routes for both.

use std::collections::HashMap;

use axum::{
    Extension, Json,
    extract::{FromRequestParts, Path, State},
    http::{StatusCode, request::Parts},
};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::{
    super::request::{Asked, Created, Listed, Paging},
    JsonKey, JsonKeyCreated, JsonNewKey, JsonUpdateKey, Wanted, user_of,
};
use crate::{
    ApiError, App,
    access::{Caller, KeyKind, KeyText},
    database::{Database, Key, KeyOwner, NO_END, NewKey, Project, key_name_fault},
};

/// The project or user in a path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    row: KeyOwner,
    uuid: Uuid,
}

impl FromRequestParts<App> for Owner {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        if let Some(project) = parts.extensions.get::<Project>() {
            return Ok(Self { row: KeyOwner::Project(project.id), uuid: project.uuid });
        }
        let caller = parts.extensions.get::<Caller>().cloned().unwrap_or(Caller::Anonymous);
        let names = Path::<HashMap<String, String>>::from_request_parts(parts, app).await;
        let id = names.ok().and_then(|mut names| names.remove("user")).unwrap_or_default();
        let find = move |database: &Database| user_of(database, &caller, &id);
        let user = app.storage.read(find).await?;
        Ok(Self { row: KeyOwner::User(user.id), uuid: user.uuid })
    }
}

/// Path parameter of one key.
#[derive(Debug, serde::Deserialize)]
pub(super) struct OneKey {
    key: String,
}

pub(super) async fn list(
    State(app): State<App>,
    owner: Owner,
    Asked(wanted): Asked<Wanted>,
    Asked(paging): Asked<Paging>,
) -> Result<Listed<JsonKey>, ApiError> {
    let mut keys = app.storage.ask(move |database| database.keys(owner.row)).await?;
    keys.retain(|key| key.revoked.is_some() == wanted.revoked);
    Ok(wanted.page(paging, keys, |key| &key.name, |key| json(key, owner)))
}

/// Creates a key. Keys cannot create keys of users, because a leaked one could then renew itself forever.
pub(super) async fn create(
    State(app): State<App>,
    owner: Owner,
    Extension(caller): Extension<Caller>,
    Json(new): Json<JsonNewKey>,
) -> Result<Created<JsonKeyCreated>, ApiError> {
    let (kind, creator) = match owner.row {
        KeyOwner::Project(_) => (KeyKind::Project, caller.user()),
        KeyOwner::User(id) if caller.is_signed_in_as(id) => (KeyKind::User, None),
        KeyOwner::User(_) => {
            return Err(ApiError::forbidden(format!(
                "a user's keys are created by that user in the browser: sign in at {}/console/account, or use \
                 `wingbeat serve key create --user` on the server",
                app.settings.public_url
            )));
        }
    };
    check_name(&new.name)?;
    let (text, now) = (KeyText::random(kind)?, OffsetDateTime::now_utc());
    let expires = now + new.ttl.map_or(NO_END, |ttl| Duration::seconds(ttl.into()));
    let (owner_row, hash) = (owner.row, text.digest());
    let new = NewKey { owner: owner_row, name: new.name, hash, creator, expires };
    let create = move |database: &mut Database| Ok::<_, ApiError>(database.create_key(&new, now)?);
    let about = json(&app.storage.write(create).await?, owner);
    Ok(Created(JsonKeyCreated { about, key: text.as_str().to_owned(), token: text.token() }))
}

pub(super) async fn view(
    State(app): State<App>,
    owner: Owner,
    Path(path): Path<OneKey>,
) -> Result<Json<JsonKey>, ApiError> {
    let read = move |database: &Database| one(database, owner, &path.key);
    Ok(Json(json(&app.storage.read(read).await?, owner)))
}

pub(super) async fn rename(
    State(app): State<App>,
    owner: Owner,
    Path(path): Path<OneKey>,
    Json(update): Json<JsonUpdateKey>,
) -> Result<Json<JsonKey>, ApiError> {
    let rename = move |database: &mut Database| {
        let database = &database;
        let key = one(database, owner, &path.key)?;
        let Some(name) = update.name else { return Ok(key) };
        check_name(&name)?;
        let renamed = database.rename_key(owner.row, key.uuid, &name)?;
        renamed.ok_or_else(|| no_key(&path.key))
    };
    Ok(Json(json(&app.storage.write(rename).await?, owner)))
}

pub(super) async fn revoke(
    State(app): State<App>,
    owner: Owner,
    Path(path): Path<OneKey>,
) -> Result<StatusCode, ApiError> {
    let revoke = move |database: &mut Database| {
        let key = one(database, owner, &path.key)?;
        database.revoke_key(owner.row, key.uuid, OffsetDateTime::now_utc())?;
        Ok::<_, ApiError>(StatusCode::NO_CONTENT)
    };
    app.storage.write(revoke).await
}

fn one(database: &Database, owner: Owner, id: &str) -> Result<Key, ApiError> {
    let key = match Uuid::try_parse(id) {
        Ok(uuid) => database.key(owner.row, uuid)?,
        Err(_) => None,
    };
    key.ok_or_else(|| no_key(id))
}

fn check_name(name: &str) -> Result<(), ApiError> {
    key_name_fault(name).map_or(Ok(()), |fault| Err(ApiError::bad_request(fault)))
}

fn no_key(id: &str) -> ApiError {
    ApiError::not_found(format!("there is no key {id:?} here; keys are identified by UUID"))
}

fn json(key: &Key, owner: Owner) -> JsonKey {
    let (project, user, creator) = match owner.row {
        KeyOwner::Project(_) => (Some(owner.uuid), None, key.creator),
        KeyOwner::User(_) => (None, Some(owner.uuid), None),
    };
    JsonKey {
        uuid: key.uuid,
        project,
        user,
        creator,
        name: key.name.clone(),
        creation: key.created,
        expiration: key.expires,
        revoked: key.revoked,
    }
}

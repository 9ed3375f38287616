//! Users and keys. Sign-up and sign-in happen on pages, not in this API.

mod keys;

use axum::{
    Extension, Json,
    extract::{Path, State},
};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    names::slug,
    request::{Asked, Body, Listed, Paging},
    shapes::whole,
    spec::Endpoint,
};
use crate::{
    ApiError, App,
    access::{Caller, Right, Role},
    database::{Database, NewUser, User, UserRefusal, user_fault},
};

pub(super) fn endpoints() -> Vec<Endpoint> {
    let own = Right::Handler;
    let mut all = vec![
        Endpoint::get("/v0/users", Right::Admin, list, "List users")
            .query::<Paging>()
            .query::<Wanted>()
            .answer_list::<JsonUser>("Users by name"),
        Endpoint::get("/v0/users/{user}", own, view, "View a user")
            .answer::<JsonUser>(200, "The user"),
        Endpoint::patch("/v0/users/{user}", own, update, "Change a user")
            .body::<JsonUpdateUser>()
            .answer::<JsonUser>(200, "The changed user"),
        Endpoint::post(
            "/v0/users/{user}/tokens",
            Right::SignedIn,
            refuse_tokens,
            "Refused: a new key is shown as a token, too",
        ),
    ];
    let (of_project, of_user) = ("/v0/projects/{project}/keys", "/v0/users/{user}/keys");
    all.extend(of_keys(of_project, "/v0/projects/{project}/keys/{key}", Right::Manage));
    all.extend(of_keys(of_user, "/v0/users/{user}/keys/{key}", own));
    let refused = ["/v0/auth/signup", "/v0/auth/login", "/v0/auth/confirm", "/v0/auth/accept"];
    all.extend(refused.map(|path| {
        let summary = "Refused: browsers have pages for signing up and in";
        Endpoint::post(path, Right::Open, refuse_auth, summary)
    }));
    all
}

fn of_keys(all: &'static str, one: &'static str, right: Right) -> Vec<Endpoint> {
    vec![
        Endpoint::get(all, right, keys::list, "List keys")
            .query::<Paging>()
            .query::<Wanted>()
            .answer_list::<JsonKey>("Keys by name, without their texts"),
        Endpoint::post(all, right, keys::create, "Create a key")
            .body::<JsonNewKey>()
            .answer::<JsonKeyCreated>(201, "The new key with its text, this once"),
        Endpoint::get(one, right, keys::view, "View a key")
            .answer::<JsonKey>(200, "The key without its text"),
        Endpoint::patch(one, right, keys::rename, "Rename a key")
            .body::<JsonUpdateKey>()
            .answer::<JsonKey>(200, "The changed key"),
        Endpoint::delete(one, right, keys::revoke, "Revoke a key"),
    ]
}

/// Answers `bencher auth …`.
async fn refuse_auth(State(app): State<App>) -> ApiError {
    ApiError::forbidden(format!(
        "sign-up and sign-in happen in the browser: an admin invites users at {0}/console/users, and \
         users create keys at {0}/console/account; then pass `--key KEY`",
        app.settings.public_url
    ))
}

/// Answers `bencher token create`, like Bencher's servers since 0.6.7.
async fn refuse_tokens(State(app): State<App>) -> ApiError {
    ApiError::forbidden(format!(
        "tokens are not created separately: each new key is also shown as a token, for clients before 0.6.5; \
         create one at {}/console/account",
        app.settings.public_url
    ))
}

/// A user.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct JsonUser {
    uuid: Uuid,
    name: String,
    slug: String,
    email: String,
    admin: bool,
    locked: bool,
    #[serde(with = "time::serde::rfc3339")]
    created: OffsetDateTime,
    /// The role: `reader`, `member` or `admin`.
    #[schema(value_type = String)]
    role: Role,
}

/// Changes of a user. Absent fields stay unchanged.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
struct JsonUpdateUser {
    #[schema(max_length = 64)]
    name: Option<String>,
    #[schema(pattern = "^[a-z0-9]+(-[a-z0-9]+)*$", max_length = 64)]
    slug: Option<String>,
    /// Refused: people sign in with it, and admins invite them under it.
    email: Option<String>,
    /// Admins only.
    admin: Option<bool>,
    /// Admins only.
    locked: Option<bool>,
}

/// A key, without its text.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct JsonKey {
    uuid: Uuid,
    /// The project, for a project key.
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<Uuid>,
    /// The user, for a user key.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<Uuid>,
    /// Creator of a project key, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    creator: Option<Uuid>,
    name: String,
    #[serde(with = "time::serde::rfc3339")]
    creation: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    expiration: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    revoked: Option<OffsetDateTime>,
}

/// A new key: its text is shown this once.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct JsonKeyCreated {
    #[serde(flatten)]
    about: JsonKey,
    key: String,
    /// The same key for clients before 0.6.5, which know only `--token`.
    token: String,
}

/// A key to create.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
struct JsonNewKey {
    #[schema(
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$",
        max_length = 64
    )]
    name: String,
    /// Lifetime in seconds; about 136 years by default.
    #[serde(default, deserialize_with = "whole")]
    #[schema(value_type = Option<u32>)]
    ttl: Option<u32>,
}

/// A key's new name.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
struct JsonUpdateKey {
    name: Option<String>,
}

impl From<&User> for JsonUser {
    fn from(user: &User) -> Self {
        Self {
            uuid: user.uuid,
            name: user.name.clone(),
            slug: user.slug.clone(),
            email: user.email.clone(),
            admin: user.role == Role::Admin,
            locked: user.is_locked,
            created: user.created,
            role: user.role,
        }
    }
}

async fn list(
    State(app): State<App>,
    Asked(wanted): Asked<Wanted>,
    Asked(paging): Asked<Paging>,
) -> Result<Listed<JsonUser>, ApiError> {
    let users = app.storage.ask(Database::users).await?;
    Ok(wanted.page(paging, users, |user| &user.name, |user| user.into()))
}

async fn view(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<JsonUser>, ApiError> {
    let user = app.storage.read(move |database| user_of(database, &caller, &id)).await?;
    Ok(Json(JsonUser::from(&user)))
}

/// Users change their own names, and admins those of all, roles and locks.
async fn update(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Body(change): Body<JsonUpdateUser>,
) -> Result<Json<JsonUser>, ApiError> {
    let slug = slug(change.slug.as_deref())?;
    let update = move |database: &mut Database| {
        database.together(|database| {
            let user = user_of(database, &caller, &id)?;
            check(&caller, &user, &change)?;
            let now = OffsetDateTime::now_utc();
            let name = change.name.as_deref().map(str::trim).unwrap_or(&user.name);
            let slug = slug.as_ref().map_or(user.slug.as_str(), |slug| slug.as_str());
            let mut changed = database.set_name(user.id, name, slug, now)?.map_err(conflict)?;
            let role = match change.admin {
                Some(true) => Role::Admin,
                Some(false) => user.role.min(Role::Member),
                None => user.role,
            };
            if role != user.role {
                changed = database.set_role(user.id, role, now)?.map_err(conflict)?;
            }
            if let Some(locked) = change.locked.filter(|locked| *locked != user.is_locked) {
                changed = database.set_locked(user.id, locked, now)?.map_err(conflict)?;
            }
            let who = caller.user().map(|row| database.user_of(row)).transpose()?.flatten();
            let who = who.map(|user| user.email).unwrap_or_default();
            database.note(&who, &format!("changed {} by the API", user.email), now)?;
            Ok::<_, ApiError>(changed)
        })
    };
    let changed = app.storage.write(update).await?;
    Ok(Json(JsonUser::from(&changed)))
}

fn conflict(refusal: UserRefusal) -> ApiError {
    ApiError::conflict(refusal.to_string())
}

/// Refuses changes that the caller may not make.
fn check(caller: &Caller, user: &User, change: &JsonUpdateUser) -> Result<(), ApiError> {
    if change.email.as_ref().is_some_and(|email| !email.eq_ignore_ascii_case(&user.email)) {
        return Err(ApiError::forbidden(
            "an email address cannot be changed: an admin invites the new one at /console/users, and locks the old one",
        ));
    }
    if change.admin.or(change.locked).is_some() && !caller.has_role(Role::Admin) {
        return Err(ApiError::forbidden(
            "only admins change who is an admin, and who is locked out",
        ));
    }
    if let Some(name) = &change.name {
        let new =
            NewUser { name: name.trim().to_owned(), email: user.email.clone(), role: user.role };
        if let Some(fault) = user_fault(&new) {
            return Err(ApiError::bad_request(fault));
        }
    }
    Ok(())
}

/// The user of a path, visible to the user and to admins. Others cannot learn whether it exists.
fn user_of(database: &Database, caller: &Caller, id: &str) -> Result<User, ApiError> {
    if *caller == Caller::Anonymous {
        return Err(ApiError::unauthorized(
            "this needs a key of the user: send one as `Authorization: Bearer KEY`",
        ));
    }
    let user = database.user(id)?;
    let may_see = |user: &User| caller.user() == Some(user.id) || caller.has_role(Role::Admin);
    user.filter(may_see).ok_or_else(|| {
        ApiError::not_found(format!("there is no user {id:?}, or this key belongs to another user"))
    })
}

/// Filter of a list by name.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
struct Wanted {
    /// Exact name.
    name: Option<String>,
    /// Part of the name.
    search: Option<String>,
    /// Revoked keys instead of active ones.
    revoked: bool,
}

impl Wanted {
    /// The requested page of a list sorted by name.
    fn page<T, J>(
        &self,
        paging: Paging,
        mut all: Vec<T>,
        name: impl Fn(&T) -> &str,
        json: impl Fn(&T) -> J,
    ) -> Listed<J> {
        let search = self.search.as_ref().map(|it| it.to_lowercase());
        all.retain(|it| self.name.as_ref().is_none_or(|wanted| name(it) == wanted));
        all.retain(|it| search.as_ref().is_none_or(|part| name(it).to_lowercase().contains(part)));
        if paging.is_descending(false) {
            all.reverse();
        }
        let (page, count) = paging.of(all);
        Listed(page.iter().map(json).collect(), count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_searched() {
        let check = |wanted: Wanted, expected: &[&str]| {
            let all = ["alpha", "beta", "Gamma", "gamma 2"].to_vec();
            let count = expected.len() as u64;
            let Listed(page, all) =
                wanted.page(Paging::default(), all, |it| it, |it| (*it).to_owned());
            assert_eq!((page, all), (expected.iter().map(|it| (*it).to_owned()).collect(), count));
        };
        check(Wanted::default(), &["alpha", "beta", "Gamma", "gamma 2"]);
        check(Wanted { search: Some("gam".into()), ..Default::default() }, &["Gamma", "gamma 2"]);
        check(Wanted { name: Some("beta".into()), ..Default::default() }, &["beta"]);
    }
}

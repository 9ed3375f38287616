//! Users and keys. Sign-up and sign-in happen on pages, not in this API.

mod keys;
mod shapes;
mod users;

use axum::{
    extract::State,
    http::Method,
    routing::{MethodRouter, delete, get, patch, post},
};

use self::{
    shapes::{JsonKey, JsonKeyCreated, JsonNewKey, JsonUpdateKey, JsonUser},
    users::Wanted,
};
use super::{request::Paging, spec::Endpoint};
use crate::{ApiError, App, access::Right};

/// Handlers of keys: list, create, view, rename, revoke.
type Handlers = [MethodRouter<App>; 5];

pub(super) fn endpoints() -> Vec<Endpoint> {
    let own = Right::Handler;
    let mut all = vec![
        Endpoint::new(Method::GET, "/v0/users", Right::Admin, get(users::list), "List users")
            .query::<Paging>()
            .query::<Wanted>()
            .answer_list::<JsonUser>("Users by name"),
        Endpoint::new(Method::GET, "/v0/users/{user}", own, get(users::view), "View a user")
            .answer::<JsonUser>(200, "The user"),
        Endpoint::new(
            Method::POST,
            "/v0/users/{user}/tokens",
            Right::SignedIn,
            post(refuse_tokens),
            "Refused: a new key is shown as a token, too",
        ),
    ];
    all.extend(of_keys(
        "/v0/projects/{project}/keys",
        "/v0/projects/{project}/keys/{key}",
        Right::Manage,
        [
            get(keys::list_of_project),
            post(keys::create_of_project),
            get(keys::view_of_project),
            patch(keys::rename_of_project),
            delete(keys::revoke_of_project),
        ],
    ));
    all.extend(of_keys(
        "/v0/users/{user}/keys",
        "/v0/users/{user}/keys/{key}",
        own,
        [
            get(keys::list_of_user),
            post(keys::create_of_user),
            get(keys::view_of_user),
            patch(keys::rename_of_user),
            delete(keys::revoke_of_user),
        ],
    ));
    let refused = ["/v0/auth/signup", "/v0/auth/login", "/v0/auth/confirm", "/v0/auth/accept"];
    all.extend(refused.map(|path| {
        let summary = "Refused: browsers have pages for signing up and in";
        Endpoint::new(Method::POST, path, Right::Open, post(refuse_auth), summary)
    }));
    all
}

fn of_keys(
    all: &'static str,
    one: &'static str,
    right: Right,
    handlers: Handlers,
) -> Vec<Endpoint> {
    let [list, create, view, rename, revoke] = handlers;
    vec![
        Endpoint::new(Method::GET, all, right, list, "List keys")
            .query::<Paging>()
            .query::<Wanted>()
            .answer_list::<JsonKey>("Keys by name, without their texts"),
        Endpoint::new(Method::POST, all, right, create, "Create a key")
            .body::<JsonNewKey>()
            .answer::<JsonKeyCreated>(201, "The new key with its text, this once"),
        Endpoint::new(Method::GET, one, right, view, "View a key")
            .answer::<JsonKey>(200, "The key without its text"),
        Endpoint::new(Method::PATCH, one, right, rename, "Rename a key")
            .body::<JsonUpdateKey>()
            .answer::<JsonKey>(200, "The changed key"),
        Endpoint::new(Method::DELETE, one, right, revoke, "Revoke a key").answer_nothing(),
    ]
}

/// Answers `bencher auth …`.
async fn refuse_auth(State(app): State<App>) -> ApiError {
    ApiError::forbidden(format!(
        "sign-up and sign-in happen in the browser: an admin invites users at {0}/console/users, and \
         users make keys at {0}/console/account; then pass `--key KEY`",
        app.settings.public_url
    ))
}

/// Answers `bencher token create`, like Bencher's servers since 0.6.7.
async fn refuse_tokens(State(app): State<App>) -> ApiError {
    ApiError::forbidden(format!(
        "tokens are not made by themselves: each new key is shown as a token too, for clients before 0.6.5; \
         make one at {}/console/account",
        app.settings.public_url
    ))
}

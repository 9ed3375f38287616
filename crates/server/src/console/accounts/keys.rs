//! Keys of a user: a list, a form that creates one and shows it once, and a revoke button.

use axum::{
    Extension, Form,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse as _, Redirect, Response},
};
use maud::{Markup, html};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::forms::{fault, secret_page};
use crate::{
    ApiError, App,
    access::{Caller, KeyKind, KeyText, Means, Role},
    registry::{Key, KeyOwner, NewKey, User, key_name_fault},
    storage::{Databases, StorageError},
};

#[derive(serde::Deserialize)]
pub(super) struct NewKeyForm {
    name: String,
    /// Days until it expires; empty for never.
    #[serde(default)]
    days: String,
}

/// Lifetimes to choose from, in days.
const LIFETIMES: [(&str, &str); 4] =
    [("30", "a month"), ("90", "three months"), ("365", "a year"), ("", "no end")];

pub(super) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(user): Path<String>,
) -> Result<Response, ApiError> {
    let user = owner(&app, &caller, user).await?;
    listed(&app, &caller, &user, StatusCode::OK, None).await
}

pub(super) async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(user): Path<String>,
    Form(sent): Form<NewKeyForm>,
) -> Result<Response, ApiError> {
    let user = owner(&app, &caller, user).await?;
    // Keys cannot create keys: a leaked one could renew itself forever.
    if !matches!(caller, Caller::User { id, by: Means::Session, .. } if id == user.id) {
        return Err(ApiError::forbidden(
            "users make their keys themselves, signed in; admins only revoke them",
        ));
    }
    let days = match sent.days.as_str() {
        "" => Some(u32::MAX / 86_400),
        days => days.parse().ok().filter(|days| (1..=u32::MAX / 86_400).contains(days)),
    };
    let fault = match days {
        None => Some("a key lasts a whole number of days"),
        Some(_) => key_name_fault(&sent.name),
    };
    let (Some(days), None) = (days, fault) else {
        return listed(&app, &caller, &user, StatusCode::BAD_REQUEST, fault).await;
    };
    let (text, now) = (KeyText::random(KeyKind::User)?, OffsetDateTime::now_utc());
    let new = NewKey {
        owner: KeyOwner::User(user.id),
        name: sent.name,
        hash: text.digest(),
        creator: None,
        expires: now + Duration::days(days.into()),
    };
    let write = app.storage.write(move |databases| {
        databases.registry.create_key(&new, now).map_err(StorageError::from)
    });
    Ok(shown_once(&write.await?, &text, &user))
}

pub(super) async fn revoke(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((user, key)): Path<(String, Uuid)>,
) -> Result<Response, ApiError> {
    let user = owner(&app, &caller, user).await?;
    let (id, now) = (KeyOwner::User(user.id), OffsetDateTime::now_utc());
    let revoke = move |databases: &mut Databases| {
        databases.registry.revoke_key(id, key, now).map_err(StorageError::from)
    };
    if !app.storage.write(revoke).await? {
        return Err(ApiError::not_found("there is no such key"));
    }
    Ok(Redirect::to(&format!("/console/users/{}/keys", user.slug)).into_response())
}

/// The user of the path, for that user and for admins.
async fn owner(app: &App, caller: &Caller, id: String) -> Result<User, ApiError> {
    let read =
        app.storage.read(move |databases| databases.registry.user(&id).map_err(StorageError::from));
    let may_see = |user: &User| caller.user() == Some(user.id) || caller.has_role(Role::Admin);
    let none = || ApiError::not_found("there is no such user, or it is another one than you");
    read.await?.filter(may_see).ok_or_else(none)
}

async fn listed(
    app: &App,
    caller: &Caller,
    user: &User,
    status: StatusCode,
    message: Option<&str>,
) -> Result<Response, ApiError> {
    let id = KeyOwner::User(user.id);
    let read =
        app.storage.read(move |databases| databases.registry.keys(id).map_err(StorageError::from));
    let keys = read.await?;
    let place = format!("/console/users/{}/keys", user.slug);
    let now = OffsetDateTime::now_utc();
    Ok(secret_page(
        status,
        "Keys",
        &html! {
            h1 { "Keys of " (user.name) }
            (fault(message))
            p {
                "A key acts for " (user.name) " with the role of a " (super::forms::role_word(user.role))
                ". For CI, a key of a project can do less, and is the better choice."
            }
            @if !keys.is_empty() {
                table {
                    thead { tr { th { "Name" } th { "Made" } th { "Expires" } th { "" } } }
                    tbody { @for key in &keys { (row(key, &place, now)) } }
                }
            }
            @if caller.user() == Some(user.id) {
                h2 { "Make a key" }
                form method="post" action=(place) {
                    p {
                        label for="name" { "Name of what uses it" } br;
                        input #name name="name" required maxlength="64" autocomplete="off";
                    }
                    p {
                        label for="days" { "It lasts" } br;
                        select #days name="days" {
                            @for (days, word) in LIFETIMES { option value=(days) { (word) } }
                        }
                    }
                    button { "Make it" }
                }
            }
        },
    ))
}

fn row(key: &Key, place: &str, now: OffsetDateTime) -> Markup {
    let is_over = key.expires <= now;
    html! {
        tr {
            td { (key.name) }
            td { (key.created.date()) }
            td {
                @match key.end() {
                    Some(end) => { (end.date()) @if is_over { ", so it works no more" } }
                    None => "never",
                }
            }
            td {
                @match key.revoked {
                    Some(at) => { "revoked " (at.date()) }
                    None => {
                        form method="post" action={ (place) "/" (key.uuid) "/revoke" } {
                            button { "Revoke" }
                        }
                    }
                }
            }
        }
    }
}

fn shown_once(key: &Key, text: &KeyText, user: &User) -> Response {
    secret_page(
        StatusCode::OK,
        "New key",
        &html! {
            h1 { "Key " (key.name) }
            p { "Copy it now: it is not shown again, and only its hash is kept." }
            pre { code { (text.as_str()) } }
            p { "Pass it as " code { "bencher run --key KEY" } " or " code { "wingbeat run --key KEY" } ", or in the variable " code { "BENCHER_API_KEY" } "." }
            details {
                summary { "As a token, for " code { "bencher" } " before 0.6.5" }
                pre { code { (text.token()) } }
            }
            p { a href={ "/console/users/" (user.slug) "/keys" } { "Back to the keys" } }
        },
    )
}

//! Users of the server, for admins.

use axum::{
    Extension, Form,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse as _, Redirect, Response},
};
use maud::{Markup, html};
use time::OffsetDateTime;
use wingbeat_track::store::StoreError;

use super::forms::{fault, role_choice, role_word, secret_page, user_of};
use crate::{
    ApiError, App,
    access::{Caller, INVITE_LIFETIME, Role, digest, random_text},
    database::{Database, NewUser, User, UserRefusal, user_fault},
    storage::StorageError,
};

#[derive(serde::Deserialize)]
pub(super) struct Invitation {
    name: String,
    email: String,
    role: Role,
}

#[derive(serde::Deserialize)]
pub(super) struct RoleChange {
    role: Role,
}

#[derive(serde::Deserialize)]
pub(super) struct LockChange {
    locked: bool,
}

pub(super) async fn list(State(app): State<App>) -> Result<Response, ApiError> {
    listed(&app, StatusCode::OK, None, None).await
}

/// Creates a user, and shows the link to set a password.
pub(super) async fn invite(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Form(sent): Form<Invitation>,
) -> Result<Response, ApiError> {
    let new = NewUser {
        name: sent.name.trim().to_owned(),
        email: sent.email.trim().to_owned(),
        role: sent.role,
    };
    if let Some(fault) = user_fault(&new) {
        return listed(&app, StatusCode::BAD_REQUEST, Some(&fault), Some(&new)).await;
    }
    let admin = user_of(&app, &caller).await?;
    let (secret, wanted, now) = (random_text()?, new.clone(), OffsetDateTime::now_utc());
    let hash = digest(&secret);
    let write = app.storage.write(move |database| {
        let made = database.create_user(&wanted, now)?;
        if let Ok(user) = &made {
            database.create_invite(Some(user.id), &hash, now, now + INVITE_LIFETIME)?;
            let what = format!("invited {} as {}", user.email, role_word(user.role));
            database.note(&admin.email, &what, now)?;
        }
        Ok::<_, StorageError>(made)
    });
    match write.await? {
        Ok(user) => Ok(link_page(&app, &user, &secret)),
        Err(refusal) => {
            listed(&app, StatusCode::CONFLICT, Some(&refusal.to_string()), Some(&new)).await
        }
    }
}

pub(super) async fn set_role(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(user): Path<String>,
    Form(RoleChange { role }): Form<RoleChange>,
) -> Result<Response, ApiError> {
    let what = format!("made {{}} {}", role_word(role));
    change(&app, &caller, user, what, move |database, id, now| database.set_role(id, role, now))
        .await
}

pub(super) async fn set_locked(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(user): Path<String>,
    Form(LockChange { locked }): Form<LockChange>,
) -> Result<Response, ApiError> {
    let what = if locked { "locked {} out" } else { "let {} in again" };
    change(&app, &caller, user, what.to_owned(), move |database, id, now| {
        database.set_locked(id, locked, now)
    })
    .await
}

/// Shows a link to reset a user's password. The old password stays valid until then.
pub(super) async fn reset(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(user): Path<String>,
) -> Result<Response, ApiError> {
    let admin = user_of(&app, &caller).await?;
    let (secret, now) = (random_text()?, OffsetDateTime::now_utc());
    let hash = digest(&secret);
    let write = app.storage.write(move |database| {
        let Some(user) = database.user(&user)? else { return Ok(None) };
        database.create_invite(Some(user.id), &hash, now, now + INVITE_LIFETIME)?;
        database.note(&admin.email, &format!("created a link for {}", user.email), now)?;
        Ok::<_, StorageError>(Some(user))
    });
    let user = write.await?.ok_or_else(|| ApiError::not_found("there is no such user"))?;
    Ok(link_page(&app, &user, &secret))
}

/// Changes a user and returns to the list. `what` is the audit entry, with `{}` for the user's email address.
async fn change(
    app: &App,
    caller: &Caller,
    user: String,
    what: String,
    change: impl FnOnce(&Database, i64, OffsetDateTime) -> Result<Result<User, UserRefusal>, StoreError>
    + Send
    + 'static,
) -> Result<Response, ApiError> {
    let admin = user_of(app, caller).await?;
    let now = OffsetDateTime::now_utc();
    let write = app.storage.write(move |database| {
        let Some(user) = database.user(&user)? else {
            return Ok(Err(UserRefusal::Unknown));
        };
        let changed = change(database, user.id, now)?;
        if changed.is_ok() {
            database.note(&admin.email, &what.replace("{}", &user.email), now)?;
        }
        Ok::<_, StorageError>(changed)
    });
    match write.await? {
        Ok(_) => Ok(Redirect::to("/console/users").into_response()),
        Err(UserRefusal::Unknown) => Err(ApiError::not_found(UserRefusal::Unknown.to_string())),
        Err(refusal) => listed(app, StatusCode::CONFLICT, Some(&refusal.to_string()), None).await,
    }
}

fn link_page(app: &App, user: &User, secret: &str) -> Response {
    let days = INVITE_LIFETIME.whole_days();
    secret_page(
        StatusCode::OK,
        "Link for a user",
        &html! {
            h1 { "Link for " (user.name) }
            p {
                "Send this link to " (user.email) ". It lets one person choose a password, once, within "
                (days) " days, and it is not shown again."
            }
            pre { code { (app.settings.public_url) "/auth/invite/" (secret) } }
            p { a href="/console/users" { "Back to the members" } }
        },
    )
}

async fn listed(
    app: &App,
    status: StatusCode,
    message: Option<&str>,
    new: Option<&NewUser>,
) -> Result<Response, ApiError> {
    let users = app.storage.ask(Database::users).await?;
    let empty = NewUser { name: String::new(), email: String::new(), role: Role::Member };
    let new = new.unwrap_or(&empty);
    Ok(secret_page(
        status,
        "Members",
        &html! {
            h1 { "Members" }
            (fault(message))
            div class="scroll fit" tabindex="0" role="region" aria-label="Members" {
                table class="members stacked" {
                    thead { tr { th { "Name" } th { "Email address" } th { "Role" } th { "Access" } } }
                    tbody { @for user in &users { (row(user)) } }
                }
            }
            h2 { "Invite somebody" }
            form method="post" action="/console/users" {
                p {
                    label for="name" { "Name" } br;
                    input #name name="name" value=(new.name) required maxlength="64" autocomplete="off";
                }
                p {
                    label for="email" { "Email address" } br;
                    input #email name="email" type="email" value=(new.email) required maxlength="254"
                        autocomplete="off";
                }
                p { label for="role" { "Role" } br; (role_choice("role", None, new.role)) }
                button { "Invite" }
            }
            p {
                "Readers see internal projects. Members add results, and change what belongs to projects. \
                 Admins also manage users and delete projects."
            }
        },
    ))
}

fn row(user: &User) -> Markup {
    let place = format!("/console/users/{}", user.slug);
    let field = format!("role-{}", user.slug);
    html! {
        tr {
            th scope="row" { (user.name) }
            td { (user.email) }
            td {
                form class="line" method="post" action={ (place) "/role" } {
                    (role_choice(&field, Some(&format!("Role of {}", user.name)), user.role)) " "
                    button { "Change" }
                }
            }
            td { div class="line" {
                @if user.is_locked { "locked out " } @else if !user.has_password { "invited " }
                form method="post" action={ (place) "/lock" } {
                    input type="hidden" name="locked" value=(!user.is_locked);
                    button { @if user.is_locked { "Let in again" } @else { "Lock out" } }
                }
                @if !user.is_locked {
                    form method="post" action={ (place) "/reset" } { button { "New link" } }
                }
                a href={ (place) "/keys" } { "Keys" }
            } }
        }
    }
}

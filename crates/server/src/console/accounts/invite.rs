//! Links to set a password: for the first admin, invited users, and lost passwords.

use axum::{
    Form,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use maud::html;
use time::OffsetDateTime;

use super::forms::{begin_session, fault, new_password, new_password_fault, secret_page};
use crate::{
    ApiError, App,
    access::{Role, digest},
    database::{Invite, NewUser, user_fault},
    storage::StorageError,
};

#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Accept {
    name: String,
    email: String,
    new: String,
    again: String,
}

pub(super) async fn show(
    State(app): State<App>,
    Path(token): Path<String>,
) -> Result<Response, ApiError> {
    let invite = find(&app, &token).await?;
    Ok(form(StatusCode::OK, &invite, None, &Accept::default(), &token))
}

pub(super) async fn accept(
    State(app): State<App>,
    Path(token): Path<String>,
    headers: HeaderMap,
    Form(sent): Form<Accept>,
) -> Result<Response, ApiError> {
    let invite = find(&app, &token).await?;
    let refuse =
        |message: &str| form(StatusCode::BAD_REQUEST, &invite, Some(message), &sent, &token);
    let admin = NewUser {
        name: sent.name.trim().to_owned(),
        email: sent.email.trim().to_owned(),
        role: Role::Admin,
    };
    let of_user = (invite == Invite::FirstAdmin).then(|| user_fault(&admin)).flatten();
    if let Some(fault) = of_user.or_else(|| new_password_fault(&sent.new, &sent.again)) {
        return Ok(refuse(&fault));
    }
    let password = app.access.passwords.hash(sent.new.clone()).await?;
    let (hash, now) = (digest(&token), OffsetDateTime::now_utc());
    let write = app.storage.write(move |database| {
        let accepted = database.accept_invite(&hash, Some(&admin), &password, now)?;
        if let Some(Ok(user)) = &accepted {
            database.note(&user.email, "chose a password by a link", now)?;
        }
        Ok::<_, StorageError>(accepted)
    });
    match write.await? {
        None => Err(used_up()),
        Some(Err(refusal)) => Ok(refuse(&refusal.to_string())),
        Some(Ok(user)) => {
            begin_session(&app, user.id, app.access.cookies.session(&headers), "/").await
        }
    }
}

async fn find(app: &App, token: &str) -> Result<Invite, ApiError> {
    let (hash, now) = (digest(token), OffsetDateTime::now_utc());
    let found = app.storage.ask(move |database| database.invite(&hash, now)).await?;
    found.ok_or_else(used_up)
}

fn used_up() -> ApiError {
    ApiError::not_found(
        "this link was used already, is too old, or is not complete: ask an admin of this server for another \
         one (`wingbeat serve user reset` creates one too)",
    )
}

fn form(
    status: StatusCode,
    invite: &Invite,
    message: Option<&str>,
    sent: &Accept,
    token: &str,
) -> Response {
    secret_page(
        status,
        "Choose a password",
        &html! {
            @match invite {
                Invite::FirstAdmin => h1 { "Create the first admin" },
                Invite::User(user) => h1 { "Welcome, " (user.name) },
            }
            (fault(message))
            form method="post" action={ "/auth/invite/" (token) } {
                @match invite {
                    Invite::FirstAdmin => {
                        p {
                            label for="name" { "Name" } br;
                            input #name name="name" value=(sent.name) autocomplete="name" required maxlength="64";
                        }
                        p {
                            label for="email" { "Email address, to sign in with" } br;
                            input #email name="email" type="email" value=(sent.email) autocomplete="username"
                                required maxlength="254";
                        }
                    }
                    Invite::User(user) => {
                        // For password managers.
                        input type="hidden" name="email" value=(user.email) autocomplete="username";
                        p { "You sign in with " (user.email) "." }
                    }
                }
                (new_password())
                button { "Set the password and sign in" }
            }
        },
    )
}

//! Sign-in and sign-out, and the change of a password.

use std::time::Instant;

use axum::{
    Extension, Form,
    extract::{Query, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Redirect, Response},
};
use maud::html;
use time::OffsetDateTime;

use super::forms::{
    begin_session, fault, new_password, new_password_fault, next_page, secret_page, user_of,
};
use crate::{
    ApiError, App,
    access::{Attempt, Caller, ClientAddress, Means, TooMany, digest, known_browser},
    database::EMAIL_BYTES_MAX,
    storage::StorageError,
};

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Next {
    next: String,
}

#[derive(serde::Deserialize)]
pub(super) struct SignIn {
    email: String,
    password: String,
    #[serde(default)]
    next: String,
}

/// Strangers must not learn which of the two is wrong.
const WRONG: &str = "wrong email address or password, or the user is locked";

pub(super) async fn show(
    Extension(caller): Extension<Caller>,
    Query(Next { next }): Query<Next>,
) -> Response {
    if matches!(caller, Caller::User { by: Means::Session, .. }) {
        return Redirect::to(next_page(&next)).into_response();
    }
    form(StatusCode::OK, None, "", &next)
}

pub(super) async fn sign_in(
    State(app): State<App>,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
    Form(sent): Form<SignIn>,
) -> Result<Response, ApiError> {
    let SignIn { email, password, next } = sent;
    if email.len() > EMAIL_BYTES_MAX {
        let message = "no email address is that long: check it";
        return Ok(form(StatusCode::BAD_REQUEST, Some(message), "", &next));
    }
    let wanted = email.clone();
    let read = app.storage.read(move |database| {
        // Slugs are not valid for sign-in.
        let user = match wanted.contains('@') {
            true => database.user(&wanted)?.filter(|user| !user.is_locked),
            false => None,
        };
        // Timing must not reveal whether an account exists: no user has the row 0.
        let hash = database.password_hash(user.as_ref().map_or(0, |user| user.id))?;
        Ok::<_, StorageError>(user.zip(hash))
    });
    let (user, hash) = read.await?.unzip();
    let mark = app.access.cookies.browser(&headers);
    let browser = mark.zip(hash.as_deref()).and_then(|(mark, hash)| known_browser(mark, hash));
    let attempt = Attempt { address, account: &email, browser };
    if let Err(TooMany(wait)) = app.access.limits.attempt(attempt, Instant::now()) {
        let message = format!("too many failed sign-ins: try again in {} s", wait.as_secs() + 1);
        let mut response = form(StatusCode::TOO_MANY_REQUESTS, Some(&message), &email, &next);
        let wait = HeaderValue::from(wait.as_secs() + 1);
        response.headers_mut().insert(header::RETRY_AFTER, wait);
        return Ok(response);
    }
    let is_right = app.access.passwords.verify(password, hash).await?;
    let Some(user) = user.filter(|_| is_right) else {
        tracing::info!(%address, "a sign-in failed");
        return Ok(form(StatusCode::UNAUTHORIZED, Some(WRONG), &email, &next));
    };
    app.access.limits.succeeded(attempt, Instant::now());
    begin_session(&app, user.id, app.access.cookies.session(&headers), &next).await
}

pub(super) async fn sign_out(
    State(app): State<App>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if let Some(session) = app.access.cookies.session(&headers) {
        let end = app
            .storage
            .write(move |database| database.end_session(&session).map_err(StorageError::from));
        end.await?;
    }
    let mut response = Redirect::to("/").into_response();
    response.headers_mut().insert(header::SET_COOKIE, app.access.cookies.clear());
    Ok(response)
}

fn form(status: StatusCode, message: Option<&str>, email: &str, next: &str) -> Response {
    secret_page(
        status,
        "Sign in",
        &html! {
            h1 { "Sign in" }
            (fault(message))
            form method="post" action="/auth/login" {
                input type="hidden" name="next" value=(next_page(next));
                p {
                    label for="email" { "Email address" } br;
                    input #email name="email" type="email" value=(email) autocomplete="username" required;
                }
                p {
                    label for="password" { "Password" } br;
                    input #password name="password" type="password" autocomplete="current-password" required;
                }
                button { "Sign in" }
            }
            p { "No account, or the password is lost? An admin of this server can send a link." }
        },
    )
}

#[derive(serde::Deserialize)]
pub(super) struct NewPassword {
    current: String,
    new: String,
    again: String,
}

pub(super) async fn show_password() -> Response {
    password_form(StatusCode::OK, None)
}

/// Stores a new password. Signs out all browsers of the user, and this one in again.
pub(super) async fn change_password(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    ClientAddress(address): ClientAddress,
    Form(sent): Form<NewPassword>,
) -> Result<Response, ApiError> {
    let user = user_of(&app, &caller).await?;
    if let Some(fault) = new_password_fault(&sent.new, &sent.again) {
        return Ok(password_form(StatusCode::BAD_REQUEST, Some(&fault)));
    }
    // An unattended browser must not allow guessing the password. It is signed in, so strangers do not count here.
    let browser = Some(digest(&format!("user {}", user.id)));
    let attempt = Attempt { address, account: &user.email, browser };
    if let Err(TooMany(wait)) = app.access.limits.attempt(attempt, Instant::now()) {
        let message = format!("too many wrong passwords: try again in {} s", wait.as_secs() + 1);
        return Ok(password_form(StatusCode::TOO_MANY_REQUESTS, Some(&message)));
    }
    let id = user.id;
    let hash = app.storage.ask(move |database| database.password_hash(id)).await?;
    if !app.access.passwords.verify(sent.current, hash).await? {
        return Ok(password_form(StatusCode::UNAUTHORIZED, Some("wrong current password")));
    }
    app.access.limits.succeeded(attempt, Instant::now());
    let (hash, now) = (app.access.passwords.hash(sent.new).await?, OffsetDateTime::now_utc());
    let write = app.storage.write(move |database| {
        database.set_password(id, &hash, now)?;
        database.note(&user.email, "changed the password", now)?;
        Ok::<_, StorageError>(())
    });
    write.await?;
    begin_session(&app, id, None, "/console/account").await
}

fn password_form(status: StatusCode, message: Option<&str>) -> Response {
    secret_page(
        status,
        "Change the password",
        &html! {
            h1 { "Change the password" }
            (fault(message))
            form method="post" action="/auth/password" {
                p {
                    label for="current" { "Current password" } br;
                    input #current name="current" type="password" autocomplete="current-password" required;
                }
                (new_password())
                button { "Change it and sign out everywhere else" }
            }
        },
    )
}

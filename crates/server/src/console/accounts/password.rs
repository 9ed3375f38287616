//! Password change.

use std::time::Instant;

use axum::{Extension, Form, extract::State, http::StatusCode, response::Response};
use maud::html;
use time::OffsetDateTime;

use super::forms::{begin_session, fault, new_password, new_password_fault, secret_page, user_of};
use crate::{
    ApiError, App,
    access::{Caller, ClientAddress, TooMany},
    storage::StorageError,
};

#[derive(serde::Deserialize)]
pub(super) struct Change {
    current: String,
    new: String,
    again: String,
}

pub(super) async fn show() -> Response {
    form(StatusCode::OK, None)
}

/// Stores a new password. Signs out all browsers of the user, and this one in again.
pub(super) async fn change(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    ClientAddress(address): ClientAddress,
    Form(sent): Form<Change>,
) -> Result<Response, ApiError> {
    let user = user_of(&app, &caller).await?;
    if let Some(fault) = new_password_fault(&sent.new, &sent.again) {
        return Ok(form(StatusCode::BAD_REQUEST, Some(&fault)));
    }
    // An unattended browser must not allow guessing the password.
    if let Err(TooMany(wait)) = app.access.limits.attempt(address, &user.email, Instant::now()) {
        let message =
            format!("too many passwords were wrong: try again in {} s", wait.as_secs() + 1);
        return Ok(form(StatusCode::TOO_MANY_REQUESTS, Some(&message)));
    }
    let id = user.id;
    let read = app
        .storage
        .read(move |databases| databases.registry.password_hash(id).map_err(StorageError::from));
    if !app.access.passwords.verify(sent.current, read.await?).await? {
        return Ok(form(StatusCode::UNAUTHORIZED, Some("the current password is not right")));
    }
    app.access.limits.succeeded(address, &user.email, Instant::now());
    let (hash, now) = (app.access.passwords.hash(sent.new).await?, OffsetDateTime::now_utc());
    let write = app.storage.write(move |databases| {
        databases.registry.set_password(id, &hash, now)?;
        databases.registry.note(&user.email, "changed the password", now)?;
        Ok::<_, StorageError>(())
    });
    write.await?;
    begin_session(&app, id, None, "/console/account").await
}

fn form(status: StatusCode, message: Option<&str>) -> Response {
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
                button { "Change it, and sign out everywhere else" }
            }
        },
    )
}

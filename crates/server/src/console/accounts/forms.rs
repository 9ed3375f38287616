//! Shared parts of forms.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Redirect, Response},
};
use maud::{Markup, html};
use time::OffsetDateTime;

use crate::{
    ApiError, App,
    access::{
        Caller, PASSWORD_BYTES_MIN, Role, SESSION_IDLE, browser_mark, digest, password_fault,
        random_text,
    },
    console::layout::page,
    database::User,
    storage::StorageError,
};

/// A page that is never cached, because it contains secrets or user input.
pub(in crate::console) fn secret_page(
    status: StatusCode,
    title: &str,
    content: &Markup,
) -> Response {
    let mut response = (status, page(title, content)).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// An error in the form's input.
pub(super) fn fault(message: Option<&str>) -> Markup {
    html! { @if let Some(message) = message { p role="alert" { (message) } } }
}

/// Two fields for a new password.
pub(super) fn new_password() -> Markup {
    html! {
        p {
            label for="new" { "New password, " (PASSWORD_BYTES_MIN) " characters or more" } br;
            input #new name="new" type="password" autocomplete="new-password" required
                minlength=(PASSWORD_BYTES_MIN);
        }
        p {
            label for="again" { "New password again" } br;
            input #again name="again" type="password" autocomplete="new-password" required;
        }
    }
}

pub(super) fn new_password_fault(new: &str, again: &str) -> Option<String> {
    match new == again {
        true => password_fault(new),
        false => Some("the two passwords differ; type the same one twice".to_owned()),
    }
}

/// Redirect target: a page of this server, or the home page. Rejects addresses of other servers.
pub(super) fn next_page(next: &str) -> &str {
    let is_ours = next.starts_with('/')
        && !next[1..].starts_with(['/', '\\'])
        && next.bytes().all(|byte| byte.is_ascii_graphic());
    if is_ours { next } else { "/" }
}

/// Starts a new session, marks the browser as the user's, and redirects. Ends the browser's old session.
pub(super) async fn begin_session(
    app: &App,
    user: i64,
    former: Option<crate::access::Digest>,
    next: &str,
) -> Result<Response, ApiError> {
    let (secret, now) = (random_text()?, OffsetDateTime::now_utc());
    let hash = digest(&secret);
    let write = app.storage.write(move |database| {
        if let Some(former) = former {
            database.end_session(&former)?;
        }
        database.create_session(&hash, user, now, now + SESSION_IDLE)?;
        Ok::<_, StorageError>(database.password_hash(user)?)
    });
    let password_hash = write.await?;
    let mut response = Redirect::to(next_page(next)).into_response();
    let cookie = app.access.cookies.set(&secret, SESSION_IDLE);
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    if let Some(hash) = password_hash {
        let mark = app.access.cookies.set_browser(&browser_mark(&hash)?);
        response.headers_mut().append(header::SET_COOKIE, mark);
    }
    Ok(response)
}

/// The calling user. Pages that need one require the right for it.
pub(super) async fn user_of(app: &App, caller: &Caller) -> Result<User, ApiError> {
    let user = match caller.user() {
        Some(id) => app.storage.ask(move |database| database.user_of(id)).await?,
        None => None,
    };
    user.ok_or_else(|| ApiError::forbidden("this page is for users, not for keys of projects"))
}

pub(in crate::console) fn role_word(role: Role) -> &'static str {
    match role {
        Role::Reader => "reader",
        Role::Member => "member",
        Role::Admin => "admin",
    }
}

/// A role selector. It has a label of its own, or this name.
pub(super) fn role_choice(id: &str, name: Option<&str>, chosen: Role) -> Markup {
    html! {
        select id=(id) name="role" aria-label=[name] {
            @for role in [Role::Reader, Role::Member, Role::Admin] {
                option value=(role_word(role)) selected[role == chosen] { (role_word(role)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_in_leads_to_our_own_pages() {
        let check = |next: &str, expected: &str| assert_eq!(next_page(next), expected, "{next}");
        check("/perf/a?b=c", "/perf/a?b=c");
        check("/", "/");
        check("", "/");
        check("//evil.example", "/");
        check("/\\evil.example", "/");
        check("https://evil.example", "/");
        check("/a\r\nSet-Cookie: b", "/");
        check("/ä", "/");
    }
}

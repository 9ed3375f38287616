//! The authorization check before each handler.

use std::collections::HashMap;

use axum::{
    extract::{Path, Request, State},
    http::{Method, Uri, header},
    middleware::Next,
    response::{IntoResponse, Redirect, Response},
};
use time::OffsetDateTime;

use super::{
    Caller, Digest, Right, Route,
    credentials::{self, Presented, Resolved, SESSION_IDLE},
    origin,
};
use crate::{
    ApiError, App,
    database::{Database, Project},
    storage::{Position, StorageError, of_replica},
};

/// State of the check.
#[derive(Debug, Clone)]
pub(super) struct Check {
    app: App,
    right: Right,
    is_page: bool,
}

impl Check {
    pub(super) fn of(route: &Route, app: App) -> Self {
        Self { app, right: route.right, is_page: route.is_page }
    }
}

/// The project in a path.
enum Named {
    /// The path has no project.
    Nothing,
    Unknown(String),
    Project(Box<Project>),
}

/// Authenticates the caller, resolves the project in the path, and runs the handler if the caller has the route's
/// right. Handlers take both as [`axum::Extension`]: the [`Caller`], and the [`Project`] of a `{project}`.
pub(super) async fn authorize(
    State(check): State<Check>,
    Path(names): Path<HashMap<String, String>>,
    mut request: Request,
    next: Next,
) -> Response {
    let presented = match credentials::presented(request.headers(), check.app.access.cookies)
        .and_then(|it| own_or_keyed(&check, &request, it))
    {
        Ok(presented) => presented,
        Err(error) => return error.into_response(),
    };
    let (resolved, named) = match look_up(&check, presented, names.get("project")).await {
        Ok(found) => found,
        Err(error) => return error.into_response(),
    };
    let Resolved { caller, renewal } = resolved;
    let project = match named {
        Named::Project(project) => Some(*project),
        Named::Nothing => None,
        // Anonymous visitors are asked to sign in, as for an internal project.
        Named::Unknown(_) if check.is_page && caller == Caller::Anonymous => {
            return to_sign_in(request.uri(), request.method());
        }
        Named::Unknown(name) => return no_project(&name).into_response(),
    };
    if !caller.has(check.right, project.as_ref()) {
        let asked = names.get("project").map(String::as_str);
        return refuse(
            &check,
            &caller,
            project.as_ref().zip(asked),
            request.uri(),
            request.method(),
        );
    }
    request.extensions_mut().insert(caller);
    if let Some(project) = project.clone() {
        request.extensions_mut().insert(project);
    }
    let mut response = run_at(&check, renewal, request, next).await;
    // Used by the error page.
    if response.status().is_client_error()
        && let Some(project) = project
    {
        response.extensions_mut().insert(project);
    }
    response
}

/// Runs the handler. Pages read from the replica, if there is one that has the reader's own writes. Authentication, the
/// API and form actions use the primary.
async fn run_at(
    check: &Check,
    renewal: Option<(Digest, OffsetDateTime)>,
    request: Request,
    next: Next,
) -> Response {
    if !check.is_page {
        return run(check, renewal, request, next).await;
    }
    if request.method().is_safe() {
        let written = Position::of_cookie(request.headers());
        return of_replica(written, run(check, renewal, request, next)).await;
    }
    let mut response = run(check, renewal, request, next).await;
    if let Some(cookie) = check.app.storage.written().and_then(Position::cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

/// Runs the handler, and renews the caller's session.
async fn run(
    check: &Check,
    renewal: Option<(Digest, OffsetDateTime)>,
    request: Request,
    next: Next,
) -> Response {
    let Some((hash, expires)) = renewal else { return next.run(request).await };
    let extend = move |database: &mut Database| {
        database.extend_session(&hash, expires).map_err(StorageError::from)
    };
    if let Err(error) = check.app.storage.write(extend).await {
        tracing::warn!("a session was not extended: {error}");
        return next.run(request).await;
    }
    let cookies = check.app.access.cookies;
    let cookie = cookies.secret(request.headers()).map(|secret| cookies.set(secret, SESSION_IDLE));
    let mut response = next.run(request).await;
    // Signing out in the meantime removes the cookie.
    if let Some(cookie) = cookie
        && !response.headers().contains_key(header::SET_COOKIE)
    {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Rejects cross-site requests: state changes with a cookie, and all forms, because another site could sign a browser
/// in as someone else.
fn own_or_keyed(
    check: &Check,
    request: &Request,
    presented: Presented,
) -> Result<Presented, ApiError> {
    let is_browser = matches!(presented, Presented::Session(_)) || check.is_page;
    let public_url = &check.app.settings.public_url;
    if is_browser && !request.method().is_safe() && !origin::is_own(request.headers(), public_url) {
        return Err(ApiError::forbidden(format!(
            "this request does not come from a page of this server: open {public_url} and try again there"
        )));
    }
    Ok(presented)
}

async fn look_up(
    check: &Check,
    presented: Presented,
    name: Option<&String>,
) -> Result<(Resolved, Named), ApiError> {
    let name = name.cloned();
    let now = OffsetDateTime::now_utc();
    let found = check.app.storage.read(move |database| {
        let resolved = presented.resolve(database, now)?;
        let project = match &name {
            Some(name) => Some(database.project(name)?),
            None => None,
        };
        Ok::<_, ApiError>((resolved, name, project))
    });
    let (resolved, name, project) = found.await?;
    Ok((
        resolved,
        name.zip(project).map_or(Named::Nothing, |(name, project)| match project {
            Some(project) => Named::Project(Box::new(project)),
            None => Named::Unknown(name),
        }),
    ))
}

/// Refuses like Bencher's server: a project that the caller may not see is reported as possibly private; anonymous
/// callers are asked for a key; known callers lack rights. The project comes as the caller asked for it, whose answer
/// must not have another of its names.
fn refuse(
    check: &Check,
    caller: &Caller,
    project: Option<(&Project, &str)>,
    uri: &Uri,
    method: &Method,
) -> Response {
    let is_visible = project.is_none_or(|(project, _)| caller.has(Right::Read, Some(project)));
    if *caller == Caller::Anonymous && check.is_page {
        return to_sign_in(uri, method);
    }
    let error = match (project, caller) {
        (Some((_, asked)), _) if !is_visible => no_project(asked),
        (_, Caller::Anonymous) => ApiError::unauthorized(
            "this needs a key: send one as `Authorization: Bearer KEY` (`bencher run --key`); members of the \
             server create keys on the project's page",
        ),
        _ => ApiError::forbidden(too_little(check.right, caller)),
    };
    error.into_response()
}

/// Message about who has the required right.
fn too_little(right: Right, caller: &Caller) -> String {
    let who = match right {
        Right::Admin => "an admin of the server",
        Right::Write if !matches!(caller, Caller::ProjectKey { .. }) => {
            "a member of the server, or a key of the project"
        }
        Right::Write => "a key of this project, not of another one",
        Right::Manage if matches!(caller, Caller::ProjectKey { .. }) => {
            "a member of the server, not a key of the project"
        }
        Right::Manage => "a member of the server",
        Right::Open | Right::Read | Right::SignedIn | Right::Handler => "a user of the server",
    };
    format!("this needs {who}")
}

fn to_sign_in(uri: &Uri, method: &Method) -> Response {
    // A redirect loses the form's data, and its address may not be a page.
    let next = if method.is_safe() { encoded(uri) } else { "/".to_owned() };
    Redirect::to(&format!("/auth/login?next={next}")).into_response()
}

fn no_project(name: &str) -> ApiError {
    ApiError::not_found(format!(
        "there is no project {name:?}, or it is internal and needs a key or a sign-in"
    ))
}

fn encoded(uri: &Uri) -> String {
    let path = uri.path_and_query().map_or("/", |it| it.as_str());
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    path.bytes().map(byte).collect()
}

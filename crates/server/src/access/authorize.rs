//! The check before each handler.

use std::collections::HashMap;

use axum::{
    extract::{Path, Request, State},
    http::{HeaderMap, StatusCode, Uri},
    middleware::Next,
    response::{IntoResponse, Redirect, Response},
};

use super::{Caller, Right, Route, credentials};
use crate::{ApiError, App, registry::Project};

/// What is checked before a handler.
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

/// Finds out who asks and which project the path names, and lets the request through if the route's right is
/// there. Handlers take both as [`axum::Extension`]: the [`Caller`], and the [`Project`] of a `{project}`.
pub(super) async fn authorize(
    State(check): State<Check>,
    Path(names): Path<HashMap<String, String>>,
    mut request: Request,
    next: Next,
) -> Response {
    let (caller, project) = match look_up(&check, request.headers(), names.get("project")).await {
        Ok(found) => found,
        Err(error) => return error.into_response(),
    };
    if !caller.has(check.right, project.as_ref()) {
        return refuse(&check, &caller, project.as_ref(), request.uri());
    }
    request.extensions_mut().insert(caller);
    if let Some(project) = project {
        request.extensions_mut().insert(project);
    }
    next.run(request).await
}

async fn look_up(
    check: &Check,
    headers: &HeaderMap,
    name: Option<&String>,
) -> Result<(Caller, Option<Project>), ApiError> {
    let presented = credentials::presented(headers)?;
    let name = name.cloned();
    let found = check.app.storage.read(move |databases| {
        let caller = presented.resolve(&databases.registry)?;
        let project = match &name {
            Some(name) => {
                Some(databases.registry.project(name).map_err(crate::storage::StorageError::from)?)
            }
            None => None,
        };
        Ok::<_, ApiError>((caller, name, project))
    });
    let (caller, name, project) = found.await?;
    match (name, project) {
        (Some(name), Some(None)) => Err(no_project(&name)),
        (_, project) => Ok((caller, project.flatten())),
    }
}

/// Refuses as Bencher's server does: who may not see a project learns no more than that it may be private;
/// who is unknown is asked for a key; who is known has too few rights.
fn refuse(check: &Check, caller: &Caller, project: Option<&Project>, uri: &Uri) -> Response {
    let is_visible = caller.has(Right::Read, project) || project.is_none();
    if *caller == Caller::Anonymous && check.is_page {
        return Redirect::to(&format!("/auth/login?next={}", encoded(uri))).into_response();
    }
    let error = match (project, caller) {
        (Some(project), _) if !is_visible => no_project(project.slug.as_str()),
        (_, Caller::Anonymous) => ApiError::unauthorized(
            "this needs a key: send one as `Authorization: Bearer KEY` (`bencher run --key`); members of the \
             project make keys on its page",
        ),
        _ => ApiError::new(StatusCode::FORBIDDEN, "this key or user may not do that"),
    };
    error.into_response()
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

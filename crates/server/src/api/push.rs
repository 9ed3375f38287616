//! `push.v1.PusherService/Push`: receives profiles from Pyroscope clients. A call of the Connect protocol over HTTP: a
//! POST with the message as its body, in protobuf or JSON.

use axum::{
    Extension, Json,
    body::Bytes,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
    routing::post,
};
use prost::Message as _;
use serde::Serialize;
use wingbeat_pprof::pyroscope::PushRequest;
use wingbeat_track::model::Slug;

use super::{names::check_path, run::project_named};
use crate::{
    ApiError, App,
    access::{Caller, Right, Route},
    database::{Database, Project},
    profiles::{ProfilesError, Push, intake, now_ns},
    service::request_id,
};

/// Path that clients push to.
pub(crate) const PATH: &str = "/push.v1.PusherService/Push";

/// Project of profiles pushed with a user's key and no project.
const PROJECT: &str = "profiles";

/// Pyroscope's tenant header: the project.
const TENANT: &str = "x-scope-orgid";

const PROFILES_MAX: usize = 1000;
/// Maximum decompressed bytes of all profiles in a request.
const BYTES_MAX: u64 = 96 << 20;

pub(super) fn routes() -> Vec<Route> {
    vec![Route::api(Method::POST, PATH, Right::Handler, post(push))]
}

async fn push(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let is_json = is_json(&headers)?;
    let project = project(&app, &caller, &headers).await?;
    let owner = app.clone();
    let now_ns = now_ns();
    let oldest_ns = app.profiles.keep().oldest_ns(now_ns);
    let pushes = app.profiles.run(move || pushes(&body, is_json, now_ns, oldest_ns)).await??;
    let put = move || owner.profiles.put(&project.uuid.to_string(), pushes, now_ns);
    app.profiles.run_push(put).await??;
    let kind = if is_json { "application/json" } else { "application/proto" };
    let answer = if is_json { "{}" } else { "" };
    Ok(([(header::CONTENT_TYPE, kind)], answer).into_response())
}

/// Whether the message is JSON instead of protobuf.
fn is_json(headers: &HeaderMap) -> Result<bool, ApiError> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    match kind.to_ascii_lowercase().as_str() {
        "application/proto" => Ok(false),
        "application/json" => Ok(true),
        _ => Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "expected a push.v1.PushRequest with `Content-Type: application/proto` or `application/json`",
        )),
    }
}

/// Project of a push: the one named, the key's, or the default.
async fn project(app: &App, caller: &Caller, headers: &HeaderMap) -> Result<Project, ApiError> {
    let tenant = headers.get(TENANT).map(HeaderValue::as_bytes).map(String::from_utf8_lossy);
    let tenant = tenant.map(|it| it.trim().to_owned()).filter(|it| !it.is_empty());
    if let (Caller::ProjectKey { project }, None) = (caller, &tenant) {
        let row = *project;
        let find = move |database: &Database| {
            let all = database.projects()?;
            Ok::<_, ApiError>(all.into_iter().find(|project| project.id == row))
        };
        let found = app.storage.read(find).await?;
        return found.ok_or_else(|| ApiError::not_found("the project of this key was deleted"));
    }
    let name = tenant.unwrap_or_else(|| PROJECT.to_owned());
    let slug = Slug::new(&name).map_err(|error| {
        let reason = format!(
            "there is no project {name:?}, and none can be created with that name: {error}"
        );
        ApiError::bad_request(reason)
    });
    let found = project_named(app, caller, name.clone(), &name, slug).await;
    found.map_err(|error| match error.status {
        StatusCode::UNAUTHORIZED => ApiError::unauthorized(format!(
            "profiles for the project {name:?} need a key: send one as `Authorization: Bearer KEY`, or as the password \
             of basic authentication; members of the server create keys on its pages"
        )),
        _ => error,
    })
}

/// Profiles of a request, or the first reason for rejecting one.
fn pushes(body: &[u8], is_json: bool, now_ns: i64, oldest_ns: i64) -> Result<Vec<Push>, ApiError> {
    let wrong = |reason: &dyn std::fmt::Display| {
        ApiError::bad_request(format!("the body is not a push.v1.PushRequest: {reason}"))
    };
    let request = match is_json {
        true => serde_json::from_slice(body).map_err(|error| wrong(&error))?,
        false => PushRequest::decode(body).map_err(|error| wrong(&error))?,
    };
    let mut budget = BYTES_MAX;
    let mut pushes = Vec::new();
    for series in &request.series {
        for sample in &series.samples {
            if pushes.len() >= PROFILES_MAX {
                return Err(ApiError::bad_request(format!(
                    "the request has more than {PROFILES_MAX} profiles: send them in several"
                )));
            }
            let labels = series.labels.iter().map(|it| (it.name.clone(), it.value.clone()));
            let parts = intake::parts(labels, &sample.raw_profile, now_ns, oldest_ns, &mut budget)
                .map_err(|error| ApiError::bad_request(error.to_string()))?;
            parts.iter().try_for_each(|part| check_path(&part.service))?;
            let id = sample.id.chars().take(64).collect();
            pushes.push(Push { id, parts });
        }
    }
    Ok(pushes)
}

impl From<ProfilesError> for ApiError {
    fn from(error: ProfilesError) -> Self {
        match error {
            ProfilesError::Busy => Self::busy(),
            ProfilesError::Storage(error) => error.into(),
            ProfilesError::TooManySeries => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, error.to_string())
            }
            ProfilesError::TooMuch { .. } => Self::bad_request(error.to_string()),
            error => {
                // The place is for operators only.
                tracing::error!(request_id = %request_id(), "{error}");
                match error.is_transient() {
                    true => Self::new(
                        StatusCode::SERVICE_UNAVAILABLE,
                        "the server cannot read or write its profiles at present; try again",
                    ),
                    false => Self::new(
                        StatusCode::INTERNAL_SERVER_ERROR,
                        "the server cannot read its profiles; see its log",
                    ),
                }
            }
        }
    }
}

#[derive(Debug, Serialize)]
struct ConnectError {
    code: &'static str,
    message: String,
}

/// Converts errors of this call to Connect errors.
pub(crate) async fn as_connect(request: Request, next: Next) -> Response {
    let is_call = request.uri().path() == PATH;
    let response = next.run(request).await;
    let Some(error) = response.extensions().get::<ApiError>().cloned().filter(|_| is_call) else {
        return response;
    };
    let code = match error.status {
        StatusCode::UNAUTHORIZED => "unauthenticated",
        StatusCode::FORBIDDEN => "permission_denied",
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::UNSUPPORTED_MEDIA_TYPE => "unimplemented",
        StatusCode::PAYLOAD_TOO_LARGE | StatusCode::TOO_MANY_REQUESTS => "resource_exhausted",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable",
        status if status.is_client_error() => "invalid_argument",
        _ => "internal",
    };
    let (status, after) = (error.status, response.headers().get(header::RETRY_AFTER).cloned());
    let mut answer = (status, Json(ConnectError { code, message: error.message })).into_response();
    if let Some(after) = after {
        answer.headers_mut().insert(header::RETRY_AFTER, after);
    }
    answer
}

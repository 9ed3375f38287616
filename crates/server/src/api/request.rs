//! Request bodies and queries with readable errors, and pagination.

use axum::{
    Json,
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Query, Request},
    http::{HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use utoipa::IntoParams;
use uuid::Uuid;

use super::view::View;
use crate::{
    ApiError, App,
    database::{Database, Project},
};

/// A JSON object as the body.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let media_type = request.headers().get(header::CONTENT_TYPE);
        let media_type = media_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
        let name = media_type.split(';').next().unwrap_or_default().trim();
        if !name.eq_ignore_ascii_case("application/json") {
            return Err(ApiError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "expected a JSON body with `Content-Type: application/json`",
            ));
        }
        let bytes = Bytes::from_request(request, app).await.map_err(|rejection| {
            if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
                return ApiError::too_large();
            }
            let reason = rejection.body_text();
            let message = format!("the body of the request cannot be read: {reason}");
            ApiError::new(rejection.status(), message)
        })?;
        let wrong = |reason: &dyn std::fmt::Display| {
            ApiError::bad_request(format!("the body of the request cannot be used: {reason}"))
        };
        // Serde would also accept an array, with members by position.
        if !bytes.trim_ascii_start().starts_with(b"{") {
            return Err(wrong(&"it is not a JSON object"));
        }
        serde_json::from_slice(&bytes).map(Self).map_err(|error| wrong(&error))
    }
}

/// The project in a path, with access to the database.
pub(super) struct InProject {
    pub(super) app: App,
    pub(super) project: Project,
}

impl FromRequestParts<App> for InProject {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let project = parts.extensions.get::<Project>().cloned();
        let project = project.ok_or_else(|| ApiError::not_found("there is no such project"))?;
        Ok(Self { app: app.clone(), project })
    }
}

impl InProject {
    pub(super) async fn read<T: Send + 'static>(
        self,
        job: impl FnOnce(&View<'_>) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let Self { app, project } = self;
        app.storage.read(move |database| job(&View::of(database, &project))).await
    }

    pub(super) async fn write<T: Send + 'static>(
        self,
        job: impl FnOnce(&mut Database, &Project) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let Self { app, project } = self;
        app.storage.write(move |database| job(database, &project)).await
    }
}

/// The query string.
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Asked<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let query = Query::from_request_parts(parts, app).await.map_err(|rejection| {
            let reason = rejection.body_text();
            ApiError::bad_request(format!("the address cannot be read: {reason}"))
        })?;
        Ok(Self(query.0))
    }
}

/// Order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Direction {
    Asc,
    Desc,
}

/// Page of a list.
#[derive(Debug, Clone, Copy, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Paging {
    #[param(inline)]
    pub(super) direction: Option<Direction>,
    /// Entries per page, 8 by default.
    #[param(value_type = Option<i64>, minimum = 0, maximum = 255)]
    per_page: Option<u8>,
    /// From 1.
    #[param(value_type = Option<i64>, minimum = 0, maximum = 4_294_967_295_i64)]
    page: Option<u32>,
}

impl Paging {
    pub(super) fn limit(&self) -> u64 {
        self.per_page.unwrap_or(8).into()
    }

    pub(super) fn offset(&self) -> u64 {
        u64::from(self.page.unwrap_or(1).saturating_sub(1)) * self.limit()
    }

    pub(super) fn is_descending(&self, unless_told: bool) -> bool {
        self.direction.map_or(unless_told, |direction| direction == Direction::Desc)
    }

    /// The requested page of a whole list.
    pub(super) fn of<T>(&self, all: Vec<T>) -> (Vec<T>, u64) {
        let count = all.len() as u64;
        let clipped = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let page = all.into_iter().skip(clipped(self.offset())).take(clipped(self.limit()));
        (page.collect(), count)
    }
}

/// A page of a list, and the total number of entries.
pub(super) struct Listed<T>(pub(super) Vec<T>, pub(super) u64);

impl<T: Serialize> IntoResponse for Listed<T> {
    fn into_response(self) -> Response {
        let mut response = Json(self.0).into_response();
        response.headers_mut().insert("x-total-count", HeaderValue::from(self.1));
        response
    }
}

/// The created object.
pub(super) struct Created<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        (StatusCode::CREATED, Json(self.0)).into_response()
    }
}

/// Parses the UUID in a path. An invalid one is not found.
pub(super) fn uuid(text: &str, what: &str) -> Result<Uuid, ApiError> {
    let error = || ApiError::not_found(format!("there is no {what} {text:?}: not a UUID"));
    Uuid::try_parse(text).map_err(|_| error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages() {
        let check = |per_page, page, expected: &[u32]| {
            let paging = Paging { direction: None, per_page, page };
            assert_eq!(paging.of((1..=20).collect()), (expected.to_vec(), 20));
        };
        check(None, None, &[1, 2, 3, 4, 5, 6, 7, 8]);
        check(Some(5), Some(0), &[1, 2, 3, 4, 5]);
        check(Some(5), Some(4), &[16, 17, 18, 19, 20]);
        check(Some(5), Some(5), &[]);
        check(Some(255), Some(u32::MAX), &[]);
        check(Some(0), None, &[]);
    }
}

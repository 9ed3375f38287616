//! Error responses of the API.

use axum::{
    Json,
    body::to_bytes,
    extract::Request,
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use uuid::Uuid;
use wingbeat_track::store::StoreError;

use crate::{service::request_id, storage::StorageError};

/// Why a request was rejected or failed: a status, and a message for the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    pub status: StatusCode,
    pub message: String,
}

/// The body that the `bencher` client reads: it demands `request_id` and `message`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ErrorBody {
    pub request_id: Uuid,
    pub error_code: Option<String>,
    pub message: String,
}

impl ApiError {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// The request, compressed or decompressed, exceeds the body limit.
    pub fn too_large() -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the request exceeds the size limit of this server: send less at once, or raise `body_bytes_max` there",
        )
    }

    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, message)
    }

    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }

    /// The server is busy. Clients retry after 5xx only.
    pub fn busy() -> Self {
        let message = "the server is busy: too many writes are queued; try again";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// Reading or writing a database failed. Its address and the details are for operators only, so only the log has
    /// them.
    fn of_database(failure: Failure, error: &dyn std::error::Error) -> Self {
        tracing::error!(request_id = %request_id(), "{error}");
        match failure {
            Failure::Lost => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "the server cannot reach its database; try again",
            ),
            Failure::Busy => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "another program locks the server's database; try again",
            ),
            Failure::Full => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "the disk is full, so nothing was stored: make room on the server, and try again",
            ),
            Failure::Other => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the server's database failed; see the server's log",
            ),
        }
    }
}

/// What kind of failure of a database a client is told of.
#[derive(Debug, Clone, Copy)]
enum Failure {
    Lost,
    Busy,
    Full,
    Other,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        // For middleware that renders it as a page.
        let error = self.clone();
        let Self { status, message } = self;
        let body = ErrorBody { request_id: request_id(), error_code: None, message };
        if status.is_server_error() {
            tracing::error!(request_id = %body.request_id, %status, "{}", body.message);
        }
        let mut response = (status, Json(body)).into_response();
        response.extensions_mut().insert(error);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl From<StorageError> for ApiError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Busy | StorageError::Stopping => Self::busy(),
            StorageError::Lost => Self::of_database(Failure::Lost, &error),
            StorageError::Store(error) => error.into(),
            other => Self::of_database(Failure::Other, &other),
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let failure = match &error {
            StoreError::Invalid(_) => return Self::bad_request(error.to_string()),
            StoreError::NoSuchAlert { .. } => return Self::not_found(error.to_string()),
            StoreError::Lost { .. } => Failure::Lost,
            StoreError::Busy { .. } | StoreError::ServerBusy { .. } => Failure::Busy,
            StoreError::Full { .. } => Failure::Full,
            _ => Failure::Other,
        };
        Self::of_database(failure, &error)
    }
}

/// Maximum bytes of such an error that are passed on.
const TEXT_MAX: usize = 4096;

/// Suffix of the error about the body limit.
const TOO_LARGE: &str = "length limit exceeded";

/// Converts plain-text errors to API errors.
pub(crate) async fn plain_text_to_api(request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let response = next.run(request).await;
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    let kind = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_plain = kind.is_none_or(|kind| kind.starts_with(b"text/plain"));
    if !is_error || !is_plain || method == "HEAD" {
        return response;
    }
    let allow = response.headers().get(header::ALLOW).cloned();
    let text = text(response).await;
    // The extractor detects the limit only without a layer in between, such as decompression.
    let is_too_large = text.ends_with(TOO_LARGE);
    let status = if is_too_large { StatusCode::PAYLOAD_TOO_LARGE } else { status };
    let error = match status {
        StatusCode::METHOD_NOT_ALLOWED => {
            ApiError::new(status, format!("this address does not support {method}"))
        }
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::too_large(),
        _ if text.is_empty() => ApiError::new(status, status.to_string()),
        _ => ApiError::new(status, text),
    };
    let mut response = error.into_response();
    if let Some(allow) = allow {
        response.headers_mut().insert(header::ALLOW, allow);
    }
    response
}

async fn text(response: Response) -> String {
    let bytes = to_bytes(response.into_body(), TEXT_MAX).await.unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

//! Converts errors of extractors (body too large, malformed query) to the API's format.

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::ApiError;

/// Maximum bytes of such an error that are passed on.
const TEXT_MAX: usize = 4096;

/// Suffix of the error about the body limit.
const TOO_LARGE: &str = "length limit exceeded";

/// Converts plain-text errors to API errors.
pub(super) async fn explain(request: Request, next: Next) -> Response {
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
            ApiError::new(status, format!("there is no {method} at this address"))
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
    let body: Body = response.into_body();
    let bytes = to_bytes(body, TEXT_MAX).await.unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

//! Common to all responses: request ID, log line, metrics, and security headers.

use std::{future::Future, time::Instant};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, header},
    middleware::Next,
    response::Response,
};
use uuid::Uuid;

use super::idle;
use crate::App;

tokio::task_local! {
    static CURRENT: Uuid;
}

/// Runs a request handler in the scope of its ID.
async fn within<T>(id: Uuid, work: impl Future<Output = T>) -> T {
    CURRENT.scope(id, work).await
}

/// ID of the current request.
pub(crate) fn request_id() -> Uuid {
    CURRENT.try_with(|id| *id).unwrap_or_else(|_| Uuid::now_v7())
}

/// Default headers: browsers get only the permissions that our pages need. Headers set by a handler take precedence.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // Stricter values remove the origin from our own forms.
    (header::REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    // Shared caches must not store what one user sees.
    (header::CACHE_CONTROL, "private, no-cache"),
];

/// Assigns a request ID, and logs and counts the request. Logs the route's template, because addresses may contain
/// secrets, as invitations do.
pub(super) async fn log(State(app): State<App>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let id = Uuid::now_v7();
    let method = request.method().clone();
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let mut response = within(id, next.run(request)).await;
    let (duration, status) = (begun.elapsed(), response.status().as_u16());
    let route = matched.as_ref().map_or("none", MatchedPath::as_str);
    app.metrics.count(method.as_str(), route, status, duration);
    tracing::info!(
        target: "wingbeat_server::request",
        request_id = %id,
        %method,
        route,
        status,
        duration_ms = duration.as_secs_f64() * 1e3,
        "answered"
    );
    complete(response.headers_mut(), id);
    idle::after_response(&app);
    response
}

fn complete(headers: &mut HeaderMap, id: Uuid) {
    // For browsers without `frame-ancestors`. Embeddable pages have their own policy.
    if !headers.contains_key(header::CONTENT_SECURITY_POLICY) {
        headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    }
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if let Ok(id) = HeaderValue::from_str(&id.to_string()) {
        headers.insert(HeaderName::from_static("x-request-id"), id);
    }
}

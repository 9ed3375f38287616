//! What is common to all answers: a number, a line in the log, a count, and headers for browsers.

use std::time::Instant;

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, header},
    middleware::Next,
    response::Response,
};
use uuid::Uuid;

use super::rest;
use crate::{App, request_id};

/// What browsers may do with our answers: nothing that a page of ours does not need. A handler's own headers
/// stay.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // Stricter ones take the origin from our own forms.
    (header::REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    // What one user sees is not for a cache that others share.
    (header::CACHE_CONTROL, "private, no-cache"),
];

/// Answers a request under a number of its own, and logs and counts it. The log has the template of the
/// route, since addresses may hold secrets, as invitations do.
pub(super) async fn observe(State(app): State<App>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let id = Uuid::now_v7();
    let method = request.method().clone();
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let mut response = request_id::within(id, next.run(request)).await;
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
    rest::after_answer(&app);
    response
}

fn complete(headers: &mut HeaderMap, id: Uuid) {
    // For browsers that do not know `frame-ancestors`. A page that others may show has a policy of its own.
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

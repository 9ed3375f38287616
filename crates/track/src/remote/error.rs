//! Errors of sending a report, each with what to do next.

use std::time::Duration;

use wingbeat_http::Error;
use wingbeat_text::plural;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    #[error("{url:?} cannot be the host: {reason}; write it as in http://localhost:6610")]
    InvalidHost { url: String, reason: String },
    #[error("the API key is invalid: {reason}")]
    InvalidKey { reason: &'static str },
    #[error(
        "the server {url} gave no answer to {} in {:.1} s: {reason}{}; is the address right, and does \
         the server run?",
        plural(*.attempts, "attempt"), .elapsed.as_secs_f64(), arrived(*.may_have_arrived)
    )]
    Unreachable {
        url: String,
        attempts: u32,
        elapsed: Duration,
        reason: String,
        may_have_arrived: bool,
    },
    /// 4xx: the server rejected the request.
    #[error("the server {url} refused the request with {said}{}", hint(*.status))]
    Refused { url: String, status: u16, said: String },
    #[error(
        "there is no project {project:?} on the server {url} that this key may read; name it by its slug \
         or its name"
    )]
    NoProject { url: String, project: String },
    /// 5xx, on every attempt.
    #[error(
        "the server {url} failed in {}, the last time with {said}; the report may have been stored all \
         the same", plural(*.attempts, "attempt")
    )]
    Failing { url: String, attempts: u32, said: String },
    /// 3xx.
    #[error("the server {url} redirects to {location}; if you trust it, give its root with --host")]
    Redirected { url: String, location: String },
    /// 2xx with another kind of body.
    #[error(
        "the answer of {url} is not a Bencher report: {reason}; is it a Bencher server? It begins with \
         {excerpt:?}"
    )]
    NotAReport { url: String, reason: String, excerpt: String },
}

impl RemoteError {
    pub(super) fn unreachable(url: &str, error: &Error) -> Self {
        Self::Unreachable {
            url: url.to_owned(),
            attempts: error.attempts,
            elapsed: error.elapsed,
            reason: error.to_string(),
            may_have_arrived: error.may_have_arrived,
        }
    }
}

fn arrived(may_have_arrived: bool) -> &'static str {
    if may_have_arrived { " (the report may have been stored anyway)" } else { "" }
}

fn hint(status: u16) -> &'static str {
    match status {
        401 => "; give a key with --key, WINGBEAT_API_KEY or BENCHER_API_KEY",
        404 => "; is --host the root of the API?",
        429 => "; wait a while, or send fewer reports",
        _ => "",
    }
}

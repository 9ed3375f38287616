//! Requests to a server's API: JSON, a key, and retries.

use std::time::Duration;

use serde_json::Value;
use wingbeat_http::{Client, Error, Method, Request, Response, Settings};
use wingbeat_text::plural;

use super::{Key, Patience, Retry};

#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    pub(crate) url: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) key: Option<&'a Key>,
    pub(crate) body: Option<&'a Value>,
    /// A body of JSON lines in place of a JSON document.
    pub(crate) text: Option<&'a str>,
    /// Whether the request can be repeated although it may have arrived.
    pub(crate) is_repeatable: bool,
}

impl<'a> Call<'a> {
    /// A repeatable request for JSON, without key and body.
    pub(crate) fn new(method: Method, url: &'a str) -> Self {
        let headers = &[("accept", "application/json")];
        Self { method, url, headers, key: None, body: None, text: None, is_repeatable: true }
    }

    /// Sends the request until the response is not a 5xx. When patience runs out, returns the last 5xx.
    pub(crate) fn send(
        &self,
        patience: &Patience,
        on_retry: &mut dyn FnMut(&Retry),
    ) -> Result<Response, Error> {
        let key = self.key.map(|key| format!("Bearer {}", key.0));
        let json = self.body.map(Value::to_string);
        let content_type = match (self.text, &json) {
            (Some(_), _) => Some("application/x-ndjson"),
            (None, json) => json.is_some().then_some("application/json"),
        };
        let mut headers = self.headers.to_vec();
        headers.extend(key.as_deref().map(|key| ("authorization", key)));
        headers.extend(content_type.map(|kind| ("content-type", kind)));
        let request = Request {
            headers,
            body: self.text.or(json.as_deref()).map(str::as_bytes),
            is_repeatable: self.is_repeatable,
            ..Request::new(self.method.clone(), self.url)
        };
        let connect = Some(patience.connect);
        let client = Client::new(&Settings { connect, ..Settings::default() });
        client.send_with_retry(&request, patience, on_retry)?.complete()
    }
}

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

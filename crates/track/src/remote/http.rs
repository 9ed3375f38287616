//! Requests to a server's API: JSON, a key, retries, and what can fail, each with what to do next.

use std::{fmt, time::Duration};

use serde_json::Value;
use wingbeat_http::{Client, Error, Method, Request, Response, Settings};
use wingbeat_text::plural;

use super::{Patience, Retry};

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

/// Environment variables for a key, in order of precedence.
const VARIABLES: [&str; 4] =
    ["WINGBEAT_API_KEY", "BENCHER_API_KEY", "WINGBEAT_API_TOKEN", "BENCHER_API_TOKEN"];

/// A key or token. Its debug output is redacted.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(pub(super) String);

impl Key {
    /// Validates a key or token (`--key`, `--token`, `--github-actions`).
    pub fn new(text: &str) -> Result<Self, RemoteError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(RemoteError::InvalidKey { reason: "it is empty" });
        }
        match text.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(Self(text.to_owned())),
            false => Err(RemoteError::InvalidKey {
                reason: "it has blanks or characters beyond ASCII, perhaps more than the key was copied",
            }),
        }
    }

    /// The key from the environment: `WINGBEAT_API_KEY`, `BENCHER_API_KEY`, `WINGBEAT_API_TOKEN`, `BENCHER_API_TOKEN`,
    /// in this order. Empty ones are ignored: a CI job sets a variable to the empty string if a secret is withheld.
    pub fn from_env(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, RemoteError> {
        let set = VARIABLES.into_iter().filter_map(variable).find(|text| !text.trim().is_empty());
        set.map(|text| Self::new(&text)).transpose()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_can_stand_in_a_header() {
        let check = |text: &str, expected| assert_eq!(Key::new(text).is_ok(), expected, "{text:?}");
        check("bencher_run_abc", true);
        check(" a.b.c\n", true);
        check("", false);
        check("a b", false);
        check("a\nb", false);
        check("schlüssel", false);
    }

    #[test]
    fn the_first_that_is_set_counts() {
        let check = |set: &[(&str, &str)], expected: Option<&str>| {
            let variable = |name: &str| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            let key = Key::from_env(variable).expect("a key or none");
            assert_eq!(key.map(|key| key.0).as_deref(), expected);
        };
        check(&[], None);
        check(&[("BENCHER_API_TOKEN", "t")], Some("t"));
        check(&[("BENCHER_API_TOKEN", "t"), ("BENCHER_API_KEY", "k")], Some("k"));
        check(&[("BENCHER_API_KEY", "k"), ("WINGBEAT_API_KEY", "")], Some("k"));
    }

    #[test]
    fn keys_are_not_shown() {
        let key = Key::new("secret").expect("a key");
        assert!(!format!("{key:?}").contains("secret"));
    }
}

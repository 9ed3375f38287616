//! HTTP with bounded retries: one request at a time, short timeouts, and a total time limit.

use std::{
    io::ErrorKind,
    time::{Duration, Instant},
};

use serde_json::Value;
use ureq::{
    Error, Timeout,
    http::{Method, Request, Uri, header::LOCATION},
};

use wingbeat_http::{is_loopback, is_too_large};

use super::{Key, Patience, Retry};

/// Maximum size of a response in bytes.
const ANSWER_MAX: u64 = 64 << 20;

/// Maximum duration of an attempt, so that one that hangs does not use up the time of the others.
const ATTEMPT_MAX: Duration = Duration::from_secs(90);

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

#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: String,
    /// The target of a redirect.
    pub(crate) location: Option<String>,
    pub(crate) attempts: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: String,
    pub(crate) attempts: u32,
    pub(crate) elapsed: Duration,
    pub(crate) may_have_arrived: bool,
}

struct Miss {
    reason: String,
    /// Whether a retry may succeed.
    is_passing: bool,
    may_have_arrived: bool,
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
    ) -> Result<Response, Failure> {
        let begin = Instant::now();
        let left = || patience.total.saturating_sub(begin.elapsed());
        let mut pause = patience.pause.min(patience.pause_max);
        let mut may_have_arrived = false;
        let mut attempt = 1;
        loop {
            let outcome = self.attempt(patience.connect, left());
            let (reason, is_passing, arrived) = match &outcome {
                Ok(response) => (response.said(), response.status >= 500, true),
                Err(miss) => (miss.reason.clone(), miss.is_passing, miss.may_have_arrived),
            };
            may_have_arrived |= arrived;
            let is_allowed = is_passing && (self.is_repeatable || !arrived);
            let left = left();
            if !is_allowed || attempt >= patience.attempts || left <= pause {
                let elapsed = begin.elapsed();
                return match outcome {
                    Ok(response) => Ok(Response { attempts: attempt, ..response }),
                    Err(_) => Err(Failure { reason, attempts: attempt, elapsed, may_have_arrived }),
                };
            }
            on_retry(&Retry { attempt, attempts: patience.attempts, reason, pause, left });
            std::thread::sleep(pause);
            pause = pause.saturating_mul(2).min(patience.pause_max);
            attempt += 1;
        }
    }

    fn attempt(&self, connect: Duration, left: Duration) -> Result<Response, Miss> {
        let uri: Uri = self.url.parse().map_err(|error| Miss {
            reason: format!("{:?} is no URL: {error}", self.url),
            is_passing: false,
            may_have_arrived: false,
        })?;
        // A timeout of zero would mean none.
        let limit = left.clamp(Duration::from_millis(1), ATTEMPT_MAX);
        let mut config = wingbeat_http::client()
            // Following a redirect would turn a POST into a GET, and send the key to another server.
            .max_redirects(0)
            .timeout_resolve(Some(connect))
            .timeout_connect(Some(connect))
            .timeout_global(Some(limit));
        if is_loopback(&uri) {
            config = config.proxy(None);
        }
        let mut request = Request::builder().method(self.method.clone()).uri(uri);
        for (name, value) in self.headers {
            request = request.header(*name, *value);
        }
        if let Some(key) = self.key {
            request = request.header("authorization", format!("Bearer {}", key.0));
        }
        let agent = config.build().new_agent();
        let answer = match (self.text, self.body) {
            (Some(text), _) => {
                let request = request.header("content-type", "application/x-ndjson").body(text);
                request.map_err(Error::from).and_then(|request| agent.run(request))
            }
            (None, Some(body)) => {
                let request =
                    request.header("content-type", "application/json").body(body.to_string());
                request.map_err(Error::from).and_then(|request| agent.run(request))
            }
            (None, None) => {
                request.body(()).map_err(Error::from).and_then(|request| agent.run(request))
            }
        };
        let mut answer = answer.map_err(|error| self.miss(&error))?;
        let location = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let location = location.map(str::to_owned);
        let status = answer.status().as_u16();
        let body = answer.body_mut().with_config().limit(ANSWER_MAX).read_to_string();
        let body = body.map_err(|error| Miss { may_have_arrived: true, ..Miss::of(&error) })?;
        Ok(Response { status, body, location, attempts: 1 })
    }

    fn miss(&self, error: &Error) -> Miss {
        let bytes =
            self.text.map_or(0, str::len).max(self.body.map_or(0, |it| it.to_string().len()));
        if !is_too_large(error, bytes) {
            return Miss::of(error);
        }
        Miss {
            reason: format!(
                "it closed the connection while {} were sent, which is more than servers usually take \
                 (4 MiB; `body_bytes_max` of wingbeat serve)",
                wingbeat_text::bytes(bytes as u64)
            ),
            is_passing: false,
            may_have_arrived: false,
        }
    }
}

impl Response {
    /// The server's error message.
    pub(crate) fn said(&self) -> String {
        wingbeat_http::said(self.status, &self.body)
    }
}

impl Miss {
    fn of(error: &Error) -> Self {
        let (is_passing, may_have_arrived) = match error {
            Error::Timeout(Timeout::Connect | Timeout::Resolve)
            | Error::HostNotFound
            | Error::ConnectionFailed => (true, false),
            // An untrusted certificate: nothing has been sent yet.
            Error::Io(error) if error.kind() == ErrorKind::InvalidData => (false, false),
            Error::Io(error) => (true, error.kind() != ErrorKind::ConnectionRefused),
            Error::Timeout(_) | Error::Protocol(_) => (true, true),
            // Certificates, addresses, oversized responses: a retry would fail the same way.
            _ => (false, false),
        };
        Self { reason: wingbeat_http::reason(error), is_passing, may_have_arrived }
    }
}

//! HTTP with retries that end: one request at a time, short timeouts, a bound on all of it together.

use std::{
    io::ErrorKind,
    time::{Duration, Instant},
};

use serde_json::Value;
use ureq::{
    Error, Timeout,
    config::Config,
    http::{Method, Request, Uri, header::LOCATION},
    tls::{RootCerts, TlsConfig},
};

use super::{Key, Patience, Retry};

/// What is read of an answer at most, in bytes.
const ANSWER_MAX: u64 = 64 << 20;

/// What a single attempt may last: one that hangs is not to take the time of all others.
const ATTEMPT_MAX: Duration = Duration::from_secs(90);

#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    pub(crate) url: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) key: Option<&'a Key>,
    pub(crate) body: Option<&'a Value>,
    /// Instead of a body in JSON, lines of it.
    pub(crate) text: Option<&'a str>,
    /// Whether it may be sent again although it may have arrived.
    pub(crate) is_repeatable: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: String,
    /// Where the server sends us instead.
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
    /// Whether another attempt may go better.
    is_passing: bool,
    may_have_arrived: bool,
}

/// What servers take of a request, ours and Bencher's, unless they are set up otherwise.
const BODY_USUAL_MAX: usize = 4 << 20;

impl<'a> Call<'a> {
    /// A request for JSON, without a key and a body, that may be repeated.
    pub(crate) fn new(method: Method, url: &'a str) -> Self {
        let headers = &[("accept", "application/json")];
        Self { method, url, headers, key: None, body: None, text: None, is_repeatable: true }
    }

    /// Sends it until there is an answer other than 5xx. When patience is at its end, the last 5xx counts.
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
        // Nothing would time out after no time at all.
        let limit = left.clamp(Duration::from_millis(1), ATTEMPT_MAX);
        let mut config = Config::builder()
            .http_status_as_error(false)
            // A POST that is redirected would become a GET, and a key would go to another server.
            .max_redirects(0)
            .user_agent(concat!("wingbeat/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(connect))
            .timeout_connect(Some(connect))
            .timeout_global(Some(limit))
            // As `curl` and `git` do it, so that a company's own certificates work.
            .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build());
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

    /// A large request that is cut off is one that the server does not want: it has answered, which cannot be read
    /// any more, and the next attempt would end like this one.
    fn miss(&self, error: &Error) -> Miss {
        let bytes =
            self.text.map_or(0, str::len).max(self.body.map_or(0, |it| it.to_string().len()));
        let is_cut = |kind| matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset);
        match error {
            Error::Io(error) if is_cut(error.kind()) && bytes > BODY_USUAL_MAX => Miss {
                reason: format!(
                    "it closed the connection while {} were sent, which is more than servers usually take \
                     (4 MiB; `body_bytes_max` of wingbeat serve)",
                    wingbeat_text::bytes(bytes as u64)
                ),
                is_passing: false,
                may_have_arrived: false,
            },
            error => Miss::of(error),
        }
    }
}

impl Response {
    /// What a server says about its refusal: the member `message` of JSON, or the beginning of the text.
    pub(crate) fn said(&self) -> String {
        let json: Option<Value> = serde_json::from_str(&self.body).ok();
        let message = json.as_ref().and_then(|json| json.get("message")?.as_str());
        let text = message.unwrap_or(&self.body);
        // A page of a proxy, or of something else that is no API.
        if text.trim_start().starts_with('<') {
            return format!(
                "status {} and a page of HTML, which a proxy may have made",
                self.status
            );
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        match excerpt(&words.join(" ")) {
            text if text.is_empty() => format!("status {}", self.status),
            text => format!("status {}: {text}", self.status),
        }
    }
}

pub(crate) fn excerpt(text: &str) -> String {
    const CHARS_MAX: usize = 300;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Whether the address is this machine.
pub(crate) fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let address: Result<std::net::IpAddr, _> = host.parse();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

impl Miss {
    fn of(error: &Error) -> Self {
        let reason = match error {
            Error::Timeout(Timeout::Connect) => "the connection was not made in time".to_owned(),
            Error::Timeout(Timeout::Resolve) => "its name was not resolved in time".to_owned(),
            Error::Timeout(_) => "no answer came in time".to_owned(),
            Error::HostNotFound => "there is no such host".to_owned(),
            Error::Io(error) if error.kind() == ErrorKind::ConnectionRefused => {
                "it refused the connection".to_owned()
            }
            // Without the word `io` in front, which says nothing.
            Error::Io(error) => error.to_string(),
            other => other.to_string(),
        };
        let (is_passing, may_have_arrived) = match error {
            Error::Timeout(Timeout::Connect | Timeout::Resolve)
            | Error::HostNotFound
            | Error::ConnectionFailed => (true, false),
            // A certificate that is not trusted: nothing has been said yet.
            Error::Io(error) if error.kind() == ErrorKind::InvalidData => (false, false),
            Error::Io(error) => (true, error.kind() != ErrorKind::ConnectionRefused),
            Error::Timeout(_) | Error::Protocol(_) => (true, true),
            // Certificates, addresses, answers that are too long: the next attempt ends like this one.
            _ => (false, false),
        };
        Self { reason, is_passing, may_have_arrived }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine() {
        let check = |url: &str, expected| {
            assert_eq!(is_loopback(&url.parse().expect("a URL")), expected, "{url}");
        };
        check("http://localhost:6610/v0", true);
        check("http://127.0.0.1", true);
        check("http://[::1]:80/", true);
        check("http://localhost.example.com/", false);
        check("https://10.0.0.1/", false);
    }

    #[test]
    fn what_servers_say() {
        let check = |body: &str, expected: &str| {
            let body = body.to_owned();
            let response = Response { status: 401, body, location: None, attempts: 1 };
            assert_eq!(response.said(), expected);
        };
        check(r#"{"request_id": "1", "message": "no\nkey"}"#, "status 401: no key");
        check(" <html>oops</html>", "status 401 and a page of HTML, which a proxy may have made");
        check("", "status 401");
        check(&"x".repeat(400), &format!("status 401: {}…", "x".repeat(300)));
    }
}

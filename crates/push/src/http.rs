//! Sends HTTP requests with time limits: the only file that uses the network.

use std::{
    io::Read as _,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use time::{OffsetDateTime, format_description::well_known::Rfc2822};
use ureq::{
    Agent, Body, Error,
    http::{HeaderName, HeaderValue, Response, Uri, header},
};

use crate::{
    credentials::Credentials,
    encode::Request,
    judge::{Miss, Reply},
    target::Target,
};

/// Maximum bytes of a response to read.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// How long to keep an idle connection: windows from a spool are sent in quick succession.
const IDLE_MAX: Duration = Duration::from_secs(5);

/// Sends requests to one target.
#[derive(Debug)]
pub(crate) struct Transport {
    agent: Agent,
    root: String,
    credentials: Mutex<Credentials>,
}

impl Transport {
    /// `connect` limits the time to establish a connection.
    pub(crate) fn new(target: &Target, credentials: Credentials, connect: Duration) -> Self {
        let mut config = wingbeat_http::client()
            // A redirected POST would become a GET, and would send the token to another server.
            .max_redirects(0)
            .timeout_resolve(Some(connect))
            .timeout_connect(Some(connect))
            .max_idle_age(IDLE_MAX);
        if is_loopback(target.root()) {
            config = config.proxy(None);
        }
        let agent = config.build().new_agent();
        Self { agent, root: target.root().to_owned(), credentials: Mutex::new(credentials) }
    }

    /// Sends a request and reads the response, all within `patience`.
    pub(crate) fn post(&self, request: &Request, patience: Duration) -> Result<Reply, Miss> {
        let mut message = ureq::http::Request::post(format!("{}{}", self.root, request.path));
        for (name, value) in &request.headers {
            message = message.header(*name, *value);
        }
        let credentials = {
            let mut credentials = self.credentials.lock().unwrap_or_else(PoisonError::into_inner);
            credentials.refresh();
            credentials.clone()
        };
        for (name, value) in credentials.headers() {
            // Sensitive, so that even libraries that log headers do not show it.
            let secret = HeaderValue::from_str(value).map(|mut value| {
                value.set_sensitive(true);
                value
            });
            if let Ok(secret) = secret {
                message = message.header(HeaderName::from_static(name), secret);
            }
        }
        let message = message.body(request.body.as_slice()).map_err(|error| Miss {
            reason: format!("it cannot be written as a request: {error}"),
            is_passing: false,
        })?;
        // A timeout of zero would mean none.
        let patience = patience.max(Duration::from_millis(1));
        let message = self.agent.configure_request(message).timeout_global(Some(patience)).build();
        let answer = self.agent.run(message);
        answer.and_then(read).map_err(|error| miss(&error, request.body.len()))
    }
}

fn read(mut answer: Response<Body>) -> Result<Reply, Error> {
    let header = |name: &str| {
        let value = answer.headers().get(name).and_then(|value| value.to_str().ok());
        value.map(str::to_owned)
    };
    let mut reply = Reply {
        status: answer.status().as_u16(),
        content_type: header(header::CONTENT_TYPE.as_str()).unwrap_or_default(),
        location: header(header::LOCATION.as_str()),
        retry_after: header(header::RETRY_AFTER.as_str())
            .and_then(|text| pause(&text, SystemTime::now())),
        grpc_status: header("grpc-status"),
        grpc_message: header("grpc-message"),
        body: Vec::new(),
    };
    let reader = answer.body_mut().as_reader();
    reader.take(ANSWER_BYTES_MAX).read_to_end(&mut reply.body).map_err(Error::from)?;
    Ok(reply)
}

/// Parses `Retry-After`: seconds or a date (RFC 9110, 10.2.3).
fn pause(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until: SystemTime = OffsetDateTime::parse(text, &Rfc2822).ok()?.into();
    Some(until.duration_since(now).unwrap_or_default())
}

fn miss(error: &Error, body_bytes: usize) -> Miss {
    if !wingbeat_http::is_too_large(error, body_bytes) {
        // A later attempt may succeed: certificates are renewed, proxies return, and truncated responses are temporary.
        return Miss { reason: wingbeat_http::reason(error), is_passing: true };
    }
    let reason = format!(
        "it closed the connection while {} were sent, which is more than servers usually take",
        wingbeat_text::bytes(body_bytes as u64)
    );
    Miss { reason, is_passing: false }
}

/// The root URL of an API without a trailing slash, or an error that does not reveal a password.
pub(crate) fn root(address: &str) -> Result<String, String> {
    let refused = |reason: &str| Err(reason.to_owned());
    if address.is_empty() {
        return refused("it is empty");
    }
    if address.contains('@') {
        return refused(
            "it has a user name or a password, which would be shown; give them in a file or the environment",
        );
    }
    if address.contains(['?', '#']) {
        return refused("it has a query or a fragment");
    }
    let uri: Uri = address.parse().map_err(|error| format!("it is no URL ({error})"))?;
    let Some(scheme) = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https")) else {
        return refused("it begins neither with http:// nor with https://");
    };
    match uri.authority() {
        Some(authority) if !authority.host().is_empty() => {
            Ok(format!("{scheme}://{authority}{}", uri.path().trim_end_matches('/')))
        }
        _ => refused("it names no host"),
    }
}

/// Whether the URL is this machine, for which no proxy is used.
pub(crate) fn is_loopback(root: &str) -> bool {
    root.parse().is_ok_and(|uri| wingbeat_http::is_loopback(&uri))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    #[test]
    fn pauses_are_seconds_or_dates() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_820_400);
        let check = |text, expected_s: Option<u64>| {
            assert_eq!(pause(text, now), expected_s.map(Duration::from_secs), "{text}");
        };
        check("0", Some(0));
        check(" 120 ", Some(120));
        check("Fri, 27 Nov 2026 23:00:30 GMT", Some(30));
        check("Fri, 27 Nov 2026 22:00:00 GMT", Some(0));
        check("-1", None);
        check("soon", None);
        check("", None);
        check("99999999999999999999999", None);
    }

    #[test]
    fn large_requests_that_are_cut_off_are_not_repeated() {
        let check = |kind: ErrorKind, bytes, expected| {
            assert_eq!(miss(&Error::Io(kind.into()), bytes).is_passing, expected, "{kind}");
        };
        check(ErrorKind::ConnectionReset, 100, true);
        check(ErrorKind::ConnectionReset, 5 << 20, false);
        check(ErrorKind::ConnectionRefused, 5 << 20, true);
        check(ErrorKind::UnexpectedEof, 100, true);
    }
}

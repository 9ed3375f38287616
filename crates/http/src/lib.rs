//! The HTTP client of all commands: time limits, size limits, retries, and one error type.
//!
//! A [`Client`] returns every response whatever its status. It trusts the system's certificates, as `curl` and `git`
//! do, so that a company's own certificates work. It reaches loopback addresses without a proxy, and follows no
//! redirect by default: a redirected POST would become a GET, and would send the token to another server.

#[cfg(feature = "testing")]
pub mod testing;

use std::{
    borrow::Cow,
    fmt,
    io::{self, ErrorKind, Read},
    net::IpAddr,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use ureq::{
    Agent, Timeout,
    http::{self, HeaderValue, Uri, header},
    tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem},
};
pub use ureq::{
    BodyReader,
    http::{HeaderMap, Method},
};

/// Usual limit on the request body, in bytes. Our server, Bencher's and most others use it unless configured otherwise.
const BODY_USUAL_MAX: usize = 4 << 20;

/// Maximum length of a server's message that is shown, in characters.
const EXCERPT_CHARS_MAX: usize = 300;

/// Maximum duration of an attempt of several, so that one that hangs does not use up the time of the others.
const ATTEMPT_MAX: Duration = Duration::from_secs(90);

/// How long to keep an idle connection.
const IDLE_CONNECTION_MAX: Duration = Duration::from_secs(5);

/// Settings of a [`Client`].
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Time to resolve a name, and to connect.
    pub connect: Option<Duration>,
    /// Time until a response begins, and for each read of its body.
    pub stall: Option<Duration>,
    pub redirects_max: u32,
    pub trust: Trust,
    /// Use no proxy for other machines either.
    pub is_direct: bool,
}

/// The certificates by which servers are verified.
#[derive(Debug, Clone, Default)]
pub enum Trust {
    #[default]
    System,
    Only(RootCerts),
    /// Do not verify servers.
    Anything,
}

impl Trust {
    /// Trusts the certificates of a PEM file alone. `None` if it has none.
    pub fn only(pem: &[u8]) -> Option<Self> {
        let certificates = parse_pem(pem).filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        });
        let certificates: Vec<Certificate<'static>> = certificates.collect();
        (!certificates.is_empty()).then(|| Self::Only(RootCerts::new_with_certs(&certificates)))
    }
}

/// A request.
#[derive(Clone)]
pub struct Request<'a> {
    pub method: Method,
    pub url: &'a str,
    /// Names in lower case. Logs do not show `authorization`.
    pub headers: Vec<(&'a str, &'a str)>,
    pub body: Option<&'a [u8]>,
    /// Whether the request can be repeated although it may have arrived.
    pub is_repeatable: bool,
    /// Size at which the body of the response is truncated, in bytes.
    pub response_bytes_max: u64,
}

/// A response of any status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// Whether the body was longer than [`Request::response_bytes_max`].
    pub is_truncated: bool,
    pub attempts: u32,
}

/// A response whose body has not been read yet.
pub struct Download {
    pub status: u16,
    /// Announced size of the body, in bytes.
    pub bytes: Option<u64>,
    /// Its errors become an [`Error`] by `Error::from`.
    pub body: BodyReader<'static>,
}

/// Why there is no response. Displayed without the server's name: `it refused the connection`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub cause: Cause,
    pub may_have_arrived: bool,
    pub attempts: u32,
    /// Time of all attempts together.
    pub elapsed: Duration,
    reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The URL or a header is malformed.
    Invalid,
    /// The server closed the connection because the request's body was too large.
    TooLarge,
    /// There is no host of that name, or it refused the connection.
    Unreachable,
    /// The time for the whole request is over.
    Deadline,
    /// Another time limit is exceeded.
    Timeout,
    /// The connection broke.
    Broken,
    /// Anything that would fail the same way again: certificates, too many redirects.
    Permanent,
}

/// Limits of a request that is repeated while it fails. By default those of Bencher's client, but three minutes in total
/// rather than fifteen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Time to resolve a name, and to connect.
    pub connect: Duration,
    /// Maximum number of attempts.
    pub attempts: u32,
    /// Pause after the first failure, doubled after each further one.
    pub pause: Duration,
    pub pause_max: Duration,
    /// Total time limit: no attempt begins after it or exceeds it.
    pub total: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(15),
            attempts: 35,
            pause: Duration::from_secs(1),
            pause_max: Duration::from_secs(30),
            total: Duration::from_secs(180),
        }
    }
}

/// A failed attempt, before the pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    pub attempt: u32,
    pub attempts: u32,
    pub reason: String,
    pub pause: Duration,
    pub left: Duration,
}

/// Connections to servers.
#[derive(Debug, Clone)]
pub struct Client {
    agent: Agent,
}

impl Client {
    pub fn new(settings: &Settings) -> Self {
        let tls = match &settings.trust {
            Trust::System => TlsConfig::builder().root_certs(RootCerts::PlatformVerifier),
            Trust::Only(certificates) => TlsConfig::builder().root_certs(certificates.clone()),
            Trust::Anything => TlsConfig::builder()
                .root_certs(RootCerts::PlatformVerifier)
                .disable_verification(true),
        };
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .user_agent(concat!("wingbeat/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls.build())
            .max_redirects(settings.redirects_max)
            .timeout_resolve(settings.connect)
            .timeout_connect(settings.connect)
            .timeout_recv_response(settings.stall)
            .timeout_per_read(settings.stall)
            .max_idle_age(IDLE_CONNECTION_MAX);
        if settings.is_direct {
            config = config.proxy(None);
        }
        Self { agent: config.build().new_agent() }
    }

    /// Sends a request once, and reads the response, all within `limit`.
    pub fn send(&self, request: &Request<'_>, limit: Option<Duration>) -> Result<Response, Error> {
        let begin = Instant::now();
        let timed = |error: Error| Error { elapsed: begin.elapsed(), ..error };
        let (head, body) = self.exchange(request, limit).map_err(timed)?;
        let mut response =
            Response { status: head.status.as_u16(), headers: head.headers, ..Response::first() };
        let bytes_max = request.response_bytes_max;
        body.take(bytes_max.saturating_add(1))
            .read_to_end(&mut response.body)
            .map_err(|error| timed(Error { may_have_arrived: true, ..error.into() }))?;
        response.is_truncated = response.body.len() as u64 > bytes_max;
        response.body.truncate(usize::try_from(bytes_max).unwrap_or(usize::MAX));
        Ok(response)
    }

    /// Sends a request until the response is not a 5xx. When patience runs out, returns the last 5xx or error.
    pub fn send_with_retry(
        &self,
        request: &Request<'_>,
        patience: &Patience,
        on_retry: &mut dyn FnMut(&Retry),
    ) -> Result<Response, Error> {
        let begin = Instant::now();
        let left = || patience.total.saturating_sub(begin.elapsed());
        let mut pause = patience.pause.min(patience.pause_max);
        let mut may_have_arrived = false;
        let mut attempt = 1;
        loop {
            let outcome = self.send(request, Some(left().min(ATTEMPT_MAX)));
            let (reason, is_transient, arrived) = match &outcome {
                Ok(response) => (response.message(), response.status >= 500, true),
                Err(error) => (error.to_string(), error.is_transient(), error.may_have_arrived),
            };
            may_have_arrived |= arrived;
            let is_allowed = is_transient && (request.is_repeatable || !arrived);
            let left = left();
            if !is_allowed || attempt >= patience.attempts || left <= pause {
                let (attempts, elapsed) = (attempt, begin.elapsed());
                return outcome
                    .map(|response| Response { attempts, ..response })
                    .map_err(|error| Error { attempts, elapsed, may_have_arrived, ..error });
            }
            on_retry(&Retry { attempt, attempts: patience.attempts, reason, pause, left });
            thread::sleep(pause);
            pause = pause.saturating_mul(2).min(patience.pause_max);
            attempt += 1;
        }
    }

    /// Sends a request once, and leaves the body of the response to be read, all within `limit`.
    pub fn open(&self, request: &Request<'_>, limit: Option<Duration>) -> Result<Download, Error> {
        let (head, body) = self.exchange(request, limit)?;
        let bytes = head.headers.get(header::CONTENT_LENGTH);
        let bytes = bytes.and_then(|bytes| bytes.to_str().ok()?.parse().ok());
        Ok(Download { status: head.status.as_u16(), bytes, body })
    }

    fn exchange(
        &self,
        request: &Request<'_>,
        limit: Option<Duration>,
    ) -> Result<(http::response::Parts, BodyReader<'static>), Error> {
        let invalid = |error: &dyn fmt::Display| {
            let reason = format!("{:?} cannot be requested: {error}", request.url);
            Error::new(Cause::Invalid, false, reason)
        };
        let uri: Uri = request.url.parse().map_err(|error| invalid(&error))?;
        let mut message = http::Request::builder().method(request.method.clone()).uri(uri);
        for (name, value) in &request.headers {
            let mut value = HeaderValue::from_str(value).map_err(|error| invalid(&error))?;
            value.set_sensitive(*name == header::AUTHORIZATION.as_str());
            message = message.header(*name, value);
        }
        let outcome = match request.body {
            Some(body) => message.body(body).map(|message| self.run(message, limit)),
            None => message.body(()).map(|message| self.run(message, limit)),
        };
        let response = outcome.map_err(|error| invalid(&error))?;
        let body_bytes = request.body.map_or(0, <[u8]>::len);
        let (head, body) = response.map_err(|error| Error::of(&error, body_bytes))?.into_parts();
        Ok((head, body.into_reader()))
    }

    fn run(
        &self,
        message: http::Request<impl ureq::AsSendBody>,
        limit: Option<Duration>,
    ) -> Result<http::Response<ureq::Body>, ureq::Error> {
        let is_loopback = has_loopback_host(message.uri());
        // A limit of zero would mean none.
        let limit = limit.map(|limit| limit.max(Duration::from_millis(1)));
        let mut config = self.agent.configure_request(message).timeout_global(limit);
        if is_loopback {
            config = config.proxy(None);
        }
        self.agent.run(config.build())
    }
}

impl<'a> Request<'a> {
    /// A repeatable request without headers and body, for a response of up to 64 MiB.
    pub fn new(method: Method, url: &'a str) -> Self {
        let (headers, body, response_bytes_max) = (Vec::new(), None, 64 << 20);
        Self { method, url, headers, body, is_repeatable: true, response_bytes_max }
    }
}

impl Response {
    fn first() -> Self {
        Self { attempts: 1, ..Self::default() }
    }

    /// The response, or an error if its body was truncated.
    pub fn complete(self) -> Result<Self, Error> {
        match self.is_truncated {
            true => {
                let bytes = wingbeat_text::bytes(self.body.len() as u64);
                let reason = format!("its answer is larger than {bytes}");
                let attempts = self.attempts;
                Err(Error { attempts, ..Error::new(Cause::Permanent, true, reason) })
            }
            false => Ok(self),
        }
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Target of a redirect.
    pub fn location(&self) -> &str {
        self.header("location").unwrap_or("nowhere")
    }

    /// The body as text.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    /// Status and error message of the server: the JSON member `message`, or the beginning of the body.
    pub fn message(&self) -> String {
        let body = self.text();
        // An HTML page from a proxy or something else that is not an API.
        if body.trim_start().starts_with('<') {
            return format!("status {} and an HTML page, perhaps from a proxy", self.status);
        }
        let json: Option<Value> = serde_json::from_str(&body).ok();
        let message = json.as_ref().and_then(|json| json.get("message")?.as_str());
        with_text(self.status, message.unwrap_or(&body))
    }
}

impl Error {
    fn new(cause: Cause, may_have_arrived: bool, reason: String) -> Self {
        Self { cause, may_have_arrived, attempts: 1, elapsed: Duration::ZERO, reason }
    }

    /// Whether a later attempt may succeed.
    pub fn is_transient(&self) -> bool {
        use Cause::{Broken, Deadline, Timeout, Unreachable};
        matches!(self.cause, Unreachable | Deadline | Timeout | Broken)
    }

    fn of(error: &ureq::Error, body_bytes: usize) -> Self {
        use ureq::Error as E;
        let is_cut = |kind| matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset);
        let (cause, may_have_arrived) = match error {
            E::Io(error) if body_bytes > BODY_USUAL_MAX && is_cut(error.kind()) => {
                let reason = format!(
                    "it closed the connection while {} were sent; servers usually take 4 MiB at most \
                     (`body_bytes_max` of wingbeat serve)",
                    wingbeat_text::bytes(body_bytes as u64)
                );
                return Self::new(Cause::TooLarge, false, reason);
            }
            E::Timeout(Timeout::Connect | Timeout::Resolve) => (Cause::Timeout, false),
            E::Timeout(Timeout::Global) => (Cause::Deadline, true),
            E::Timeout(_) => (Cause::Timeout, true),
            E::HostNotFound | E::ConnectionFailed => (Cause::Unreachable, false),
            E::Io(error) => match error.kind() {
                // An untrusted certificate: nothing has been sent yet.
                ErrorKind::InvalidData => (Cause::Permanent, false),
                ErrorKind::ConnectionRefused => (Cause::Unreachable, false),
                _ => (Cause::Broken, true),
            },
            E::Protocol(_) => (Cause::Broken, true),
            _ => (Cause::Permanent, false),
        };
        Self::new(cause, may_have_arrived, reason(error))
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::of(&ureq::Error::from(error), 0)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Error {}

/// Why there is no response, to be appended to the server's name.
fn reason(error: &ureq::Error) -> String {
    use ureq::Error as E;
    let text = match error {
        E::Timeout(Timeout::Connect) => "the connection was not made in time",
        E::Timeout(Timeout::Resolve) => "its name was not resolved in time",
        E::Timeout(_) => "no answer came in time",
        E::HostNotFound => "there is no such host",
        E::TooManyRedirects => "it redirects too often",
        E::Io(error) => match error.kind() {
            ErrorKind::TimedOut => "no answer came in time",
            ErrorKind::ConnectionRefused => "it refused the connection",
            ErrorKind::UnexpectedEof => "the connection ended before the answer did",
            // Drops the prefix `io`, which adds nothing.
            _ => return error.to_string(),
        },
        other => return with_advice(other.to_string()),
    };
    text.to_owned()
}

/// Replaces a library's message that does not say what to do.
fn with_advice(message: String) -> String {
    // From rustls-platform-verifier, in an error without a kind. Containers often have no certificates.
    if message.contains("No CA certificates were loaded") {
        return "this machine has no certificates to trust: install ca-certificates, or set SSL_CERT_FILE".into();
    }
    message
}

/// Whether a URL names this machine.
pub fn is_loopback(url: &str) -> bool {
    url.parse().is_ok_and(|uri| has_loopback_host(&uri))
}

fn has_loopback_host(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let address: Result<IpAddr, _> = host.parse();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// The root URL of an API without a trailing slash, or why it is none. The reason does not repeat the address.
pub fn root(address: &str) -> Result<String, String> {
    let refused = |reason: &str| Err(reason.to_owned());
    if address.is_empty() {
        return refused("it is empty");
    }
    if address.contains(['?', '#']) {
        return refused("it has a query or a fragment");
    }
    let uri: Uri = address.parse().map_err(|error| format!("it is not a URL ({error})"))?;
    let Some(scheme) = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https")) else {
        return refused("it begins neither with http:// nor with https://");
    };
    match uri.authority() {
        Some(authority) if !authority.host().is_empty() => {
            Ok(format!("{scheme}://{authority}{}", uri.path().trim_end_matches('/')))
        }
        _ => refused("it has no host"),
    }
}

/// Formats a status with its explanation.
pub fn with_text(status: u16, text: &str) -> String {
    match excerpt(text) {
        text if text.is_empty() => format!("status {status}"),
        text => format!("status {status}: {text}"),
    }
}

/// The beginning of a text, on one line.
pub fn excerpt(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text: String = words.join(" ").chars().filter(|c| !c.is_control()).collect();
    match text.char_indices().nth(EXCERPT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine() {
        let check = |url: &str, expected| assert_eq!(is_loopback(url), expected, "{url}");
        check("http://localhost:6610/v0", true);
        check("http://127.0.0.1", true);
        check("http://[::1]:80/", true);
        check("http://localhost.example.com/", false);
        check("https://10.0.0.1/", false);
    }

    #[test]
    fn messages_of_servers() {
        let check = |body: &str, expected: &str| {
            let response = Response { status: 401, body: body.into(), ..Response::default() };
            assert_eq!(response.message(), expected);
        };
        check(r#"{"request_id": "1", "message": "no\nkey"}"#, "status 401: no key");
        check(" <html>oops</html>", "status 401 and an HTML page, perhaps from a proxy");
        check("", "status 401");
        check("a\u{1b}[31m b", "status 401: a[31m b");
        check(&"x".repeat(400), &format!("status 401: {}…", "x".repeat(300)));
    }

    #[test]
    fn large_requests_that_are_cut_off_are_not_repeated() {
        let check = |kind: ErrorKind, bytes, cause, is_transient| {
            let error = Error::of(&ureq::Error::Io(kind.into()), bytes);
            assert_eq!((error.cause, error.is_transient()), (cause, is_transient), "{kind}");
        };
        check(ErrorKind::ConnectionReset, 100, Cause::Broken, true);
        check(ErrorKind::ConnectionReset, 5 << 20, Cause::TooLarge, false);
        check(ErrorKind::BrokenPipe, 5 << 20, Cause::TooLarge, false);
        check(ErrorKind::ConnectionRefused, 5 << 20, Cause::Unreachable, true);
        check(ErrorKind::UnexpectedEof, 100, Cause::Broken, true);
        check(ErrorKind::InvalidData, 100, Cause::Permanent, false);
        assert_eq!(Error::of(&ureq::Error::HostNotFound, 5 << 20).cause, Cause::Unreachable);
    }

    #[test]
    fn reasons() {
        let check = |error: ureq::Error, expected: &str| assert_eq!(reason(&error), expected);
        check(ureq::Error::HostNotFound, "there is no such host");
        check(ureq::Error::Timeout(Timeout::Connect), "the connection was not made in time");
        check(ureq::Error::Io(ErrorKind::TimedOut.into()), "no answer came in time");
        check(ureq::Error::Io(ErrorKind::ConnectionRefused.into()), "it refused the connection");
        let message = "rustls: unexpected error: No CA certificates were loaded from the system";
        assert!(with_advice(message.into()).contains("SSL_CERT_FILE"));
        assert_eq!(with_advice("another".into()), "another");
    }

    #[test]
    fn malformed_requests_are_not_sent() {
        let client = Client::new(&Settings::default());
        let check = |url, value| {
            let headers = vec![("x-a", value)];
            let request = Request { headers, ..Request::new(Method::GET, url) };
            let error = client.send(&request, None).expect_err("malformed");
            assert_eq!((error.cause, error.is_transient()), (Cause::Invalid, false), "{error}");
        };
        check("http://ho st", "a");
        check("http://127.0.0.1:1", "a\nb");
    }
}

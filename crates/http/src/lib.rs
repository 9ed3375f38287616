//! Shared by all HTTP clients: configuration, and messages for transport errors and error responses.
//!
//! This crate sends nothing. Requests, their timing and retries are up to the clients.

use std::{io::ErrorKind, net::IpAddr};

use serde_json::Value;
use ureq::{
    Agent, Error, Timeout,
    config::ConfigBuilder,
    http::Uri,
    tls::{RootCerts, TlsConfig},
    typestate::AgentScope,
};

/// Usual limit on the request body, in bytes. Our server, Bencher's and most others use it unless configured otherwise.
const BODY_USUAL_MAX: usize = 4 << 20;

/// Maximum length of a server's message that is shown, in characters.
const SAID_CHARS_MAX: usize = 300;

/// Settings of a client that returns every response whatever its status. It uses the system's trust store, as `curl`
/// and `git` do, so a company's own certificates work.
pub fn client() -> ConfigBuilder<AgentScope> {
    Agent::config_builder()
        .http_status_as_error(false)
        .user_agent(concat!("wingbeat/", env!("CARGO_PKG_VERSION")))
        .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
}

/// Whether an address is loopback, which bypasses proxies.
pub fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let address: Result<IpAddr, _> = host.parse();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Why there is no response, to be appended to the server's name.
pub fn reason(error: &Error) -> String {
    let text = match error {
        Error::Timeout(Timeout::Connect) => "the connection was not made in time",
        Error::Timeout(Timeout::Resolve) => "its name was not resolved in time",
        Error::Timeout(_) => "no answer came in time",
        Error::Io(error) if error.kind() == ErrorKind::TimedOut => "no answer came in time",
        Error::HostNotFound => "there is no such host",
        Error::Io(error) if error.kind() == ErrorKind::ConnectionRefused => {
            "it refused the connection"
        }
        // Drops the prefix `io`, which adds nothing.
        Error::Io(error) => return error.to_string(),
        other => return told(other.to_string()),
    };
    text.to_owned()
}

/// Returns a library's message, or our own where the library's does not say what to do.
fn told(message: String) -> String {
    // From rustls-platform-verifier, in an error without a kind. Containers often have no certificates.
    if message.contains("No CA certificates were loaded") {
        return "no certificates to trust are on this machine: install ca-certificates, or set SSL_CERT_FILE".into();
    }
    message
}

/// Whether the server closed the connection because a body of `body_bytes` was too large. Its response can no longer be
/// read, and a retry would fail the same way.
pub fn is_too_large(error: &Error, body_bytes: usize) -> bool {
    let is_cut = |kind| matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset);
    body_bytes > BODY_USUAL_MAX && matches!(error, Error::Io(error) if is_cut(error.kind()))
}

/// The server's error message: the JSON member `message`, or the beginning of the body.
pub fn said(status: u16, body: &str) -> String {
    // An HTML page from a proxy or something else that is not an API.
    if body.trim_start().starts_with('<') {
        return format!("status {status} and a page of HTML, which a proxy may have made");
    }
    let json: Option<Value> = serde_json::from_str(body).ok();
    let message = json.as_ref().and_then(|json| json.get("message")?.as_str());
    with_text(status, message.unwrap_or(body))
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
    match text.char_indices().nth(SAID_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
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
        let check = |body: &str, expected: &str| assert_eq!(said(401, body), expected);
        check(r#"{"request_id": "1", "message": "no\nkey"}"#, "status 401: no key");
        check(" <html>oops</html>", "status 401 and a page of HTML, which a proxy may have made");
        check("", "status 401");
        check("a\u{1b}[31m b", "status 401: a[31m b");
        check(&"x".repeat(400), &format!("status 401: {}…", "x".repeat(300)));
    }

    #[test]
    fn large_requests_that_are_cut_off() {
        let check = |kind: ErrorKind, bytes, expected| {
            assert_eq!(is_too_large(&Error::Io(kind.into()), bytes), expected, "{kind}");
        };
        check(ErrorKind::ConnectionReset, 100, false);
        check(ErrorKind::ConnectionReset, 5 << 20, true);
        check(ErrorKind::BrokenPipe, 5 << 20, true);
        check(ErrorKind::ConnectionRefused, 5 << 20, false);
        assert!(!is_too_large(&Error::HostNotFound, 5 << 20));
    }

    #[test]
    fn why_there_is_no_answer() {
        let check = |error: Error, expected: &str| assert_eq!(reason(&error), expected);
        check(Error::HostNotFound, "there is no such host");
        check(Error::Timeout(Timeout::Connect), "the connection was not made in time");
        check(Error::Io(ErrorKind::TimedOut.into()), "no answer came in time");
        check(Error::Io(ErrorKind::ConnectionRefused.into()), "it refused the connection");
        let message = "rustls: unexpected error: No CA certificates were loaded from the system";
        assert!(told(message.into()).contains("SSL_CERT_FILE"));
        assert_eq!(told("another".into()), "another");
    }
}

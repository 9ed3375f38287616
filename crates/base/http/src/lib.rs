//! What all clients of HTTP share: how they are set up, why there is no answer, and what a server says.
//!
//! It sends nothing by itself: what is sent, when, and how often is for those who know whom they speak to.

use std::{io::ErrorKind, net::IpAddr};

use serde_json::Value;
use ureq::{
    Agent, Error, Timeout,
    config::ConfigBuilder,
    http::Uri,
    tls::{RootCerts, TlsConfig},
    typestate::AgentScope,
};

/// What servers take of a request, ours and Bencher's and most others, unless they are set up otherwise.
const BODY_USUAL_MAX: usize = 4 << 20;

/// Longest text of a server that is shown, in characters.
const SAID_CHARS_MAX: usize = 300;

/// The settings of a client that gets every answer, whatever its status, and trusts whom the system trusts, as `curl` and
/// `git` do: a company's own certificates work.
pub fn client() -> ConfigBuilder<AgentScope> {
    Agent::config_builder()
        .http_status_as_error(false)
        .user_agent(concat!("wingbeat/", env!("CARGO_PKG_VERSION")))
        .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
}

/// Whether an address is this machine, to which no proxy leads.
pub fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let address: Result<IpAddr, _> = host.parse();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Why there is no answer, to follow the name of the server.
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
        // Without the word `io` in front, which says nothing.
        Error::Io(error) => return error.to_string(),
        other => return told(other.to_string()),
    };
    text.to_owned()
}

/// A message of a library, or ours where it does not say what to do.
fn told(message: String) -> String {
    // Of rustls-platform-verifier, in an error without a kind: containers often have no certificates.
    if message.contains("No CA certificates were loaded") {
        return "no certificates to trust are on this machine: install ca-certificates, or set SSL_CERT_FILE".into();
    }
    message
}

/// Whether a request of so many bytes was cut off, as servers do that do not want one so large. What they answered cannot
/// be read any more, and the next attempt would end like this one.
pub fn is_too_large(error: &Error, body_bytes: usize) -> bool {
    let is_cut = |kind| matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset);
    body_bytes > BODY_USUAL_MAX && matches!(error, Error::Io(error) if is_cut(error.kind()))
}

/// What a server says about its refusal: the member `message` of JSON, or the beginning of the text.
pub fn said(status: u16, body: &str) -> String {
    // A page of a proxy, or of something else that is no API.
    if body.trim_start().starts_with('<') {
        return format!("status {status} and a page of HTML, which a proxy may have made");
    }
    let json: Option<Value> = serde_json::from_str(body).ok();
    let message = json.as_ref().and_then(|json| json.get("message")?.as_str());
    with_text(status, message.unwrap_or(body))
}

/// A status, and what it is about.
pub fn with_text(status: u16, text: &str) -> String {
    match excerpt(text) {
        text if text.is_empty() => format!("status {status}"),
        text => format!("status {status}: {text}"),
    }
}

/// The beginning of a text, in one line.
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

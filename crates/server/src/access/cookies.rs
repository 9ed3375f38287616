//! The session cookie of a browser.

use axum::http::{HeaderMap, HeaderValue, header};
use time::Duration;

use super::{Digest, secrets::digest};

/// Name and attributes of the cookie, which depend on the public URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cookies {
    is_https: bool,
}

impl Cookies {
    /// Cookies of a server with this public URL.
    pub fn of(public_url: &str) -> Self {
        Self { is_https: public_url.starts_with("https://") }
    }

    /// Browsers accept a `__Host-` name only over TLS, from this exact host, for all its paths. So nobody else can set
    /// it, not even other services of the domain.
    fn name(self) -> &'static str {
        if self.is_https { "__Host-wingbeat" } else { "wingbeat" }
    }

    /// `Set-Cookie` header with this lifetime.
    pub fn set(self, secret: &str, lifetime: Duration) -> HeaderValue {
        self.header(secret, lifetime.whole_seconds())
    }

    /// `Set-Cookie` header that removes the cookie.
    pub fn clear(self) -> HeaderValue {
        self.header("", 0)
    }

    fn header(self, secret: &str, age_s: i64) -> HeaderValue {
        let name = self.name();
        let secure = if self.is_https { " Secure;" } else { "" };
        let text =
            format!("{name}={secret}; Path=/; Max-Age={age_s};{secure} HttpOnly; SameSite=Lax");
        // Secrets are generated here, from characters valid in headers.
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
    }

    /// The secret in a request's cookie.
    pub(super) fn secret(self, headers: &HeaderMap) -> Option<&str> {
        let values = headers.get_all(header::COOKIE).into_iter().filter_map(|it| it.to_str().ok());
        let mut pairs =
            values.flat_map(|value| value.split(';')).filter_map(|it| it.split_once('='));
        let (_, secret) = pairs.find(|(name, _)| name.trim() == self.name())?;
        Some(secret.trim()).filter(|secret| !secret.is_empty())
    }

    /// The stored digest of a request's cookie.
    pub fn session(self, headers: &HeaderMap) -> Option<Digest> {
        self.secret(headers).map(digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_as_strict_as_the_url_allows() {
        let check = |url: &str, expected: &str| {
            let cookies = Cookies::of(url);
            let header = cookies.set("SECRET", Duration::hours(1));
            assert_eq!(header.to_str().expect("text"), expected);
            let mut headers = HeaderMap::new();
            let (pair, _) = expected.split_once(';').expect("a pair");
            let sent = format!("other=1; {pair};more=2");
            headers.insert(header::COOKIE, sent.parse().expect("a value"));
            assert_eq!(cookies.secret(&headers), Some("SECRET"));
        };
        check(
            "https://bench.example.org",
            "__Host-wingbeat=SECRET; Path=/; Max-Age=3600; Secure; HttpOnly; SameSite=Lax",
        );
        check(
            "http://127.0.0.1:6610",
            "wingbeat=SECRET; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax",
        );
    }

    #[test]
    fn a_cookie_of_another_name_is_none() {
        let check = |sent: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, sent.parse().expect("a value"));
            assert_eq!(Cookies::of("https://a.example").secret(&headers), None, "{sent}");
        };
        check("wingbeat=SECRET");
        check("__Host-wingbeat=");
        check("x__Host-wingbeat=SECRET");
    }
}

//! Credentials of a request: a key or token in a header, or a browser's session cookie.

use axum::http::{HeaderMap, HeaderValue, header};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use time::{Duration, OffsetDateTime};

use super::{Caller, Digest, KeyText, Means, secrets::digest};
use crate::{
    ApiError,
    database::{Database, KeyHolder, Session},
};

/// Idle timeout of a session.
pub const SESSION_IDLE: Duration = Duration::days(14);
/// Maximum lifetime of a session.
const SESSION_MAX: Duration = Duration::days(90);
/// Minimum extension for which a session is renewed, to limit writes.
const RENEWAL: Duration = Duration::days(1);

/// Suffix of the name of the cookie with a browser's mark, and its lifetime.
const BROWSER: &str = "-browser";
const BROWSER_LIFETIME: Duration = Duration::days(180);

/// Credentials found in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Presented {
    Nothing,
    /// A key or token: from `Authorization: Bearer`, or the password of `Basic`.
    Bearer(Option<KeyText>),
    /// A session cookie.
    Session(Digest),
}

/// The caller, and the new expiry of a session that is renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) caller: Caller,
    pub(super) renewal: Option<(Digest, OffsetDateTime)>,
}

/// Extracts credentials from headers. A key takes precedence over a cookie.
pub(super) fn presented(headers: &HeaderMap, cookies: Cookies) -> Result<Presented, ApiError> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        let session = cookies.session(headers);
        return Ok(session.map_or(Presented::Nothing, Presented::Session));
    };
    let text = value.to_str().unwrap_or_default();
    match text.split_once(' ') {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") && !key.trim().is_empty() => {
            Ok(Presented::Bearer(KeyText::parse(key.trim())))
        }
        Some((scheme, pair)) if scheme.eq_ignore_ascii_case("basic") => {
            Ok(Presented::Bearer(password(pair.trim()).and_then(|key| KeyText::parse(&key))))
        }
        _ => Err(ApiError::unauthorized(
            "invalid header Authorization: expected `Bearer KEY`, or `Basic` with the key as the password",
        )),
    }
}

/// Password of basic authentication. The user name is ignored: the key identifies the user.
fn password(pair: &str) -> Option<String> {
    let pair = String::from_utf8(STANDARD.decode(pair).ok()?).ok()?;
    Some(pair.split_once(':')?.1.to_owned())
}

impl Presented {
    /// Resolves credentials to a caller. Unknown, revoked and expired keys give the same error. An expired session is
    /// anonymous: the browser is sent to sign in.
    pub(super) fn resolve(
        self,
        database: &Database,
        now: OffsetDateTime,
    ) -> Result<Resolved, ApiError> {
        match self {
            Self::Nothing => Ok(Resolved { caller: Caller::Anonymous, renewal: None }),
            Self::Bearer(key) => {
                let holder = match key {
                    Some(key) => database.key_holder(&key.digest(), now)?,
                    None => None,
                };
                let caller = match holder {
                    Some(KeyHolder::User(user)) => {
                        Caller::User { id: user.id, role: user.role, by: Means::Key }
                    }
                    Some(KeyHolder::Project(project)) => Caller::ProjectKey { project },
                    None => return Err(bad_key()),
                };
                Ok(Resolved { caller, renewal: None })
            }
            Self::Session(hash) => Ok(match database.session(&hash, now)? {
                None => Resolved { caller: Caller::Anonymous, renewal: None },
                Some(session) => {
                    let renewal = renewal(&session, now).map(|expires| (hash, expires));
                    let Session { user, .. } = session;
                    let caller = Caller::User { id: user.id, role: user.role, by: Means::Session };
                    Resolved { caller, renewal }
                }
            }),
        }
    }
}

fn bad_key() -> ApiError {
    ApiError::unauthorized(
        "this key is unknown, revoked or expired: create another one on the page of the project or user, or with \
         `wingbeat serve key create`",
    )
}

/// New expiry of a session in use, if worth a write.
fn renewal(session: &Session, now: OffsetDateTime) -> Option<OffsetDateTime> {
    let expires = (now + SESSION_IDLE).min(session.created + SESSION_MAX);
    (expires - session.expires >= RENEWAL).then_some(expires)
}

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
        self.header("", secret, lifetime.whole_seconds())
    }

    /// `Set-Cookie` header that removes the cookie.
    pub fn clear(self) -> HeaderValue {
        self.header("", "", 0)
    }

    /// `Set-Cookie` header that marks a browser as one of a user's, also after signing out.
    pub fn set_browser(self, mark: &str) -> HeaderValue {
        self.header(BROWSER, mark, BROWSER_LIFETIME.whole_seconds())
    }

    /// The mark in a request's cookie.
    pub fn browser(self, headers: &HeaderMap) -> Option<&str> {
        self.named(headers, BROWSER)
    }

    fn header(self, suffix: &str, secret: &str, age_s: i64) -> HeaderValue {
        let name = self.name();
        let secure = if self.is_https { " Secure;" } else { "" };
        let text = format!(
            "{name}{suffix}={secret}; Path=/; Max-Age={age_s};{secure} HttpOnly; SameSite=Lax"
        );
        // Secrets are generated here, from characters valid in headers.
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
    }

    /// The secret in a request's cookie.
    pub(super) fn secret(self, headers: &HeaderMap) -> Option<&str> {
        self.named(headers, "")
    }

    fn named<'h>(self, headers: &'h HeaderMap, suffix: &str) -> Option<&'h str> {
        let values = headers.get_all(header::COOKIE).into_iter().filter_map(|it| it.to_str().ok());
        let mut pairs =
            values.flat_map(|value| value.split(';')).filter_map(|it| it.split_once('='));
        let (_, secret) =
            pairs.find(|(name, _)| name.trim().strip_prefix(self.name()) == Some(suffix))?;
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
    use crate::{access::Role, database::User};

    #[test]
    fn sessions_last_while_they_are_used_but_not_for_ever() {
        let begun = OffsetDateTime::UNIX_EPOCH;
        let user = User {
            id: 1,
            uuid: uuid::Uuid::nil(),
            name: String::new(),
            slug: String::new(),
            email: String::new(),
            role: Role::Reader,
            has_password: true,
            is_locked: false,
            created: begun,
        };
        let check = |expires: i64, now: i64, expected: Option<i64>| {
            let expires = begun + Duration::days(expires);
            let session = Session { user: user.clone(), created: begun, expires };
            let found = renewal(&session, begun + Duration::days(now));
            assert_eq!(found.map(|it| (it - begun).whole_days()), expected);
        };
        check(14, 0, None);
        check(14, 1, Some(15));
        check(14, 13, Some(27));
        check(85, 80, Some(90));
        check(90, 89, None);
        check(14, -5, None);
    }

    #[test]
    fn a_cookie_of_another_name_is_none() {
        let check = |sent: &str, expected: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, sent.parse().expect("a value"));
            assert_eq!(Cookies::of("https://a.example").secret(&headers), expected, "{sent}");
        };
        check("other=1; __Host-wingbeat=SECRET;more=2", Some("SECRET"));
        check("wingbeat=SECRET", None);
        check("__Host-wingbeat=", None);
        check("x__Host-wingbeat=SECRET", None);
    }
}

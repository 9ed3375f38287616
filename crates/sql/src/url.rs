//! URL of a PostgreSQL database: `libpq`'s syntax plus a parameter of our own.

use std::{fmt, path::PathBuf, time::Duration};

use crate::password;

/// Default schema.
const SCHEMA: &str = "wingbeat";

/// Idle time before a keepalive probe is sent.
const SILENCE: Duration = Duration::from_secs(30);

/// Maximum length of a schema's name. Its characters are limited too, so that no tool needs to quote it.
const SCHEMA_LENGTH_MAX: usize = 48;

/// TLS mode, named as in `libpq`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum TlsMode {
    Disable,
    /// Use TLS if the server supports it. The server is not verified.
    #[default]
    Prefer,
    /// The server is not verified.
    Require,
    VerifyFull,
}

/// A PostgreSQL URL, `postgres://USER:PASSWORD@HOST:PORT/DATABASE?PARAMETERS`. Its textual forms omit the password.
///
/// | parameter | |
/// | --- | --- |
/// | `schema` | schema of the tables, `wingbeat` by default. Created if missing |
/// | `sslmode` | `disable`, `prefer` (default), `require`, `verify-full` |
/// | `sslrootcert` | file of certificates (PEM) to verify with, in place of the system's |
/// | others | as in `libpq`: `host` (also a socket's directory), `user`, `connect_timeout` … |
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl {
    /// Without the parameters unknown to the client.
    client: String,
    shown: String,
    schema: String,
    tls: TlsMode,
    root_certificates: Option<PathBuf>,
}

/// Why a PostgreSQL URL was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidUrl(String);

impl PostgresUrl {
    /// The oldest supported server version.
    pub const SERVER_MIN: u32 = 15;

    /// Whether a text looks like a PostgreSQL URL.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    pub fn parse(text: &str) -> Result<Self, InvalidUrl> {
        let shown = without_password(text);
        let invalid = |what: String| InvalidUrl(format!("{shown} {what}"));
        if !Self::is_meant(text) {
            return Err(invalid(
                "is not a PostgreSQL URL: it does not begin with postgres://".to_owned(),
            ));
        }
        // The client takes everything up to the first @ as user and password. No other parser does.
        let after_scheme = text.split_once("://").map_or("", |(_, rest)| rest);
        if after_scheme.split_once('@').is_some_and(|(who, _)| who.contains(['/', '?'])) {
            return Err(invalid("has a / or ? before its @: write %2F or %3F".to_owned()));
        }
        let (base, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut schema, mut tls, mut root_certificates) =
            (SCHEMA.to_owned(), TlsMode::default(), None);
        let mut kept = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=').unwrap_or((part, "")) {
                ("schema", name) => schema = checked_schema(name).map_err(invalid)?,
                ("sslmode", mode) => tls = tls_mode(mode).map_err(invalid)?,
                ("sslrootcert", path) => root_certificates = Some(decoded(path).into()),
                _ => kept.push(part),
            }
        }
        if root_certificates.is_some() && tls != TlsMode::VerifyFull {
            return Err(invalid("has sslrootcert, which needs sslmode=verify-full".to_owned()));
        }
        kept.push(match tls {
            TlsMode::Disable => "sslmode=disable",
            TlsMode::Prefer => "sslmode=prefer",
            TlsMode::Require | TlsMode::VerifyFull => "sslmode=require",
        });
        let client = format!("{base}?{}", kept.join("&"));
        if let Err(error) = client.parse::<postgres::Config>() {
            let why = std::error::Error::source(&error).map(ToString::to_string);
            let why = why.unwrap_or_else(|| error.to_string());
            return Err(invalid(format!("is not a PostgreSQL URL: {why}")));
        }
        Ok(Self { client, shown, schema, tls, root_certificates })
    }

    pub fn schema(&self) -> &str {
        &self.schema
    }

    pub(crate) fn tls(&self) -> (TlsMode, Option<&PathBuf>) {
        (self.tls, self.root_certificates.as_ref())
    }

    pub(crate) fn config(&self) -> postgres::Config {
        // Parsed before, so this cannot fail.
        let mut config: postgres::Config = self.client.parse().unwrap_or_default();
        if config.get_application_name().is_none() {
            config.application_name("wingbeat");
        }
        if config.get_password().is_none()
            && let Some(password) = password::of_environment(&config)
        {
            config.password(password);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(10));
        }
        // A host that disappeared sends nothing: without a timeout, waiting takes many minutes.
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE);
        }
        config.keepalives_idle(SILENCE).keepalives_interval(SILENCE / 3).keepalives_retries(3);
        config
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} (schema {})", self.schema)
    }
}

fn checked_schema(name: &str) -> Result<String, String> {
    let is_right = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if begins
        && name.len() <= SCHEMA_LENGTH_MAX
        && name.chars().all(is_right)
        && !name.starts_with("pg_")
    {
        return Ok(name.to_owned());
    }
    Err(format!(
        "names the schema {name:?}: it takes up to {SCHEMA_LENGTH_MAX} lower-case letters, digits and underscores, \
         and does not begin with a digit or pg_"
    ))
}

fn tls_mode(mode: &str) -> Result<TlsMode, String> {
    Ok(match mode {
        "disable" => TlsMode::Disable,
        "prefer" | "allow" => TlsMode::Prefer,
        "require" => TlsMode::Require,
        "verify-full" => TlsMode::VerifyFull,
        other => {
            return Err(format!(
                "has sslmode={other}; choose disable, prefer, require or verify-full"
            ));
        }
    })
}

/// Decodes percent-encoding.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.filter(|_| *first == b'%').and_then(|it| u8::from_str_radix(it, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The URL without a password, whether in the authority or in a parameter.
fn without_password(url: &str) -> String {
    let authority = url.find("://").map_or(0, |at| at + 3);
    // Passwords may contain an @ or other invalid characters: omits too much rather than too little.
    let shown = match url[authority..].rfind('@') {
        Some(at) => {
            let (who, host) = (&url[authority..authority + at], &url[authority + at..]);
            let user = who.split([':', '/', '?', '@']).next().unwrap_or_default();
            format!("{}{user}{host}", &url[..authority])
        }
        None => url.to_owned(),
    };
    let (base, query) = shown.split_once('?').unwrap_or((&shown, ""));
    let query: Vec<_> = query
        .split('&')
        .filter(|part| !part.is_empty() && !part.starts_with("password="))
        .collect();
    if query.is_empty() { base.to_owned() } else { format!("{base}?{}", query.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let check = |url: &str, expected: &str| {
            let parsed = PostgresUrl::parse(url).expect("a URL");
            assert_eq!(parsed.to_string(), expected);
            assert!(!format!("{parsed:?}").contains("secret"));
        };
        check("postgres://me:secret@host:5433/db", "postgres://me@host:5433/db");
        check(
            "postgres://me:sec@secret@host/db?a=b".trim_end_matches("?a=b"),
            "postgres://me@host/db",
        );
        check("postgresql://host/db?user=me&password=secret", "postgresql://host/db?user=me");
        check("postgres:///db?host=/run/postgresql", "postgres:///db?host=/run/postgresql");
        for url in [
            "postgres://me:secret@host/db?sslmode=odd",
            "postgres://me:a/secret@host/db",
            "postgres://me:a?secret@host/db",
            "postgres://me:a@b/secret@host/db?sslmode=odd",
            "mysql://me:secret@host/db",
        ] {
            let error = PostgresUrl::parse(url).expect_err(url);
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn parameters() {
        let check = |query: &str, schema: &str, tls: TlsMode| {
            let url = PostgresUrl::parse(&format!("postgres://host/db{query}")).expect("a URL");
            assert_eq!((url.schema(), url.tls), (schema, tls), "{query}");
        };
        check("", "wingbeat", TlsMode::Prefer);
        check("?schema=other&sslmode=disable", "other", TlsMode::Disable);
        check("?sslmode=verify-full&sslrootcert=%2Fa%20b.pem", "wingbeat", TlsMode::VerifyFull);
        let url = "postgres://host/db?sslmode=verify-full&sslrootcert=%2Fa%20b.pem";
        let url = PostgresUrl::parse(url).expect("a URL");
        assert_eq!(url.root_certificates, Some("/a b.pem".into()));
    }

    #[test]
    fn invalid_urls_are_named() {
        let check = |url: &str, expected: &str| {
            let error = PostgresUrl::parse(url).expect_err("not a URL").to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("mysql://host/db", "does not begin with postgres://");
        check("postgres://host/db?schema=A", "names the schema \"A\"");
        check("postgres://host/db?schema=pg_x", "names the schema \"pg_x\"");
        check("postgres://host/db?sslmode=verify-ca", "sslmode=verify-ca");
        check("postgres://host:port/db", "is not a PostgreSQL URL");
        check("postgres://host/db?nonsense=1", "nonsense");
        check("postgres://host/db?sslmode=require&sslrootcert=a", "needs sslmode=verify-full");
        check("postgres://me:a/b@host/db", "write %2F");
    }
}

//! Credentials and tenant for a backend. `Debug` and errors do not reveal any part of them.

use std::{
    fmt, fs,
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::{anyhow, bail};
use base64::{Engine as _, engine::general_purpose::STANDARD};

/// Variable with a token, or with `user:password`.
const TOKEN_VARIABLE: &str = "WINGBEAT_PUSH_TOKEN";
/// The variable with the tenant.
const TENANT_VARIABLE: &str = "WINGBEAT_PUSH_TENANT";

/// Largest token file to read, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Longest tenant name, as in Grafana's dskit (`tenant/tenant.go`).
const TENANT_BYTES_MAX: usize = 150;

/// Optional token or password, and optional tenant.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Value of the header `authorization`.
    authorization: Option<String>,
    tenant: Option<String>,
    /// File of the token, which may change later.
    token_file: Option<PathBuf>,
}

impl Credentials {
    /// Adds a token for `Bearer`, or `user:password` for `Basic`: a token has no colon (RFC 6750).
    pub fn with_token(self, text: &str) -> anyhow::Result<Self> {
        self.with_token_of("the setting", text)
    }

    /// Adds the token in a file, without surrounding whitespace.
    pub fn with_token_file(self, path: &Path) -> anyhow::Result<Self> {
        let origin = path.display().to_string();
        let mut text = String::new();
        let read = fs::File::open(path)
            .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
        read.map_err(|error| {
            anyhow!(
                "reading the token from {origin} failed: {error}; does the file exist, and may wingbeat read it?"
            )
        })?;
        Ok(Self { token_file: Some(path.to_owned()), ..self.with_token_of(&origin, &text)? })
    }

    /// Reads the token file again. If it is unreadable or being written, the old token stays.
    pub(crate) fn refresh(&mut self) {
        if let Some(path) = &self.token_file
            && let Ok(fresh) = self.clone().with_token_file(path)
        {
            *self = fresh;
        }
    }

    /// Adds the tenant of a multi-tenant backend (`X-Scope-OrgID`).
    pub fn with_tenant(self, text: &str) -> anyhow::Result<Self> {
        let text = text.trim();
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"!-_.*'()".contains(&byte);
        let reason = match text {
            "" => "it is empty",
            _ if text.len() > TENANT_BYTES_MAX => "it is longer than 150 bytes",
            _ if !text.bytes().all(is_fit) => "it has other characters",
            _ => return Ok(Self { tenant: Some(text.to_owned()), ..self }),
        };
        bail!("the tenant cannot be used: {reason}; it may have letters, digits and !-_.*'()")
    }

    /// Reads `WINGBEAT_PUSH_TOKEN` and `WINGBEAT_PUSH_TENANT` from the environment. Empty values are ignored.
    pub fn from_env(variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Self> {
        let set = |name| variable(name).filter(|text| !text.trim().is_empty());
        let mut credentials = Self::default();
        if let Some(token) = set(TOKEN_VARIABLE) {
            credentials = credentials.with_token_of(TOKEN_VARIABLE, &token)?;
        }
        if let Some(tenant) = set(TENANT_VARIABLE) {
            credentials = credentials.with_tenant(&tenant)?;
        }
        Ok(credentials)
    }

    /// Whether there is a token or password, which should not be sent over a network in plain text.
    #[must_use]
    pub fn has_secret(&self) -> bool {
        self.authorization.is_some()
    }

    /// The headers with the credentials and the tenant.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let authorization = self.authorization.as_deref().map(|value| ("authorization", value));
        let tenant = self.tenant.as_deref().map(|value| ("x-scope-orgid", value));
        authorization.into_iter().chain(tenant)
    }

    fn with_token_of(self, origin: &str, text: &str) -> anyhow::Result<Self> {
        let text = text.trim();
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        let has_user = text.contains(':');
        let reason = match text {
            "" => "it is empty",
            _ if text.len() as u64 > FILE_BYTES_MAX => "it is longer than 64 KiB",
            _ if has_user && text.contains(['\n', '\r']) => "it has more than one line",
            _ if has_user || is_plain => {
                let value = match has_user {
                    true => format!("Basic {}", STANDARD.encode(text)),
                    false => format!("Bearer {text}"),
                };
                return Ok(Self { authorization: Some(value), ..self });
            }
            _ => "it has blanks or characters beyond ASCII, perhaps more than the token was copied",
        };
        bail!("the token in {origin} cannot be used: {reason}")
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.authorization.as_ref().map(|_| "…");
        f.debug_struct("Credentials").field("token", &token).field("tenant", &self.tenant).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(credentials: &Credentials) -> Vec<(String, String)> {
        credentials.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn tokens_become_headers() {
        let check = |token: &str, expected: Option<&str>| {
            let made = Credentials::default().with_token(token);
            let header = made.ok().and_then(|it| headers(&it).pop().map(|(_, value)| value));
            assert_eq!(header.as_deref(), expected, "{token:?}");
        };
        check("abc.def", Some("Bearer abc.def"));
        check(" abc\n", Some("Bearer abc"));
        check("user:pass word", Some("Basic dXNlcjpwYXNzIHdvcmQ="));
        check("", None);
        check("a b", None);
        check("a:b\nc", None);
        check("schlüssel", None);
    }

    #[test]
    fn tenants_are_checked() {
        let check = |tenant: &str, expected: bool| {
            assert_eq!(Credentials::default().with_tenant(tenant).is_ok(), expected, "{tenant:?}");
        };
        check("team-1", true);
        check(" team ", true);
        check("", false);
        check("a b", false);
        check("a\r\nb", false);
        check(&"x".repeat(151), false);
    }

    #[test]
    fn the_environment_is_read() {
        let variable = |name: &str| match name {
            TOKEN_VARIABLE => Some("t".to_owned()),
            TENANT_VARIABLE => Some(" ".to_owned()),
            _ => None,
        };
        let credentials = Credentials::from_env(variable).expect("credentials");
        assert_eq!(headers(&credentials), [("authorization".to_owned(), "Bearer t".to_owned())]);
        let none = Credentials::from_env(|_| None).expect("none");
        assert_eq!(none, Credentials::default());
    }

    #[test]
    fn files_are_read_again_and_secrets_not_shown() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        fs::write(&path, "secret\n").expect("a file");
        let credentials = Credentials::default().with_token_file(&path).expect("a token");
        assert!(credentials.has_secret());
        assert!(!format!("{credentials:?}").contains("secret"));
        let mut credentials = credentials;
        let mut check = |text: &str, expected: &str| {
            fs::write(&path, text).expect("a file");
            credentials.refresh();
            assert_eq!(headers(&credentials)[0].1, format!("Bearer {expected}"), "{text:?}");
        };
        check("", "secret");
        check("rotated\n", "rotated");
        check("two words", "rotated");
        let missing = Credentials::default().with_token_file(&folder.path().join("none"));
        assert!(missing.expect_err("no file").to_string().contains("none failed: "));
        fs::write(&path, "two secrets").expect("a file");
        let error = Credentials::default().with_token_file(&path).expect_err("two words");
        assert!(!error.to_string().contains("secrets"), "{error}");
    }
}

//! Targets of pushes: a protocol and an address.

use std::{fmt, str::FromStr};

/// Protocol of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Grafana Pyroscope: `push.v1.PusherService/Push`, stable and public.
    Pyroscope,
    /// OpenTelemetry's profiles over HTTP, which are in development: collectors, Pyroscope.
    Otlp,
    /// Parca: `parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw`.
    Parca,
    /// `wingbeat serve`, with Pyroscope's protocol. The token is a key, and the tenant a project.
    Wingbeat,
}

impl Protocol {
    const ALL: [Self; 4] = [Self::Pyroscope, Self::Otlp, Self::Parca, Self::Wingbeat];

    /// Name before the `=` of a target.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pyroscope => "pyroscope",
            Self::Otlp => "otlp",
            Self::Parca => "parca",
            Self::Wingbeat => "wingbeat",
        }
    }

    /// An example address for messages.
    fn example(self) -> &'static str {
        match self {
            Self::Pyroscope => "http://localhost:4040",
            Self::Otlp => "http://localhost:4318",
            Self::Parca => "http://localhost:7070",
            Self::Wingbeat => "http://localhost:6610",
        }
    }
}

/// A backend: `pyroscope=http://localhost:4040`, `otlp=URL`, `parca=URL` or `wingbeat=URL`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    pub(crate) protocol: Protocol,
    pub(crate) root: String,
}

impl Target {
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Root URL of the backend's API, without a trailing slash.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Whether a token would be sent in plain text over the network: without TLS, and to another machine.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.root.starts_with("http://") && !wingbeat_http::is_loopback(&self.root)
    }

    /// A folder name unique to the target.
    pub(crate) fn folder_name(&self) -> String {
        let address = self.root.split_once("://").map_or("", |(_, rest)| rest);
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
        let address: String = address.chars().take(60).map(plain).collect();
        let mut sum = flate2::Crc::new();
        sum.update(self.root.as_bytes());
        format!("{}-{address}-{:08x}", self.protocol.name(), sum.sum())
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            format!(
                "{:?} does not name an engine; write pyroscope=URL, otlp=URL, parca=URL or wingbeat=URL, as in \
                 pyroscope=http://localhost:4040",
                without_password(text.trim())
            )
        };
        let (name, address) = text.trim().split_once('=').ok_or_else(unknown)?;
        let found = Protocol::ALL.into_iter().find(|protocol| protocol.name() == name.trim());
        let protocol = found.ok_or_else(unknown)?;
        let root = root(address.trim()).map_err(|reason| {
            let (name, example) = (protocol.name(), protocol.example());
            format!(
                "the address of {name}= cannot be used: {reason}; write it as in {name}={example}"
            )
        })?;
        Ok(Self { protocol, root })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.protocol.name(), self.root)
    }
}

fn root(address: &str) -> Result<String, String> {
    if address.contains('@') {
        return Err("it has a user name or a password, which would be shown; give them in a file or the environment".to_owned());
    }
    wingbeat_http::root(address)
}

/// The text without a possible password, for messages.
fn without_password(text: &str) -> String {
    match text.rfind('@') {
        Some(at) => format!("…{}", &text[at..]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read() {
        let check = |text: &str, expected: &str| {
            let target: Target = text.parse().expect(text);
            assert_eq!(target.to_string(), expected);
        };
        check("pyroscope=http://localhost:4040", "pyroscope=http://localhost:4040");
        check(" otlp = https://collector.example/otlp/ ", "otlp=https://collector.example/otlp");
        check("parca=http://[::1]:7070/", "parca=http://[::1]:7070");
        check("parca=HTTPS://host", "parca=https://host");
        check("wingbeat=http://127.0.0.1:6610", "wingbeat=http://127.0.0.1:6610");
    }

    #[test]
    fn invalid_targets_have_a_reason() {
        let check = |text: &str, expected: &str| {
            let error = text.parse::<Target>().expect_err(text).to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("secret") && !error.contains('\n'), "{error}");
        };
        check("", "does not name an engine");
        check("http://localhost:4040", "does not name an engine");
        check("grafana=http://localhost", "does not name an engine");
        check("pyroscope=", "it is empty; write it as in pyroscope=http://localhost:4040");
        check("otlp=localhost:4318", "begins neither with http:// nor with https://");
        check("otlp=ftp://localhost", "begins neither with http:// nor with https://");
        check("parca=http://", "cannot be used");
        check("parca=http:///path", "cannot be used");
        check("parca=http://host/?a=b", "it has a query or a fragment");
        check("parca=http://me:secret@host", "user name or a password");
        check("wing=http://me:secret@host", "does not name an engine");
        check("parca=http://ho st", "cannot be used");
    }

    #[test]
    fn tokens_should_not_go_in_the_open() {
        let check = |text: &str, expected| {
            assert_eq!(text.parse::<Target>().expect(text).is_open(), expected, "{text}");
        };
        check("otlp=http://localhost:4318", false);
        check("otlp=http://collector:4318", true);
        check("otlp=https://collector:4318", false);
    }

    #[test]
    fn folders_differ_by_target() {
        let name = |text: &str| text.parse::<Target>().expect(text).folder_name();
        assert!(
            name("otlp=http://a:1/x").starts_with("otlp-a-1-x-"),
            "{}",
            name("otlp=http://a:1/x")
        );
        assert_eq!(name("otlp=http://a:1/"), name("otlp=http://a:1"));
        assert_ne!(name("otlp=http://a:1"), name("parca=http://a:1"));
        assert_ne!(name("otlp=http://a/b"), name("otlp=http://a-b"));
        assert_ne!(name("otlp=http://a"), name("otlp=https://a"));
    }
}

//! Credentials for a server.

use std::fmt;

use super::RemoteError;

/// Environment variables for a key, in order of precedence.
const VARIABLES: [&str; 4] =
    ["WINGBEAT_API_KEY", "BENCHER_API_KEY", "WINGBEAT_API_TOKEN", "BENCHER_API_TOKEN"];

/// A key or token. Its debug output is redacted.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(pub(super) String);

impl Key {
    /// Validates a key or token (`--key`, `--token`, `--github-actions`).
    pub fn new(text: &str) -> Result<Self, RemoteError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(RemoteError::InvalidKey { reason: "it is empty" });
        }
        match text.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(Self(text.to_owned())),
            false => Err(RemoteError::InvalidKey {
                reason: "it has blanks or characters beyond ASCII, perhaps more than the key was copied",
            }),
        }
    }

    /// The key from the environment: `WINGBEAT_API_KEY`, `BENCHER_API_KEY`, `WINGBEAT_API_TOKEN`, `BENCHER_API_TOKEN`,
    /// in this order. Empty ones are ignored: a CI job sets a variable to the empty string if a secret is withheld.
    pub fn from_env(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, RemoteError> {
        let set = VARIABLES.into_iter().filter_map(variable).find(|text| !text.trim().is_empty());
        set.map(|text| Self::new(&text)).transpose()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_can_stand_in_a_header() {
        let check = |text: &str, expected| assert_eq!(Key::new(text).is_ok(), expected, "{text:?}");
        check("bencher_run_abc", true);
        check(" a.b.c\n", true);
        check("", false);
        check("a b", false);
        check("a\nb", false);
        check("schlüssel", false);
    }

    #[test]
    fn the_first_that_is_set_counts() {
        let check = |set: &[(&str, &str)], expected: Option<&str>| {
            let variable = |name: &str| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            let key = Key::from_env(variable).expect("a key or none");
            assert_eq!(key.map(|key| key.0).as_deref(), expected);
        };
        check(&[], None);
        check(&[("BENCHER_API_TOKEN", "t")], Some("t"));
        check(&[("BENCHER_API_TOKEN", "t"), ("BENCHER_API_KEY", "k")], Some("k"));
        check(&[("BENCHER_API_KEY", "k"), ("WINGBEAT_API_KEY", "")], Some("k"));
    }

    #[test]
    fn keys_are_not_shown() {
        let key = Key::new("secret").expect("a key");
        assert!(!format!("{key:?}").contains("secret"));
    }
}

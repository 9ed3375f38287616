//! Names that are valid by construction. Lengths and rules are those of Bencher, so that names are valid in both.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} cannot be the name of a {what}: {reason}")]
pub struct InvalidName {
    pub what: &'static str,
    /// The text, truncated if long.
    pub text: String,
    /// What is wrong with it, and the rule.
    pub reason: String,
}

/// Declares a name type: validated text. Clones share it.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidName> {
                let text = text.as_ref();
                let check: fn(&str) -> Result<(), String> = $check;
                match check(text) {
                    Ok(()) => Ok(Self(text.into())),
                    Err(reason) => {
                        let text = text.chars().take(80).collect();
                        Err(InvalidName { what: $what, text, reason })
                    }
                }
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;

            fn try_from(text: String) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;

            fn from_str(text: &str) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                (*name.0).to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// Name of a benchmark: 1 to 1,024 bytes, without control characters and without space at the ends.
    BenchmarkName,
    "benchmark",
    |text| length(text, 1024)
);
name!(
    /// Name or slug of a project: 1 to 64 bytes.
    ProjectName,
    "project",
    |text| length(text, 64)
);
name!(
    /// Name or slug of a testbed: 1 to 64 bytes.
    TestbedName,
    "testbed",
    |text| length(text, 64)
);
name!(
    /// Name of a measure, or its units: 1 to 256 bytes.
    MeasureName,
    "measure",
    |text| length(text, 256)
);
name!(
    /// Name of a branch: 1 to 256 bytes, as git allows them.
    BranchName,
    "branch",
    |text| length(text, 256).and_then(|()| git_ref(text))
);
name!(
    /// Lower-case letters, digits and single hyphens between them: 1 to 64 bytes.
    Slug,
    "slug",
    |text| match slugify(text) == text && !text.is_empty() {
        true => Ok(()),
        false => Err(format!("as a slug it would be {:?}", slugify(text))),
    }
);

impl Slug {
    /// Derives the slug of any text. A text without a single letter or digit becomes `x`.
    pub fn of(text: &str) -> Self {
        let slug = slugify(text);
        Self(if slug.is_empty() { "x".into() } else { slug.into() })
    }

    /// Derives the slug of a name. If letters are lost, it gets a tail, so that it is unique to this name.
    pub fn of_name(name: &str) -> Self {
        if is_told_by_slug(name) { Self::of(name) } else { Self::with_tail(name) }
    }

    /// The slug of a name with eight digits appended that are specific to this name.
    pub fn with_tail(name: &str) -> Self {
        let digits = xxh3_64(name.as_bytes()) as u32;
        let slug = Self::of(name);
        let head = &slug.0[..slug.0.len().min(SLUG_MAX - 9)];
        Self(format!("{}-{digits:08x}", head.trim_end_matches('-')).into())
    }
}

/// Whether the slug keeps all letters and digits of a name.
pub(crate) fn is_told_by_slug(name: &str) -> bool {
    name.is_ascii() && name.len() <= SLUG_MAX && name.contains(|c: char| c.is_ascii_alphanumeric())
}

/// Maximum length of a slug in bytes.
const SLUG_MAX: usize = 64;

/// Suffixes by which a benchmark opts out of being judged, as in Bencher.
const IGNORED_ENDINGS: [&str; 3] = ["_bencher_ignore", "BencherIgnore", "-bencher-ignore"];

/// The text without that suffix, if it has one and is not empty without it.
pub(crate) fn strip_ignored(text: &str) -> Option<&str> {
    let rest = IGNORED_ENDINGS.iter().find_map(|ending| text.strip_suffix(ending));
    rest.filter(|rest| !rest.is_empty())
}

impl BenchmarkName {
    /// The name without the opt-out suffix, and whether it had one.
    pub fn strip_ignored(self) -> (Self, bool) {
        match strip_ignored(&self.0) {
            Some(rest) => (Self(rest.into()), true),
            None => (self, false),
        }
    }
}

fn length(text: &str, bytes_max: usize) -> Result<(), String> {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    if text.len() > bytes_max {
        return Err(format!("it has {} bytes, and {bytes_max} are the limit", text.len()));
    }
    if text.trim() != text {
        return Err("it begins or ends with space".to_owned());
    }
    // Most names are ASCII, which needs no decoding.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Ok(());
    }
    match text.chars().find(|c| c.is_control()) {
        Some(c) => Err(format!("it contains the control character {c:?}")),
        None => Ok(()),
    }
}

/// The rules of `git check-ref-format --branch` for names.
fn git_ref(text: &str) -> Result<(), String> {
    let parts_end_well = text.split('/').all(|part| {
        let is_lock = part.ends_with(".lock");
        !part.is_empty() && !part.starts_with('.') && !is_lock
    });
    let is_forbidden = |c: char| " ~^:?*[\\\u{7f}".contains(c);
    let is_valid = parts_end_well
        && !text.starts_with('-')
        && !text.ends_with('.')
        && !text.contains("..")
        && !text.contains("@{")
        && text != "@"
        && !text.contains(is_forbidden);
    if is_valid { Ok(()) } else { Err("git would not take it (git check-ref-format)".to_owned()) }
}

/// Keeps lower-case ASCII letters and digits, and replaces runs of anything else by a hyphen.
fn slugify(text: &str) -> String {
    let mut slug = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.truncate(SLUG_MAX);
    slug.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs() {
        let check =
            |text, expected: &str| assert_eq!(Slug::of(text).as_str(), expected, "{text:?}");
        check("Build Time", "build-time");
        check("bencher::mock_0", "bencher-mock-0");
        check("--a--", "a");
        check("Größe", "gr-e");
        check("", "x");
        check(&"a-".repeat(40), "a-".repeat(32).trim_end_matches('-'));
        assert!(Slug::new("build-time").is_ok());
        assert!(Slug::new("Build").is_err());
        assert!(Slug::new("").is_err());
    }

    #[test]
    fn slugs_of_names_differ() {
        let check = |name: &str, expected: &str| {
            let slug = Slug::of_name(name);
            let tail = slug.as_str().strip_prefix(expected).expect(name);
            assert!(tail.is_empty() == is_told_by_slug(name), "{name}: {slug}");
            assert!(Slug::new(slug.as_str()).is_ok(), "{slug}");
        };
        check("Peak Memory", "peak-memory");
        check("Größe", "gr-e-");
        check("延迟", "x-");
        check("...", "x-");
        let long = |end| format!("{}{end}", "x".repeat(70));
        check(&long("read"), &"x".repeat(55));
        let all = ["延迟", "内存", "время", "память", ".", "..", &long("read"), &long("write")];
        let slugs: std::collections::HashSet<_> = all.into_iter().map(Slug::of_name).collect();
        assert_eq!(slugs.len(), all.len());
    }

    #[test]
    fn branches_are_what_git_takes() {
        let check =
            |text: &str, expected| assert_eq!(BranchName::new(text).is_ok(), expected, "{text:?}");
        for name in ["main", "feature/x", "a.b", "ü", "users/me/x-1"] {
            check(name, true);
        }
        for name in
            ["", "a b", "a..b", "/a", "a/", "a//b", ".a", "a.lock", "-a", "a~1", "@", "a@{1}"]
        {
            check(name, false);
        }
        check(&"a".repeat(257), false);
    }

    #[test]
    fn names_have_a_length() {
        let check = |length, expected| {
            assert_eq!(BenchmarkName::new("x".repeat(length)).is_ok(), expected, "{length}");
        };
        check(0, false);
        check(1, true);
        check(1024, true);
        check(1025, false);
        assert!(ProjectName::new("a\nb").is_err());
        assert!(TestbedName::new(" a").is_err());
    }

    #[test]
    fn endings_that_ask_not_to_be_judged() {
        let check = |text: &str, rest: &str, is_ignored| {
            let name = BenchmarkName::new(text).expect("a name");
            let (name, found) = name.strip_ignored();
            assert_eq!((name.as_str(), found), (rest, is_ignored));
        };
        check("a_bencher_ignore", "a", true);
        check("aBencherIgnore", "a", true);
        check("a-bencher-ignore", "a", true);
        check("a", "a", false);
        check("_bencher_ignore", "_bencher_ignore", false);
    }
}

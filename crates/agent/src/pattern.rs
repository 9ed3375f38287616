//! Glob patterns for names and paths: `*`, `**`, `?`.

use regex_lite::{Regex, RegexBuilder};

/// A pattern for a whole text.
///
/// `*` is any text without `/`, `**` any text, and `?` one character other than `/`. All other characters match
/// themselves.
///
/// ```
/// use wingbeat_agent::Pattern;
///
/// let pattern = Pattern::new("/kubepods/*/pod*/**");
/// assert_eq!(pattern.captures("/kubepods/burstable/pod7/a/b"), Some(vec!["burstable", "7", "a/b"]));
/// assert!(!pattern.matches("/kubepods/pod7"));
/// ```
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    regex: Regex,
}

impl Pattern {
    /// Parses a pattern; any text is valid.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut regex = "(?s)^".to_owned();
        let mut rest = text.chars().peekable();
        while let Some(char) = rest.next() {
            match char {
                '?' => regex.push_str("[^/]"),
                '*' if rest.next_if_eq(&'*').is_some() => regex.push_str("(.*?)"),
                '*' => regex.push_str("([^/]*?)"),
                char => regex.push_str(&regex_lite::escape(char.encode_utf8(&mut [0; 4]))),
            }
        }
        regex.push('$');
        let regex = RegexBuilder::new(&regex).size_limit(usize::MAX).build();
        Self { text: text.to_owned(), regex: regex.expect("every piece of it is valid") }
    }

    /// The original text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Number of `*` and `**`.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.regex.captures_len() - 1
    }

    /// Whether the pattern matches the whole text.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// The text matched by each `*` and `**`, or `None` without a match; earlier ones match as little as possible.
    #[must_use]
    pub fn captures<'a>(&self, text: &'a str) -> Option<Vec<&'a str>> {
        let captures = self.regex.captures(text)?;
        Some(captures.iter().skip(1).map(|run| run.map_or("", |run| run.as_str())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_capture_their_runs() {
        let check = |pattern: &str, text: &str, expected: Option<&[&str]>| {
            let found = Pattern::new(pattern).captures(text);
            assert_eq!(found.as_deref(), expected, "{pattern} {text}");
        };
        check("", "", Some(&[]));
        check("", "a", None);
        check("nginx", "nginx", Some(&[]));
        check("nginx", "nginx2", None);
        check("python3*", "python3.13", Some(&[".13"]));
        check("python3*", "python3", Some(&[""]));
        check("*", "a/b", None);
        check("**", "a/b", Some(&["a/b"]));
        check("/opt/*/bin/*", "/opt/app/bin/run", Some(&["app", "run"]));
        check("/opt/*/bin/*", "/opt/a/b/bin/run", None);
        check("/**/*.service", "/system.slice/x/a.service", Some(&["system.slice/x", "a"]));
        check("*-*", "a-b-c", Some(&["a", "b-c"]));
        check("?", "ü", Some(&[]));
        check("?", "/", None);
        check("a?c", "abc", Some(&[]));
        check("*ü*", "aüb", Some(&["a", "b"]));
        check("***", "a/b", Some(&["a/", "b"]));
        check("a.(b)[c]\\*", "a.(b)[c]\\d", Some(&["d"]));
        check("**", "a\nb", Some(&["a\nb"]));
        check("nginx", "nginx\n", None);
    }

    #[test]
    fn many_stars_take_no_time() {
        let pattern = Pattern::new(&format!("{}b", "**a".repeat(30)));
        assert!(!pattern.matches(&"a".repeat(2_000)));
    }
}

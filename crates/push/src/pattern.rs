//! Glob patterns for names and paths: `*`, `**`, `?`.

/// A pattern for a whole text.
///
/// `*` is any text without `/`, `**` any text, and `?` one character other than `/`. All other characters match
/// themselves.
///
/// ```
/// use wingbeat_push::Pattern;
///
/// let pattern = Pattern::new("/kubepods/*/pod*/**");
/// assert_eq!(pattern.captures("/kubepods/burstable/pod7/a/b"), Some(vec!["burstable", "7", "a/b"]));
/// assert!(!pattern.matches("/kubepods/pod7"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    tokens: Vec<Token>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Char(char),
    /// `?`
    One,
    /// `*`, or `**`, which also matches `/`.
    Run {
        takes_slashes: bool,
    },
}

impl Pattern {
    /// Parses a pattern; any text is valid.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut tokens = Vec::new();
        let mut rest = text.chars().peekable();
        while let Some(char) = rest.next() {
            tokens.push(match char {
                '?' => Token::One,
                '*' => Token::Run { takes_slashes: rest.next_if_eq(&'*').is_some() },
                char => Token::Char(char),
            });
        }
        Self { text: text.to_owned(), tokens }
    }

    /// The original text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Number of `*` and `**`.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.tokens.iter().filter(|token| matches!(token, Token::Run { .. })).count()
    }

    /// Whether the pattern matches the whole text.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        self.captures(text).is_some()
    }

    /// The text matched by each `*` and `**`, or `None` without a match; earlier ones match as little as possible.
    #[must_use]
    pub fn captures<'a>(&self, text: &'a str) -> Option<Vec<&'a str>> {
        let mut dead = vec![false; (self.tokens.len() + 1) * (text.len() + 1)];
        let mut captures = Vec::new();
        self.rest(text, (0, 0), &mut dead, &mut captures).then(|| {
            captures.reverse();
            captures
        })
    }

    /// Whether the tokens from an index on match the text from a byte on. Failures are cached.
    fn rest<'a>(
        &self,
        text: &'a str,
        (token, at): (usize, usize),
        dead: &mut [bool],
        captures: &mut Vec<&'a str>,
    ) -> bool {
        let state = token * (text.len() + 1) + at;
        if dead.get(state).copied().unwrap_or(true) {
            return false;
        }
        let rest = &text[at..];
        let next = rest.chars().next();
        let matches = match self.tokens.get(token) {
            None => rest.is_empty(),
            Some(Token::Char(char)) => {
                next == Some(*char)
                    && self.rest(text, (token + 1, at + char.len_utf8()), dead, captures)
            }
            Some(Token::One) => next.filter(|next| *next != '/').is_some_and(|next| {
                self.rest(text, (token + 1, at + next.len_utf8()), dead, captures)
            }),
            Some(Token::Run { takes_slashes }) => {
                let end = if *takes_slashes { None } else { rest.find('/') };
                let longest = end.unwrap_or(rest.len());
                let ends = rest.char_indices().map(|(end, _)| end).chain([rest.len()]);
                let found = ends
                    .take_while(|end| *end <= longest)
                    .find(|end| self.rest(text, (token + 1, at + end), dead, captures));
                if let Some(end) = found {
                    captures.push(&rest[..end]);
                }
                found.is_some()
            }
        };
        if !matches && let Some(dead) = dead.get_mut(state) {
            *dead = true;
        }
        matches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_and_what_they_stand_for() {
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
    }

    #[test]
    fn many_stars_take_no_time() {
        let pattern = Pattern::new(&format!("{}b", "**a".repeat(30)));
        assert!(!pattern.matches(&"a".repeat(2_000)));
    }
}

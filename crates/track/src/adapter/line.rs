//! Lines of an output: their position for errors, splitting, and removal of terminal escape sequences.

use std::{borrow::Cow, iter};

use memchr::{memchr, memchr_iter, memrchr};

use super::{Adapter, AdapterError, Parsed};
use crate::model::{BenchmarkName, BenchmarkResults, Results};

#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    pub(super) adapter: Adapter,
    pub(super) line: usize,
}

impl At {
    pub(super) fn malformed(self, reason: impl Into<String>) -> AdapterError {
        AdapterError::Malformed { adapter: self.adapter, line: self.line, reason: reason.into() }
    }

    /// Skips a result that cannot be read. Only the benchmark of that name fails.
    pub(super) fn lose(self, results: &mut Results, name: &str, error: AdapterError) {
        let (line, reason) = match error {
            AdapterError::Malformed { line, reason, .. } => (line, reason),
            other => (self.line, other.to_string()),
        };
        results.lose(line, name, reason);
    }

    /// Adds a result of that name. If it cannot be read, only its benchmark fails.
    pub(super) fn read(
        self,
        results: &mut Results,
        name: &str,
        add: impl FnOnce(&mut Results, BenchmarkName) -> Parsed<()>,
    ) {
        let added = self.name(&in_one_line(name)).and_then(|name| add(results, name));
        if let Err(error) = added {
            self.lose(results, &in_one_line(name), error);
        }
    }

    pub(super) fn name(self, text: &str) -> Parsed<BenchmarkName> {
        BenchmarkName::new(text.trim()).map_err(|error| self.malformed(error.to_string()))
    }

    /// Notes that Bencher keeps leading blanks of a name, as indented by `console.group`.
    pub(super) fn set_indented(self, results: &mut Results, name: &str) -> Parsed<()> {
        if name.starts_with([' ', '\t']) {
            results.set_bencher_name(&self.name(name)?, name.trim_end());
        }
        Ok(())
    }

    /// The benchmark of that name, for adding metrics.
    pub(super) fn benchmark<'r>(
        self,
        results: &'r mut Results,
        name: &str,
    ) -> Parsed<&'r mut BenchmarkResults> {
        results.benchmark(name.trim()).map_err(|error| self.malformed(error.to_string()))
    }
}

/// A benchmark name on one line: commands may have several.
pub(crate) fn in_one_line(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let parts: Vec<_> = text.split(char::is_control).filter(|part| !part.is_empty()).collect();
    Cow::Owned(parts.join(" "))
}

/// The lines with their numbers from 1. For a line overwritten on the terminal, the last version. Cargo's messages are
/// skipped.
pub(super) fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = text.as_bytes();
    let has_returns = memchr(b'\r', bytes).is_some();
    let mut ends = memchr_iter(b'\n', bytes);
    let (mut start, mut number) = (0, 0);
    iter::from_fn(move || {
        while start < text.len() {
            let end = ends.next().unwrap_or(text.len());
            let line = &text[start..end];
            start = text.len().min(end + 1);
            number += 1;
            if !is_of_cargo(line) {
                return Some((number, if has_returns { last_version(line) } else { line }));
            }
        }
        None
    })
}

/// Whether a line is a message of `cargo --message-format json`: `{"reason":"compiler-artifact",…}`.
fn is_of_cargo(line: &str) -> bool {
    line.starts_with(CARGO) && line.trim_end_matches('\r').ends_with('}')
}

const CARGO: &str = "{\"reason\":\"";

/// Blanks each Cargo message but keeps its line break, so that line numbers stay the same. For documents that are read
/// as a whole.
pub(super) fn without_cargo(text: &str) -> Cow<'_, str> {
    let has_any = memchr::memmem::find(text.as_bytes(), CARGO.as_bytes()).is_some();
    if !has_any || !text.split('\n').any(is_of_cargo) {
        return Cow::Borrowed(text);
    }
    let lines = text.split('\n').map(|line| if is_of_cargo(line) { "" } else { line });
    Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
}

/// Like [`numbered`], each with its position for errors.
pub(super) fn lines(adapter: Adapter, text: &str) -> impl Iterator<Item = (At, &str)> {
    numbered(text).map(move |(line, content)| (At { adapter, line }, content))
}

fn last_version(line: &str) -> &str {
    let line = line.trim_end_matches('\r');
    memrchr(b'\r', line.as_bytes()).map_or(line, |at| &line[at + 1..])
}

pub(super) fn without_colors(text: &str) -> Cow<'_, str> {
    if memchr(0x1b, text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        plain.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        // CSI: parameters, then one letter. Otherwise only the escape is removed.
        if let Some(sequence) = rest.strip_prefix('[') {
            let end = sequence.find(|c: char| ('\u{40}'..='\u{7e}').contains(&c));
            rest = end.map_or("", |end| &sequence[end + 1..]);
        }
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// Like [`str::split_once`], for a short separator in a short text. The standard library's search first builds tables,
/// which is too expensive for most lines.
pub(super) fn split_once<'t>(text: &'t str, separator: &str) -> Option<(&'t str, &'t str)> {
    let first = *separator.as_bytes().first()?;
    let is_here = |at: &usize| text.as_bytes()[*at..].starts_with(separator.as_bytes());
    let at = memchr_iter(first, text.as_bytes()).find(is_here)?;
    Some((&text[..at], &text[at + separator.len()..]))
}

/// Like [`str::rsplit_once`], for a short separator in a short text.
pub(super) fn rsplit_once<'t>(text: &'t str, separator: &str) -> Option<(&'t str, &'t str)> {
    let first = *separator.as_bytes().first()?;
    let is_here = |at: &usize| text.as_bytes()[*at..].starts_with(separator.as_bytes());
    let at = memchr::memrchr_iter(first, text.as_bytes()).find(is_here)?;
    Some((&text[..at], &text[at + separator.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_shows_at_the_end() {
        let check = |text, expected: &[(usize, &str)]| {
            assert_eq!(numbered(text).collect::<Vec<_>>(), expected, "{text:?}");
        };
        check("a\nb", &[(1, "a"), (2, "b")]);
        check("a\r\n\nb\r\r\n", &[(1, "a"), (2, ""), (3, "b")]);
        check("", &[]);
        check("\n", &[(1, "")]);
        check("a\n\n", &[(1, "a"), (2, "")]);
        check("1 %\r50 %\rdone\nb", &[(1, "done"), (2, "b")]);
    }

    #[test]
    fn messages_of_cargo_are_no_lines() {
        let cargo = "{\"reason\":\"build-finished\",\"success\":true}";
        let check = |text: String, lines: &[(usize, &str)], plain: &str| {
            assert_eq!(numbered(&text).collect::<Vec<_>>(), lines, "{text:?}");
            assert_eq!(without_cargo(&text), plain, "{text:?}");
        };
        check(format!("{cargo}\na\n{cargo}\r\n{cargo}\nb"), &[(2, "a"), (5, "b")], "\na\n\n\nb");
        check(format!("a\n{cargo}"), &[(1, "a")], "a\n");
        check("{\"reason\":\"x\n".to_owned(), &[(1, "{\"reason\":\"x")], "{\"reason\":\"x\n");
    }

    #[test]
    fn names_become_one_line() {
        let check =
            |text: &str, expected: &str| assert_eq!(in_one_line(text), expected, "{text:?}");
        check(" a b ", "a b");
        check("for i in 1 2\r\ndo\n\ttrue", "for i in 1 2 do true");
        check("größe \"q\"", "größe \"q\"");
        check("\n", "");
    }

    #[test]
    fn names_that_cannot_be() {
        let at = At { adapter: Adapter::RustBench, line: 7 };
        assert_eq!(at.name(" a b ").expect("a name").as_str(), "a b");
        let error = at.name("").expect_err("none").to_string();
        assert!(error.contains("rust_bench cannot read line 7"), "{error}");
    }

    #[test]
    fn colours_go() {
        let check = |text, expected: &str| assert_eq!(without_colors(text), expected);
        check("plain", "plain");
        check("\u{1b}[1;32mgreen\u{1b}[0m!", "green!");
        check("\u{1b}7a", "7a");
        check("a\u{1b}[", "a");
    }

    #[test]
    fn separators_as_the_standard_library_finds_them() {
        for text in ["", "a", ": ", "a: b", "a:: b: c", "::::", "größe ±1 ±2%", "±", "a ± "] {
            for separator in [": ", "::", " ±", "±", "a", "%"] {
                assert_eq!(split_once(text, separator), text.split_once(separator), "{text:?}");
                assert_eq!(rsplit_once(text, separator), text.rsplit_once(separator), "{text:?}");
            }
        }
    }
}

//! JSON documents of one tool within other output of the command.
//!
//! A document begins at the start of a line or right after another. Documents of other tools are ignored. A document
//! with the tool's marks that cannot be read is an error.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter, memchr2, memmem};
use serde::de::{DeserializeOwned, Error, IgnoredAny};
use serde_json::error::Category;

use super::{Adapter, AdapterError, Parsed, line::At};

pub(super) struct Documents<T> {
    /// Each document with its position.
    pub(super) found: Vec<(At, T)>,
    /// Errors of documents with the tool's marks that cannot be read.
    pub(super) broken: Vec<AdapterError>,
    pub(super) rest: String,
}

/// Finds all documents of the shape `T`. Such a document contains all of the `marks`. One with the marks but another
/// shape is malformed.
pub(super) fn documents<T: DeserializeOwned>(
    adapter: Adapter,
    text: &str,
    marks: &[&str],
) -> Parsed<Documents<T>> {
    let mut documents = with_broken(adapter, text, marks);
    if documents.broken.is_empty() { Ok(documents) } else { Err(documents.broken.swap_remove(0)) }
}

/// Like [`documents`], but continues after a malformed document.
pub(super) fn with_broken<T: DeserializeOwned>(
    adapter: Adapter,
    text: &str,
    marks: &[&str],
) -> Documents<T> {
    let has_marks = |text: &str| {
        marks.iter().all(|mark| memmem::find(text.as_bytes(), mark.as_bytes()).is_some())
    };
    let (mut found, mut broken) = (Vec::new(), Vec::new());
    if !has_marks(text) {
        return Documents { found, broken, rest: text.to_owned() };
    }
    let mut text = Cow::Borrowed(text);
    let mut rest = String::new();
    // The line number of byte `at`.
    let (mut at, mut line) = (0, 1);
    while let Some(start) = next_start(&text, at) {
        rest.push_str(&text[at..start]);
        line += count_lines(&text[at..start]);
        let mut result = first::<T>(&text[start..]);
        if let Err(error) = &result
            && is_at_no_number(&text[start..], error)
        {
            let plain = without_no_numbers(&text[start..]);
            text = Cow::Owned(format!("{}{plain}", &text[..start]));
            result = first::<T>(&text[start..]);
        }
        let end = match result {
            Ok((document, length)) => {
                let end = start + length;
                // Shapes are lenient: another tool's document may match, too.
                match has_marks(&text[start..end]) {
                    true => found.push((At { adapter, line }, document)),
                    false => rest.push_str(&text[start..end]),
                }
                end
            }
            Err(error) => {
                let end =
                    end_of_foreign(&text, start, &error, has_marks).unwrap_or_else(|reason| {
                        let at = At { adapter, line: line + error.line().max(1) - 1 };
                        broken.push(at.malformed(reason));
                        end_of_line(&text, start)
                    });
                rest.push_str(&text[start..end]);
                end
            }
        };
        line += count_lines(&text[start..end]);
        at = end;
    }
    rest.push_str(&text[at..]);
    Documents { found, broken, rest }
}

/// The end of text that looked like a document of the tool, or the error if it is one.
fn end_of_foreign(
    text: &str,
    start: usize,
    error: &serde_json::Error,
    has_marks: impl Fn(&str) -> bool,
) -> Result<usize, String> {
    // Another tool's document, or not JSON at all.
    let foreign = first::<IgnoredAny>(&text[start..]).map(|(_, length)| start + length);
    let end = match (&foreign, error.classify()) {
        (Ok(end), _) => *end,
        (Err(_), Category::Eof) => text.len(),
        (Err(_), _) => start + place_of(&text[start..], error),
    };
    if has_marks(&text[start..end]) {
        return Err(reason(error));
    }
    Ok(foreign.unwrap_or_else(|_| end_of_line(text, start)))
}

/// The error without its position, which is relative to the document's start.
fn reason(error: &serde_json::Error) -> String {
    let mut text = error.to_string();
    text.truncate(text.rfind(" at line ").unwrap_or(text.len()));
    text
}

fn first<T: DeserializeOwned>(text: &str) -> Result<(T, usize), serde_json::Error> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter();
    match stream.next() {
        Some(document) => document.map(|document| (document, stream.byte_offset())),
        None => Err(serde_json::Error::custom("it is empty")),
    }
}

/// The next possible start of a document from `at` on: a bracket preceded only by blanks on its line.
fn next_start(text: &str, mut at: usize) -> Option<usize> {
    loop {
        // .NET writes a byte order mark.
        let line = text[at..].trim_start_matches([' ', '\t', '\r', '\n', '\u{feff}']);
        let start = text.len() - line.len();
        if line.starts_with(['{', '[']) {
            return Some(start);
        }
        at = end_of_line(text, start);
        if at == text.len() {
            return None;
        }
    }
}

fn count_lines(text: &str) -> usize {
    memchr_iter(b'\n', text.as_bytes()).count()
}

/// The end of the line that contains byte `at`.
fn end_of_line(text: &str, at: usize) -> usize {
    memchr(b'\n', &text.as_bytes()[at..]).map_or(text.len(), |length| at + length + 1)
}

fn place_of(text: &str, error: &serde_json::Error) -> usize {
    let mut start = 0;
    for _ in 1..error.line() {
        start = end_of_line(text, start);
    }
    let mut at = (start + error.column()).min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Literals for non-numbers written by Python and C++, which are invalid JSON. The parser stops within them: `nan`
/// begins like `null`, and `-inf` like a number.
const NO_NUMBERS: [&str; 4] = ["NaN", "nan", "Infinity", "inf"];

/// Whether the parser stopped at one of [`NO_NUMBERS`].
fn is_at_no_number(text: &str, error: &serde_json::Error) -> bool {
    if error.classify() != Category::Syntax {
        return false;
    }
    let place = place_of(text, error);
    let is_part = |c: char| c.is_ascii_alphabetic();
    let start = text[..place].trim_end_matches(is_part).len();
    let word = text[start..].split(|c| !is_part(c)).next().unwrap_or("");
    NO_NUMBERS.contains(&word)
}

/// Replaces [`NO_NUMBERS`] outside of strings by `null`.
pub(crate) fn without_no_numbers(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = String::with_capacity(text.len());
    let mut copied = 0;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = end_of_string(bytes, at + 1),
            byte if byte.is_ascii_alphabetic() => {
                let length = bytes[at..].iter().take_while(|b| b.is_ascii_alphabetic()).count();
                if NO_NUMBERS.contains(&&text[at..at + length]) {
                    let start = if bytes[copied..at].ends_with(b"-") { at - 1 } else { at };
                    plain.push_str(&text[copied..start]);
                    plain.push_str("null");
                    copied = at + length;
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    plain.push_str(&text[copied..]);
    plain
}

/// The position after the closing quote of the string whose text begins at `at`.
pub(super) fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while let Some(next) = memchr2(b'"', b'\\', &bytes[at..]) {
        at += next + 1;
        if bytes[at - 1] == b'"' {
            return at;
        }
        at = (at + 1).min(bytes.len());
    }
    bytes.len()
}

/// Number of leading bytes that identify a document.
const HEAD_BYTES: usize = 4096;

/// An object that starts at the beginning of a line.
pub(super) struct Object<'a, T> {
    pub(super) at: At,
    pub(super) head: &'a str,
    /// The document, or why it does not have that shape.
    pub(super) content: Result<T, String>,
}

/// All documents of the text. After one of another shape, reading continues on the next line.
pub(super) fn objects<T: DeserializeOwned>(adapter: Adapter, text: &str) -> Vec<Object<'_, T>> {
    let mut found = Vec::new();
    let mut line = 1;
    let mut rest = text;
    while !rest.is_empty() {
        let indented = rest.trim_start_matches([' ', '\t']);
        let mut end = 0;
        if indented.starts_with('{') {
            let mut stream = serde_json::Deserializer::from_str(indented).into_iter::<T>();
            let content = match stream.next() {
                Some(Ok(content)) => {
                    end = rest.len() - indented.len() + stream.byte_offset();
                    Ok(content)
                }
                Some(Err(error)) => Err(error.to_string()),
                None => Err("it is empty".to_owned()),
            };
            let head = &indented[..indented.floor_char_boundary(HEAD_BYTES)];
            found.push(Object { at: At { adapter, line }, head, content });
        }
        let bytes = rest.as_bytes();
        let next = memchr(b'\n', &bytes[end..]).map_or(rest.len(), |at| end + at + 1);
        line += memchr_iter(b'\n', &bytes[..next]).count();
        rest = &rest[next..];
    }
    found
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::{super::shape::Figure, *};

    #[derive(Deserialize)]
    struct Bee {
        bee: Figure,
    }

    fn bees(text: &str) -> Parsed<Documents<Bee>> {
        documents(Adapter::Json, text, &["\"bee\""])
    }

    #[test]
    fn documents_among_text() {
        let check = |text: &str, expected: &[(usize, f64)], rest: &str| {
            let documents = bees(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
            let bee = |(at, bee): &(At, Bee)| (at.line, bee.bee.0.expect("a number"));
            let found: Vec<_> = documents.found.iter().map(bee).collect();
            assert_eq!(found, expected, "{text:?}");
            assert_eq!(documents.rest, rest, "{text:?}");
        };
        check(r#"{"bee": 1}"#, &[(1, 1.0)], "");
        check("\u{feff}{\"bee\": 1}\n", &[(1, 1.0)], "\u{feff}\n");
        check("[INFO] a\n{x\n {\"bee\":\n 1} tail\n", &[(3, 1.0)], "[INFO] a\n{x\n  tail\n");
        check("{\"bee\":1}{\"bee\":2}\n\n{\"bee\":3}", &[(1, 1.0), (1, 2.0), (3, 3.0)], "\n\n");
        check("{\"wasp\":1}\n[1]\n{\"bee\":1}", &[(3, 1.0)], "{\"wasp\":1}\n[1]\n");
        check("{\"wasp\n{\"bee\":1}\n", &[(2, 1.0)], "{\"wasp\n\n");
        check("", &[], "");
        check("{\"wasp\": [", &[], "{\"wasp\": [");
    }

    #[test]
    fn numbers_that_are_none() {
        for none in ["NaN", "Infinity", "-Infinity", "nan", "-nan", "inf", "-inf", "null"] {
            let strings = r#""NaN \" in", "\\": "-inf""#;
            let text =
                format!("say \"\n{{\"a\": {strings}, \"bee\": {none}}}\n{{\"bee\": {none}}}");
            let documents = bees(&text).unwrap_or_else(|error| panic!("{none}: {error}"));
            let found: Vec<_> =
                documents.found.iter().map(|(at, bee)| (at.line, bee.bee.0)).collect();
            assert_eq!(found, [(2, None), (3, None)], "{none}");
        }
    }

    #[test]
    fn broken_documents_of_the_tool() {
        let check = |text, line, reason: &str| match bees(text).err() {
            Some(AdapterError::Malformed { line: found, reason: told, .. }) => {
                assert_eq!(found, line, "{text:?}");
                assert!(told.contains(reason), "{told}");
            }
            other => panic!("{text:?}: {other:?}"),
        };
        check("a\n{\"bee\": true}", 2, "expected a number");
        check("a\n\n{\"bee\":\n[1]}", 4, "expected a number");
        check("{\"a\": [{\"bee\": 1", 1, "EOF");
        check("{\"bee\": 1,,}", 1, "key must be a string");
        check("{\"bee\": nanny}", 1, "expected ident");
    }

    #[derive(serde::Deserialize)]
    struct One {
        a: u32,
    }

    #[test]
    fn objects_among_lines() {
        let check = |text: &str, expected: &[(usize, Option<u32>)]| {
            let found = objects::<One>(Adapter::Json, text).into_iter();
            let found: Vec<_> =
                found.map(|d| (d.at.line, d.content.ok().map(|one| one.a))).collect();
            assert_eq!(found, expected, "{text:?}");
        };
        check("", &[]);
        check(
            "text\n{\"a\": 1}\n{\"a\": 2} text\n\ntext {\"a\": 3}",
            &[(2, Some(1)), (3, Some(2))],
        );
        check("{\n  \"a\": 1,\n  \"b\": {\n}\n}\n{\"a\": 2}", &[(1, Some(1)), (6, Some(2))]);
        check("{\"a\": 1\n{\"a\": 2}", &[(1, None), (2, Some(2))]);
        check("{\"b\": 1}", &[(1, None)]);
        check("{", &[(1, None)]);
    }
}

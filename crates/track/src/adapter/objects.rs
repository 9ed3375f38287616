//! JSON documents within other lines of an output, on one line or several.

use serde::de::DeserializeOwned;

use super::{Adapter, line::At};

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
        let next = memchr::memchr(b'\n', &bytes[end..]).map_or(rest.len(), |at| end + at + 1);
        line += memchr::memchr_iter(b'\n', &bytes[..next]).count();
        rest = &rest[next..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

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

//! Iterates over the documents of a file.

use std::io::{BufRead, Read};

use serde::Deserialize as _;

use super::Line;

/// The documents of a file, usually one per line: parsing from memory is three times as fast as byte by byte. A
/// document spanning several lines, as people write it, is parsed as a stream.
pub(super) struct Documents<'r> {
    from: &'r mut dyn BufRead,
    /// The rest of the last line.
    line: Vec<u8>,
}

/// Maximum length of a line: input without line breaks may be endless.
const LINE_BYTES_MAX: u64 = 64 << 20;

impl<'r> Documents<'r> {
    pub(super) fn of(from: &'r mut dyn BufRead) -> Self {
        Self { from, line: Vec::new() }
    }
}

impl Iterator for Documents<'_> {
    type Item = serde_json::Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.line.trim_ascii().is_empty() {
            self.line.clear();
            match Read::take(&mut *self.from, LINE_BYTES_MAX).read_until(b'\n', &mut self.line) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => return Some(Err(serde_json::Error::io(error))),
            }
        }
        let mut documents = serde_json::Deserializer::from_slice(&self.line).into_iter();
        let document = documents.next()?;
        let end = documents.byte_offset();
        if document.as_ref().is_err_and(serde_json::Error::is_eof) {
            let rest = Read::chain(&*self.line, &mut *self.from);
            let whole = Line::deserialize(&mut serde_json::Deserializer::from_reader(rest));
            self.line.clear();
            return Some(whole);
        }
        self.line.drain(..end);
        Some(document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the number of documents in a text, or the error.
    fn check(text: &str, expected: Result<usize, &str>) {
        let mut from = text.as_bytes();
        let mut count = 0;
        let mut found = Ok(());
        for line in Documents::of(&mut from) {
            match line {
                Ok(_) => count += 1,
                Err(error) => {
                    found = Err(error.to_string());
                    break;
                }
            }
        }
        match (found, expected) {
            (Ok(()), Ok(expected)) => assert_eq!(count, expected, "{text}"),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{text}: {found}"),
            (found, expected) => panic!("{text}: {count}, {found:?} in place of {expected:?}"),
        }
    }

    #[test]
    fn documents_need_not_be_lines() {
        let one = r#"{"format":1,"end":{"reports":0,"alert_changes":0}}"#;
        let pretty = one.replace(',', ",\n  ").replace('{', "{\r\n");
        for separator in ["\n", "", " ", "\n\n", "\r\n"] {
            check(&[one, one, one].join(separator), Ok(3));
            check(&[pretty.as_str(), one, &pretty].join(separator), Ok(3));
        }
        check("", Ok(0));
        check(" \n\n", Ok(0));
        check(&format!("{one}\n{}", &one[..20]), Err("EOF"));
        check(&format!("{one}\nnothing\n{one}"), Err("expected ident"));
    }
}

//! Parses hexadecimal text, written by hand or by a tool.
//!
//! Plain: pairs of digits, optionally with blanks, commas and `0x`, in byte order; `#` begins a
//! comment. Or xxd output with correct offsets. Ambiguous text is rejected rather than guessed.

#[cfg(test)]
mod tests;

use thiserror::Error;

/// Minimum digits of an offset: fewer are bytes.
const OFFSET_DIGITS_MIN: usize = 4;

/// Why a text cannot be parsed as bytes. Lines and columns start at 1, columns count characters.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HexError {
    #[error(
        "line {line}, column {column}: found {found:?} where a hexadecimal digit should be; bytes \
         are pairs of digits such as 0a ff, and a comment begins with #"
    )]
    NotHex { line: usize, column: usize, found: char },
    #[error(
        "line {line}, column {column}: {digits} digits in a row, but a byte has two; write 0a for a"
    )]
    OddDigits { line: usize, column: usize, digits: usize },
    #[error(
        "line {line}: its offset is {found:#x}, but {expected:#x} bytes precede it; store one \
         whole packet per file"
    )]
    WrongOffset { line: usize, found: u64, expected: u64 },
    #[error(
        "line {line}: the word {word} may be the offset of a dump, or bytes; dump it with xxd, or separate \
         the bytes"
    )]
    AmbiguousOffset { line: usize, word: String },
    #[error("it has no bytes, only blanks and comments")]
    NoBytes,
}

/// Parses the text of a file. Fails if it is not hexadecimal or is ambiguous. Never returns an empty list.
pub fn parse(text: &[u8]) -> Result<Vec<u8>, HexError> {
    let text = String::from_utf8_lossy(text);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut bytes = Vec::new();
    for (number, text) in (1..).zip(text.lines()) {
        let line = Line { number, text };
        match line.offset() {
            Some((offset, start)) => line.dumped(offset, start, &mut bytes)?,
            None => line.plain(&mut bytes)?,
        }
    }
    if bytes.is_empty() { Err(HexError::NoBytes) } else { Ok(bytes) }
}

/// Parses one string of plain hexadecimal text, without comments and dumps. May be empty.
pub(super) fn parse_string(text: &str) -> Result<Vec<u8>, HexError> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    Line { number: 1, text }.words(0, text.len(), &mut bytes)?;
    Ok(bytes)
}

#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    number: usize,
    text: &'a str,
}

impl Line<'_> {
    /// An offset with a colon, such as `00000010:`, and the start of the rest of the line.
    fn offset(self) -> Option<(u64, usize)> {
        let start = self.text.len() - self.text.trim_start().len();
        let word = self.text.split_whitespace().next()?;
        let digits = digits_of(word.strip_suffix(':')?);
        // `from_str_radix` accepts a sign too.
        let is_number = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let offset = u64::from_str_radix(digits, 16).ok().filter(|_| is_number)?;
        Some((offset, start + word.len()))
    }

    /// Appends the bytes of an xxd line. The text column follows after two blanks.
    fn dumped(self, found: u64, start: usize, bytes: &mut Vec<u8>) -> Result<(), HexError> {
        let expected = bytes.len() as u64;
        if found != expected {
            return Err(HexError::WrongOffset { line: self.number, found, expected });
        }
        let rest = self.text.get(start..).unwrap_or_default().trim_start();
        let start = self.text.len() - rest.len();
        let end = rest.find("  ").map_or(self.text.len(), |at| start + at);
        self.words(start, end, bytes)
    }

    /// Appends the bytes of a line up to a comment.
    fn plain(self, bytes: &mut Vec<u8>) -> Result<(), HexError> {
        let text = self.text.split('#').next().unwrap_or_default();
        let mut words = text.split_whitespace();
        let first = words.next().unwrap_or_default();
        let is_zero = first.len() >= OFFSET_DIGITS_MIN && first.bytes().all(|digit| digit == b'0');
        // Tools other than xxd write no colon.
        if bytes.is_empty() && is_zero && words.next().is_some_and(|word| word.len() == 2) {
            let word = first.to_owned();
            return Err(HexError::AmbiguousOffset { line: self.number, word });
        }
        self.words(0, text.len(), bytes)
    }

    /// Appends the bytes of the words between two offsets into the text.
    fn words(self, start: usize, end: usize, bytes: &mut Vec<u8>) -> Result<(), HexError> {
        let mut rest = self.text.get(start..end).unwrap_or_default();
        let mut at = start;
        while !rest.is_empty() {
            let is_between = |c: char| c.is_whitespace() || c == ',';
            let word = rest.trim_start_matches(is_between);
            at += rest.len() - word.len();
            let len = word.find(is_between).unwrap_or(word.len());
            let (word, tail) = word.split_at(len);
            self.word(at, word, bytes)?;
            (at, rest) = (at + len, tail);
        }
        Ok(())
    }

    fn word(self, at: usize, word: &str, bytes: &mut Vec<u8>) -> Result<(), HexError> {
        let digits = digits_of(word);
        let at = at + (word.len() - digits.len());
        if let Some((index, found)) = digits.char_indices().find(|(_, c)| !c.is_ascii_hexdigit()) {
            return Err(HexError::NotHex {
                line: self.number,
                column: self.column(at + index),
                found,
            });
        }
        // 0x5, as C programs print bytes.
        if let (true, Ok(byte)) = (digits.len() == 1, u8::from_str_radix(digits, 16))
            && digits.len() < word.len()
        {
            bytes.push(byte);
            return Ok(());
        }
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        if !rest.is_empty() || (digits.is_empty() && !word.is_empty()) {
            let (line, column) = (self.number, self.column(at));
            return Err(HexError::OddDigits { line, column, digits: digits.len() });
        }
        bytes.extend(pairs.iter().map(|[high, low]| nibble(*high) << 4 | nibble(*low)));
        Ok(())
    }

    /// Number of the character at an offset into the text, from 1.
    fn column(self, at: usize) -> usize {
        self.text.char_indices().take_while(|(index, _)| *index < at).count() + 1
    }
}

/// A word without its `0x` prefix.
fn digits_of(word: &str) -> &str {
    word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")).unwrap_or(word)
}

/// Value of a digit; 0 for invalid digits.
fn nibble(digit: u8) -> u8 {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok()).unwrap_or_default()
}

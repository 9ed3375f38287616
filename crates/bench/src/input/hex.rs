//! Bytes written as hexadecimal text, by hand or by a tool.
//!
//! Plain: pairs of digits, with or without blanks, commas and `0x`, in the order of the bytes; `#`
//! begins a comment. Dumps: `xxd`, `hexdump -C`, `od -A x -t x1z`, `tcpdump -xx`, Wireshark. Their
//! offsets must be right, and their column of text must agree with the bytes, else it is none: what
//! could be read in two ways is refused rather than guessed.

mod dump;
#[cfg(test)]
mod tests;

use thiserror::Error;

/// Why a text is not one of bytes. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HexError {
    /// A character that is no digit.
    #[error(
        "line {line}, column {column}: found {found:?} where a hexadecimal digit should be; bytes \
         are pairs of digits such as 0a ff, and a comment begins with #"
    )]
    NotHex { line: usize, column: usize, found: char },
    /// A word that is not made of pairs.
    #[error(
        "line {line}, column {column}: {digits} digits in a row, but a byte has two; write 0a for a"
    )]
    OddDigits { line: usize, column: usize, digits: usize },
    /// The offset of a line is not the number of bytes before it.
    #[error(
        "line {line}: its offset is {found:#x}, but {expected:#x} bytes stand before it; give one \
         packet per file, and the whole of it"
    )]
    WrongOffset {
        line: usize,
        found: u64,
        /// Bytes before the line.
        expected: u64,
    },
    /// A line of a dump without an offset.
    #[error(
        "line {line}: it does not begin with an offset of {digits} digits, like those before it"
    )]
    NoOffset { line: usize, digits: usize },
    /// The first word may be an offset.
    #[error(
        "line {line}: the word {word} may be an offset or bytes; write {word}: for an offset, and \
         separate the bytes otherwise"
    )]
    AmbiguousOffset { line: usize, word: String },
    /// A dump from which equal lines were left out.
    #[error(
        "line {line}: * stands for lines that were left out; dump all of them, with hexdump -Cv or \
         xxd"
    )]
    Squeezed { line: usize },
    /// Offsets of seven digits: words in the machine's order, which swaps each pair of bytes, or
    /// octal numbers.
    #[error(
        "line {line}: this looks like the output of hexdump or od without options, which swap \
         bytes or count in octal; dump it with xxd or hexdump -Cv"
    )]
    OldDump { line: usize },
    /// No bytes at all.
    #[error("there are no bytes in it, only blanks and comments")]
    NoBytes,
}

/// Reads the text of a file.
///
/// # Errors
///
/// When it is not hexadecimal, or not without doubt. Never returns an empty list.
pub fn parse(text: &[u8]) -> Result<Vec<u8>, HexError> {
    let text = String::from_utf8_lossy(text);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let lines: Vec<Line> = (1..)
        .zip(text.lines())
        .map(|(number, text)| Line { number, text })
        .filter(|line| !line.uncommented().trim().is_empty())
        .collect();
    let bytes = dump::parse(&lines)?;
    if bytes.is_empty() { Err(HexError::NoBytes) } else { Ok(bytes) }
}

/// Reads one string of plain hexadecimal text, without comments and dumps. May be empty.
pub(super) fn parse_string(text: &str) -> Result<Vec<u8>, HexError> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    Line { number: 1, text }.words(0, text.len(), &mut bytes)?;
    Ok(bytes)
}

/// A line that is more than a comment.
#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    number: usize,
    text: &'a str,
}

impl<'a> Line<'a> {
    /// The text up to a comment.
    fn uncommented(self) -> &'a str {
        self.text.split('#').next().unwrap_or_default()
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

/// A word without its `0x`.
fn digits_of(word: &str) -> &str {
    word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")).unwrap_or(word)
}

/// The value of a digit; 0 for what is none.
fn nibble(digit: u8) -> u8 {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok()).unwrap_or_default()
}

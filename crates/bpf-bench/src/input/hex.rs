//! Parses hexadecimal text, written by hand or by a tool.
//!
//! Plain: pairs of digits, optionally with blanks, commas and `0x`, in byte order; `#` begins a
//! comment. Or xxd output with correct offsets. Ambiguous text is rejected rather than guessed.

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[u8]) {
        assert_eq!(parse(text.as_bytes()).as_deref(), Ok(expected), "{text:?}");
    }

    #[track_caller]
    fn check_error(text: &str, expected: HexError) {
        assert_eq!(parse(text.as_bytes()), Err(expected), "{text:?}");
    }

    #[test]
    fn reads_plain_text() {
        check("0a0b", &[10, 11]);
        check("0A 0b\n0c", &[10, 11, 12]);
        check("  0x0a, 0x0B,\t0x5\r\n", &[10, 11, 5]);
        check("0x0a000001", &[10, 0, 0, 1]);
        check("# a comment\n0a # 0b\n\n#\n0c#0d", &[10, 12]);
        check("\u{feff}ff", &[255]);
        check(
            "000000000000 00005e005301 0800 45",
            &[0, 0, 0, 0, 0, 0, 0, 0, 94, 0, 83, 1, 8, 0, 69],
        );
        check("00000000\n00000000", &[0; 8]);
        check("0000\n0002", &[0, 0, 0, 2]);
    }

    #[test]
    fn reads_dumps_of_xxd() {
        check("00000000: 4520 6162 6320 7c78                      E abc |x", b"E abc |x");
        check("00000000: 2061 62                                   ab", b" ab");
        check("00000000: 4142  AB\n00000002: 23    #\n", b"AB#");
        check("0000: 4142\n0002: 43", b"ABC");
        check("00000000: 7c7c  ||\n00000002: 3e3c  ><\n", b"||><");
    }

    #[test]
    fn says_where_and_what() {
        check_error("0a\n0b zz", HexError::NotHex { line: 2, column: 4, found: 'z' });
        check_error("0xg1", HexError::NotHex { line: 1, column: 3, found: 'g' });
        check_error("é0", HexError::NotHex { line: 1, column: 1, found: 'é' });
        check_error("0a é", HexError::NotHex { line: 1, column: 4, found: 'é' });
        check_error("00:11", HexError::NotHex { line: 1, column: 3, found: ':' });
        check_error("0a b", HexError::OddDigits { line: 1, column: 4, digits: 1 });
        check_error("0x123", HexError::OddDigits { line: 1, column: 3, digits: 3 });
        check_error("0x", HexError::OddDigits { line: 1, column: 3, digits: 0 });
        check_error("0000: 41\n0004: 42", HexError::WrongOffset { line: 2, found: 4, expected: 1 });
        check_error("0010: 41", HexError::WrongOffset { line: 1, found: 16, expected: 0 });
        // Dumps of other tools: hexdump -C, hexdump, od -A x -t x1, Wireshark.
        let ambiguous = |word: &str| HexError::AmbiguousOffset { line: 1, word: word.to_owned() };
        check_error("00000000  41  |A|\n00000001\n", ambiguous("00000000"));
        check_error(
            "0000000 6261 6463\n0000004\n",
            HexError::OddDigits { line: 1, column: 1, digits: 7 },
        );
        check_error("000000 61 62 63\n000003\n", ambiguous("000000"));
        check_error("0000   45 00\n0002   0a\n", ambiguous("0000"));
        check_error("00000000: 41\n*", HexError::NotHex { line: 2, column: 1, found: '*' });
        check_error("", HexError::NoBytes);
        check_error("# nothing\n \n", HexError::NoBytes);
        assert_eq!(parse(b"\xff"), Err(HexError::NotHex { line: 1, column: 1, found: '\u{fffd}' }));
    }

    /// The text column of a dump, as xxd prints it.
    fn shown(bytes: &[u8]) -> String {
        let printable = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
        bytes.iter().map(|byte| if printable(byte) { char::from(*byte) } else { '.' }).collect()
    }

    fn pairs(bytes: &[u8], between: &str) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(between)
    }

    /// Any byte, mostly those with a meaning in dumps.
    fn byte() -> impl Strategy<Value = u8> {
        prop_oneof![any::<u8>(), prop::sample::select(b"|>< .#:*0,\n".to_vec())]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(bytes in prop::collection::vec(byte(), 1..70), width in 1..20_usize) {
            let mut xxd = String::new();
            for (index, line) in bytes.chunks(width).enumerate() {
                // The shorter last line is padded to align the text column.
                let (offset, hex, fill) = (index * width, pairs(line, " "), 3 * width);
                xxd += &format!("{offset:08x}: {hex:fill$} {}\n", shown(line));
            }
            let texts = [pairs(&bytes, ""), pairs(&bytes, "\n"), pairs(&bytes, ", 0x"), xxd];
            for text in &texts {
                let read = parse(text.as_bytes());
                prop_assert_eq!(read.as_ref(), Ok(&bytes), "{}", text);
            }
        }

        #[test]
        fn no_text_is_too_strange(text in "[0-9a-fx:#|>.* \n]{0,80}") {
            if let Ok(bytes) = parse(text.as_bytes()) {
                prop_assert!(!bytes.is_empty() && 2 * bytes.len() <= text.len());
            }
        }
    }
}

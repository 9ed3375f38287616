//! Offsets at the left of a dump and text at its right: what of a line is bytes.

use super::{HexError, Line, digits_of};

/// In longer lines no column of text is looked for. `xxd -c 256`, its widest, prints about 900.
const LINE_MAX: usize = 4096;

/// Digits of an offset: fewer are bytes.
const OFFSET_DIGITS_MIN: usize = 4;

/// Digits of the offsets that hexdump and od print without options. An odd number cannot be bytes.
const OLD_OFFSET_DIGITS: usize = 7;

/// An offset that begins a line.
#[derive(Debug, Clone, Copy)]
struct Offset {
    value: u64,
    /// Where the rest of the line begins.
    end: usize,
}

/// The bytes of all lines.
pub(super) fn parse(lines: &[Line]) -> Result<Vec<u8>, HexError> {
    if let Some(line) = lines.iter().find(|line| line.text.trim() == "*") {
        return Err(HexError::Squeezed { line: line.number });
    }
    let any_colon = lines.iter().any(|line| colon_offset(line.text).is_some());
    if let (Some(first), false) = (lines.first(), any_colon)
        && let Some(word) = zero_word(first.text)
    {
        return parse_bare(lines, *first, word);
    }
    let mut bytes = Vec::new();
    for line in lines {
        match colon_offset(line.text) {
            Some(offset) => dump_line(*line, offset, &mut bytes)?,
            None => line.words(0, line.uncommented().len(), &mut bytes)?,
        }
    }
    Ok(bytes)
}

/// Lines of which the first begins with a word of zeros: offset or bytes?
fn parse_bare(lines: &[Line], first: Line, word: &str) -> Result<Vec<u8>, HexError> {
    if word.len() == OLD_OFFSET_DIGITS {
        return Err(HexError::OldDump { line: first.number });
    }
    let mut bytes = Vec::new();
    let outcome = bare_dump(lines, word.len(), &mut bytes);
    // The bytes of the first line are told once more as text, or another line has the right offset.
    let start = first.text.len() - first.text.trim_start().len();
    let has_text = text_column(first, start + word.len()).is_some();
    let has_pairs = |line: &Line| words_after_first(line).all(|word| word.len() == 2);
    if has_text {
        return outcome.map(|_| bytes);
    }
    if outcome == Ok(true) {
        // od and hexdump group bytes into words of the machine's order, others do not group at all.
        return match lines.iter().find(|line| !has_pairs(line)) {
            Some(line) => Err(HexError::OldDump { line: line.number }),
            None => Ok(bytes),
        };
    }
    if words_after_first(&first).next().is_some() && has_pairs(&first) {
        return Err(HexError::AmbiguousOffset { line: first.number, word: word.to_owned() });
    }
    let mut bytes = Vec::new();
    for line in lines {
        line.words(0, line.uncommented().len(), &mut bytes)?;
    }
    Ok(bytes)
}

/// Reads every line as one that begins with an offset of so many digits. Tells whether any offset
/// but zero was right.
fn bare_dump(lines: &[Line], digits: usize, bytes: &mut Vec<u8>) -> Result<bool, HexError> {
    let mut is_confirmed = false;
    for line in lines {
        let start = line.text.len() - line.text.trim_start().len();
        let word = first_word(line.text);
        let Some(value) = number(word).filter(|_| word.len() == digits) else {
            return Err(HexError::NoOffset { line: line.number, digits });
        };
        dump_line(*line, Offset { value, end: start + word.len() }, bytes)?;
        is_confirmed |= value > 0;
    }
    Ok(is_confirmed)
}

/// Appends the bytes of a line after its offset.
fn dump_line(line: Line, offset: Offset, bytes: &mut Vec<u8>) -> Result<(), HexError> {
    let expected = bytes.len() as u64;
    if offset.value != expected {
        return Err(HexError::WrongOffset { line: line.number, found: offset.value, expected });
    }
    let text_start = text_column(line, offset.end);
    let end = text_start.unwrap_or_else(|| line.uncommented().len());
    line.words(offset.end, end, bytes)
}

/// An offset with a colon, such as `00000010:` or `0x0010:`.
fn colon_offset(text: &str) -> Option<Offset> {
    let start = text.len() - text.trim_start().len();
    let word = first_word(text);
    let value = number(digits_of(word.strip_suffix(':')?))?;
    Some(Offset { value, end: start + word.len() })
}

fn number(digits: &str) -> Option<u64> {
    // `from_str_radix` takes a sign too.
    let has_sign = digits.starts_with(['+', '-']);
    u64::from_str_radix(digits, 16).ok().filter(|_| !has_sign)
}

/// The first word of a line, if it may be the offset zero of a dump.
fn zero_word(text: &str) -> Option<&str> {
    let word = first_word(text);
    let is_zero = word.len() >= OFFSET_DIGITS_MIN && word.bytes().all(|digit| digit == b'0');
    is_zero.then_some(word)
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

fn words_after_first<'a>(line: &Line<'a>) -> impl Iterator<Item = &'a str> {
    line.uncommented().split_whitespace().skip(1)
}

/// Where the column of text begins that tells the same bytes once more, if there is one: after two
/// blanks or more.
fn text_column(line: Line, start: usize) -> Option<usize> {
    let text = line.text.trim_end();
    if text.len() > LINE_MAX {
        return None;
    }
    let mut bytes = Vec::new();
    let mut at = start;
    loop {
        let gap = at + text.get(at..)?.find("  ")?;
        // What stands before the gap are bytes, or there is no column of text at all.
        line.words(at, gap, &mut bytes).ok()?;
        let column = gap + (text.get(gap..)?.len() - text.get(gap..)?.trim_start().len());
        // A text may itself begin with blanks.
        let leading = bytes.iter().take_while(|byte| **byte == b' ').count();
        let with_leading = column.checked_sub(leading).filter(|column| *column >= gap + 2);
        let columns = [Some(column), with_leading];
        let mut texts = columns.into_iter().flatten().filter_map(|column| text.get(column..));
        if !bytes.is_empty() && texts.any(|text| is_text_of(&bytes, text)) {
            return Some(gap);
        }
        at = column;
    }
}

/// Does the text show these bytes, perhaps between bars or brackets? These may be bytes themselves.
fn is_text_of(bytes: &[u8], text: &str) -> bool {
    let inside = |open, close| text.strip_prefix(open)?.strip_suffix(close);
    let texts = [Some(text), inside('|', '|'), inside('>', '<')];
    texts.into_iter().flatten().any(|text| shows(bytes, text))
}

/// Does the text show printable bytes as they are, and others as dots?
fn shows(bytes: &[u8], text: &str) -> bool {
    let mut chars = text.chars();
    let agree = bytes.iter().all(|byte| match chars.next() {
        Some(shown) => shown == '.' || (byte.is_ascii() && shown == char::from(*byte)),
        // Blanks at the end of a line were cut.
        None => *byte == b' ',
    });
    agree && chars.next().is_none()
}

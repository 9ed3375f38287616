//! Line layout: wrapping to the terminal's width, and shortening of names.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::numbers::grouped;

/// A non-breaking space.
pub const BLANK: &str = "\u{a0}";

/// Symbols kept on the line of the preceding number.
const UNITS: [&str; 11] = ["%", "×", "±", "ps", "ns", "µs", "ms", "s", "KiB", "MiB", "GiB"];

/// Signs kept on the line of the following number.
const SIGNS: [&str; 4] = ["±", "≥", "=", "<"];

/// Maximum number of items named in a sentence.
const NAMED_MAX: usize = 3;

/// Width of a text in columns. It may contain colour escape sequences, and must be [in order](in_order).
#[must_use]
pub fn width(text: &str) -> usize {
    let text = in_order(text);
    let mut parts = text.split('\u{1b}');
    let first = parts.next().map_or(0, |part| part.width());
    let rest = parts.map(|part| part.split_once('m').map_or(0, |(_, rest)| rest.width()));
    first + rest.sum::<usize>()
}

/// Escapes bidirectional controls and unusual line separators as in JSON, so that text is read in the order in which it
/// is written. This prevents a name from posing as another one.
#[must_use]
pub fn in_order(text: &str) -> Cow<'_, str> {
    // All of them begin with one of these bytes, which are rare.
    if !text.bytes().any(|byte| matches!(byte, 0xd8 | 0xe2)) || !text.contains(turns) {
        return Cow::Borrowed(text);
    }
    let mut written = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if turns(c) { written += &format!("\\u{:04x}", u32::from(c)) } else { written.push(c) }
    }
    Cow::Owned(written)
}

/// Whether a character is a bidirectional control, or a line or paragraph separator.
fn turns(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Replaces control characters by question marks, so that a terminal does not obey them. Programs and processes choose
/// their own names.
#[must_use]
pub fn printable(text: &str) -> String {
    in_order(&text.replace(char::is_control, "?")).into_owned()
}

/// Quotes a word for a shell.
#[must_use]
pub fn shell_word(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => Cow::Borrowed(word),
        false => Cow::Owned(format!("'{}'", word.replace('\'', r"'\''"))),
    }
}

/// Pads `text` to `columns`. Numbers are right-aligned.
#[must_use]
pub fn aligned(text: &str, columns: usize, is_number: bool) -> String {
    let fill = " ".repeat(columns.saturating_sub(width(text)));
    if is_number { format!("{fill}{text}") } else { format!("{text}{fill}") }
}

/// Wraps text to lines of at most `columns`. Breaks between words, never before the unit of a number, and within words
/// that are wider than a line.
#[must_use]
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let is_gap = |c: char| c.is_whitespace() && !BLANK.contains(c);
    let words: Vec<&str> = text.split(is_gap).filter(|word| !word.is_empty()).collect();
    for word in glued(&words.join(" ")).split(' ').filter(|word| !word.is_empty()) {
        for piece in broken(&word.replace(BLANK, " "), columns.max(1)) {
            match lines.last_mut() {
                Some(line) if width(line) + 1 + width(&piece) <= columns => {
                    line.push(' ');
                    line.push_str(&piece);
                }
                _ => lines.push(piece),
            }
        }
    }
    lines
}

/// Wraps a paragraph and indents all lines but the first by `indent` blanks.
#[must_use]
pub fn paragraph(text: &str, indent: usize, columns: usize) -> String {
    wrapped(text, columns.saturating_sub(indent)).join(&format!("\n{:indent$}", ""))
}

/// Breaks a name without blanks into pieces of at most `columns`, but no colour escape sequence. Nothing is lost.
#[must_use]
pub fn broken(name: &str, columns: usize) -> Vec<String> {
    if width(name) <= columns {
        return vec![name.to_owned()];
    }
    let mut pieces = vec![String::new()];
    let (mut used, mut is_escape) = (0, false);
    for c in name.chars() {
        is_escape |= c == '\u{1b}';
        let own = if is_escape { 0 } else { c.width().unwrap_or(0) };
        is_escape &= c != 'm';
        match pieces.last_mut() {
            Some(piece) if used == 0 || used + own <= columns => {
                piece.push(c);
                used += own;
            }
            _ => {
                pieces.push(c.to_string());
                used = own;
            }
        }
    }
    pieces
}

/// Shortens a name to at most that many columns by removing its middle: names often differ at the end.
#[must_use]
pub fn shortened(name: &str, columns: usize) -> String {
    if name.width() <= columns {
        return name.to_owned();
    }
    let chars: Vec<char> = name.chars().collect();
    let mut kept = columns.saturating_sub(1).min(chars.len());
    loop {
        let (head, tail) = (&chars[..kept.div_ceil(2)], &chars[chars.len() - kept / 2..]);
        let short: String = head.iter().chain(&['…']).chain(tail).collect();
        if short.width() <= columns || kept == 0 {
            return short;
        }
        kept -= 1;
    }
}

/// Truncates a text to at most that many columns.
#[must_use]
pub fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut left = columns.saturating_sub(1);
    let kept = text.chars().take_while(|c| {
        let own = c.width().unwrap_or(0);
        let fits = own <= left;
        left = left.saturating_sub(own);
        fits
    });
    kept.chain((columns > 0).then_some('…')).collect()
}

/// Formats a list as `a, b and 3 more`, in at most `columns`.
#[must_use]
pub fn listed(names: &[impl AsRef<str>], columns: usize) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let all = names.join(", ");
    let Some((first, others)) = names.split_first() else { return all };
    if all.width() <= columns {
        return all;
    }
    let more = |left: usize| match left {
        0 => String::new(),
        _ => format!(" and {} more", grouped(left)),
    };
    let mut left = others.len();
    let mut text = shortened(first, columns.saturating_sub(more(left).width()));
    for name in others {
        let next = format!("{text}, {name}");
        if left == 1 || next.width() + more(left - 1).width() > columns {
            break;
        }
        (text, left) = (next, left - 1);
    }
    text + &more(left)
}

/// Formats the first three items: `a, b, c and 1,000 more`.
#[must_use]
pub fn first_few(mut all: impl Iterator<Item = String>) -> String {
    let named: Vec<String> = all.by_ref().take(NAMED_MAX).collect();
    let named = named.join(", ");
    match all.count() {
        0 => named,
        more => format!("{named} and {} more", grouped(more)),
    }
}

/// Makes a figure non-breaking.
#[must_use]
pub fn unbroken(figure: &str) -> String {
    figure.replace(' ', BLANK)
}

/// Makes the blanks between a number and its unit or sign non-breaking.
#[must_use]
pub fn glued(sentence: &str) -> String {
    let mut text = String::with_capacity(sentence.len());
    let mut before = "";
    for (index, word) in sentence.split(' ').enumerate() {
        if index > 0 {
            text += if belong_together(before, word) { BLANK } else { " " };
        }
        text += word;
        before = word;
    }
    text
}

fn belong_together(before: &str, word: &str) -> bool {
    let is_number = |c: char| c.is_ascii_digit() || c == '−';
    let bare = word.trim_end_matches(|c: char| c.is_ascii_punctuation() && c != '%');
    (before.ends_with(is_number) && UNITS.contains(&bare))
        || (SIGNS.contains(&before) && word.starts_with(is_number))
        || (matches!(before, "p" | "(p") && SIGNS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_take_no_room() {
        let check = |text, expected| assert_eq!(width(text), expected, "{text:?}");
        check("größe", 5);
        check("表", 2);
        check("\u{1b}[31mred\u{1b}[0m", 3);
        check("a\u{202e}b", 8);
    }

    #[test]
    fn terminals_are_not_at_the_mercy_of_names() {
        assert_eq!(printable("a\u{1b}[31m\nb\u{7f}é"), "a?[31m?b?é");
        assert_eq!(printable("a\u{202e}b"), "a\\u202eb");
    }

    #[test]
    fn text_stands_in_its_order() {
        let check = |text, expected| assert_eq!(in_order(text), expected);
        check("safe\u{202e}esrow", "safe\\u202eesrow");
        check("\u{61c}a\u{200f}\u{2066}b\u{2069}\u{2028}", "\\u061ca\\u200f\\u2066b\\u2069\\u2028");
        check("größe → 表 עברית ’👩‍🚀", "größe → 表 עברית ’👩‍🚀");
    }

    #[test]
    fn cells_are_as_wide_as_they_look() {
        assert_eq!(aligned("é", 3, true), "  é");
        assert_eq!(aligned("表", 3, false), "表 ");
        assert_eq!(aligned("long", 3, true), "long");
    }

    #[test]
    fn paragraphs_break_between_words() {
        let check = |text: &str, indent, columns, expected: &str| {
            assert_eq!(paragraph(text, indent, columns), expected);
        };
        check("one two three", 2, 9, "one two\n  three");
        check("one  two\nthree", 0, 100, "one two three");
        check("größe über", 0, 5, "größe\nüber");
        check("abcdefgh", 0, 3, "abc\ndef\ngh");
        check("表表表", 0, 4, "表表\n表");
        check("up by 4.2 %", 0, 9, "up by\n4.2 %");
        check("", 4, 2, "");
        check("a b", 0, 0, "a\nb");
    }

    #[test]
    fn names_break_anywhere() {
        let check =
            |name: &str, columns, expected: &[&str]| assert_eq!(broken(name, columns), expected);
        check("abcdef", 4, &["abcd", "ef"]);
        check("abc", 3, &["abc"]);
        check("表表表", 4, &["表表", "表"]);
        check("表", 1, &["表"]);
        check("\u{1b}[1mabc\u{1b}[0md", 2, &["\u{1b}[1mab", "c\u{1b}[0md"]);
        check("", 3, &[""]);
    }

    #[test]
    fn words_for_a_shell() {
        let check = |word: &str, expected: &str| assert_eq!(shell_word(word), expected);
        check("/usr/bin/wingbeat", "/usr/bin/wingbeat");
        check("/home/a b/wingbeat", "'/home/a b/wingbeat'");
        check("/tmp/it's", r"'/tmp/it'\''s'");
        check("$(reboot)", "'$(reboot)'");
        check("", "''");
    }

    #[test]
    fn long_names_lose_their_middle() {
        let check = |text: &str, columns, expected| {
            assert_eq!(shortened(text, columns), expected, "{text}");
        };
        check("short", 5, "short");
        check("abcdefghij", 5, "ab…ij");
        check("beginning_end", 8, "begi…end");
        check("abcdefghij", 1, "…");
        check("日本語日本語", 6, "日…語");
    }

    #[test]
    fn long_texts_lose_their_end() {
        let check = |text: &str, columns, expected| assert_eq!(cut(text, columns), expected);
        check("short", 5, "short");
        check("abcdefghij", 5, "abcd…");
        check("日本語日本語", 6, "日本…");
        check("abc", 1, "…");
        check("abc", 0, "");
    }

    #[test]
    fn lists_end_in_a_count() {
        let names = ["one", "two", "three"];
        let check =
            |names: &[&str], columns, expected: &str| assert_eq!(listed(names, columns), expected);
        check(&names, 80, "one, two, three");
        check(&names, 15, "one, two, three");
        check(&["one", "two", "threehundred"], 19, "one, two and 1 more");
        check(&names, 14, "one and 2 more");
        check(&["extraordinary", "two"], 15, "ex…y and 1 more");
        check(&["one"], 80, "one");
        check(&[], 80, "");
    }

    #[test]
    fn the_first_few() {
        let check = |count: u32, expected: &str| {
            assert_eq!(first_few((0..count).map(|number| number.to_string())), expected);
        };
        check(0, "");
        check(1, "0");
        check(3, "0, 1, 2");
        check(4, "0, 1, 2 and 1 more");
        check(2_003, "0, 1, 2 and 2,000 more");
    }

    #[test]
    fn lines_break_between_figures() {
        assert_eq!(unbroken("1.208 ± 0.012 µs"), "1.208\u{a0}±\u{a0}0.012\u{a0}µs");
        let check = |sentence, expected: &str| {
            assert_eq!(glued(sentence), expected.replace('·', BLANK));
        };
        check("up by 4.2 % (p = 0.002)", "up by 4.2·% (p·=·0.002)");
        check("1.2 ± 0.1 µs; 3 s, a = b", "1.2·±·0.1·µs; 3·s, a = b");
        check("no change ≥ 1.3 %, % of 2", "no change ≥·1.3·%, % of 2");
        check("", "");
    }
}

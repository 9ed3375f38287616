//! Colours and lines: what text for a terminal is made of.

use owo_colors::{OwoColorize as _, Style as Colours};
use unicode_width::UnicodeWidthStr as _;

use super::document::{BLANK, glued};

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub struct Paint {
    pub has_colours: bool,
}

impl Paint {
    /// A heading.
    #[must_use]
    pub fn bold(self, text: &str) -> String {
        self.with(text, Colours::new().bold())
    }

    /// What matters less than the rest.
    #[must_use]
    pub fn dim(self, text: &str) -> String {
        self.with(text, Colours::new().dimmed())
    }

    /// What is better, and the word that all is well.
    #[must_use]
    pub fn good(self, text: &str) -> String {
        self.with(text, Colours::new().green())
    }

    /// What may be wrong.
    #[must_use]
    pub fn warning(self, text: &str) -> String {
        self.with(text, Colours::new().yellow().bold())
    }

    /// What is worse, or failed.
    #[must_use]
    pub fn bad(self, text: &str) -> String {
        self.with(text, Colours::new().red().bold())
    }

    fn with(self, text: &str, colours: Colours) -> String {
        if self.has_colours && !text.is_empty() {
            text.style(colours).to_string()
        } else {
            text.to_owned()
        }
    }
}

/// Fills `text` up to `width`; numbers stand at the right.
pub(super) fn aligned(text: &str, width: usize, is_number: bool) -> String {
    let fill = " ".repeat(width.saturating_sub(text.width()));
    if is_number { format!("{fill}{text}") } else { format!("{text}{fill}") }
}

/// A paragraph of which all lines but the first begin with `indent` blanks. It breaks between words, not
/// before the unit of a number, and inside of what is wider than a line.
#[must_use]
pub fn paragraph(text: &str, indent: usize, width: usize) -> String {
    let room = width.saturating_sub(indent).max(1);
    let mut lines: Vec<String> = Vec::new();
    let words: Vec<&str> = text.split_whitespace().collect();
    for word in glued(&words.join(" ")).split(' ').filter(|word| !word.is_empty()) {
        for piece in broken(&word.replace(BLANK, " "), room) {
            match lines.last_mut() {
                Some(line) if line.width() + 1 + piece.width() <= room => {
                    line.push(' ');
                    line.push_str(&piece);
                }
                _ => lines.push(piece),
            }
        }
    }
    lines.join(&format!("\n{:indent$}", ""))
}

/// A text that takes at most that many columns of a terminal, its middle cut out if need be: names often
/// differ at the end.
#[must_use]
pub fn shortened(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let chars: Vec<char> = text.chars().collect();
    let mut kept = columns.saturating_sub(1).min(chars.len());
    loop {
        let (head, tail) = (&chars[..kept.div_ceil(2)], &chars[chars.len() - kept / 2..]);
        let cut: String = head.iter().chain(&['…']).chain(tail).collect();
        if cut.width() <= columns || kept == 0 {
            return cut;
        }
        kept -= 1;
    }
}

/// Breaks a name that has no blanks to break at: pieces of at most `width`, of which nothing is lost.
pub(super) fn broken(name: &str, width: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for c in name.chars() {
        let own = str::width(c.encode_utf8(&mut [0; 4]));
        match pieces.last_mut() {
            Some(piece) if piece.is_empty() || piece.width() + own <= width => piece.push(c),
            _ => pieces.push(c.to_string()),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_break_between_words() {
        let check = |text: &str, indent, width, expected: &str| {
            assert_eq!(paragraph(text, indent, width), expected);
        };
        check("one two three", 2, 9, "one two\n  three");
        check("one  two\nthree", 0, 100, "one two three");
        check("größe über", 0, 5, "größe\nüber");
        check("abcdefgh", 0, 3, "abc\ndef\ngh");
        check("表表表", 0, 4, "表表\n表");
        check("up by 4.2 %", 0, 9, "up by\n4.2 %");
        check("", 4, 2, "");
    }

    #[test]
    fn long_names_lose_their_middle() {
        let check = |text: &str, columns, expected| {
            assert_eq!(shortened(text, columns), expected, "{text}");
        };
        check("short", 5, "short");
        check("abcdefghij", 5, "ab…ij");
        check("abcdefghij", 1, "…");
        check("日本語日本語", 6, "日…語");
    }

    #[test]
    fn cells_are_as_wide_as_they_look() {
        assert_eq!(aligned("é", 3, true), "  é");
        assert_eq!(aligned("表", 3, false), "表 ");
        assert_eq!(aligned("long", 3, true), "long");
    }

    #[test]
    fn colours_only_where_wanted() {
        let paint = |has_colours| Paint { has_colours };
        assert_eq!(paint(false).bad("x"), "x");
        assert!(paint(true).bad("x").contains("\u{1b}["));
        assert_eq!(paint(true).bad(""), "");
    }
}

//! Words and lines: what every text for people is made of.

use owo_colors::{OwoColorize as _, Style as Colours};
use unicode_width::UnicodeWidthStr as _;

use crate::live::format::grouped;

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint {
    pub(super) has_colours: bool,
}

impl Paint {
    pub(super) fn bold(self, text: &str) -> String {
        self.with(text, Colours::new().bold())
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.with(text, Colours::new().dimmed())
    }

    pub(super) fn good(self, text: &str) -> String {
        self.with(text, Colours::new().green())
    }

    pub(super) fn warning(self, text: &str) -> String {
        self.with(text, Colours::new().yellow().bold())
    }

    pub(super) fn bad(self, text: &str) -> String {
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

/// `1 run`, `2 runs`, `1,000 runs`.
pub(super) fn plural(count: usize, noun: &str) -> String {
    let number = grouped(count as u64);
    if count == 1 { format!("{number} {noun}") } else { format!("{number} {noun}s") }
}

/// Fills `text` up to `width`; numbers stand at the right.
pub(super) fn aligned(text: &str, width: usize, is_number: bool) -> String {
    let fill = " ".repeat(width.saturating_sub(text.width()));
    if is_number { format!("{fill}{text}") } else { format!("{text}{fill}") }
}

/// Breaks `text` between words into lines of at most `width`; a longer word stays whole.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A paragraph of which all lines but the first begin with `indent` blanks.
pub(super) fn paragraph(text: &str, indent: usize, width: usize) -> String {
    let lines = wrapped(text, width.saturating_sub(indent));
    lines.join(&format!("\n{:indent$}", ""))
}

/// Breaks a name that has no blanks to break at: pieces of at most `width`, of which nothing is lost.
pub(super) fn broken(name: &str, width: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for c in name.chars() {
        let mut buffer = [0; 4];
        let own = str::width(c.encode_utf8(&mut buffer));
        match pieces.last_mut() {
            Some(piece) if piece.is_empty() || piece.width() + own <= width => piece.push(c),
            _ => pieces.push(c.to_string()),
        }
    }
    pieces
}

/// A name of at most `width`: its middle is what says least.
pub(super) fn shortened(name: &str, width: usize) -> String {
    if name.width() <= width {
        return name.to_owned();
    }
    let half = width.saturating_sub(1) / 2;
    let head = broken(name, half).swap_remove(0);
    let reversed: String = name.chars().rev().collect();
    let tail: String = broken(&reversed, half).swap_remove(0).chars().rev().collect();
    format!("{head}…{tail}")
}

/// `a, b and 3 more`, of at most `width`.
pub(super) fn listed(names: &[&str], width: usize) -> String {
    let all = names.join(", ");
    let Some((first, others)) = names.split_first() else { return all };
    if all.width() <= width {
        return all;
    }
    let more = |left: usize| match left {
        0 => String::new(),
        _ => format!(" and {} more", grouped(left as u64)),
    };
    let mut left = others.len();
    let mut text = shortened(first, width.saturating_sub(more(left).width()));
    for name in others {
        let next = format!("{text}, {name}");
        if left == 1 || next.width() + more(left - 1).width() > width {
            break;
        }
        (text, left) = (next, left - 1);
    }
    text + &more(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        let check =
            |text: &str, width, expected: &[&str]| assert_eq!(wrapped(text, width), expected);
        check("one two three", 7, &["one two", "three"]);
        check("one  two\nthree", 100, &["one two three"]);
        check("größe über", 5, &["größe", "über"]);
        check("extraordinarily long", 4, &["extraordinarily", "long"]);
        check("", 10, &[]);
        assert_eq!(paragraph("one two three", 2, 9), "one two\n  three");
    }

    #[test]
    fn names_break_anywhere() {
        let check =
            |name: &str, width, expected: &[&str]| assert_eq!(broken(name, width), expected);
        check("abcdef", 4, &["abcd", "ef"]);
        check("abc", 3, &["abc"]);
        check("表表表", 4, &["表表", "表"]);
        check("表", 1, &["表"]);
        check("", 3, &[""]);
    }

    #[test]
    fn long_names_lose_their_middle() {
        let check =
            |name: &str, width, expected: &str| assert_eq!(shortened(name, width), expected);
        check("main", 4, "main");
        check("beginning_end", 7, "beg…end");
        check("beginning_end", 8, "beg…end");
        check("表表表表表", 5, "表…表");
    }

    #[test]
    fn lists_end_in_a_count() {
        let names = ["one", "two", "three"];
        let check =
            |names: &[&str], width, expected: &str| assert_eq!(listed(names, width), expected);
        check(&names, 80, "one, two, three");
        check(&names, 15, "one, two, three");
        check(&["one", "two", "threehundred"], 19, "one, two and 1 more");
        check(&names, 14, "one and 2 more");
        check(&["extraordinary", "two"], 15, "e…y and 1 more");
        check(&["one"], 80, "one");
        check(&[], 80, "");
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

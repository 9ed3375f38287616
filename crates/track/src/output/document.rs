//! What a comment consists of, before it is Markdown or HTML. Reports and comparisons are written so.

/// A piece of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Span {
    Text(String),
    Strong(String),
    /// A name: shown as it is, whatever characters it has.
    Code(String),
    /// Words that lead to an address.
    Link {
        text: String,
        url: String,
    },
}

/// A line, or the content of a cell.
pub(crate) type Line = Vec<Span>;

#[derive(Debug, Clone)]
pub(crate) enum Block {
    Heading(Line),
    Paragraph(Line),
    /// Stands out from the rest.
    Warning(Vec<Line>),
    List(Vec<Line>),
    Table {
        head: Vec<Heading>,
        rows: Vec<Vec<Line>>,
    },
    /// Folded together until somebody wants to see it.
    Details {
        summary: String,
        blocks: Vec<Block>,
    },
}

/// The name of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heading {
    pub(super) name: String,
    /// Whether its cells stand at the right.
    pub(super) is_number: bool,
}

impl Heading {
    pub(crate) fn text(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_number: false }
    }

    pub(crate) fn number(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_number: true }
    }
}

impl Span {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn code(text: impl ToString) -> Self {
        Self::Code(text.to_string())
    }
}

/// A blank at which no line breaks.
pub(super) const BLANK: &str = "\u{a0}";

/// A figure, so that no line breaks inside of it.
pub(crate) fn unbroken(figure: &str) -> String {
    figure.replace(' ', BLANK)
}

/// Symbols that belong to the number before them.
const UNITS: [&str; 11] = ["%", "×", "±", "ps", "ns", "µs", "ms", "s", "KiB", "MiB", "GiB"];

/// Signs that belong to the number behind them.
const SIGNS: [&str; 4] = ["±", "≥", "=", "<"];

/// A sentence, so that no line breaks between a number and what is said with it.
pub(crate) fn glued(sentence: &str) -> String {
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

//! Document model of a comment, before conversion to Markdown or HTML. For reports and comparisons.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Span {
    Text(String),
    Strong(String),
    /// A name, shown verbatim.
    Code(String),
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
    Warning(Vec<Line>),
    List(Vec<Line>),
    Table {
        head: Vec<Heading>,
        rows: Vec<Vec<Line>>,
    },
    /// Collapsed by default.
    Details {
        summary: String,
        blocks: Vec<Block>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heading {
    pub(super) name: String,
    /// Whether its cells are right-aligned.
    pub(super) is_number: bool,
}

impl Heading {
    pub(crate) fn new(name: impl Into<String>, is_number: bool) -> Self {
        Self { name: name.into(), is_number }
    }

    /// Headings of a row. A prefix `=` marks numeric columns.
    pub(crate) fn row(names: &[&str]) -> Vec<Self> {
        let heading = |name: &&str| Self::new(name.trim_start_matches('='), name.starts_with('='));
        names.iter().map(heading).collect()
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

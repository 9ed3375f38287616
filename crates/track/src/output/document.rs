//! What a comment consists of, before it is Markdown or HTML.

/// A piece of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Span {
    Text(String),
    Strong(String),
    /// A name: shown as it is, whatever characters it has.
    Code(String),
}

/// A line, or the content of a cell.
pub(super) type Line = Vec<Span>;

#[derive(Debug, Clone)]
pub(super) enum Block {
    Heading(Line),
    Paragraph(Line),
    /// Stands out from the rest.
    Warning(Vec<Line>),
    Table {
        head: Vec<&'static str>,
        rows: Vec<Vec<Line>>,
    },
    /// Folded together until somebody wants to see it.
    Details {
        summary: String,
        blocks: Vec<Block>,
    },
}

impl Span {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn code(text: impl ToString) -> Self {
        Self::Code(text.to_string())
    }
}

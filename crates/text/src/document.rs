//! The document model of all reports: blocks of lines of spans. [`human`] writes them for a terminal, [`markdown()`] and
//! [`html()`] for comments and pages.

mod html;
mod markdown;

use std::slice;

use crate::{
    lines::{aligned, paragraph, width},
    paint::{Look, Paint, Style},
    table::{Side, Table, rows},
};

pub use self::{
    html::{escaped, write as html},
    markdown::write as markdown,
};

/// Indentation of the further lines of a paragraph, and of indented blocks.
const INDENT: usize = 2;

/// Text with one look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub text: String,
    pub look: Look,
}

impl Span {
    pub fn new(look: Look, text: impl ToString) -> Self {
        Self { text: text.to_string(), look }
    }

    pub fn text(text: impl ToString) -> Self {
        Self::new(Look::Plain, text)
    }

    pub fn strong(text: impl ToString) -> Self {
        Self::new(Look::Strong, text)
    }

    /// A name, shown verbatim.
    pub fn code(text: impl ToString) -> Self {
        Self::new(Look::Code, text)
    }

    pub fn link(text: impl ToString, url: &str) -> Self {
        Self::new(Look::Link(url.to_owned()), text)
    }
}

/// A line, or the content of a cell.
pub type Line = Vec<Span>;

/// A line of plain text.
pub fn line(text: impl ToString) -> Line {
    vec![Span::text(text)]
}

/// A row of plain cells.
pub fn row(cells: impl IntoIterator<Item = impl ToString>) -> Vec<Line> {
    cells.into_iter().map(line).collect()
}

/// A part of a document. One without content is left out.
#[derive(Debug, Clone)]
pub enum Block {
    Heading(Line),
    Paragraph(Line),
    /// Lines that are wrapped one by one, without signs on a terminal.
    List(Vec<Line>),
    /// Each line follows `warning: ` on a terminal.
    Warning(Vec<Line>),
    /// Lines in a column beside their labels.
    Labelled(Vec<(Span, Line)>),
    Table(Table),
    /// A plain list: headings, and rows, which may be short. One with a single cell is a line of its own.
    Rows(Vec<(&'static str, Side)>, Vec<Vec<Line>>),
    /// Lines that are kept as they are.
    Verbatim(Vec<Line>),
    /// Blocks without blank lines between them on a terminal.
    Section(Vec<Block>),
    /// Indented on a terminal, and without blank lines.
    Indented(Vec<Block>),
    /// Collapsed by default on pages.
    Details {
        summary: String,
        blocks: Vec<Block>,
    },
}

impl Block {
    /// A block below a heading, without both if it is empty.
    pub fn under(heading: impl ToString, block: Self) -> Self {
        match block.is_empty() {
            true => block,
            false => Self::Section(vec![Self::Heading(line(heading)), block]),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Heading(line) | Self::Paragraph(line) => line.is_empty(),
            Self::List(lines) | Self::Warning(lines) | Self::Verbatim(lines) => lines.is_empty(),
            Self::Labelled(lines) => lines.is_empty(),
            Self::Table(table) => table.len() == 0,
            Self::Rows(_, rows) => rows.is_empty(),
            Self::Section(blocks) | Self::Indented(blocks) | Self::Details { blocks, .. } => {
                blocks.iter().all(Self::is_empty)
            }
        }
    }
}

/// A list of plain lines.
pub fn list(lines: impl IntoIterator<Item = impl ToString>) -> Block {
    Block::List(lines.into_iter().map(line).collect())
}

/// Writes blocks for a terminal, with blank lines between them. Only [`Block::Verbatim`] may be wider than `style`.
#[must_use]
pub fn human(blocks: &[Block], style: Style) -> String {
    joined(blocks, style, "\n")
}

/// The blocks with content.
fn filled(blocks: &[Block]) -> impl Iterator<Item = &Block> {
    blocks.iter().filter(|block| !block.is_empty())
}

fn joined(blocks: &[Block], style: Style, gap: &str) -> String {
    filled(blocks).map(|block| text(block, style)).collect::<Vec<_>>().join(gap)
}

fn text(block: &Block, style: Style) -> String {
    let paint = style.paint();
    let wrapped = |text: &str| paragraph(text, INDENT, style.width) + "\n";
    let lines = |lines: &[Line]| lines.iter().map(|line| wrapped(&painted(line, paint))).collect();
    match block {
        Block::Heading(line) => wrapped(&paint.bold(&painted(line, paint))),
        Block::Paragraph(line) => lines(slice::from_ref(line)),
        Block::List(all) => lines(all),
        Block::Warning(all) => {
            let label = paint.look(&Look::Warning, "warning");
            all.iter().map(|line| wrapped(&format!("{label}: {}", painted(line, paint)))).collect()
        }
        Block::Labelled(all) => {
            let columns = all.iter().map(|(label, _)| width(&label.text)).max().unwrap_or(0);
            let line = |(label, line): &(Span, Line)| {
                let label = aligned(&paint.look(&label.look, &label.text), columns, false);
                let line = paragraph(&painted(line, paint), columns + INDENT, style.width);
                format!("{label}{:INDENT$}{line}", "").trim_end().to_owned() + "\n"
            };
            all.iter().map(line).collect()
        }
        Block::Table(table) => table.write(style),
        Block::Rows(head, all) => rows(head, all, style.width, paint),
        Block::Verbatim(all) => all.iter().map(|line| painted(line, paint) + "\n").collect(),
        Block::Section(blocks) => joined(blocks, style, ""),
        Block::Indented(blocks) => {
            let width = style.width.saturating_sub(INDENT);
            let text = joined(blocks, Style { width, ..style }, "");
            text.lines().map(|line| format!("{:INDENT$}{line}\n", "")).collect()
        }
        Block::Details { summary, blocks } => {
            text(&Block::Heading(line(summary)), style) + &joined(blocks, style, "\n")
        }
    }
}

/// A line for a terminal.
pub(crate) fn painted(line: &[Span], paint: Paint) -> String {
    line.iter().map(|span| paint.look(&span.look, &span.text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Column;

    fn blocks() -> Vec<Block> {
        let table = Table::new("name", ["a"], vec![Column::numbers("n", vec!["1".to_owned()])]);
        vec![
            Block::Section(vec![
                Block::Heading(line("a heading")),
                Block::Paragraph(vec![Span::text("one two "), Span::code("three")]),
            ]),
            list(Vec::<String>::new()),
            Block::Warning(vec![line("four five")]),
            Block::Labelled(vec![
                (Span::new(Look::Bad, "bad"), line("six seven")),
                (Span::text("label"), line("eight")),
            ]),
            Block::Table(table),
            Block::Section(vec![list(["of it"]), Block::Indented(vec![list(["nine ten eleven"])])]),
        ]
    }

    #[test]
    fn for_a_terminal() {
        let expected = "
a heading
one two
  three

warning:
  four five

bad    six
       seven
label  eight

name  n
a     1

of it
  nine ten
    eleven
";
        let style = Style { width: 13, ..Style::default() };
        assert_eq!(human(&blocks(), style), expected.trim_start_matches('\n'));
    }

    #[test]
    fn colours_change_no_line() {
        let style = |has_colours| Style { has_colours, width: 13, ..Style::default() };
        let coloured = human(&blocks(), style(true));
        let plain: String = coloured
            .split('\u{1b}')
            .enumerate()
            .map(
                |(at, part)| {
                    if at == 0 { part } else { part.split_once('m').map_or("", |it| it.1) }
                },
            )
            .collect();
        assert_ne!(coloured, plain);
        assert_eq!(plain, human(&blocks(), style(false)));
    }
}

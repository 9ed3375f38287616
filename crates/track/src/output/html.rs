//! A document as a fragment of HTML that needs nothing else.

use super::document::{Block, Line, Span};

/// Writes a document.
pub(super) fn write(blocks: &[Block]) -> String {
    blocks.iter().map(block).collect()
}

fn block(block: &Block) -> String {
    match block {
        Block::Heading(spans) => format!("<h3>{}</h3>\n", line(spans)),
        Block::Paragraph(spans) => format!("<p>{}</p>\n", line(spans)),
        Block::Warning(lines) => {
            let lines: String =
                lines.iter().map(|spans| format!("<li>{}</li>", line(spans))).collect();
            format!("<blockquote><strong>Warning</strong><ul>{lines}</ul></blockquote>\n")
        }
        Block::Table { head, rows } => {
            let head: String =
                head.iter().map(|name| format!("<th>{}</th>", escaped(name))).collect();
            let rows: String = rows.iter().map(|cells| row(cells)).collect();
            format!("<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n")
        }
        Block::Details { summary, blocks } => {
            let (summary, inside) = (escaped(summary), write(blocks));
            format!("<details><summary>{summary}</summary>\n{inside}</details>\n")
        }
    }
}

fn row(cells: &[Line]) -> String {
    let cells: String = cells.iter().map(|cell| format!("<td>{}</td>", line(cell))).collect();
    format!("<tr>{cells}</tr>\n")
}

fn line(spans: &Line) -> String {
    let span = |span: &Span| match span {
        Span::Text(text) => escaped(text),
        Span::Strong(text) => format!("<strong>{}</strong>", escaped(text)),
        Span::Code(text) => format!("<code>{}</code>", escaped(text)),
    };
    spans.iter().map(span).collect()
}

/// Text that is no markup, inside of elements and of attributes.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            _ => escaped.push(c),
        }
    }
    escaped
}

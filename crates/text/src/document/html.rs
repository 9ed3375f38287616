//! Converts a document to a self-contained fragment of HTML.

use std::slice;

use super::{Block, Line, Span, filled, human};
use crate::{
    lines::in_order,
    paint::{Look, Style},
};

/// Writes blocks as a self-contained fragment of HTML.
#[must_use]
pub fn write(blocks: &[Block]) -> String {
    filled(blocks).map(block).collect()
}

fn block(block: &Block) -> String {
    match block {
        Block::Heading(spans) => format!("<h3>{}</h3>\n", line(spans)),
        Block::Paragraph(spans) => format!("<p>{}</p>\n", line(spans)),
        Block::Warning(lines) => {
            format!("<blockquote><strong>Warning</strong>{}</blockquote>\n", list(lines))
        }
        Block::List(lines) => list(lines) + "\n",
        Block::Table(table) => {
            let row = |tag: &str, cells: Vec<Line>| -> String {
                let cells = table.columns().zip(cells);
                cells.map(|(column, spans)| cell(tag, column.is_number, &line(&spans))).collect()
            };
            let head = row("th", table.head());
            let rows = table.rows().map(|cells| format!("<tr>{}</tr>\n", row("td", cells)));
            let rows: String = rows.collect();
            format!("<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n")
        }
        Block::Section(blocks) | Block::Indented(blocks) => write(blocks),
        Block::Details { summary, blocks } => {
            let (summary, inside) = (escaped(summary), write(blocks));
            format!("<details><summary>{summary}</summary>\n{inside}</details>\n")
        }
        // Shown as on a terminal.
        Block::Labelled(_) | Block::Rows(..) | Block::Verbatim(_) => {
            format!(
                "<pre>{}</pre>\n",
                human(slice::from_ref(block), Style::default())
                    .lines()
                    .map(escaped)
                    .collect::<Vec<_>>()
                    .join("\n")
            )
        }
    }
}

fn list(lines: &[Line]) -> String {
    let items: String = lines.iter().map(|spans| format!("<li>{}</li>", line(spans))).collect();
    format!("<ul>{items}</ul>")
}

/// Uses an attribute rather than a style: styles are stripped from comments.
fn cell(tag: &str, is_number: bool, text: &str) -> String {
    let align = if is_number { " align=\"right\"" } else { "" };
    format!("<{tag}{align}>{text}</{tag}>")
}

fn line(spans: &[Span]) -> String {
    elements(spans, escaped, str::to_owned)
}

/// Spans as elements. All texts are escaped, and what is not code goes through `shown`.
pub(super) fn elements(
    spans: &[Span],
    escaped: fn(&str) -> String,
    shown: fn(&str) -> String,
) -> String {
    let span = |Span { text, look }: &Span| {
        let text = escaped(text);
        match look {
            Look::Strong => format!("<strong>{}</strong>", shown(&text)),
            Look::Code => format!("<code>{text}</code>"),
            Look::Link(url) => link(&shown(&text), url),
            _ => shown(&text),
        }
    };
    spans.iter().map(span).collect()
}

/// A link around this markup. Anything but a web address is not linked, since it may come from anywhere.
fn link(inside: &str, url: &str) -> String {
    match url.starts_with("https://") || url.starts_with("http://") {
        true => format!("<a href=\"{}\">{inside}</a>", escaped(url)),
        false => inside.to_owned(),
    }
}

/// Escapes text for elements and attributes of HTML and XML. Invalid characters are replaced.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in in_order(text).chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            '\t' | '\n' | '\r' => escaped.push(' '),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xml_holds_any_text() {
        let check = |text, expected| assert_eq!(escaped(text), expected);
        check("a<b> & \"c\" 'd'", "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
        check("\u{1}\u{ffff}\n", "\u{fffd}\u{fffd} ");
        check("a\u{202e}b", "a\\u202eb");
    }
}

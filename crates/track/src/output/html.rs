//! Converts a document to a self-contained fragment of HTML.

use wingbeat_text::in_order;

use super::document::{Block, Heading, Line, Span};
use crate::model::Report;

pub(crate) fn write(blocks: &[Block]) -> String {
    blocks.iter().map(block).collect()
}

fn block(block: &Block) -> String {
    match block {
        Block::Heading(spans) => format!("<h3>{}</h3>\n", line(spans)),
        Block::Paragraph(spans) => format!("<p>{}</p>\n", line(spans)),
        Block::Warning(lines) => {
            format!("<blockquote><strong>Warning</strong>{}</blockquote>\n", list(lines))
        }
        Block::List(lines) => list(lines) + "\n",
        Block::Table { head, rows } => {
            let rows: String = rows.iter().map(|cells| row(head, cells)).collect();
            let head: String =
                head.iter().map(|heading| cell("th", heading, &escaped(&heading.name))).collect();
            format!("<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n")
        }
        Block::Details { summary, blocks } => {
            let (summary, inside) = (escaped(summary), write(blocks));
            format!("<details><summary>{summary}</summary>\n{inside}</details>\n")
        }
    }
}

fn list(lines: &[Line]) -> String {
    let items: String = lines.iter().map(|spans| format!("<li>{}</li>", line(spans))).collect();
    format!("<ul>{items}</ul>")
}

fn row(head: &[Heading], cells: &[Line]) -> String {
    let cells: String =
        head.iter().zip(cells).map(|(heading, spans)| cell("td", heading, &line(spans))).collect();
    format!("<tr>{cells}</tr>\n")
}

/// Uses an attribute rather than a style: styles are stripped from comments.
fn cell(tag: &str, heading: &Heading, text: &str) -> String {
    let align = if heading.is_number { " align=\"right\"" } else { "" };
    format!("<{tag}{align}>{text}</{tag}>")
}

fn line(spans: &Line) -> String {
    let span = |span: &Span| match span {
        Span::Text(text) => escaped(text),
        Span::Strong(text) => format!("<strong>{}</strong>", escaped(text)),
        Span::Code(text) => format!("<code>{}</code>", escaped(text)),
        Span::Link { text, url } => link(&escaped(text), url),
    };
    spans.iter().map(span).collect()
}

/// A link around this markup. Anything but a web address is not linked, since it may come from anywhere.
pub(super) fn link(inside: &str, url: &str) -> String {
    match url.starts_with("https://") || url.starts_with("http://") {
        true => format!("<a href=\"{}\">{inside}</a>", escaped(url)),
        false => inside.to_owned(),
    }
}

/// Escapes text for elements and attributes of HTML and XML. Invalid characters are replaced.
pub(crate) fn escaped(text: &str) -> String {
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

/// The hidden element that identifies a comment. `id` replaces branch, testbed and adapter if given (`--ci-id`).
pub fn marker(report: &Report, id: Option<&str>) -> String {
    let project = whole(report.project.as_str());
    let rest = match id {
        Some(id) => format!("id/{}", whole(id)),
        None => {
            let testbed = whole(report.testbed.as_str());
            format!("{}/{testbed}/{}", report.branch, report.adapter)
        }
    };
    format!("<div id=\"{}\"></div>", escaped(&format!("wingbeat/{project}/{rest}")))
}

/// Percent-encodes slashes, so that different names never give the same path. Branches keep theirs: they are between
/// parts without any.
fn whole(part: &str) -> String {
    part.replace('%', "%25").replace('/', "%2F")
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

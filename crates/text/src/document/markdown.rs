//! Converts a document to GitHub's and GitLab's Markdown. No text of a benchmark becomes markup, a mention or a
//! reference.

use std::slice;

use super::{Block, Line, Span, filled, html};
use crate::{lines::in_order, table::Column};

/// Writes blocks as GitHub's and GitLab's Markdown.
#[must_use]
pub fn write(blocks: &[Block]) -> String {
    filled(blocks).map(block).collect::<Vec<_>>().join("\n")
}

fn block(block: &Block) -> String {
    match block {
        Block::Heading(spans) => format!("### {}\n", line(spans)),
        Block::Paragraph(spans) => format!("{}\n", line(spans)),
        Block::Warning(lines) => format!("> [!WARNING]\n{}", list("> - ", lines)),
        Block::List(lines) => list("- ", lines),
        Block::Table(table) => {
            let row = |cells: Vec<Line>| -> String {
                cells.iter().map(|cell| format!("| {} ", line(cell))).collect::<String>() + "|\n"
            };
            let rule = |column: &Column| if column.is_number { "| ---: " } else { "| --- " };
            let rules = table.columns().map(rule).collect::<String>() + "|\n";
            [row(table.head()), rules].into_iter().chain(table.rows().map(row)).collect()
        }
        Block::Section(blocks) | Block::Indented(blocks) => write(blocks),
        Block::Details { summary, blocks } => {
            let summary = html::escaped(summary);
            let inside = write(blocks);
            format!("<details><summary>{summary}</summary>\n\n{inside}\n</details>\n")
        }
        Block::Labelled(_) | Block::Rows(..) | Block::Verbatim(_) => {
            html::write(slice::from_ref(block))
        }
    }
}

fn list(sign: &str, lines: &[Line]) -> String {
    lines.iter().map(|spans| format!("{sign}{}\n", line(spans))).collect()
}

/// Elements of HTML: backticks cannot contain a bar in a table, nor backticks, and an address may contain characters that
/// end a Markdown link.
fn line(spans: &[Span]) -> String {
    html::elements(spans, escaped, unreferring)
}

/// Replaces Markdown's special characters by entities, which have no special meaning.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in in_order(text).chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' | '!' | '#' | '@' | '"' => {
                escaped += &format!("&#{};", u32::from(c));
            }
            _ if c.is_control() => escaped.push(' '),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// GitHub looks for `@names` and `#1` outside of markup. A zero-width space prevents that.
fn unreferring(escaped: &str) -> String {
    escaped.replace("&#64;", "&#64;&#8203;").replace("&#35;", "&#35;&#8203;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        let check = |span: Span, expected: &str| assert_eq!(line(&[span]), expected);
        check(Span::text("a < b & c"), "a &lt; b &amp; c");
        check(Span::text("a\n| b"), "a &#124; b");
        check(Span::code("a\u{202e}b"), "<code>a&#92;u202eb</code>");
        check(Span::text("ping @all #1"), "ping &#64;&#8203;all &#35;&#8203;1");
        check(Span::code("a|b`c*d_e"), "<code>a&#124;b&#96;c&#42;d&#95;e</code>");
        check(Span::code("</code><b>"), "<code>&lt;/code&gt;&lt;b&gt;</code>");
        check(Span::text("[x](y) ![z] $1$"), "&#91;x&#93;(y) &#33;&#91;z&#93; &#36;1&#36;");
        check(Span::strong("a*"), "<strong>a&#42;</strong>");
        let link = |url: &str| Span::link("a_b", url);
        check(link("https://x/?a=1&b=\")"), "<a href=\"https://x/?a=1&amp;b=&quot;)\">a&#95;b</a>");
        check(link("javascript:alert(1)"), "a&#95;b");
    }
}

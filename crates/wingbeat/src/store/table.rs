//! Tables in text: columns as wide as their widest cell.

use owo_colors::OwoColorize as _;
use unicode_width::UnicodeWidthStr as _;

/// At which side of its column a cell stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// A table with a head, as text. A column that is empty in all rows is left out; so is the space after the
/// last cell of a row.
pub(crate) fn table(head: &[(&str, Side)], rows: &[Vec<String>]) -> String {
    let is_used = |at: &usize| rows.iter().any(|row| !row[*at].is_empty());
    let used: Vec<usize> = (0..head.len()).filter(is_used).collect();
    let widths: Vec<usize> = used
        .iter()
        .map(|&at| rows.iter().map(|row| width(&row[at])).fold(head[at].0.width(), usize::max))
        .collect();
    let line = |cell: &dyn Fn(usize) -> String| {
        let mut line = String::new();
        for (&at, &wide) in used.iter().zip(&widths) {
            let cell = cell(at);
            let fill = " ".repeat(wide - width(&cell));
            if !line.is_empty() {
                line.push_str("  ");
            }
            match head[at].1 {
                Side::Left => line.extend([&*cell, &*fill]),
                Side::Right => line.extend([&*fill, &*cell]),
            }
        }
        line.truncate(line.trim_end().len());
        line
    };
    let mut text = format!("{}\n", line(&|at| head[at].0.to_owned()).dimmed());
    for row in rows {
        text.push_str(&line(&|at| row[at].clone()));
        text.push('\n');
    }
    text
}

/// Columns of a text that may hold escape sequences for colours.
fn width(text: &str) -> usize {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().map_or(0, |part| part.width());
    first
        + parts.map(|part| part.split_once('m').map_or(0, |(_, rest)| rest.width())).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let head = [("name", Side::Left), ("never", Side::Left), ("n", Side::Right)];
        let row =
            |name: &str, number: &str| vec![name.to_owned(), String::new(), number.to_owned()];
        let red = "1".red().to_string();
        let text = table(&head, &[row("a", &red), row("longer", "100")]);
        let rows: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(rows, [format!("a         {red}"), "longer  100".to_owned()]);
    }
}

//! Tables in text: columns as wide as their widest cell.

use owo_colors::OwoColorize as _;
use unicode_width::UnicodeWidthStr as _;
use wingbeat_track::output::paragraph;

/// At which side of its column a cell stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// What stands below a row is indented by this.
const INDENT: usize = 4;

/// A table with a head, as text. A column that is empty in all rows is left out; so is the space after the
/// last cell of a row. Where lines would be wider than `room`, the last column stands below the others.
pub(crate) fn table(head: &[(&str, Side)], rows: &[Vec<String>], room: usize) -> String {
    let is_used = |at: &usize| rows.iter().any(|row| !row[*at].is_empty());
    let mut used: Vec<usize> = (0..head.len()).filter(is_used).collect();
    let needed = |at: &usize| {
        rows.iter().map(|row| width(&row[*at])).fold(head[*at].0.width(), usize::max) + 2
    };
    let is_wide = used.iter().map(needed).sum::<usize>() > room.saturating_add(2);
    let below = used.pop_if(|at| is_wide && *at + 1 == head.len());
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
        if let Some(cell) = below.map(|at| &row[at]).filter(|cell| !cell.is_empty()) {
            text.push_str(&format!("{:INDENT$}{}\n", "", paragraph(cell, INDENT, room)));
        }
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
        let text = table(&head, &[row("a", &red), row("longer", "100")], 80);
        let rows: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(rows, [format!("a         {red}"), "longer  100".to_owned()]);
    }

    #[test]
    fn a_long_last_column_stands_below() {
        let head = [("name", Side::Left), ("notes", Side::Left)];
        let rows =
            [["a", "kernel 6.12 → 6.18"], ["b", ""]].map(|row| row.map(str::to_owned).into());
        let check = |room, expected: &[&str]| {
            let text = table(&head, &rows, room);
            assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), expected, "{room}");
        };
        check(usize::MAX, &["a     kernel 6.12 → 6.18", "b"]);
        check(24, &["a     kernel 6.12 → 6.18", "b"]);
        check(16, &["a", "    kernel 6.12", "    → 6.18", "b"]);
    }
}

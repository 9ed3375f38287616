//! Columns, for terminals and for Markdown.

use owo_colors::OwoColorize as _;
use unicode_width::UnicodeWidthStr as _;

/// Where the cells of a column stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// A table with a line of names.
#[derive(Debug)]
pub(super) struct Table {
    head: Vec<String>,
    align: Vec<Align>,
    /// Cells, and whether the row is to stand out.
    rows: Vec<(Vec<String>, bool)>,
}

impl Table {
    pub(super) fn new(head: &[&str], align: &[Align]) -> Self {
        let head = head.iter().map(|&name| name.to_owned()).collect();
        Self { head, align: align.to_vec(), rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: Vec<String>, stands_out: bool) {
        self.rows.push((cells, stands_out));
    }

    /// Columns of spaces.
    pub(super) fn plain(&self, has_colours: bool) -> String {
        let width_of = |at: usize| {
            let cells = self.rows.iter().map(|(cells, _)| &cells[at]);
            cells.chain([&self.head[at]]).map(|cell| cell.width()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width_of).collect();
        let line = |cells: &[String]| {
            let aligned =
                cells.iter().zip(&widths).zip(&self.align).map(|((cell, width), align)| {
                    let fill = " ".repeat(width - cell.width());
                    match align {
                        Align::Left => format!("{cell}{fill}"),
                        Align::Right => format!("{fill}{cell}"),
                    }
                });
            aligned.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let head = line(&self.head);
        let head = if has_colours { head.dimmed().to_string() } else { head };
        let mut text = format!("{head}\n");
        for (cells, stands_out) in &self.rows {
            let row = line(cells);
            let row = if has_colours && *stands_out { row.red().to_string() } else { row };
            text.push_str(&row);
            text.push('\n');
        }
        text
    }

    /// With bars.
    pub(super) fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| escaped(cell)).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rules = self.align.iter().map(|align| match align {
            Align::Left => "---",
            Align::Right => "---:",
        });
        let mut text = line(&self.head);
        text.push_str(&format!("| {} |\n", rules.collect::<Vec<_>>().join(" | ")));
        for (cells, _) in &self.rows {
            text.push_str(&line(cells));
        }
        text
    }
}

/// Names of benchmarks may hold anything; in a comment they must not become anything else.
fn escaped(cell: &str) -> String {
    let mut text = String::with_capacity(cell.len());
    for c in cell.chars() {
        match c {
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' | '~' | '@' => text.extend(['\\', c]),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '&' => text.push_str("&amp;"),
            _ => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["name", "n"], &[Align::Left, Align::Right]);
        table.row(vec!["größer".to_owned(), "1".to_owned()], false);
        table.row(vec!["a|<b>".to_owned(), "100".to_owned()], true);
        table
    }

    #[test]
    fn columns_are_aligned() {
        assert_eq!(table().plain(false), "name      n\ngrößer    1\na|<b>   100\n");
        assert!(table().plain(true).contains("\u{1b}["));
    }

    #[test]
    fn names_stay_names_in_markdown() {
        let expected = "| name | n |\n| --- | ---: |\n| größer | 1 |\n| a\\|&lt;b&gt; | 100 |\n";
        assert_eq!(table().markdown(), expected);
    }
}

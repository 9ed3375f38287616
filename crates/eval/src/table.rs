//! Tables as Markdown: each column a heading and how its cells are made.

use xtask::marked;

use crate::numbers::Spread;

/// What stands where there is no figure.
pub(crate) const NONE: &str = "–";

/// A column: its heading, and what it shows of a row.
pub(crate) type Column<'a, T> = (&'static str, Box<dyn Fn(&T) -> String + 'a>);

pub(crate) fn column<'a, T, S: ToString>(
    head: &'static str,
    cell: impl Fn(&T) -> S + 'a,
) -> Column<'a, T> {
    (head, Box::new(move |row| cell(row).to_string()))
}

/// Rows in columns that also read well on a terminal. Nothing without rows.
pub(crate) fn table<T>(rows: impl IntoIterator<Item = T>, columns: &[Column<'_, T>]) -> String {
    marked::aligned(&cells(rows, columns))
}

/// Without blanks that make columns, which are the larger part of a long table with a wide column.
pub(crate) fn compact<T>(rows: impl IntoIterator<Item = T>, columns: &[Column<'_, T>]) -> String {
    marked::compact(&cells(rows, columns))
}

fn cells<T>(rows: impl IntoIterator<Item = T>, columns: &[Column<'_, T>]) -> Vec<Vec<String>> {
    // A bar would end the cell, even within code.
    let row = |row: T| columns.iter().map(|(_, cell)| cell(&row).replace('|', r"\|")).collect();
    let head = columns.iter().map(|(head, _)| (*head).to_owned()).collect();
    let rows: Vec<_> = rows.into_iter().map(row).collect();
    if rows.is_empty() { rows } else { [vec![head], rows].concat() }
}

/// A spread, if there is one.
pub(crate) fn show(spread: Option<Spread>, factor: f64, places: usize, unit: &str) -> String {
    spread.map_or_else(|| NONE.to_owned(), |spread| spread.show(factor, places, unit))
}

/// The parts that are not empty, with a blank line between them.
pub(crate) fn joined(mut parts: Vec<String>) -> String {
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// The cells of each row, without the heading.
#[cfg(test)]
pub(crate) fn cells_of(table: &str) -> Vec<Vec<String>> {
    let row =
        |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    table.lines().skip(2).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_follow_the_columns() {
        type Row = (&'static str, u32);
        let columns = [column("a", |row: &Row| row.0), column("b", |row: &Row| row.1)];
        let text = table([("x|", 22)], &columns);
        assert_eq!(text, "| a   | b   |\n| --- | --- |\n| x\\| | 22  |\n");
        assert_eq!(cells_of(&compact([("long cell", 1)], &columns)), [["long cell", "1"]]);
        assert_eq!(table([], &columns), "");
    }
}

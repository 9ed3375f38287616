//! Tables as Markdown: each column a heading and how its cells are made.

use crate::numbers::Spread;

/// What stands where there is no figure.
pub(crate) const NONE: &str = "–";

/// A column: its heading, and what it shows of a row.
pub(crate) type Column<'a, T> = (&'static str, Box<dyn Fn(&T) -> String + 'a>);

/// A column.
pub(crate) fn column<'a, T, S: ToString>(
    head: &'static str,
    cell: impl Fn(&T) -> S + 'a,
) -> Column<'a, T> {
    (head, Box::new(move |row| cell(row).to_string()))
}

/// Rows in columns that also read well on a terminal. Nothing without rows.
pub(crate) fn table<T>(rows: impl IntoIterator<Item = T>, columns: &[Column<'_, T>]) -> String {
    let (head, rows) = cells(rows, columns);
    let widest = |column: usize| {
        let longest = rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        longest.max(head[column].chars().count())
    };
    let widths: Vec<usize> = (0..head.len()).map(widest).collect();
    lines(&head, &rows, &widths)
}

/// Without blanks that make columns, which are the larger part of a long table with a wide column.
pub(crate) fn compact<T>(rows: impl IntoIterator<Item = T>, columns: &[Column<'_, T>]) -> String {
    let (head, rows) = cells(rows, columns);
    lines(&head, &rows, &vec![3; head.len()])
}

fn cells<T>(
    rows: impl IntoIterator<Item = T>,
    columns: &[Column<'_, T>],
) -> (Vec<String>, Vec<Vec<String>>) {
    // A bar would end the cell, even within code.
    let row = |row: T| columns.iter().map(|(_, cell)| cell(&row).replace('|', r"\|")).collect();
    (
        columns.iter().map(|(head, _)| (*head).to_owned()).collect(),
        rows.into_iter().map(row).collect(),
    )
}

fn lines(head: &[String], rows: &[Vec<String>], widths: &[usize]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(widths).map(|(cell, &width)| format!(" {cell:<width$} |"));
        format!("|{}\n", padded.collect::<String>())
    };
    let rule: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
    [line(head), line(&rule)].into_iter().chain(rows.iter().map(|row| line(row))).collect()
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
    fn tables_are_aligned_markdown() {
        let columns: [Column<'_, (&str, u32)>; 2] =
            [column("a", |row: &(&str, u32)| row.0), column("bb", |row: &(&str, u32)| row.1)];
        let text = table([("µµµ", 1), ("x|", 22)], &columns);
        assert_eq!(text, "| a   | bb |\n| --- | -- |\n| µµµ | 1  |\n| x\\| | 22 |\n");
        assert_eq!(table([], &columns), "");
        assert_eq!(
            compact([("long cell", 1)], &columns),
            "| a   | bb  |\n| --- | --- |\n| long cell | 1   |\n"
        );
    }
}

//! Tables of docs/kernels.md: one column per kernel, parsed and written back, so that a run replaces its own columns
//! only.

use std::slice;

use xtask::marked::aligned;

use super::kernel::numbers;

/// A table whose first column has row names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Table {
    /// Heading of the first column.
    pub(super) heading: String,
    columns: Vec<String>,
    /// Name, and a cell for each column.
    rows: Vec<(String, Vec<String>)>,
}

impl Table {
    pub(super) fn new(heading: &str) -> Self {
        Self { heading: heading.to_owned(), ..Self::default() }
    }

    /// Parses the table in a Markdown text, ignoring the rest.
    pub(super) fn parse(text: &str) -> Self {
        let mut lines = text.lines().filter_map(cells);
        let Some(head) = lines.next() else { return Self::default() };
        let mut table = Self { columns: head[1..].to_vec(), ..Self::new(&head[0]) };
        for row in lines.filter(|row| !row[0].starts_with("---")) {
            let mut values = row[1..].to_vec();
            values.resize(table.columns.len(), String::new());
            table.rows.push((row[0].clone(), values));
        }
        table
    }

    /// The cell in a row and column; none if empty.
    pub(super) fn cell(&self, row: &str, column: &str) -> Option<&str> {
        let at = self.columns.iter().position(|name| name == column)?;
        let (_, values) = self.rows.iter().find(|(name, _)| name == row)?;
        values.get(at).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(super) fn row_names(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|(name, _)| name.as_str())
    }

    /// Replaces or adds a column. Its missing rows stay empty; rows that are empty in all columns are removed.
    pub(super) fn set_column(&mut self, column: &str, cells: &[(String, String)]) {
        let at = self.columns.iter().position(|name| name == column).unwrap_or_else(|| {
            self.columns.push(column.to_owned());
            self.rows.iter_mut().for_each(|(_, values)| values.push(String::new()));
            self.columns.len() - 1
        });
        self.rows.iter_mut().for_each(|(_, values)| values[at].clear());
        for (name, value) in cells {
            let found = self.rows.iter_mut().find(|(row, _)| row == name);
            match found {
                Some((_, values)) => values[at].clone_from(value),
                None => {
                    let mut values = vec![String::new(); self.columns.len()];
                    values[at].clone_from(value);
                    self.rows.push((name.clone(), values));
                }
            }
        }
        self.rows.retain(|(_, values)| values.iter().any(|value| !value.is_empty()));
        self.sort();
    }

    /// Sorts columns by the numbers in their names: 6.1 before 6.12.
    fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.columns.len()).collect();
        order.sort_by_key(|&at| numbers(&self.columns[at]));
        self.columns = order.iter().map(|&at| self.columns[at].clone()).collect();
        for (_, values) in &mut self.rows {
            *values = order.iter().map(|&at| values[at].clone()).collect();
        }
    }

    /// As Markdown with aligned columns.
    pub(super) fn to_markdown(&self) -> String {
        let head = [&self.heading].into_iter().chain(&self.columns).cloned().collect();
        let rows = self.rows.iter().map(|(name, values)| [slice::from_ref(name), values].concat());
        aligned(&[head].into_iter().chain(rows).collect::<Vec<_>>())
    }
}

/// The cells of a line, if it is part of a table.
fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(|cell| cell.trim().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(cells: &[(&str, &str)]) -> Vec<(String, String)> {
        cells.iter().map(|&(row, cell)| (row.to_owned(), cell.to_owned())).collect()
    }

    #[test]
    fn a_column_is_replaced_and_others_stay() {
        let mut table = Table::new("what");
        table.set_column("6.12", &column(&[("a", "1"), ("b", "2")]));
        table.set_column("6.1", &column(&[("a", "3"), ("c", "4")]));
        let text = "\
| what | 6.1 | 6.12 |
| ---- | --- | ---- |
| a    | 3   | 1    |
| b    |     | 2    |
| c    | 4   |      |
";
        assert_eq!(table.to_markdown(), text);
        assert_eq!(Table::parse(&format!("Words.\n\n{text}\nMore.")), table);
        let check = |row, column, expected| assert_eq!(table.cell(row, column), expected);
        check("a", "6.12", Some("1"));
        check("b", "6.1", None);
        check("d", "6.1", None);
        check("a", "7.0", None);
        table.set_column("6.12", &column(&[("a", "5")]));
        assert_eq!(table.row_names().collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(table.cell("a", "6.12"), Some("5"));
    }

    #[test]
    fn no_table_is_an_empty_one() {
        assert_eq!(Table::parse(""), Table::default());
        assert_eq!(Table::parse("just words"), Table::default());
    }
}

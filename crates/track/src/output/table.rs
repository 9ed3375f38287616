//! Lays rows out within the width of a terminal: figures beside the name, below it if there is no room,
//! or as a paragraph if there is hardly any. Only columns that may give way are left out.

use unicode_width::UnicodeWidthStr as _;

use super::text::{Paint, aligned, broken, paragraph};

/// Blanks between columns.
const GAP: usize = 2;

/// Names of this length or less are to have room beside the figures.
const NAMES_MIN: usize = 24;

/// What a row is indented by below its name.
const INDENT: usize = 2;

/// What a column gives way to, in the order in which columns go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivesWay {
    /// To names, before others.
    First,
    Second,
    /// To the other columns, where they would else not stand in columns.
    Last,
    Never,
}

/// A column of cells, one per row.
#[derive(Debug, Clone)]
pub struct Column {
    pub heading: String,
    /// Whether cells stand at the right.
    pub is_number: bool,
    /// Whether and when it is left out.
    pub gives_way: GivesWay,
    /// One for each row. A column whose cells are all empty is left out.
    pub cells: Vec<String>,
}

impl Column {
    fn width(&self) -> usize {
        self.cells.iter().map(|cell| cell.width()).max().unwrap_or(0).max(self.heading.width())
    }
}

/// Rows with names.
#[derive(Debug)]
pub struct Table {
    pub names_heading: &'static str,
    /// One for each row. They are never cut.
    pub names: Vec<String>,
    pub columns: Vec<Column>,
}

/// The lines of a table, for each row its own.
#[derive(Debug)]
struct Layout {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Its text, no line wider than `width` columns of a terminal. `painted` colours a line of the row at that place.
    #[must_use]
    pub fn write(
        self,
        width: usize,
        paint: Paint,
        painted: &dyn Fn(usize, &str) -> String,
    ) -> String {
        let layout = self.lay_out(width);
        let heading = layout.heading.iter().map(|line| paint.bold(line));
        let rows = layout.rows.iter().enumerate();
        let rows = rows.flat_map(|(at, lines)| lines.iter().map(move |line| painted(at, line)));
        heading.chain(rows).map(|line| line + "\n").collect()
    }

    /// Its lines, none wider than `width`.
    fn lay_out(mut self, width: usize) -> Layout {
        self.columns.retain(|column| column.cells.iter().any(|cell| !cell.is_empty()));
        let longest = self.names.iter().map(|name| name.width()).max().unwrap_or(0);
        let names = longest.min(NAMES_MIN).max(self.names_heading.width());
        let mut kept = self.columns.clone();
        for (gives_way, room) in
            [(GivesWay::First, names), (GivesWay::Second, names), (GivesWay::Last, INDENT)]
        {
            if figures(&kept) + room > width {
                kept.retain(|column| column.gives_way != gives_way);
            }
        }
        // Paragraphs have room for everything.
        if figures(&kept) + INDENT <= width {
            self.columns = kept;
        }
        let widths: Vec<usize> = self.columns.iter().map(Column::width).collect();
        let figures = figures(&self.columns);
        if figures + INDENT <= width {
            self.in_columns(&widths, width - figures, width)
        } else {
            self.as_paragraphs(width)
        }
    }

    fn in_columns(&self, widths: &[usize], room: usize, width: usize) -> Layout {
        let fitting = self.names.iter().map(|name| name.width()).filter(|name| *name <= room);
        let names = fitting.chain([self.names_heading.width().min(room)]).max().unwrap_or(0);
        let line = |name: &str, cell: &dyn Fn(&Column) -> String| {
            let mut line = aligned(name, names, false);
            for (column, width) in self.columns.iter().zip(widths) {
                line += &" ".repeat(GAP);
                line += &aligned(&cell(column), *width, column.is_number);
            }
            line.trim_end().to_owned()
        };
        let row = |(index, name): (usize, &String)| {
            let cell = |column: &Column| column.cells.get(index).cloned().unwrap_or_default();
            if name.width() <= names {
                return vec![line(name, &cell)];
            }
            let mut lines = broken(name, width);
            lines.push(line("", &cell));
            lines
        };
        let headings = |column: &Column| column.heading.clone();
        let heading = match self.names_heading.width() <= names {
            true => vec![line(self.names_heading, &headings)],
            false => vec![self.names_heading.to_owned(), line("", &headings)],
        };
        Layout { heading, rows: self.names.iter().enumerate().map(row).collect() }
    }

    /// For widths that no table fits in.
    fn as_paragraphs(&self, width: usize) -> Layout {
        let row = |(index, name): (usize, &String)| {
            let cells =
                self.columns.iter().map(|column| (&column.heading, column.cells.get(index)));
            let cells = cells.filter_map(|(heading, cell)| {
                cell.filter(|cell| !cell.is_empty()).map(|cell| format!("{heading} {cell}"))
            });
            let text = cells.collect::<Vec<_>>().join(", ");
            let text = format!("{:INDENT$}{}", "", paragraph(&text, INDENT, width));
            let mut lines = broken(name, width.max(1));
            lines.extend(text.lines().map(str::to_owned));
            lines
        };
        let rows = self.names.iter().enumerate().map(row).collect();
        Layout { heading: Vec::new(), rows }
    }
}

/// What columns need, with the gaps before them.
fn figures(columns: &[Column]) -> usize {
    columns.iter().map(|column| column.width() + GAP).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let column = |heading, is_number, cells: [&str; 2]| Column {
            heading: str::to_owned(heading),
            is_number,
            gives_way: match heading {
                "interval" => GivesWay::First,
                "baseline" => GivesWay::Last,
                _ => GivesWay::Never,
            },
            cells: cells.map(str::to_owned).into(),
        };
        Table {
            names_heading: "benchmark",
            names: vec!["a".to_owned(), "a_rather_long_name".to_owned()],
            columns: vec![
                column("value", true, ["1.5 ns", "12.5 ns"]),
                column("never", false, ["", ""]),
                column("baseline", true, ["1 ns", ""]),
                column("interval", false, ["+1 to +2", ""]),
                column("verdict", false, ["worse", ""]),
            ],
        }
    }

    #[track_caller]
    fn check(width: usize, expected: &str) {
        let layout = table().lay_out(width);
        let lines: Vec<_> = layout.heading.iter().chain(layout.rows.iter().flatten()).collect();
        for line in &lines {
            assert!(line.width() <= width, "{line:?} is wider than {width}");
        }
        let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        assert_eq!(text, expected.trim_start_matches('\n'));
    }

    #[test]
    fn beside_the_name_if_there_is_room() {
        check(
            60,
            "
benchmark             value  baseline  interval  verdict
a                    1.5 ns      1 ns  +1 to +2  worse
a_rather_long_name  12.5 ns
",
        );
    }

    #[test]
    fn without_what_gives_way() {
        check(
            48,
            "
benchmark             value  baseline  verdict
a                    1.5 ns      1 ns  worse
a_rather_long_name  12.5 ns
",
        );
    }

    #[test]
    fn below_a_long_name() {
        check(
            40,
            "
benchmark    value  baseline  verdict
a           1.5 ns      1 ns  worse
a_rather_long_name
           12.5 ns
",
        );
    }

    #[test]
    fn below_any_name() {
        check(
            20,
            "
benchmark
      value  verdict
a    1.5 ns  worse
a_rather_long_name
    12.5 ns
",
        );
    }

    #[test]
    fn paragraphs_where_it_is_narrow() {
        check(
            15,
            "
a
  value 1.5 ns,
  baseline
  1 ns,
  interval +1
  to +2,
  verdict worse
a_rather_long_n
ame
  value 12.5 ns
",
        );
    }
}

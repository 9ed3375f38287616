//! Lays columns out: names at the left, figures in groups beside them, and a further table below when
//! the line is full. No figure is left out and no name is cut; a name without room gets a line of its
//! own.

use unicode_width::UnicodeWidthStr as _;

use super::text::{Paint, aligned, broken};

/// Blanks between columns.
const GAP: usize = 2;

/// Names narrower than this get their room before a group of figures does.
const NAMES_MIN: usize = 12;

/// A column of figures.
#[derive(Debug, Clone)]
pub(super) struct Column {
    /// What it has in common with its neighbours; stands above them.
    pub(super) group: &'static str,
    pub(super) heading: String,
    pub(super) is_number: bool,
    /// One per row.
    pub(super) cells: Vec<String>,
}

impl Column {
    pub(super) fn numbers(group: &'static str, heading: &str, cells: Vec<String>) -> Self {
        Self { group, heading: heading.to_owned(), is_number: true, cells }
    }

    pub(super) fn words(group: &'static str, heading: &str, cells: Vec<String>) -> Self {
        Self { group, heading: heading.to_owned(), is_number: false, cells }
    }

    fn width(&self) -> usize {
        self.cells.iter().chain([&self.heading]).map(|cell| cell.width()).max().unwrap_or(0)
    }
}

/// Rows with names.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) names_heading: &'static str,
    pub(super) names: Vec<String>,
    /// Rows from the first that are of less interest.
    pub(super) dim_rows: usize,
    pub(super) columns: Vec<Column>,
}

impl Table {
    /// Writes it in lines of at most `width`, as one table if that is wide enough, else as several with
    /// an empty line between them.
    pub(super) fn write(&self, width: usize, paint: Paint) -> String {
        let blocks = self.blocks(width);
        let blocks: Vec<_> =
            blocks.iter().map(|columns| self.write_block(columns, width, paint)).collect();
        blocks.join("\n")
    }

    /// Distributes the columns. Names get all the room they want if that costs no further table.
    fn blocks(&self, width: usize) -> Vec<Vec<&Column>> {
        let names = self.names.iter().map(|name| name.width()).max().unwrap_or(0);
        let generous = self.blocks_beside(names.max(self.names_heading.width()), width);
        let thrifty =
            self.blocks_beside(NAMES_MIN.min(names.max(self.names_heading.width())), width);
        if generous.len() == thrifty.len() { generous } else { thrifty }
    }

    fn blocks_beside(&self, names: usize, width: usize) -> Vec<Vec<&Column>> {
        let room = width.saturating_sub(names);
        let mut blocks: Vec<(usize, Vec<&Column>)> = Vec::new();
        for piece in self.columns.chunk_by(|a, b| a.group == b.group).flat_map(|g| pieces(g, room))
        {
            let needed = span(&piece) + GAP;
            match blocks.last_mut() {
                Some((used, block)) if *used + needed <= room => {
                    *used += needed;
                    block.extend(piece);
                }
                _ => blocks.push((needed, piece)),
            }
        }
        blocks.into_iter().map(|(_, block)| block).collect()
    }

    fn write_block(&self, columns: &[&Column], width: usize, paint: Paint) -> String {
        let widths = widths(columns);
        let figures: usize = widths.iter().map(|width| width + GAP).sum();
        let room = width.saturating_sub(figures);
        let fitting = self.names.iter().map(|name| name.width()).filter(|name| *name <= room);
        let names = fitting.chain([self.names_heading.width()]).max().unwrap_or(0);
        let mut lines = Vec::new();
        if columns.iter().any(|column| !column.group.is_empty()) {
            let line = format!("{:names$}{}", "", group_line(columns, &widths));
            lines.push(paint.dim(line.trim_end()));
        }
        let row = |name: &str, cell: &dyn Fn(&Column) -> String| {
            let mut line = aligned(name, names, false);
            for (column, width) in columns.iter().zip(&widths) {
                line += &" ".repeat(GAP);
                line += &aligned(&cell(column), *width, column.is_number);
            }
            line.trim_end().to_owned()
        };
        lines.push(paint.bold(&row(self.names_heading, &|column| column.heading.clone())));
        for (index, name) in self.names.iter().enumerate() {
            let painted = |line: &str| match index < self.dim_rows {
                true => paint.dim(line),
                false => line.to_owned(),
            };
            let cell = |column: &Column| column.cells.get(index).cloned().unwrap_or_default();
            if columns.iter().all(|column| cell(column).is_empty()) {
                continue;
            }
            if name.width() <= names {
                lines.push(painted(&row(name, &cell)));
            } else {
                lines.extend(broken(name, width).iter().map(|piece| painted(piece.trim_end())));
                lines.push(painted(&row("", &cell)));
            }
        }
        lines.push(String::new());
        lines.join("\n")
    }
}

/// A group whole if the room is enough for it, else in pieces.
fn pieces(group: &[Column], room: usize) -> Vec<Vec<&Column>> {
    let mut pieces: Vec<Vec<&Column>> = Vec::new();
    for column in group {
        match pieces.last_mut() {
            Some(piece) if span(piece) + GAP + column.width() + GAP <= room => piece.push(column),
            _ => pieces.push(vec![column]),
        }
    }
    pieces
}

/// Width of columns of one group, its name included.
fn span(columns: &[&Column]) -> usize {
    let figures: usize = columns.iter().map(|column| column.width() + GAP).sum();
    let group = columns.first().map_or(0, |column| column.group.width());
    figures.saturating_sub(GAP).max(group)
}

/// Widths of columns. The first of a group makes up for what its name needs.
fn widths(columns: &[&Column]) -> Vec<usize> {
    let groups = columns.chunk_by(|a, b| a.group == b.group);
    let of_group = |group: &[&Column]| {
        let figures: usize = group.iter().map(|column| column.width() + GAP).sum();
        let missing = span(group).saturating_sub(figures.saturating_sub(GAP));
        let extra = std::iter::once(missing).chain(std::iter::repeat(0));
        group.iter().zip(extra).map(|(column, extra)| column.width() + extra).collect::<Vec<_>>()
    };
    groups.flat_map(of_group).collect()
}

/// The names of groups above their columns: `── time of a run, ns ──`.
fn group_line(columns: &[&Column], widths: &[usize]) -> String {
    let mut line = String::new();
    let mut widths = widths;
    for group in columns.chunk_by(|a, b| a.group == b.group) {
        let (own, others) = widths.split_at(group.len().min(widths.len()));
        widths = others;
        let width = own.iter().map(|width| width + GAP).sum::<usize>().saturating_sub(GAP);
        let name = group.first().map_or("", |column| column.group);
        let free = width.saturating_sub(name.width());
        line += &" ".repeat(GAP);
        line += &match free {
            _ if name.is_empty() => " ".repeat(width),
            0..4 => aligned(name, width, true),
            _ => {
                let left = free / 2 - 1;
                format!("{} {name} {}", "─".repeat(left), "─".repeat(free - left - 2))
            }
        };
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(names: &[&str], columns: Vec<Column>) -> Table {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Table { names_heading: "case", names, dim_rows: 0, columns }
    }

    fn numbers(group: &'static str, heading: &str, cells: &[&str]) -> Column {
        Column::numbers(group, heading, cells.iter().map(|&cell| cell.to_owned()).collect())
    }

    #[track_caller]
    fn check(table: &Table, width: usize, expected: &str) {
        let text = table.write(width, Paint { has_colours: false });
        assert_eq!(text, expected.trim_start_matches('\n'));
        for line in text.lines() {
            assert!(line.width() <= width, "{line:?} is wider than {width}");
        }
    }

    fn two_groups(names: &[&str]) -> Table {
        table(
            names,
            vec![
                numbers("time, ns", "median", &["63.4", "1,234.5"]),
                numbers("time, ns", "net", &["53.3", "1,224.4"]),
                numbers("bytes", "jited", &["300", "13,480"]),
            ],
        )
    }

    #[test]
    fn one_table_if_there_is_room() {
        check(
            &two_groups(&["a", "b_v2"]),
            60,
            "
      ─── time, ns ───   bytes
case   median      net   jited
a        63.4     53.3     300
b_v2  1,234.5  1,224.4  13,480
",
        );
    }

    #[test]
    fn a_group_without_room_goes_below() {
        check(
            &two_groups(&["a", "b_v2"]),
            28,
            "
      ─── time, ns ───
case   median      net
a        63.4     53.3
b_v2  1,234.5  1,224.4

       bytes
case   jited
a        300
b_v2  13,480
",
        );
    }

    #[test]
    fn a_group_wider_than_the_line_is_split() {
        check(
            &two_groups(&["a", "b_v2"]),
            20,
            "
      time, ns
case    median
a         63.4
b_v2   1,234.5

      time, ns
case       net
a         53.3
b_v2   1,224.4

       bytes
case   jited
a        300
b_v2  13,480
",
        );
    }

    #[test]
    fn a_long_name_has_a_line_of_its_own_rather_than_a_further_table() {
        check(
            &two_groups(&["a", "a_name_of_nearly_forty_characters_and_so"]),
            40,
            "
      ─── time, ns ───   bytes
case   median      net   jited
a        63.4     53.3     300
a_name_of_nearly_forty_characters_and_so
      1,234.5  1,224.4  13,480
",
        );
        let name = "x".repeat(70);
        let text = two_groups(&["a", &name]).write(40, Paint { has_colours: false });
        assert!(text.contains(&format!("\n{}\n{}\n", "x".repeat(40), "x".repeat(30))), "{text}");
    }

    #[test]
    fn what_is_empty_has_no_line() {
        let words = vec!["XDP_PASS".to_owned(), String::new()];
        check(
            &table(&["a", "without"], vec![Column::words("", "returns", words)]),
            60,
            "
case     returns
a        XDP_PASS
",
        );
    }

    #[test]
    fn headings_are_bold_and_rulers_dim() {
        let mut table = two_groups(&["a", "b"]);
        table.dim_rows = 1;
        let text = table.write(80, Paint { has_colours: true });
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[1].starts_with("\u{1b}[1m"), "{lines:?}");
        assert!(lines[2].starts_with("\u{1b}[2m"), "{lines:?}");
        assert!(lines[3].starts_with('b'), "{lines:?}");
    }
}

//! Tables that fit a terminal. A [`Table`] never truncates figures or names: optional columns are left out, groups of
//! columns continue in a further table, and a name without room gets its own line. [`rows()`] formats plain lists,
//! which shorten names.

use std::iter;

use crate::{
    document::{Line, Span, line, painted},
    lines::{BLANK, aligned, broken, paragraph, shortened, width},
    paint::{Look, Paint, Style},
};

/// Blanks between columns.
const GAP: usize = 2;

/// Names up to this length get room on the line of the figures.
const NAMES_MIN: usize = 24;

/// The same in a table that continues below: a further table costs more than a line.
const NAMES_MIN_IN_GROUPS: usize = 12;

/// Indentation of a row below its name.
const INDENT: usize = 2;

/// The same in a plain list.
const INDENT_IN_LIST: usize = 4;

/// Minimum width of a wrapped column in a plain list, to avoid one word per line.
const PROSE_MIN: usize = 20;

/// Minimum width of a name in a plain list.
const NAME_KEPT: usize = 8;

/// When a column may be dropped, in the order of dropping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivesWay {
    /// To make room for names, before others.
    First,
    Second,
    /// To make room for other columns, when the layout would not fit otherwise.
    Last,
    Never,
}

/// A column of cells, one per row. A terminal shows rows in one look, and the text alone of cells.
#[derive(Debug, Clone)]
pub struct Column {
    /// Heading shared with its neighbours. A table whose columns have groups continues below when a line is full.
    group: &'static str,
    pub(crate) heading: String,
    /// Whether cells are right-aligned.
    pub(crate) is_number: bool,
    /// Whether and when it is dropped from a table without groups.
    gives_way: GivesWay,
    /// One for each row. A column whose cells are all empty is left out.
    cells: Vec<Line>,
}

impl Column {
    /// A right-aligned column.
    pub fn numbers(heading: impl Into<String>, cells: Vec<String>) -> Self {
        Self { is_number: true, ..Self::words(heading, cells) }
    }

    /// A left-aligned column.
    pub fn words(heading: impl Into<String>, cells: Vec<String>) -> Self {
        let cells = cells.into_iter().map(line).collect();
        let (group, gives_way) = ("", GivesWay::Never);
        Self { group, heading: heading.into(), is_number: false, gives_way, cells }
    }

    /// Adds the column to a group.
    #[must_use]
    pub fn in_group(self, group: &'static str) -> Self {
        Self { group, ..self }
    }

    /// Sets when the column may be dropped.
    #[must_use]
    pub fn giving_way(self, gives_way: GivesWay) -> Self {
        Self { gives_way, ..self }
    }

    fn width(&self) -> usize {
        self.texts().map(|cell| width(&cell)).fold(width(&self.heading), usize::max)
    }

    fn text(&self, row: usize) -> String {
        self.cells.get(row).map_or_else(String::new, |cell| text_of(cell))
    }

    fn texts(&self) -> impl Iterator<Item = String> {
        self.cells.iter().map(|cell| text_of(cell))
    }
}

/// The text of a cell, which is never broken.
fn text_of(cell: &[Span]) -> String {
    painted(cell, Paint { has_colours: false }).replace(BLANK, " ")
}

/// Rows with names.
#[derive(Debug, Clone)]
pub struct Table {
    names: Column,
    columns: Vec<Column>,
    /// Looks of the first rows; the others are plain.
    looks: Vec<Look>,
}

impl Table {
    pub fn new(
        names_heading: &str,
        names: impl IntoIterator<Item = impl ToString>,
        columns: Vec<Column>,
    ) -> Self {
        let names = names.into_iter().map(|name| vec![Span::code(name)]).collect();
        let names = Column { cells: names, ..Column::words(names_heading, Vec::new()) };
        Self { names, columns, looks: Vec::new() }
    }

    /// A table of rows, with names first. A heading with the prefix `=` marks a column of numbers.
    #[must_use]
    pub fn of_rows(headings: &[&str], rows: &[Vec<Line>]) -> Self {
        let column = |(at, heading): (usize, &&str)| {
            let cell = |row: &Vec<Line>| row.get(at).cloned().unwrap_or_default();
            Column {
                is_number: heading.starts_with('='),
                cells: rows.iter().map(cell).collect(),
                ..Column::words(heading.trim_start_matches('='), Vec::new())
            }
        };
        let mut columns = headings.iter().enumerate().map(column);
        let names = columns.next().unwrap_or_else(|| Column::words("", Vec::new()));
        Self { names, columns: columns.collect(), looks: Vec::new() }
    }

    /// Sets the looks of the rows.
    #[must_use]
    pub fn with_looks(self, looks: Vec<Look>) -> Self {
        Self { looks, ..self }
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.names.cells.len()
    }

    /// The column of names, and the others.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &Column> {
        iter::once(&self.names).chain(&self.columns)
    }

    /// The headings for a page.
    pub(crate) fn head(&self) -> Vec<Line> {
        self.columns().map(|column| line(&column.heading)).collect()
    }

    /// The rows for a page, on which the last cell of a bad one is strong.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Vec<Line>> {
        (0..self.len()).map(|at| {
            let cell = |column: &Column| column.cells.get(at).cloned().unwrap_or_default();
            let mut cells: Vec<Line> = self.columns().map(cell).collect();
            if let (Some(Look::Bad), Some(last)) = (self.looks.get(at), cells.last_mut()) {
                last.iter_mut().for_each(|span| span.look = Look::Strong);
            }
            cells
        })
    }

    /// Writes the table with no line wider than that of `style`. A row without cells has no line.
    pub(crate) fn write(&self, style: Style) -> String {
        let is_used = |column: &&Column| column.texts().any(|cell| !cell.is_empty());
        let columns = self.columns.iter().filter(is_used).cloned().collect();
        Self { columns, ..self.clone() }.written(style.width, style.paint())
    }

    fn written(&self, room: usize, paint: Paint) -> String {
        if self.columns.iter().any(|column| !column.group.is_empty()) {
            let blocks = self.blocks(room);
            let blocks = blocks.iter().map(|columns| self.in_columns(columns, room, paint));
            return blocks.collect::<Vec<_>>().join("\n");
        }
        let names = self.names_width().min(NAMES_MIN).max(width(&self.names.heading));
        let mut kept: Vec<&Column> = self.columns.iter().collect();
        for (gives_way, needed) in
            [(GivesWay::First, names), (GivesWay::Second, names), (GivesWay::Last, INDENT)]
        {
            if figures(&kept) + needed > room {
                kept.retain(|column| column.gives_way != gives_way);
            }
        }
        match figures(&kept) + INDENT <= room {
            true => self.in_columns(&kept, room, paint),
            false => self.as_paragraphs(room, paint),
        }
    }

    fn names_width(&self) -> usize {
        self.names.texts().map(|name| width(&name)).max().unwrap_or(0)
    }

    /// A line of a row in its look.
    fn painted(&self, row: usize, line: &str, paint: Paint) -> String {
        paint.look(self.looks.get(row).unwrap_or(&Look::Plain), line) + "\n"
    }

    /// Distributes columns among tables below each other. Names get their full width if that needs no further table.
    fn blocks(&self, room: usize) -> Vec<Vec<&Column>> {
        let names = self.names.width();
        let generous = self.blocks_beside(room.saturating_sub(names));
        let thrifty = self.blocks_beside(room.saturating_sub(names.min(NAMES_MIN_IN_GROUPS)));
        if generous.len() == thrifty.len() { generous } else { thrifty }
    }

    fn blocks_beside(&self, room: usize) -> Vec<Vec<&Column>> {
        let mut blocks: Vec<Vec<&Column>> = Vec::new();
        let mut used = 0;
        for group in self.columns.chunk_by(|a, b| a.group == b.group) {
            for piece in pieces(group, room) {
                let needed = span(&piece) + GAP;
                match blocks.last_mut() {
                    Some(block) if used + needed <= room => {
                        used += needed;
                        block.extend(piece);
                    }
                    _ => {
                        used = needed;
                        blocks.push(piece);
                    }
                }
            }
        }
        blocks
    }

    fn in_columns(&self, columns: &[&Column], room: usize, paint: Paint) -> String {
        let widths = widths(columns);
        let left = room.saturating_sub(widths.iter().map(|width| width + GAP).sum());
        let fitting = self.names.texts().map(|name| width(&name)).filter(|name| *name <= left);
        let heading = width(&self.names.heading);
        let names = fitting.chain([heading.min(left)]).max().unwrap_or(0);
        let row = |name: &str, cell: &dyn Fn(&Column) -> String| {
            let mut line = aligned(name, names, false);
            for (column, width) in columns.iter().zip(&widths) {
                line += &" ".repeat(GAP);
                line += &aligned(&cell(column), *width, column.is_number);
            }
            line.trim_end().to_owned()
        };
        // A name without room gets its own lines.
        let lines = |name: &str, cell: &dyn Fn(&Column) -> String| {
            if width(name) <= names {
                return vec![row(name, cell)];
            }
            let mut lines = broken(name, room.max(1));
            lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
            lines.push(row("", cell));
            lines
        };
        let mut text = String::new();
        if columns.iter().any(|column| !column.group.is_empty()) {
            let line = format!("{:names$}{}", "", group_line(columns, &widths));
            text += &(paint.dim(line.trim_end()) + "\n");
        }
        for line in lines(&self.names.heading, &|column| column.heading.clone()) {
            text += &(paint.bold(&line) + "\n");
        }
        for (at, name) in self.names.texts().enumerate() {
            if columns.iter().all(|column| column.text(at).is_empty()) {
                continue;
            }
            for line in lines(&name, &|column| column.text(at)) {
                text += &self.painted(at, &line, paint);
            }
        }
        text
    }

    /// For widths too narrow for any table. Paragraphs fit all columns.
    fn as_paragraphs(&self, room: usize, paint: Paint) -> String {
        let mut text = String::new();
        for (at, name) in self.names.texts().enumerate() {
            let cells = self.columns.iter().filter(|column| !column.text(at).is_empty());
            let cells = cells.map(|column| format!("{} {}", column.heading, column.text(at)));
            let cells = paragraph(&cells.collect::<Vec<_>>().join(", "), INDENT, room);
            let cells = format!("{:INDENT$}{cells}", "");
            let name = broken(&name, room.max(1));
            for line in name.iter().map(String::as_str).chain(cells.lines()) {
                text += &self.painted(at, line, paint);
            }
        }
        text
    }
}

/// Width of columns, with the gaps before them.
fn figures(columns: &[&Column]) -> usize {
    columns.iter().map(|column| column.width() + GAP).sum()
}

/// A group as a whole if it fits, else in pieces.
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
    let group = columns.first().map_or(0, |column| width(column.group));
    figures(columns).saturating_sub(GAP).max(group)
}

/// Widths of columns. The first one of a group is widened to fit the group's name.
fn widths(columns: &[&Column]) -> Vec<usize> {
    let mut widths = Vec::new();
    for group in columns.chunk_by(|a, b| a.group == b.group) {
        let first = widths.len();
        widths.extend(group.iter().map(|column| column.width()));
        widths[first] += span(group) - figures(group).saturating_sub(GAP);
    }
    widths
}

/// The group headings above their columns: `── time of a run, ns ──`.
fn group_line(columns: &[&Column], widths: &[usize]) -> String {
    let mut line = String::new();
    let mut widths = widths;
    for group in columns.chunk_by(|a, b| a.group == b.group) {
        let (own, others) = widths.split_at(group.len().min(widths.len()));
        widths = others;
        let room = own.iter().map(|width| width + GAP).sum::<usize>().saturating_sub(GAP);
        let name = group.first().map_or("", |column| column.group);
        let free = room.saturating_sub(width(name));
        line += &" ".repeat(GAP);
        line += &match free {
            _ if name.is_empty() => " ".repeat(room),
            0..4 => aligned(name, room, true),
            _ => {
                let left = free / 2 - 1;
                format!("{} {name} {}", "─".repeat(left), "─".repeat(free - left - 2))
            }
        };
    }
    line
}

/// Alignment of a cell in a plain list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
    /// Left-aligned. Shortened in the middle where lines would be too wide.
    Name,
}

/// Formats a plain list, without a header if no column has a heading. Rows may be short, and one with a single cell is a
/// line of its own. A column that is empty in all rows is dropped. Where lines would be wider than `room`, a
/// left-aligned last column is wrapped, below the others if there is little room, and names are shortened.
pub(crate) fn rows(head: &[(&str, Side)], rows: &[Vec<Line>], room: usize, paint: Paint) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|line| painted(line, paint)).collect()).collect();
    let is_single = |row: &&Vec<String>| row.len() == 1 && head.len() > 1;
    let cell = |row: &[String], at: usize| {
        row.get(at).map_or_else(String::new, |cell| cell.replace(BLANK, " "))
    };
    let needed = |at: usize| {
        let cells = rows.iter().filter(|row| !is_single(row)).map(|row| width(&cell(row, at)));
        cells.max().unwrap_or(0)
    };
    let mut used: Vec<usize> = (0..head.len()).filter(|at| needed(*at) > 0).collect();
    let sum = |widths: &[usize]| widths.iter().map(|width| width + GAP).sum::<usize>();
    let mut widths: Vec<usize> = used.iter().map(|&at| needed(at).max(width(head[at].0))).collect();
    let is_wide = sum(&widths) > room.saturating_add(GAP);
    let is_prose = |at: &usize| *at + 1 == head.len() && head[*at].1 == Side::Left;
    let prose = used.pop_if(|at| is_wide && is_prose(at));
    widths.truncate(used.len());
    let beside = sum(&widths);
    let is_beside = prose.is_some() && room.saturating_sub(beside) >= PROSE_MIN;
    let names: Vec<usize> =
        (0..used.len()).filter(|&place| head[used[place]].1 == Side::Name).collect();
    let wanted: Vec<usize> = names.iter().map(|&place| widths[place]).collect();
    let others = sum(&widths).saturating_sub(GAP) - wanted.iter().sum::<usize>();
    for (&place, share) in names.iter().zip(shared(&wanted, room.saturating_sub(others))) {
        widths[place] = share;
    }
    let line = |cell: &dyn Fn(usize) -> String, is_beside: bool| {
        let cells = used.iter().zip(&widths).map(|(&at, &width)| match head[at].1 {
            Side::Name => aligned(&shortened(&cell(at), width), width, false),
            side => aligned(&cell(at), width, side == Side::Right),
        });
        let line = cells.collect::<Vec<_>>().join(&" ".repeat(GAP));
        let prose = prose.map(cell).filter(|prose| !prose.is_empty());
        match prose {
            None => line.trim_end().to_owned(),
            Some(prose) if is_beside => {
                format!("{line}{:GAP$}{}", "", paragraph(&prose, beside, room))
            }
            Some(prose) => {
                let prose = paragraph(&prose, INDENT_IN_LIST, room);
                format!("{}\n{:INDENT_IN_LIST$}{prose}", line.trim_end(), "")
            }
        }
    };
    let mut text = String::new();
    if used.iter().any(|&at| !head[at].0.is_empty()) {
        let fits = prose.is_some_and(|at| beside + width(head[at].0) <= room);
        text += &(paint.bold(&line(&|at| head[at].0.to_owned(), is_beside || fits)) + "\n");
    }
    for row in &rows {
        let line = match row.as_slice() {
            [single] if is_single(&row) => {
                let indent = single.len() - single.trim_start().len();
                let rest = paragraph(single, INDENT, room.saturating_sub(indent));
                rest.lines()
                    .map(|line| format!("{:indent$}{line}", ""))
                    .collect::<Vec<_>>()
                    .join("\n")
            }
            _ => line(&|at| cell(row, at), is_beside),
        };
        text += &(line + "\n");
    }
    text
}

/// Divides room among columns of names. The widest are shortened first.
fn shared(wanted: &[usize], room: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_unstable_by_key(|&at| wanted[at]);
    let mut shares = wanted.to_vec();
    let mut left = room;
    for (done, &at) in order.iter().enumerate() {
        let share = left / (wanted.len() - done);
        shares[at] = wanted[at].min(share.max(NAME_KEPT));
        left = left.saturating_sub(shares[at]);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::row;

    const PLAIN: Paint = Paint { has_colours: false };

    fn style(width: usize) -> Style {
        Style { width, ..Style::default() }
    }

    fn cells(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|&cell| cell.to_owned()).collect()
    }

    #[track_caller]
    fn check(table: Table, room: usize, expected: &str) {
        let text = table.write(style(room));
        assert_eq!(text, expected.trim_start_matches('\n'));
        for line in text.lines() {
            assert!(width(line) <= room, "{line:?} is wider than {room}");
        }
    }

    fn grouped(names: &[&str]) -> Table {
        let numbers = |heading, figures: [&str; 2]| Column::numbers(heading, cells(&figures));
        let columns = vec![
            numbers("median", ["63.4", "1,234.5"]).in_group("time, ns"),
            numbers("net", ["53.3", "1,224.4"]).in_group("time, ns"),
            numbers("jited", ["300", "13,480"]).in_group("bytes"),
        ];
        Table::new("case", names, columns)
    }

    #[test]
    fn one_table_if_there_is_room() {
        let expected = "
      ─── time, ns ───   bytes
case   median      net   jited
a        63.4     53.3     300
b_v2  1,234.5  1,224.4  13,480
";
        check(grouped(&["a", "b_v2"]), 60, expected);
    }

    #[test]
    fn a_group_without_room_goes_below() {
        let expected = "
      ─── time, ns ───
case   median      net
a        63.4     53.3
b_v2  1,234.5  1,224.4

       bytes
case   jited
a        300
b_v2  13,480
";
        check(grouped(&["a", "b_v2"]), 28, expected);
    }

    #[test]
    fn a_group_wider_than_the_line_is_split() {
        let expected = "
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
";
        check(grouped(&["a", "b_v2"]), 20, expected);
    }

    #[test]
    fn a_long_name_has_a_line_of_its_own_rather_than_a_further_table() {
        let expected = "
      ─── time, ns ───   bytes
case   median      net   jited
a        63.4     53.3     300
a_name_of_nearly_forty_characters_and_so
      1,234.5  1,224.4  13,480
";
        check(grouped(&["a", "a_name_of_nearly_forty_characters_and_so"]), 40, expected);
        let text = grouped(&["a", &"x".repeat(70)]).write(style(40));
        assert!(text.contains(&format!("\n{}\n{}\n", "x".repeat(40), "x".repeat(30))), "{text}");
    }

    #[test]
    fn what_is_empty_has_no_line() {
        let columns = vec![Column::words("returns", cells(&["XDP_PASS", ""]))];
        let expected = "
case     returns
a        XDP_PASS
";
        check(Table::new("case", ["a", "without"], columns), 60, expected);
    }

    #[test]
    fn headings_are_bold_and_groups_dim() {
        let style = Style { has_colours: true, ..style(80) };
        let text = grouped(&["a", "b"]).with_looks(vec![Look::Dim]).write(style);
        let lines: Vec<_> = text.lines().collect();
        let starts = ["\u{1b}[2m", "\u{1b}[1m", "\u{1b}[2m", "b"];
        assert!(lines.iter().zip(starts).all(|(line, start)| line.starts_with(start)), "{lines:?}");
    }

    fn giving_way() -> Table {
        let columns = vec![
            Column::numbers("value", cells(&["1.5 ns", "12.5 ns"])),
            Column::words("never", cells(&["", ""])),
            Column::numbers("baseline", cells(&["1 ns", ""])).giving_way(GivesWay::Last),
            Column::words("interval", cells(&["+1 to +2", ""])).giving_way(GivesWay::First),
            Column::words("verdict", cells(&["worse", ""])),
        ];
        Table::new("benchmark", ["a", "a_rather_long_name"], columns)
    }

    #[test]
    fn beside_the_name_if_there_is_room() {
        let expected = "
benchmark             value  baseline  interval  verdict
a                    1.5 ns      1 ns  +1 to +2  worse
a_rather_long_name  12.5 ns
";
        check(giving_way(), 60, expected);
    }

    #[test]
    fn without_what_gives_way() {
        let expected = "
benchmark             value  baseline  verdict
a                    1.5 ns      1 ns  worse
a_rather_long_name  12.5 ns
";
        check(giving_way(), 48, expected);
    }

    #[test]
    fn below_a_long_name() {
        let expected = "
benchmark    value  baseline  verdict
a           1.5 ns      1 ns  worse
a_rather_long_name
           12.5 ns
";
        check(giving_way(), 40, expected);
    }

    #[test]
    fn below_any_name() {
        let expected = "
benchmark
      value  verdict
a    1.5 ns  worse
a_rather_long_name
    12.5 ns
";
        check(giving_way(), 20, expected);
    }

    #[test]
    fn paragraphs_where_it_is_narrow() {
        let expected = "
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
";
        check(giving_way(), 15, expected);
    }

    #[test]
    fn lists_line_up() {
        let head = [("name", Side::Left), ("never", Side::Left), ("n", Side::Right)];
        let red = Paint { has_colours: true }.look(&Look::Bad, "1");
        let lines = [row(["a", "", &red]), row(["longer", "", "100"]), row(["single line"])];
        let text = rows(&head, &lines, 80, PLAIN);
        assert_eq!(text, format!("name      n\na         {red}\nlonger  100\nsingle line\n"));
    }

    #[test]
    fn names_in_lists_are_shortened() {
        let head = [
            ("name", Side::Name),
            ("number", Side::Right),
            ("other", Side::Name),
            ("p", Side::Right),
        ];
        let lines =
            [row(["a", "1", "b", ""]), row(["feature/of-some-kind", "1", "ci-runner-x86", ""])];
        for room in [26, 30, 60] {
            let text = rows(&head, &lines, room, PLAIN);
            assert!(text.lines().all(|line| width(line) <= room), "{room}: {text}");
            assert_eq!(text.contains("feature/of-some-kind"), room == 60, "{text}");
        }
    }

    #[test]
    fn room_is_shared() {
        let check = |wanted: &[usize], room, expected: &[usize]| {
            assert_eq!(shared(wanted, room), expected, "{wanted:?} in {room}");
        };
        check(&[10, 20], 40, &[10, 20]);
        check(&[10, 30], 30, &[10, 20]);
        check(&[30, 30], 31, &[15, 16]);
        check(&[30, 5, 30], 25, &[10, 5, 10]);
        check(&[30, 5], 0, &[8, 5]);
        check(&[], 10, &[]);
    }

    #[test]
    fn a_long_last_column_is_wrapped() {
        let head = [("name", Side::Left), ("notes", Side::Left)];
        let lines = [row(["a", "kernel 6.12 → 6.18"]), row(["b", ""])];
        let check = |room, expected: &str| {
            assert_eq!(rows(&head, &lines, room, PLAIN), expected, "{room}");
        };
        check(usize::MAX, "name  notes\na     kernel 6.12 → 6.18\nb\n");
        check(24, "name  notes\na     kernel 6.12 → 6.18\nb\n");
        check(16, "name  notes\na\n    kernel 6.12\n    → 6.18\nb\n");
        let long = [row(["a", "one two three four five six"])];
        let expected = "name  notes\na     one two three four\n      five six\n";
        assert_eq!(rows(&head, &long, 26, PLAIN), expected);
    }
}

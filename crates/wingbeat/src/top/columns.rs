//! Columns of the table: contents, sort order, and which are dropped on narrow terminals.

use std::{cmp::Ordering, fmt, str::FromStr};

use unicode_width::UnicodeWidthStr as _;
use wingbeat_bpf_bench::live::{
    ProgramReport, Total,
    format::{owners, rate},
};
use wingbeat_text::{cut, decimal, or_dash, printable};

/// A column, in screen order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Column {
    Id,
    Type,
    Name,
    Owners,
    Runs,
    Time,
    Cpu,
}

/// Cells between two columns.
pub(crate) const GAP: usize = 2;

/// Minimum width of the owners, below which they are dropped.
const OWNERS_WIDTH_MIN: usize = 8;

/// Names keep this width as long as another column can be dropped: one long name must not hide all figures.
const NAME_WIDTH_KEPT: usize = 24;

/// Columns dropped on a narrow terminal after the owners, in this order. Name and CPU stay.
const GIVE_WAY: [Column; 4] = [Column::Type, Column::Id, Column::Runs, Column::Time];

impl Column {
    pub(crate) const ALL: [Self; 7] =
        [Self::Id, Self::Type, Self::Name, Self::Owners, Self::Runs, Self::Time, Self::Cpu];

    /// Name for `--sort`, heading, and the key that sorts by it, a letter of the heading.
    fn words(self) -> (&'static str, &'static str, char) {
        match self {
            Self::Id => ("id", "id", 'i'),
            Self::Type => ("type", "type", 't'),
            Self::Name => ("name", "name", 'n'),
            Self::Owners => ("owners", "owners", 'o'),
            Self::Runs => ("runs", "runs/s", 'u'),
            Self::Time => ("time", "ns/run", 's'),
            Self::Cpu => ("cpu", "CPU %", 'c'),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        self.words().0
    }

    pub(crate) fn heading(self) -> &'static str {
        self.words().1
    }

    pub(crate) fn key(self) -> char {
        self.words().2
    }

    /// Numbers are right-aligned.
    pub(crate) fn is_number(self) -> bool {
        matches!(self, Self::Id | Self::Runs | Self::Time | Self::Cpu)
    }

    /// Cell of a program.
    pub(crate) fn cell(self, program: &ProgramReport) -> String {
        match self {
            Self::Id => program.id.to_string(),
            Self::Type => program.r#type.clone(),
            Self::Name => printable(&program.name),
            Self::Owners => owners(program),
            Self::Runs => rate(program.runs_per_s),
            Self::Time => number(program.time_per_run_ns, 1),
            Self::Cpu => number(program.cpu_percent, 2),
        }
    }

    /// Cell of the total over all shown programs; empty before the first measurement.
    pub(crate) fn total(self, total: Option<&Total>) -> String {
        match (self, total) {
            (Self::Name, _) => "total".to_owned(),
            (Self::Runs, Some(total)) => rate(Some(total.runs_per_s)),
            (Self::Cpu, Some(total)) => decimal(total.cpu_percent, 2),
            _ => String::new(),
        }
    }

    /// The next column to the left or right, for sorting; stops at the first and last.
    pub(crate) fn neighbour(self, to_the_right: bool) -> Self {
        let position = Self::ALL.iter().position(|&column| column == self).unwrap_or(0);
        let next = if to_the_right { position.checked_add(1) } else { position.checked_sub(1) };
        next.and_then(|next| Self::ALL.get(next)).copied().unwrap_or(self)
    }
}

/// No column has this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnknownColumn;

impl fmt::Display for UnknownColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Column::ALL.map(Column::name).join(", ");
        write!(f, "no column has this name; the columns are {names}")
    }
}

impl std::error::Error for UnknownColumn {}

impl FromStr for Column {
    type Err = UnknownColumn;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|column| column.name() == text).ok_or(UnknownColumn)
    }
}

/// A sort order of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sort {
    pub(crate) column: Column,
    pub(crate) descending: bool,
}

impl Sort {
    /// By a column, in its default direction: figures descending, texts and ids ascending.
    pub(crate) fn by(column: Column) -> Self {
        Self { column, descending: matches!(column, Column::Runs | Column::Time | Column::Cpu) }
    }

    /// Ties are ordered by ascending id, so that rows stay stable. Unknown values come last.
    pub(crate) fn compare(self, a: &ProgramReport, b: &ProgramReport) -> Ordering {
        let text = |of: fn(&ProgramReport) -> String| self.directed(of(a).cmp(&of(b)));
        let figure = |of: fn(&ProgramReport) -> Option<f64>| match (of(a), of(b)) {
            (Some(a), Some(b)) => self.directed(a.total_cmp(&b)),
            (a, b) => b.is_some().cmp(&a.is_some()),
        };
        let order = match self.column {
            Column::Id => self.directed(a.id.cmp(&b.id)),
            Column::Type => text(|program| program.r#type.clone()),
            Column::Name => text(|program| program.name.clone()),
            Column::Owners => text(owners),
            Column::Runs => figure(|program| program.runs_per_s),
            Column::Time => figure(|program| program.time_per_run_ns),
            Column::Cpu => figure(|program| program.cpu_percent),
        };
        order.then(a.id.cmp(&b.id))
    }

    fn directed(self, order: Ordering) -> Ordering {
        if self.descending { order.reverse() } else { order }
    }
}

/// The columns that fit into `width` cells, with their widths.
///
/// Each is as wide as its contents. If that is too much, first owners are shortened and then dropped, then long names
/// are shortened, then columns are dropped one by one, and only then short names are shortened. Remaining room goes to
/// the names.
pub(crate) fn layout(
    width: usize,
    programs: &[&ProgramReport],
    total: &Total,
) -> Vec<(Column, usize)> {
    let natural = |column: Column| {
        let cells = programs.iter().map(|program| column.cell(program).width());
        let extra = [column.heading().width() + 2, column.total(Some(total)).width()];
        cells.chain(extra).max().unwrap_or(0)
    };
    let mut columns: Vec<_> = Column::ALL.map(|column| (column, natural(column))).into();
    let excess = |columns: &[(Column, usize)]| {
        let gaps = GAP * columns.len().saturating_sub(1);
        (columns.iter().map(|(_, width)| width).sum::<usize>() + gaps).saturating_sub(width)
    };
    let too_much = excess(&columns);
    shrink(&mut columns, Column::Owners, too_much, OWNERS_WIDTH_MIN);
    if excess(&columns) > 0 {
        columns.retain(|(column, _)| *column != Column::Owners);
    }
    let too_much = excess(&columns);
    shrink(&mut columns, Column::Name, too_much, NAME_WIDTH_KEPT);
    for gives_way in GIVE_WAY {
        if excess(&columns) == 0 {
            break;
        }
        columns.retain(|(column, _)| *column != gives_way);
    }
    let too_much = excess(&columns);
    shrink(&mut columns, Column::Name, too_much, 1);
    let taken: usize = columns.iter().map(|(_, width)| width + GAP).sum();
    let left = (width + GAP).saturating_sub(taken);
    if let Some((_, width)) = columns.iter_mut().find(|(column, _)| *column == Column::Name) {
        *width = (*width + left).min(natural(Column::Name));
    }
    columns
}

fn shrink(columns: &mut [(Column, usize)], column: Column, excess: usize, least: usize) {
    if let Some((_, width)) = columns.iter_mut().find(|(each, _)| *each == column) {
        *width = width.saturating_sub(excess).max(least.min(*width));
    }
}

/// The first of several texts, from longest to shortest, that fits into `width` cells; otherwise the last, truncated.
pub(crate) fn fitting(wordings: &[&str], width: usize) -> String {
    let fits = wordings.iter().find(|text| text.width() <= width);
    cut(fits.or(wordings.last()).copied().unwrap_or_default(), width)
}

fn number(number: Option<f64>, decimals: usize) -> String {
    or_dash(number, |number| decimal(number, decimals))
}

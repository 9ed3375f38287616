//! State of the screen, and its updates by keys and measurements.

#[cfg(test)]
pub(super) mod tests;

use std::collections::{HashMap, VecDeque};

use wingbeat_bpf_bench::live::{LiveReport, ProgramReport, Total};

use super::{columns::Sort, keys::Step};

/// Readings kept for the curve: more than the widest terminal has cells.
const HISTORY_MAX: usize = 512;

/// Maximum characters of a filter.
const FILTER_MAX: usize = 64;

/// Whether to continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Continue,
    Quit,
}

/// State of the screen.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) report: LiveReport,
    pub(crate) sort: Sort,
    pub(crate) filter: String,
    /// The filter before typing began; `Some` while typing.
    pub(crate) typing_over: Option<String>,
    /// Id of the selected program. The selection follows its row.
    pub(crate) selected: Option<u32>,
    /// Runs per second of each program, oldest first.
    history: HashMap<u32, VecDeque<f64>>,
    total_history: VecDeque<f64>,
}

impl State {
    /// Starts with programs whose rates are not known yet.
    pub(crate) fn new(first: LiveReport, sort: Sort, filter: String) -> Self {
        Self {
            report: first,
            sort,
            filter,
            typing_over: None,
            selected: None,
            history: HashMap::new(),
            total_history: VecDeque::new(),
        }
    }

    /// Applies a new measurement.
    pub(crate) fn take(&mut self, report: LiveReport) {
        let position = self.position();
        // First: a reused id starts a new history.
        for vanished in &report.vanished {
            self.history.remove(&vanished.id);
        }
        for program in &report.programs {
            if let Some(runs_per_s) = program.runs_per_s {
                remember(self.history.entry(program.id).or_default(), runs_per_s);
            }
        }
        remember(&mut self.total_history, report.total.runs_per_s);
        self.report = report;
        self.select_again(position);
    }

    /// The programs that match the filter, sorted.
    pub(crate) fn rows(&self) -> Vec<&ProgramReport> {
        let mut rows: Vec<_> = self
            .report
            .programs
            .iter()
            .filter(|program| is_wanted(program, &self.filter))
            .collect();
        rows.sort_by(|a, b| self.sort.compare(a, b));
        rows
    }

    /// The rows' total.
    pub(crate) fn total(&self) -> Total {
        let rows: Vec<_> = self.rows().into_iter().cloned().collect();
        Total::of(&rows, self.report.cpus_online)
    }

    /// Row of the selected program.
    pub(crate) fn position(&self) -> Option<usize> {
        let selected = self.selected?;
        self.rows().iter().position(|program| program.id == selected)
    }

    /// The selected program, if visible.
    pub(crate) fn selected(&self) -> Option<&ProgramReport> {
        self.rows().get(self.position()?).copied()
    }

    /// Runs per second of the selected program, or of all, oldest first.
    pub(crate) fn history(&self) -> Vec<f64> {
        let history = match self.selected() {
            Some(program) => self.history.get(&program.id),
            None => Some(&self.total_history),
        };
        history.into_iter().flatten().copied().collect()
    }

    /// Applies an action.
    pub(crate) fn apply(&mut self, step: Step) -> Flow {
        let position = self.position();
        match step {
            Step::Quit => return Flow::Quit,
            Step::SortBy(column) => self.sort = Sort::by(column),
            Step::SortByNeighbour { to_the_right } => {
                let neighbour = self.sort.column.neighbour(to_the_right);
                if neighbour != self.sort.column {
                    self.sort = Sort::by(neighbour);
                }
            }
            Step::Reverse => self.sort.descending = !self.sort.descending,
            Step::Move(rows) => {
                self.select(position.map_or(0, |row| row.saturating_add_signed(rows)));
            }
            Step::First => self.select(0),
            Step::Last => self.select(usize::MAX),
            Step::Filter => self.typing_over = Some(self.filter.clone()),
            Step::Type(c) if self.filter.chars().count() < FILTER_MAX && !c.is_control() => {
                self.filter.push(c);
            }
            Step::Type(_) => {}
            Step::Erase => drop(self.filter.pop()),
            Step::EraseAll => self.filter.clear(),
            Step::Keep => self.typing_over = None,
            Step::Discard => self.filter = self.typing_over.take().unwrap_or_default(),
        }
        Flow::Continue
    }

    /// Selects a row, or the last one if there are fewer.
    fn select(&mut self, row: usize) {
        let rows = self.rows();
        let row = row.min(rows.len().saturating_sub(1));
        self.selected = rows.get(row).map(|program| program.id);
    }

    /// If the selected program is gone, selects the one now at its position.
    fn select_again(&mut self, position: Option<usize>) {
        let is_loaded = |id: u32| self.report.programs.iter().any(|program| program.id == id);
        match (self.selected, position) {
            (Some(id), _) if is_loaded(id) => {}
            (Some(_), Some(row)) => self.select(row),
            _ => self.selected = None,
        }
    }
}

/// Whether a program's name, type or owners contain `filter`, case-insensitively.
pub(crate) fn is_wanted(program: &ProgramReport, filter: &str) -> bool {
    let filter = filter.to_lowercase();
    let has = |text: &str| text.to_lowercase().contains(&filter);
    let owners = || program.owners.iter().any(|owner| has(&owner.name));
    filter.is_empty() || has(&program.name) || has(&program.r#type) || owners()
}

fn remember(history: &mut VecDeque<f64>, value: f64) {
    if history.len() >= HISTORY_MAX {
        history.pop_front();
    }
    history.push_back(value);
}

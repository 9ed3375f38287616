//! State of the screen, and its updates by keys and measurements.

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

/// Sequences of keys and measurements, and the resulting state.
#[cfg(test)]
pub(super) mod tests {
    use wingbeat_bpf_bench::live::{Vanished, change::Rates};
    use wingbeat_bpf_loader::{ProgramType, fd_holders::Owner, program::ProgramInfo};

    use super::*;
    use crate::top::columns::Column;

    /// A program over one second.
    pub(in crate::top) fn program(
        id: u32,
        r#type: ProgramType,
        name: &str,
        counts: Option<(u64, u64)>,
    ) -> ProgramReport {
        let info =
            ProgramInfo { id, r#type, tag: [0xa0, 1, 2, 3, 4, 5, 6, 7], ..ProgramInfo::default() };
        let rates = counts.map(|(runs, run_time_ns)| Rates {
            interval_ns: 1_000_000_000,
            runs,
            run_time_ns,
            recursion_misses: 0,
        });
        ProgramReport::new(&info, name, rates, Some(25.0))
    }

    pub(in crate::top) fn owned(program: ProgramReport, pid: u32, name: &str) -> ProgramReport {
        program.with_holders(&[Owner { pid, name: name.to_owned() }], &[])
    }

    pub(in crate::top) fn report(programs: Vec<ProgramReport>) -> LiveReport {
        LiveReport { empty_run_ns: Some(25.0), ..LiveReport::new(programs, 2, 1_000_000_000) }
    }

    /// Four programs; by CPU the order is 7, 3, 12, 4.
    pub(in crate::top) fn four() -> LiveReport {
        report(vec![
            owned(
                program(3, ProgramType::XDP, "fun_xdp_v3", Some((200_012, 12_680_760))),
                812,
                "agent",
            ),
            program(4, ProgramType::XDP, "fun_xdp_v4", Some((0, 0))),
            owned(
                program(
                    7,
                    ProgramType::SCHED_CLS,
                    "count_packets_by_source",
                    Some((1_000_000, 25_000_000)),
                ),
                4_711,
                "cilium-agent",
            ),
            program(12, ProgramType::CGROUP_SKB, "", Some((3, 900))),
        ])
    }

    fn state() -> State {
        State::new(four(), Sort::by(Column::Cpu), String::new())
    }

    fn ids(state: &State) -> Vec<u32> {
        state.rows().iter().map(|program| program.id).collect()
    }

    #[test]
    fn orders() {
        let check = |steps: &[Step], expected: &[u32]| {
            let mut state = state();
            for step in steps {
                assert_eq!(state.apply(*step), Flow::Continue);
            }
            assert_eq!(ids(&state), expected, "{steps:?}");
        };
        let right = Step::SortByNeighbour { to_the_right: true };
        let left = Step::SortByNeighbour { to_the_right: false };
        check(&[], &[7, 3, 12, 4]);
        check(&[Step::Reverse], &[4, 12, 3, 7]);
        check(&[Step::SortBy(Column::Id)], &[3, 4, 7, 12]);
        check(&[Step::SortBy(Column::Id), Step::Reverse], &[12, 7, 4, 3]);
        check(&[Step::SortBy(Column::Name)], &[12, 7, 3, 4]);
        check(&[Step::SortBy(Column::Type)], &[12, 7, 3, 4]);
        check(&[Step::SortBy(Column::Owners)], &[3, 7, 4, 12]);
        // A program that did not run has no time, and comes last in either direction.
        check(&[Step::SortBy(Column::Time)], &[12, 3, 7, 4]);
        check(&[Step::SortBy(Column::Time), Step::Reverse], &[7, 3, 12, 4]);
        // Left of CPU is time; nothing is to the right, and the direction stays.
        check(&[left], &[12, 3, 7, 4]);
        check(&[left, left], &[7, 3, 12, 4]);
        check(&[Step::Reverse, right], &[4, 12, 3, 7]);
        check(&[Step::SortBy(Column::Id), left], &[3, 4, 7, 12]);
    }

    #[test]
    fn selections() {
        let check = |steps: &[Step], expected: Option<u32>| {
            let mut state = state();
            for step in steps {
                state.apply(*step);
            }
            assert_eq!(state.selected().map(|program| program.id), expected, "{steps:?}");
        };
        check(&[], None);
        check(&[Step::Move(1)], Some(7));
        check(&[Step::Move(-1)], Some(7));
        check(&[Step::Move(1), Step::Move(1)], Some(3));
        check(&[Step::Last], Some(4));
        check(&[Step::Last, Step::Move(10)], Some(4));
        check(&[Step::Last, Step::Move(-10)], Some(7));
        check(&[Step::Last, Step::First], Some(7));
        // Follows the program when the order changes.
        check(&[Step::Move(1), Step::SortBy(Column::Id)], Some(7));
        // Hidden programs cannot be selected.
        check(&[Step::Move(1), Step::Filter, Step::Type('x')], None);
    }

    #[test]
    fn filters() {
        let typed = |text: &str| -> Vec<Step> {
            [Step::Filter].into_iter().chain(text.chars().map(Step::Type)).collect()
        };
        let check = |steps: Vec<Step>, expected: &[u32], filter: &str, is_typing| {
            let mut state = state();
            for step in &steps {
                state.apply(*step);
            }
            assert_eq!(
                (ids(&state).as_slice(), state.filter.as_str()),
                (expected, filter),
                "{steps:?}"
            );
            assert_eq!(state.typing_over.is_some(), is_typing, "{steps:?}");
        };
        check(typed("XDP"), &[3, 4], "XDP", true);
        check(typed("agent"), &[7, 3], "agent", true);
        check(typed("cgroup"), &[12], "cgroup", true);
        check(typed("nothing"), &[], "nothing", true);
        check([typed("v3"), vec![Step::Keep]].concat(), &[3], "v3", false);
        check([typed("v3"), vec![Step::Discard]].concat(), &[7, 3, 12, 4], "", false);
        check([typed("v3"), vec![Step::Erase]].concat(), &[3, 4], "v", true);
        check([typed("v3"), vec![Step::EraseAll, Step::Erase]].concat(), &[7, 3, 12, 4], "", true);
        // Restores the previous filter.
        let again = [typed("v3"), vec![Step::Keep], typed("x"), vec![Step::Discard]].concat();
        check(again, &[3], "v3", false);
        // Not longer than the line, and no control characters.
        let long = [Step::Filter].into_iter().chain([Step::Type('y'); 200]).collect();
        check(long, &[], &"y".repeat(FILTER_MAX), true);
        check(vec![Step::Filter, Step::Type('\u{1b}')], &[7, 3, 12, 4], "", true);
    }

    #[test]
    fn quitting() {
        assert_eq!(state().apply(Step::Quit), Flow::Quit);
    }

    #[test]
    fn the_total_is_of_what_is_shown() {
        let mut state = state();
        assert_eq!(state.total().runs, 1_200_015);
        state.apply(Step::Filter);
        state.apply(Step::Type('v'));
        assert_eq!(state.total().runs, 200_012);
        assert!((state.total().cpu_percent - 1.268_076).abs() < 1e-9);
    }

    #[test]
    fn programs_come_and_go() {
        let mut state = state();
        state.apply(Step::Move(1));
        state.apply(Step::Move(1));
        assert_eq!(state.selected, Some(3));
        // When it goes, the next program takes its place.
        let without = |id: u32| {
            let mut report = four();
            report.programs.retain(|program| program.id != id);
            report.vanished = vec![Vanished { id, name: String::new() }];
            report
        };
        state.take(without(3));
        assert_eq!(state.selected, Some(12));
        // All programs go.
        state.take(report(Vec::new()));
        assert_eq!((state.selected, state.rows().len()), (None, 0));
        for step in [Step::Move(1), Step::Last, Step::First, Step::Move(-1)] {
            state.apply(step);
            assert_eq!(state.selected, None);
        }
    }

    #[test]
    fn curves_belong_to_a_program_and_end() {
        let mut state = state();
        for _ in 0..3 {
            state.take(four());
        }
        assert_eq!(state.history(), [1_200_015.0; 3]);
        state.apply(Step::Last);
        state.apply(Step::Move(-2));
        assert_eq!(state.history(), [200_012.0; 3]);
        // The id is reused for another program.
        let mut renewed = four();
        renewed.vanished = vec![Vanished { id: 3, name: "fun_xdp_v3".to_owned() }];
        state.take(renewed);
        assert_eq!(state.history(), [200_012.0]);
        for _ in 0..2 * HISTORY_MAX {
            state.take(four());
        }
        assert_eq!(state.history().len(), HISTORY_MAX);
    }
}

//! The tables, and whether the goals are kept. Pure: a record in, Markdown out.

use super::{
    Kernel, NOT_INSTALLED, Record, Row,
    figures::Figures,
    tools::{PERF, SAMPLY, WINGBEAT},
};
use crate::{
    numbers::{Spread, verdict},
    table::{NONE, column, joined, show, table},
};

/// What wingbeat is to reach: the share of complete stacks, and the difference from perf in the mean depth
/// and in the share of any of the ten functions.
const COMPLETE_MIN: f64 = 0.995;
const DEPTH_MAX: f64 = 0.5;
const SHARE_MAX: f64 = 0.02;

/// Where perf has less complete stacks than this, it is no measure: it lost as much as the goals allow.
const PERF_COMPLETE_MIN: f64 = 0.98;
const NO_MEASURE: &str = "open: perf's are broken";

/// Longer names of functions are cut.
const NAME_MAX: usize = 40;

pub(super) fn text(record: &Record) -> String {
    let Record { origin, rounds, hz, tools, rows, kernel } = record;
    let s = if *rounds == 1 { "" } else { "s" };
    let intro = format!(
        "{}\n- {}\n\nGoals of wingbeat: at least {} % complete stacks; a mean depth of user frames within \
         {DEPTH_MAX} frames of perf's; the total shares of the ten functions with most total time within \
         {} points of perf's. A goal is open where less than {} % of perf's stacks are complete. cargo-build is watched with all other processes, \
         at 99 Hz.\n",
        origin.text(&format!("; {rounds} round{s} at {hz} Hz, median (min to max)")),
        tools.join("\n- "),
        COMPLETE_MIN * 100.0,
        SHARE_MAX * 100.0,
        PERF_COMPLETE_MIN * 100.0,
    );
    joined(vec![intro, targets(rows), notes(rows), costs(rows), of_kernel(kernel)])
}

/// One figure of a run.
type Figure = fn(&Figures) -> Option<f64>;

impl Row {
    fn spread(&self, figure: impl Fn(&Figures) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.figures.iter().filter_map(figure))
    }

    /// Whether this row is the one that has goals.
    fn has_goals(&self) -> bool {
        self.tool == WINGBEAT
    }

    fn samples(&self) -> String {
        let lost = self.figures.iter().map(|it| it.lost).max().unwrap_or(0);
        let samples = show(self.spread(|it| Some(it.samples as f64)), 1.0, 0, "");
        match (&self.note, lost) {
            (Some(note), _) if note.starts_with(NOT_INSTALLED) => note.clone(),
            (Some(_), _) if self.figures.is_empty() => "see below".to_owned(),
            (_, 0) => samples,
            (_, lost) => format!("{samples}, up to {lost} lost"),
        }
    }

    fn complete(&self) -> String {
        let spread = self.spread(|it| it.complete);
        let goal = spread.map(|it| verdict(it.median >= COMPLETE_MIN));
        self.with_goal(show(spread, 100.0, 2, " %"), goal)
    }

    fn depth(&self, can_measure: bool) -> String {
        let depth = show(self.spread(|it| it.depth), 1.0, 2, "");
        match self.spread(|it| it.depth_from_perf).filter(|_| self.tool != PERF) {
            None => depth,
            Some(gap) => {
                let goal =
                    if can_measure { verdict(gap.median.abs() <= DEPTH_MAX) } else { NO_MEASURE };
                self.with_goal(format!("{depth}, {} from perf's", signed(gap, 1.0, 2)), Some(goal))
            }
        }
    }

    fn functions(&self, can_measure: bool) -> String {
        let Some(gap) = self.spread(|it| it.from_perf).filter(|_| self.tool != PERF) else {
            return NONE.to_owned();
        };
        let last = self.figures.last().map_or("", |it| &it.function);
        let name = last.chars().take(NAME_MAX).collect::<String>();
        let goal = if can_measure { verdict(gap.median.abs() <= SHARE_MAX) } else { NO_MEASURE };
        self.with_goal(format!("{} points, {name}", signed(gap, 100.0, 1)), Some(goal))
    }

    fn with_goal(&self, figure: String, goal: Option<&str>) -> String {
        match goal.filter(|_| self.has_goals()) {
            Some(goal) => format!("{figure}: {goal}"),
            None => figure,
        }
    }
}

fn signed(spread: Spread, factor: f64, places: usize) -> String {
    let text = spread.show(factor, places, "");
    if spread.median > 0.0 { format!("+{text}") } else { text }
}

fn targets(rows: &[Row]) -> String {
    let can_measure = |row: &Row| {
        let perf = rows.iter().find(|it| it.tool == PERF && it.target == row.target);
        let complete = perf.and_then(|perf| perf.spread(|it| it.complete));
        complete.is_some_and(|complete| complete.median >= PERF_COMPLETE_MIN)
    };
    table(
        rows,
        &[
            column("target", |row: &&Row| row.target.clone()),
            column("tool", |row: &&Row| row.tool.clone()),
            column("samples", |row: &&Row| row.samples()),
            column("complete", |row: &&Row| row.complete()),
            column("mean depth", |row: &&Row| row.depth(can_measure(row))),
            column("largest difference of the ten functions", |row: &&Row| {
                row.functions(can_measure(row))
            }),
        ],
    )
}

const COSTS: &str = "Costs. Slowdown is the target's own CPU time with the tool ÷ alone, − 1. Own CPU is the \
    tool's, without the target's, in seconds per 10,000 samples: recording with start and end, symbols (with perf, \
    its second step, which also walks), and writing. samply looks up no symbols: that is left to whoever opens its \
    profile. Memory is the most that was resident of the tool, to its end and while it recorded. Goals of wingbeat: no more than samply's, also of its \
    whole own CPU.\n";

fn costs(rows: &[Row]) -> String {
    let has_figures = |row: &&Row| !row.figures.is_empty();
    let samply_s = |row: &Row, figure: Figure| {
        let samply = rows.iter().find(|it| it.tool == SAMPLY && it.target == row.target);
        samply.and_then(|samply| samply.spread(figure))
    };
    let judged = |row: &Row, figure: Figure, factor, places, unit: &str| {
        let (ours, theirs) = (row.spread(figure), samply_s(row, figure));
        let goal = ours.zip(theirs).map(|(ours, theirs)| verdict(ours.median <= theirs.median));
        row.with_goal(show(ours, factor, places, unit), goal)
    };
    let plain = |row: &Row, figure: Figure| show(row.spread(figure), 1.0, 2, "");
    let shown = table(
        rows.iter().filter(has_figures),
        &[
            column("target", |row: &&Row| row.target.clone()),
            column("tool", |row: &&Row| row.tool.clone()),
            column("slowdown", |row: &&Row| judged(row, |it| it.slowdown, 100.0, 1, " %")),
            column("own CPU", |row: &&Row| judged(row, |it| it.own_s_per_10k, 1.0, 2, "")),
            column("recording", |row: &&Row| judged(row, |it| it.recording_s_per_10k, 1.0, 2, "")),
            column("symbols", |row: &&Row| plain(row, |it| it.symbols_s_per_10k)),
            column("writing", |row: &&Row| plain(row, |it| it.writing_s_per_10k)),
            column("memory, MB", |row: &&Row| judged(row, |it| it.memory_mb, 1.0, 0, "")),
            column("while recording", |row: &&Row| {
                judged(row, |it| it.recording_memory_mb, 1.0, 0, "")
            }),
            column("bytes per sample", |row: &&Row| {
                show(row.spread(|it| it.bytes_per_sample), 1.0, 0, "")
            }),
        ],
    );
    if shown.is_empty() { shown } else { format!("{COSTS}\n{shown}") }
}

fn notes(rows: &[Row]) -> String {
    let mut text = String::new();
    for Row { target, tool, note, .. } in rows {
        if let Some(note) = note.as_ref().filter(|note| !note.starts_with(NOT_INSTALLED)) {
            let tool = if tool == NONE { String::new() } else { format!(", {tool}") };
            text.push_str(&format!("- {target}{tool}: {note}.\n"));
        }
    }
    text
}

fn of_kernel(kernel: &[Kernel]) -> String {
    let name = |it: &&Kernel| format!("kernel part per sample, ns, --unwind {}", it.unwind);
    let columns = [
        column("wingbeat on stacks of 26 frames", name),
        column("time", |it: &&Kernel| show(Spread::of(it.ns.iter().copied()), 1.0, 0, "")),
    ];
    table(kernel, &columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::cells_of;

    fn row(tool: &str, complete: f64, depth_gap: f64, gap: f64) -> Row {
        let figures = Figures {
            samples: 9,
            complete: Some(complete),
            depth: Some(20.0),
            depth_from_perf: Some(depth_gap),
            from_perf: Some(gap),
            function: "main".to_owned(),
            ..Figures::default()
        };
        let (target, tool) = ("git".to_owned(), tool.to_owned());
        Row { target, tool, note: None, figures: vec![figures] }
    }

    #[test]
    fn goals_are_judged_where_perf_can_measure() {
        let check = |ours: Row, perf_complete, expected: [&str; 3]| {
            let cells = cells_of(&targets(&[ours, row(PERF, perf_complete, 0.0, 0.0)]));
            assert_eq!(cells[0][3..6], expected);
        };
        let kept = || row(WINGBEAT, 0.998, 0.25, -0.01);
        let depth = "20.00, +0.25 from perf's";
        let functions = "−1.0 points, main";
        check(
            kept(),
            0.99,
            ["99.80 %: reached", &format!("{depth}: reached"), &format!("{functions}: reached")],
        );
        let open = |text: &str| format!("{text}: {NO_MEASURE}");
        check(kept(), 0.5, ["99.80 %: reached", &open(depth), &open(functions)]);
        let missed = row(WINGBEAT, 0.99, -0.75, 0.03);
        let words = ["20.00, −0.75 from perf's: **missed**", "+3.0 points, main: **missed**"];
        check(missed, 0.99, ["99.00 %: **missed**", words[0], words[1]]);
    }

    #[test]
    fn costs_are_judged_by_samply_s() {
        let row = |tool: &str, slowdown, own_s_per_10k| {
            let figures = Figures { slowdown, own_s_per_10k, ..Figures::default() };
            let (target, tool) = ("git".to_owned(), tool.to_owned());
            Row { target, tool, note: None, figures: vec![figures] }
        };
        let check = |rows: &[Row], expected: &[[&str; 2]]| {
            let cells = cells_of(costs(rows).split_once("\n\n").expect("an introduction").1);
            let found: Vec<_> = cells.iter().map(|row| [&*row[2], &*row[3]]).collect();
            assert_eq!(found, expected);
        };
        let ours = || row(WINGBEAT, Some(0.01), Some(0.5));
        check(
            &[ours(), row(SAMPLY, Some(0.02), Some(0.4))],
            &[["1.0 %: reached", "0.50: **missed**"], ["2.0 %", "0.40"]],
        );
        check(&[ours()], &[["1.0 %", "0.50"]]);
        assert_eq!(costs(&[]), "");
    }

    #[test]
    fn what_is_missing_is_said() {
        let check = |note: &str, samples: &str, below: &str| {
            let (target, tool, note) = ("go".to_owned(), NONE.to_owned(), Some(note.to_owned()));
            let rows = [Row { target, tool, note, figures: Vec::new() }];
            assert_eq!(cells_of(&targets(&rows))[0][..4], ["go", NONE, samples, NONE]);
            assert_eq!(notes(&rows), below);
        };
        check("not installed: go", "not installed: go", "");
        check("failed: it burns", "see below", "- go: failed: it burns.\n");
    }
}

//! The figures that the tables show, and what they are to be. Pure: a record in, numbers out.

use super::{
    super::stats::Spread,
    record::{Agreement, Alone, Record, Run, Sum},
    tools::{PERF, SLEEPY, WINGBEAT},
};

/// wingbeat's share of what perf costs is to be at most this.
const COST_MAX: f64 = 0.5;

/// More slowdown than this is to be explained.
const SLOWDOWN_MAX: f64 = 0.2;

/// Where perf slows the target by less, or even hastens it, there is nothing to be half of.
const SLOWDOWN_MIN: f64 = 0.05;

/// Sums are to differ by at most this.
const GAP_MAX: f64 = 0.01;

/// A figure of one run, which the tables show over all rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Metric {
    /// Rounds per second of the target.
    Pace,
    /// Time of a round ÷ that without a tool in the same round, − 1.
    Slowdown,
    /// The tool's own CPU seconds, from start to end.
    Own,
    /// The same in microseconds, ÷ switches of the target.
    OwnPerSwitch,
    /// The same without what the tool takes in the same round on the sleepy target, where there is next
    /// to no switch: start and end.
    GrowthPerSwitch,
    /// [`Metric::OwnPerSwitch`], and [`Metric::ReadingPerSwitch`] where it is a second step.
    ChainPerSwitch,
    /// CPU microseconds to read the recording, ÷ switches of the target.
    ReadingPerSwitch,
    File,
    /// Switches seen ÷ those that the target counts.
    Seen,
    /// Switches or blocks lost ÷ those that the target counts.
    Lost,
}

/// How it stands with a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The median is within the bound.
    Reached,
    /// The median is not, but some rounds are.
    Unclear,
    Missed,
}

/// A goal with its figure.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Goal {
    pub(super) what: &'static str,
    pub(super) place: String,
    /// At most this.
    pub(super) bound: f64,
    /// Whether it is written in percent.
    pub(super) is_percent: bool,
    /// The figure; `None` when it was not measured.
    pub(super) figure: Option<Spread>,
}

impl Goal {
    /// Whether it is reached.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        let Spread { median, min, .. } = self.figure?;
        Some(match (median <= self.bound, min <= self.bound) {
            (true, _) => Verdict::Reached,
            (false, true) => Verdict::Unclear,
            (false, false) => Verdict::Missed,
        })
    }
}

/// All goals.
pub(super) fn goals(record: &Record) -> Vec<Goal> {
    let figures = Figures::new(record);
    let pair = (WINGBEAT, PERF);
    let mut goals = Vec::new();
    for target in targets(record).into_iter().filter(|target| figures.counts_switches(target)) {
        let mut goal = |what, bound, is_percent, figure| {
            goals.push(Goal { what, place: target.to_owned(), bound, is_percent, figure });
        };
        let slowdown = figures.ratio(Metric::Slowdown, pair, target);
        goal("slowdown ÷ perf's", COST_MAX, false, slowdown);
        let own = figures.ratio(Metric::ChainPerSwitch, pair, target);
        goal("own CPU per switch ÷ perf's with perf script", COST_MAX, false, own);
        let own = figures.ratio(Metric::OwnPerSwitch, pair, target);
        goal("own CPU per switch ÷ perf record's alone", COST_MAX, false, own);
        let slowdown = figures.spread(Metric::Slowdown, WINGBEAT, target);
        goal("slowdown", SLOWDOWN_MAX, true, slowdown);
    }
    let mut worst_sum = |what, sums: fn(&Agreement) -> &[Sum]| {
        let worst = record.agreements.iter().filter_map(|agreement| {
            let gaps = sums(agreement).iter().filter_map(Sum::gap);
            gaps.map(f64::abs).max_by(f64::total_cmp)
        });
        let (place, figure) = ("sleepy, the worst".to_owned(), Spread::of(worst));
        goals.push(Goal { what, place, bound: GAP_MAX, is_percent: true, figure });
    };
    worst_sum("sums per thread: difference from perf's", |agreement| &agreement.threads);
    worst_sum("sums per function: difference from perf's", |agreement| &agreement.functions);
    goals
}

/// The targets that were run, in their order.
pub(super) fn targets(record: &Record) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for alone in &record.alone {
        if !names.contains(&alone.target.as_str()) {
            names.push(&alone.target);
        }
    }
    names
}

/// Works out figures of a record.
#[derive(Debug)]
pub(super) struct Figures<'a> {
    record: &'a Record,
}

impl<'a> Figures<'a> {
    /// Of this record.
    pub(super) fn new(record: &'a Record) -> Self {
        Self { record }
    }

    /// Whether this target tells how often it was switched.
    pub(super) fn counts_switches(&self, target: &str) -> bool {
        self.record.alone.iter().any(|a| a.target == target && a.report.switches.is_some())
    }

    /// What the target does per second without a tool.
    pub(super) fn alone(&self, target: &str) -> Option<Spread> {
        let alone = self.record.alone.iter().filter(|alone| alone.target == target);
        Spread::of(alone.map(|alone| 1.0 / round_s(alone.report.wall_time_ns, alone.report.rounds)))
    }

    /// How often the target is switched per second without a tool.
    pub(super) fn switches_alone(&self, target: &str) -> Option<Spread> {
        let alone = self.record.alone.iter().filter(|alone| alone.target == target);
        let paces: Option<Vec<f64>> = alone
            .map(|alone| Some(1.0 / round_s(alone.report.wall_time_ns, alone.report.switches?)))
            .collect();
        Spread::of(paces?)
    }

    /// A metric of a tool on a target, over the rounds that have it.
    pub(super) fn spread(&self, metric: Metric, tool: &str, target: &str) -> Option<Spread> {
        Spread::of(self.runs(tool, target).filter_map(|run| self.value(metric, run)))
    }

    /// A metric of one tool ÷ that of another in the same round, over the rounds.
    pub(super) fn ratio(
        &self,
        metric: Metric,
        (tool, other): (&str, &str),
        target: &str,
    ) -> Option<Spread> {
        let ratios = self.runs(tool, target).filter_map(|run| {
            let other = self.runs(other, target).find(|other| other.round == run.round)?;
            let (ours, theirs) = (self.value(metric, run)?, self.value(metric, other)?);
            let is_base = metric != Metric::Slowdown || theirs >= SLOWDOWN_MIN;
            is_base.then_some(ours / theirs)
        });
        Spread::of(ratios)
    }

    fn runs(&self, tool: &str, target: &str) -> impl Iterator<Item = &'a Run> {
        self.record.runs.iter().filter(move |run| run.tool == tool && run.target == target)
    }

    #[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds of minutes fit 53 bits")]
    fn value(&self, metric: Metric, run: &Run) -> Option<f64> {
        let (report, outcome) = (&run.report, &run.outcome);
        let round_s = round_s(report.wall_time_ns, report.rounds);
        let switches = || report.switches.map(|switches| switches as f64);
        let share = |count: Option<u64>| Some(count? as f64 / switches()?);
        match metric {
            Metric::Pace => Some(1.0 / round_s),
            Metric::Slowdown => {
                let is_beside = |a: &&Alone| a.target == run.target && a.round == run.round;
                let alone = &self.record.alone.iter().find(is_beside)?.report;
                Some(round_s / self::round_s(alone.wall_time_ns, alone.rounds) - 1.0)
            }
            Metric::Own => Some(self.own_cpu_ns(run) / 1e9),
            Metric::OwnPerSwitch => Some(self.own_cpu_ns(run) / 1e3 / switches()?),
            Metric::GrowthPerSwitch => {
                let idle = self.runs(&run.tool, SLEEPY).find(|idle| idle.round == run.round)?;
                Some((self.own_cpu_ns(run) - self.own_cpu_ns(idle)) / 1e3 / switches()?)
            }
            Metric::ChainPerSwitch => {
                let all_ns = self.own_cpu_ns(run) + outcome.reading_cpu_ns.unwrap_or(0) as f64;
                Some(all_ns / 1e3 / switches()?)
            }
            Metric::ReadingPerSwitch => Some(outcome.reading_cpu_ns? as f64 / 1e3 / switches()?),
            Metric::File => Some(outcome.file_bytes as f64 / 1e6),
            Metric::Seen => share(outcome.seen),
            Metric::Lost => share(outcome.lost),
        }
    }

    /// The tool's own CPU nanoseconds in one run, without the target's, which was its child.
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of minutes fit 53 bits")]
    fn own_cpu_ns(&self, run: &Run) -> f64 {
        // What the target costs after its report, in its exit, shows where nobody watches.
        let alone = self.record.alone.iter().filter(|alone| alone.target == run.target);
        let exits = alone.map(|alone| alone.cpu_ns.saturating_sub(alone.report.cpu_time_ns) as f64);
        let exit_ns = Spread::of(exits).map_or(0.0, |spread| spread.median);
        run.outcome.cpu_ns as f64 - run.report.cpu_time_ns as f64 - exit_ns
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds of minutes fit 53 bits")]
fn round_s(wall_time_ns: u64, rounds: u64) -> f64 {
    wall_time_ns as f64 / 1e9 / rounds as f64
}

#[cfg(test)]
mod tests {
    use super::{
        super::record::{Outcome, Report},
        *,
    };

    const S: u64 = 1_000_000_000;

    fn report(rounds: u64) -> Report {
        Report {
            rounds,
            wall_time_ns: 2 * S,
            cpu_time_ns: 2 * S,
            switches: Some(rounds * 2),
            threads: Vec::new(),
        }
    }

    fn run(tool: &str, round: u32, rounds: u64, own_us: u64) -> Run {
        Run {
            tool: tool.to_owned(),
            target: "token".to_owned(),
            round,
            report: report(rounds),
            outcome: Outcome {
                // The target's, 1 ms of its exit, and the tool's.
                cpu_ns: 2 * S + 1_000_000 + own_us * 1000,
                reading_cpu_ns: None,
                file_bytes: 3_000_000,
                seen: Some(rounds),
                lost: None,
            },
        }
    }

    fn record() -> Record {
        let alone = |round| Alone {
            target: "token".to_owned(),
            round,
            report: report(1_000_000),
            cpu_ns: 2 * S + 1_000_000,
        };
        let sum = |perf_ns, wingbeat_ns| Sum { perf_ns, wingbeat_ns, ..Sum::default() };
        Record {
            alone: vec![alone(0), alone(1)],
            runs: vec![
                run(WINGBEAT, 0, 800_000, 160_000),
                run(PERF, 0, 500_000, 500_000),
                run(WINGBEAT, 1, 500_000, 200_000),
                run(PERF, 1, 500_000, 250_000),
            ],
            agreements: vec![Agreement {
                threads: vec![sum(1000, 1002), sum(1000, 995)],
                functions: vec![sum(1000, 900), sum(0, 5)],
                ..Agreement::default()
            }],
            ..Record::default()
        }
    }

    #[track_caller]
    fn check(spread: Option<Spread>, expected: Option<(f64, f64, f64)>) {
        let found = spread.map(|spread| (spread.min, spread.median, spread.max));
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let same = match (found, expected) {
            (Some(a), Some(b)) => near(a.0, b.0) && near(a.1, b.1) && near(a.2, b.2),
            (found, expected) => found.is_none() && expected.is_none(),
        };
        assert!(same, "found {found:?}, expected {expected:?}");
    }

    #[test]
    fn figures_of_a_tool() {
        let record = record();
        let figures = Figures::new(&record);
        let spread = |metric, tool| figures.spread(metric, tool, "token");
        check(spread(Metric::Pace, WINGBEAT), Some((250_000.0, 325_000.0, 400_000.0)));
        check(spread(Metric::Slowdown, WINGBEAT), Some((0.25, 0.625, 1.0)));
        check(spread(Metric::Own, PERF), Some((0.25, 0.375, 0.5)));
        check(spread(Metric::OwnPerSwitch, PERF), Some((0.25, 0.375, 0.5)));
        check(spread(Metric::GrowthPerSwitch, PERF), None);
        check(spread(Metric::File, PERF), Some((3.0, 3.0, 3.0)));
        check(spread(Metric::Seen, PERF), Some((0.5, 0.5, 0.5)));
        check(spread(Metric::Lost, PERF), None);
        check(spread(Metric::Pace, "bpftrace"), None);
        check(figures.alone("token"), Some((500_000.0, 500_000.0, 500_000.0)));
        check(figures.switches_alone("token"), Some((1e6, 1e6, 1e6)));
    }

    #[test]
    fn goals_are_judged_round_by_round() {
        let goals = goals(&record());
        let found: Vec<_> = goals.iter().map(|goal| (goal.what, goal.verdict())).collect();
        let expected = [
            // 0.25 and 1
            ("slowdown ÷ perf's", Some(Verdict::Unclear)),
            // 0.2 and 0.8
            ("own CPU per switch ÷ perf's with perf script", Some(Verdict::Reached)),
            ("own CPU per switch ÷ perf record's alone", Some(Verdict::Reached)),
            ("slowdown", Some(Verdict::Missed)),
            ("sums per thread: difference from perf's", Some(Verdict::Reached)),
            ("sums per function: difference from perf's", Some(Verdict::Missed)),
        ];
        assert_eq!(found, expected);
        check(goals[4].figure, Some((0.005, 0.005, 0.005)));
    }

    #[test]
    fn the_start_is_what_a_tool_takes_where_nothing_happens() {
        let mut record = record();
        let mut idle = run(PERF, 0, 100, 399_000);
        idle.target = SLEEPY.to_owned();
        record.runs.push(idle);
        let growth = Figures::new(&record).spread(Metric::GrowthPerSwitch, PERF, "token");
        // Of the 500 ms for a million switches 400 ms are the start's; nobody told of an exit there.
        check(growth, Some((0.1, 0.1, 0.1)));
    }

    #[test]
    fn no_share_of_no_slowdown() {
        let mut record = record();
        for run in record.runs.iter_mut().filter(|run| run.tool == PERF && run.round == 0) {
            run.report = report(990_000);
        }
        let ratio = Figures::new(&record).ratio(Metric::Slowdown, (WINGBEAT, PERF), "token");
        check(ratio, Some((1.0, 1.0, 1.0)));
    }

    #[test]
    fn nothing_measured_is_no_verdict() {
        let nothing = goals(&Record::default());
        assert_eq!(nothing.len(), 2);
        assert!(nothing.iter().all(|goal| goal.verdict().is_none()), "{nothing:?}");
    }
}

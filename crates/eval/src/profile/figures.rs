//! The figures that the tables show, on the CPU and off it. Pure: a record in, numbers out.

use super::{
    record::{Record, Run},
    workload::SLEEPY,
};
use crate::numbers::Spread;

/// Where perf slows the target by less, or even hastens it, there is nothing to take a share of.
const SLOWDOWN_MIN: f64 = 0.05;

/// A figure of one run, which the tables show over all rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Metric {
    /// Samples per CPU second of the target ÷ frequency. 1 is right.
    Rate,
    /// CPU time of the target ÷ that of the run alone in the same round, − 1.
    Slowdown,
    /// The tool's own CPU seconds per 10,000 samples, from start to written output.
    OwnPer10k,
    Bytes,
    /// Seconds from the target's end to the written output.
    Finish,
    Memory,
    /// Samples lost, of all that there should have been.
    Lost,
    /// Rounds per second of the target.
    Pace,
    /// Switches per second of the target.
    SwitchPace,
    /// Time of a round ÷ that of the run alone in the same round, − 1.
    RoundSlowdown,
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
    /// Megabytes of its output.
    File,
    /// Switches seen ÷ those that the target counts.
    SwitchesSeen,
    /// Switches or blocks lost ÷ those that the target counts.
    SwitchesLost,
}

/// Where a figure was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place<'a> {
    pub(super) workload: &'a str,
    /// Samples per second asked for; 0 off the CPU.
    pub(super) frequency_hz: u32,
}

impl Run {
    fn place(&self) -> Place<'_> {
        Place { workload: &self.workload, frequency_hz: self.frequency_hz }
    }
}

pub(super) fn ratio(ours: f64, theirs: f64) -> Option<f64> {
    Some(ours / theirs)
}

pub(super) fn difference(ours: f64, theirs: f64) -> Option<f64> {
    Some(ours - theirs)
}

/// One slowdown ÷ another, where that is one.
pub(super) fn share_of_slowdown(ours: f64, theirs: f64) -> Option<f64> {
    (theirs >= SLOWDOWN_MIN).then_some(ours / theirs)
}

impl Record {
    /// A metric of a tool at a place, over the rounds that have it.
    pub(super) fn spread(&self, metric: Metric, tool: &str, place: Place<'_>) -> Option<Spread> {
        Spread::of(self.runs(tool, place).filter_map(|run| self.value(metric, run)))
    }

    /// A metric at a place without a tool, over the rounds.
    pub(super) fn spread_alone(&self, metric: Metric, place: Place<'_>) -> Option<Spread> {
        let alone = self.alone.iter().filter(|alone| alone.place() == place);
        Spread::of(alone.filter_map(|run| self.value(metric, run)))
    }

    /// A metric of one tool compared with that of another in the same round, over the rounds.
    pub(super) fn paired(
        &self,
        metric: Metric,
        (tool, other): (&str, &str),
        place: Place<'_>,
        compare: fn(f64, f64) -> Option<f64>,
    ) -> Option<Spread> {
        Spread::of(self.runs(tool, place).filter_map(|run| {
            let other = self.runs(other, place).find(|other| other.round == run.round)?;
            compare(self.value(metric, run)?, self.value(metric, other)?)
        }))
    }

    fn runs<'a>(&'a self, tool: &str, place: Place<'_>) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(move |run| run.tool == tool && run.place() == place)
    }

    fn value(&self, metric: Metric, run: &Run) -> Option<f64> {
        let Run { target, outcome, .. } = run;
        let seen = || Some(outcome.seen? as f64);
        let round_s = |run: &Run| seconds(run.target.wall_time_ns) / run.target.units as f64;
        let switches = || Some(target.switches? as f64);
        let per_switch = |cpu_ns: f64| Some(cpu_ns / 1e3 / switches()?);
        let alone = || {
            let mut alone = self.alone.iter().filter(|alone| alone.round == run.round);
            alone.find(|alone| alone.place() == run.place())
        };
        Some(match metric {
            Metric::Rate => seen()? / seconds(target.cpu_time_ns) / f64::from(run.frequency_hz),
            Metric::Slowdown => {
                target.cpu_time_ns as f64 / alone()?.target.cpu_time_ns as f64 - 1.0
            }
            Metric::OwnPer10k => self.own_cpu_ns(run) / 1e9 / seen()? * 10_000.0,
            Metric::Bytes => outcome.bytes_per_sample?,
            Metric::Finish => {
                let end = target.end_monotonic_ns;
                seconds(outcome.written_monotonic_ns.saturating_sub(end))
            }
            Metric::Memory => outcome.rss_max_bytes as f64 / 1e6,
            Metric::Lost => {
                let lost = outcome.lost? as f64;
                lost / (lost + seen()?)
            }
            Metric::Pace => 1.0 / round_s(run),
            Metric::SwitchPace => switches()? / seconds(target.wall_time_ns),
            Metric::RoundSlowdown => round_s(run) / round_s(alone()?) - 1.0,
            Metric::Own => self.own_cpu_ns(run) / 1e9,
            Metric::OwnPerSwitch => per_switch(self.own_cpu_ns(run))?,
            Metric::GrowthPerSwitch => {
                let idle = Place { workload: SLEEPY, frequency_hz: 0 };
                let idle = self.runs(&run.tool, idle).find(|idle| idle.round == run.round)?;
                per_switch(self.own_cpu_ns(run) - self.own_cpu_ns(idle))?
            }
            Metric::ChainPerSwitch => {
                let reading_ns = outcome.reading_cpu_ns.unwrap_or(0) as f64;
                per_switch(self.own_cpu_ns(run) + reading_ns)?
            }
            Metric::ReadingPerSwitch => per_switch(outcome.reading_cpu_ns? as f64)?,
            Metric::File => outcome.file_bytes as f64 / 1e6,
            Metric::SwitchesSeen => seen()? / switches()?,
            Metric::SwitchesLost => outcome.lost? as f64 / switches()?,
        })
    }

    /// The tool's own CPU nanoseconds in one run: without the target's, where that was its child.
    fn own_cpu_ns(&self, run: &Run) -> f64 {
        if run.outcome.attached {
            return run.outcome.cpu_ns as f64;
        }
        // What the target costs after its report, in its exit, shows where nobody watches.
        let alone = self.alone.iter().filter(|alone| alone.workload == run.workload);
        let exits = alone.map(|it| it.outcome.cpu_ns.saturating_sub(it.target.cpu_time_ns) as f64);
        let exit_ns = Spread::of(exits).map_or(0.0, |spread| spread.median);
        run.outcome.cpu_ns as f64 - run.target.cpu_time_ns as f64 - exit_ns
    }

    /// How a tool's own cost grows between two frequencies.
    pub(super) fn growth(
        &self,
        tool: &str,
        workload: &str,
        (low, high): (u32, u32),
    ) -> Vec<Growth> {
        let [low, high] = [low, high].map(|frequency_hz| Place { workload, frequency_hz });
        let pairs = self.runs(tool, low).filter_map(|few| {
            let many = self.runs(tool, high).find(|many| many.round == few.round)?;
            let point = |run: &Run| Some((run.outcome.seen?, self.own_cpu_ns(run) / 1e9));
            Growth::between(few.round, point(few)?, point(many)?)
        });
        pairs.collect()
    }

    /// The greatest gap between a tool's own account of its CPU time and the kernel's, as a share of
    /// the latter.
    pub(super) fn told_gap(&self, tool: &str) -> Option<f64> {
        let runs = self.runs.iter().filter(|run| run.tool == tool);
        let gaps = runs.filter_map(|run| {
            let own_ns = self.own_cpu_ns(run);
            Some((run.outcome.told_cpu_ns? as f64 - own_ns).abs() / own_ns)
        });
        Spread::of(gaps).map(|spread| spread.max)
    }

    /// The two frequencies between which growth is looked at: the two highest.
    pub(super) fn growth_pair(&self) -> Option<(u32, u32)> {
        let mut all: Vec<u32> = self.runs.iter().map(|run| run.frequency_hz).collect();
        all.sort_unstable();
        all.dedup();
        match all[..] {
            [.., low, high] => Some((low, high)),
            _ => None,
        }
    }

    /// Workloads and frequencies, in the order in which they were run.
    pub(super) fn places(&self) -> Vec<Place<'_>> {
        distinct(self.alone.iter().map(Run::place))
    }

    /// The workloads, in the order in which they were run.
    pub(super) fn workloads(&self) -> Vec<&str> {
        distinct(self.alone.iter().map(|run| run.workload.as_str()))
    }
}

/// Each once, in the order in which it comes first.
pub(super) fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for it in all {
        if !seen.contains(&it) {
            seen.push(it);
        }
    }
    seen
}

/// A tool's own cost as a fixed part and a part for each sample, in one round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Growth {
    /// The round that both runs belong to.
    pub(super) round: u32,
    /// CPU seconds without any sample: start, symbols, writing.
    pub(super) fixed_s: f64,
    pub(super) slope_us: f64,
}

impl Growth {
    /// The line through two points of (samples, CPU seconds); `None` when they do not differ.
    fn between(round: u32, (few, few_s): (u64, f64), (many, many_s): (u64, f64)) -> Option<Self> {
        let more = many.checked_sub(few).filter(|more| *more > 0)?;
        let slope_s = (many_s - few_s) / more as f64;
        Some(Self { round, fixed_s: few_s - slope_s * few as f64, slope_us: slope_s * 1e6 })
    }

    /// A part of each ÷ that of another tool's in the same round, over the rounds.
    pub(super) fn ratio(ours: &[Self], theirs: &[Self], part: fn(&Self) -> f64) -> Option<Spread> {
        Spread::of(ours.iter().filter_map(|our| {
            let their = theirs.iter().find(|their| their.round == our.round)?;
            Some(part(our) / part(their))
        }))
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
pub(super) mod tests {
    use super::{
        super::record::{Agreement, Outcome, Sum, Target},
        *,
    };

    const S: u64 = 1_000_000_000;

    const AT_1000: Place<'_> = Place { workload: "w", frequency_hz: 1000 };
    const TOKEN: Place<'_> = Place { workload: "token", frequency_hz: 0 };

    fn run(tool: &str, place: Place<'_>, round: u32, target: Target, outcome: Outcome) -> Run {
        let (tool, workload) = (tool.to_owned(), place.workload.to_owned());
        Run { tool, workload, frequency_hz: place.frequency_hz, round, target, outcome }
    }

    /// CPU time of the target, 1 ms of its exit, and the tool's.
    fn cpu_ns(target: &Target, own_ms: u64) -> u64 {
        target.cpu_time_ns + (1 + own_ms) * 1_000_000
    }

    fn sampled(tool: &str, frequency_hz: u32, round: u32, samples: u64, own_ms: u64) -> Run {
        let target = Target { cpu_time_ns: 4 * S, end_monotonic_ns: 10 * S, ..Target::default() };
        let outcome = Outcome {
            seen: Some(samples),
            lost: Some(samples / 3),
            cpu_ns: cpu_ns(&target, own_ms),
            written_monotonic_ns: 10 * S + own_ms * 1_000_000,
            rss_max_bytes: 5_000_000,
            ..Outcome::default()
        };
        run(tool, Place { frequency_hz, ..AT_1000 }, round, target, outcome)
    }

    fn on_cpu() -> Record {
        let alone = |frequency_hz, round, cpu_time_ns| {
            let target = Target { cpu_time_ns, ..Target::default() };
            let outcome = Outcome { cpu_ns: cpu_ns(&target, 0), ..Outcome::default() };
            run("", Place { frequency_hz, ..AT_1000 }, round, target, outcome)
        };
        Record {
            alone: vec![
                alone(1000, 0, 4 * S),
                alone(1000, 1, 5 * S),
                alone(10_000, 0, 4 * S),
                alone(10_000, 1, 4 * S),
            ],
            runs: vec![
                sampled("a", 1000, 0, 4000, 140),
                sampled("a", 1000, 1, 3960, 140),
                sampled("a", 10_000, 0, 40_000, 500),
                sampled("b", 1000, 0, 4000, 280),
                sampled("b", 1000, 1, 4000, 700),
            ],
            ..Record::default()
        }
    }

    fn report(units: u64) -> Target {
        let (wall_time_ns, cpu_time_ns) = (2 * S, 2 * S);
        Target { units, wall_time_ns, cpu_time_ns, switches: Some(units * 2), ..Target::default() }
    }

    fn watched(tool: &str, round: u32, rounds: u64, own_ms: u64) -> Run {
        let target = report(rounds);
        let outcome = Outcome {
            cpu_ns: cpu_ns(&target, own_ms),
            file_bytes: 3_000_000,
            seen: Some(rounds),
            ..Outcome::default()
        };
        run(tool, TOKEN, round, target, outcome)
    }

    /// Two rounds of wingbeat and perf on the token, and their sums on the sleepy target.
    pub(in super::super) fn off_cpu() -> Record {
        let sum = |perf_ns, wingbeat_ns| Sum { perf_ns, wingbeat_ns, ..Sum::default() };
        let alone = |round| Run { tool: String::new(), ..watched("", round, 1_000_000, 0) };
        Record {
            alone: vec![alone(0), alone(1)],
            runs: vec![
                watched("wingbeat", 0, 800_000, 160),
                watched("perf", 0, 500_000, 500),
                watched("wingbeat", 1, 500_000, 200),
                watched("perf", 1, 500_000, 250),
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
    fn figures_on_the_cpu() {
        let record = on_cpu();
        let spread = |metric| record.spread(metric, "a", AT_1000);
        check(spread(Metric::Rate), Some((0.99, 0.995, 1.0)));
        check(spread(Metric::Slowdown), Some((-0.2, -0.1, 0.0)));
        check(spread(Metric::Finish), Some((0.14, 0.14, 0.14)));
        check(spread(Metric::Memory), Some((5.0, 5.0, 5.0)));
        check(spread(Metric::Bytes), None);
        check(record.spread(Metric::OwnPer10k, "b", AT_1000), Some((0.7, 1.225, 1.75)));
        check(record.spread(Metric::Rate, "c", AT_1000), None);
        let lost = 1333.0 / 5333.0;
        check(record.spread(Metric::Lost, "b", AT_1000), Some((lost, lost, lost)));
    }

    #[test]
    fn two_tools_are_compared_round_by_round() {
        let record = on_cpu();
        let paired = |pair, with| record.paired(Metric::Finish, pair, AT_1000, with);
        check(paired(("b", "a"), ratio), Some((2.0, 3.5, 5.0)));
        check(paired(("b", "a"), difference), Some((0.14, 0.35, 0.56)));
        check(paired(("b", "c"), ratio), None);
    }

    #[test]
    fn growth_is_a_line_through_two_runs() {
        let growth = on_cpu().growth("a", "w", (1000, 10_000));
        // Round 1 has no run at 10,000 Hz.
        assert_eq!(growth.len(), 1);
        check(Spread::of([growth[0].slope_us]), Some((10.0, 10.0, 10.0)));
        check(Spread::of([growth[0].fixed_s]), Some((0.1, 0.1, 0.1)));
        assert_eq!(Growth::between(0, (5, 1.0), (5, 2.0)), None);
    }

    #[test]
    fn figures_off_the_cpu() {
        let record = off_cpu();
        let spread = |metric, tool| record.spread(metric, tool, TOKEN);
        check(spread(Metric::Pace, "wingbeat"), Some((250_000.0, 325_000.0, 400_000.0)));
        check(spread(Metric::RoundSlowdown, "wingbeat"), Some((0.25, 0.625, 1.0)));
        check(spread(Metric::Own, "perf"), Some((0.25, 0.375, 0.5)));
        check(spread(Metric::OwnPerSwitch, "perf"), Some((0.25, 0.375, 0.5)));
        check(spread(Metric::GrowthPerSwitch, "perf"), None);
        check(spread(Metric::File, "perf"), Some((3.0, 3.0, 3.0)));
        check(spread(Metric::SwitchesSeen, "perf"), Some((0.5, 0.5, 0.5)));
        check(spread(Metric::SwitchesLost, "perf"), None);
        check(record.spread_alone(Metric::Pace, TOKEN), Some((500_000.0, 500_000.0, 500_000.0)));
        check(record.spread_alone(Metric::SwitchPace, TOKEN), Some((1e6, 1e6, 1e6)));
    }

    #[test]
    fn the_start_is_what_a_tool_takes_where_nothing_happens() {
        let mut record = off_cpu();
        let mut idle = watched("perf", 0, 100, 399);
        idle.workload = SLEEPY.to_owned();
        record.runs.push(idle);
        // Of the 500 ms for a million switches 400 ms are the start's; nobody knows of an exit there.
        check(record.spread(Metric::GrowthPerSwitch, "perf", TOKEN), Some((0.1, 0.1, 0.1)));
    }

    #[test]
    fn no_share_of_no_slowdown() {
        let mut record = off_cpu();
        for run in record.runs.iter_mut().filter(|run| run.tool == "perf" && run.round == 0) {
            run.target = report(990_000);
        }
        let pair = ("wingbeat", "perf");
        let share = record.paired(Metric::RoundSlowdown, pair, TOKEN, share_of_slowdown);
        check(share, Some((1.0, 1.0, 1.0)));
    }
}

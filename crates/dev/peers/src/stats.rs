//! Medians, spreads, and the figures that the tables show. Pure: records in, numbers out.

use super::record::{Record, Run};

/// A figure over several rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    /// The least.
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// Of some values; `None` of none, or when one is not a number.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        if values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let half = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[half]
        } else {
            f64::midpoint(values[half - 1], values[half])
        };
        Some(Self { median, min, max })
    }
}

/// A figure of one run, which the tables show over all rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Metric {
    /// Samples per CPU second of the target ÷ frequency. 1 is right.
    Rate,
    /// CPU time of the target ÷ that of the unprofiled run of the same round, − 1.
    Slowdown,
    /// The tool's own CPU seconds per 10,000 samples, from start to written output.
    OwnPer10k,
    /// Bytes per sample.
    Bytes,
    /// Seconds from the target's end to the written output.
    Finish,
    /// Peak memory in megabytes.
    Memory,
    /// Samples lost, of all that there should have been.
    Lost,
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

    /// A metric of a tool at a place, over the rounds.
    pub(super) fn spread(&self, metric: Metric, tool: &str, place: Place<'_>) -> Option<Spread> {
        let runs = self.runs(tool, place);
        let values: Option<Vec<f64>> = runs.map(|run| self.value(metric, run)).collect();
        Spread::of(values?)
    }

    /// A metric of one tool ÷ that of another in the same round, over the rounds.
    pub(super) fn ratio(
        &self,
        metric: Metric,
        (tool, other): (&str, &str),
        place: Place<'_>,
    ) -> Option<Spread> {
        self.paired((tool, other), place, |a, b| {
            Some(self.value(metric, a)? / self.value(metric, b)?)
        })
    }

    /// A metric of one tool − that of another in the same round, over the rounds.
    pub(super) fn difference(
        &self,
        metric: Metric,
        (tool, other): (&str, &str),
        place: Place<'_>,
    ) -> Option<Spread> {
        self.paired((tool, other), place, |a, b| {
            Some(self.value(metric, a)? - self.value(metric, b)?)
        })
    }

    fn paired(
        &self,
        (tool, other): (&str, &str),
        place: Place<'_>,
        figure: impl Fn(&Run, &Run) -> Option<f64>,
    ) -> Option<Spread> {
        let pairs = self.runs(tool, place).filter_map(|run| {
            let other = self.runs(other, place).find(|other| other.round == run.round)?;
            figure(run, other)
        });
        Spread::of(pairs)
    }

    fn runs(&self, tool: &str, place: Place<'_>) -> impl Iterator<Item = &'a Run> {
        self.record.runs.iter().filter(move |run| {
            run.tool == tool
                && run.workload == place.workload
                && run.frequency_hz == place.frequency_hz
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds of minutes fit 53 bits")]
    fn value(&self, metric: Metric, run: &Run) -> Option<f64> {
        let outcome = &run.outcome;
        let samples = outcome.samples as f64;
        match metric {
            Metric::Rate => {
                Some(samples / seconds(run.target.cpu_time_ns) / f64::from(run.frequency_hz))
            }
            Metric::Slowdown => {
                let alone = self.record.unprofiled.iter().find(|alone| {
                    alone.workload == run.workload
                        && alone.frequency_hz == run.frequency_hz
                        && alone.round == run.round
                })?;
                Some(run.target.cpu_time_ns as f64 / alone.target.cpu_time_ns as f64 - 1.0)
            }
            Metric::OwnPer10k => Some(self.own_cpu_s(run) / samples * 10_000.0),
            Metric::Bytes => outcome.bytes_per_sample,
            Metric::Finish => {
                let end = run.target.end_monotonic_ns;
                Some(seconds(outcome.written_monotonic_ns.saturating_sub(end)))
            }
            Metric::Memory => Some(outcome.rss_max_bytes as f64 / 1e6),
            Metric::Lost => {
                let lost = outcome.lost? as f64;
                Some(lost / (lost + samples))
            }
        }
    }

    /// The tool's own CPU seconds in one run: without the target's, where that was its child.
    pub(super) fn own_cpu_s(&self, run: &Run) -> f64 {
        let all = seconds(run.outcome.cpu_ns);
        if run.outcome.launched_target {
            all - seconds(run.target.cpu_time_ns) - self.exit_cpu_s(&run.workload)
        } else {
            all
        }
    }

    /// What a workload costs after its report, in its exit, as seen in the unprofiled runs.
    fn exit_cpu_s(&self, workload: &str) -> f64 {
        let alone = self.record.unprofiled.iter().filter(|alone| alone.workload == workload);
        let exits =
            alone.map(|alone| seconds(alone.cpu_ns.saturating_sub(alone.target.cpu_time_ns)));
        Spread::of(exits).map_or(0.0, |spread| spread.median)
    }

    /// How a tool's own cost grows between two frequencies.
    pub(super) fn growth(
        &self,
        tool: &str,
        workload: &str,
        (low, high): (u32, u32),
    ) -> Vec<Growth> {
        let low = Place { workload, frequency_hz: low };
        let high = Place { workload, frequency_hz: high };
        let pairs = self.runs(tool, low).filter_map(|few| {
            let many = self.runs(tool, high).find(|many| many.round == few.round)?;
            let (few_s, many_s) = (self.own_cpu_s(few), self.own_cpu_s(many));
            let growth =
                Growth::between((few.outcome.samples, few_s), (many.outcome.samples, many_s))?;
            Some(Growth { round: few.round, ..growth })
        });
        pairs.collect()
    }

    /// The greatest gap between a tool's own account of its CPU time and the kernel's, as a share of
    /// the latter.
    pub(super) fn told_gap(&self, tool: &str) -> Option<f64> {
        let runs = self.record.runs.iter().filter(|run| run.tool == tool);
        let gaps = runs.filter_map(|run| {
            let own = self.own_cpu_s(run);
            Some((seconds(run.outcome.told_cpu_ns?) - own).abs() / own)
        });
        Spread::of(gaps).map(|spread| spread.max)
    }
}

/// Where a figure was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place<'a> {
    pub(super) workload: &'a str,
    /// Samples per second asked for.
    pub(super) frequency_hz: u32,
}

/// A tool's own cost as a fixed part and a part for each sample, in one round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Growth {
    /// The round that both runs belong to.
    pub(super) round: u32,
    /// CPU seconds without any sample: start, symbols, writing.
    pub(super) fixed_s: f64,
    /// CPU microseconds per sample.
    pub(super) slope_us: f64,
}

impl Growth {
    /// The line through two points of (samples, CPU seconds); `None` when they do not differ.
    #[expect(clippy::cast_precision_loss, reason = "counts of samples fit 53 bits")]
    fn between((few, few_s): (u64, f64), (many, many_s): (u64, f64)) -> Option<Self> {
        let more = many.checked_sub(few).filter(|more| *more > 0)?;
        let slope_s = (many_s - few_s) / more as f64;
        let fixed_s = few_s - slope_s * few as f64;
        Some(Self { round: 0, fixed_s, slope_us: slope_s * 1e6 })
    }
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of an hour fit 53 bits")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::{
        super::record::{Outcome, Target, Unprofiled},
        *,
    };

    const S: u64 = 1_000_000_000;

    fn run(tool: &str, frequency_hz: u32, round: u32, samples: u64, own_ms: u64) -> Run {
        let target = Target { cpu_time_ns: 4 * S, end_monotonic_ns: 10 * S, ..Target::default() };
        Run {
            tool: tool.to_owned(),
            workload: "w".to_owned(),
            frequency_hz,
            round,
            target,
            outcome: Outcome {
                samples,
                lost: Some(samples / 3),
                // The target's own, its exit of 1 ms, and the tool's.
                cpu_ns: 4 * S + 1_000_000 + own_ms * 1_000_000,
                launched_target: true,
                written_monotonic_ns: 10 * S + own_ms * 1_000_000,
                rss_max_bytes: 5_000_000,
                ..Outcome::default()
            },
        }
    }

    fn record() -> Record {
        let alone = |frequency_hz, round, cpu_time_ns| Unprofiled {
            workload: "w".to_owned(),
            frequency_hz,
            round,
            target: Target { cpu_time_ns, ..Target::default() },
            cpu_ns: cpu_time_ns + 1_000_000,
        };
        Record {
            unprofiled: vec![
                alone(1000, 0, 4 * S),
                alone(1000, 1, 5 * S),
                alone(10_000, 0, 4 * S),
                alone(10_000, 1, 4 * S),
            ],
            runs: vec![
                run("a", 1000, 0, 4000, 140),
                run("a", 1000, 1, 3960, 140),
                run("a", 10_000, 0, 40_000, 500),
                run("b", 1000, 0, 4000, 280),
                run("b", 1000, 1, 4000, 700),
            ],
            ..Record::default()
        }
    }

    #[track_caller]
    fn check(spread: Option<Spread>, expected: Option<(f64, f64, f64)>) {
        let found = spread.map(|spread| (spread.min, spread.median, spread.max));
        let same = match (found, expected) {
            (Some(found), Some(expected)) => {
                [(found.0, expected.0), (found.1, expected.1), (found.2, expected.2)]
                    .iter()
                    .all(|(found, expected)| (found - expected).abs() < 1e-9)
            }
            (found, expected) => found.is_none() && expected.is_none(),
        };
        assert!(same, "found {found:?}, expected {expected:?}");
    }

    #[test]
    fn medians() {
        check(Spread::of([3.0, 1.0, 2.0]), Some((1.0, 2.0, 3.0)));
        check(Spread::of([4.0, 1.0, 2.0, 3.0]), Some((1.0, 2.5, 4.0)));
        check(Spread::of([]), None);
        check(Spread::of([1.0, f64::NAN]), None);
        check(Spread::of([f64::INFINITY]), None);
    }

    #[test]
    fn figures_of_one_tool() {
        let record = record();
        let figures = Figures::new(&record);
        let place = Place { workload: "w", frequency_hz: 1000 };
        let spread = |metric| figures.spread(metric, "a", place);
        check(spread(Metric::Rate), Some((0.99, 0.995, 1.0)));
        check(spread(Metric::Slowdown), Some((-0.2, -0.1, 0.0)));
        check(spread(Metric::Finish), Some((0.14, 0.14, 0.14)));
        check(spread(Metric::Memory), Some((5.0, 5.0, 5.0)));
        check(spread(Metric::Bytes), None);
        check(figures.spread(Metric::OwnPer10k, "b", place), Some((0.7, 1.225, 1.75)));
        check(figures.spread(Metric::Rate, "c", place), None);
        let lost = 1333.0 / 5333.0;
        check(figures.spread(Metric::Lost, "b", place), Some((lost, lost, lost)));
    }

    #[test]
    fn two_tools_are_compared_round_by_round() {
        let record = record();
        let figures = Figures::new(&record);
        let place = Place { workload: "w", frequency_hz: 1000 };
        let ratio = figures.ratio(Metric::Finish, ("b", "a"), place);
        check(ratio, Some((2.0, 3.5, 5.0)));
        let difference = figures.difference(Metric::Finish, ("b", "a"), place);
        check(difference, Some((0.14, 0.35, 0.56)));
        check(figures.ratio(Metric::Finish, ("b", "c"), place), None);
    }

    #[test]
    fn growth_is_a_line_through_two_runs() {
        let record = record();
        let growth = Figures::new(&record).growth("a", "w", (1000, 10_000));
        // Round 1 has no run at 10,000 Hz.
        assert_eq!(growth.len(), 1);
        check(Spread::of([growth[0].slope_us]), Some((10.0, 10.0, 10.0)));
        check(Spread::of([growth[0].fixed_s]), Some((0.1, 0.1, 0.1)));
        assert_eq!(Growth::between((5, 1.0), (5, 2.0)), None);
    }
}

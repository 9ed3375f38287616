//! Single runs of loaded programs: their times and perf counts.
//!
//! Here is the result, which computes percentiles from histograms; pure. [`measure()`] takes it of selected programs,
//! for a duration or while a command runs.

mod measure;

use serde::Serialize;
use wingbeat_bpf_loader::loader::CounterEvent;
use wingbeat_stats::histogram::{BUCKETS, VALUE_END, bounds};

use crate::{
    analyse::clock::{self, Quantiles},
    instrument::tracer::CounterSums,
};
use measure::Recording;

pub(super) use measure::measure;

/// Maximum relative error of a percentile: the width of a bin above 63 ns.
const BIN_WIDTH: f64 = 1.0 / 32.0;

/// Times of single runs in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SingleRuns {
    pub runs: u64,
    /// Median. Percentiles are `None` if not a single run lies above, or from 4.29 s on, where the bins end.
    pub p50_ns: Option<f64>,
    pub p90_ns: Option<f64>,
    pub p99_ns: Option<f64>,
    pub p999_ns: Option<f64>,
    pub max_ns: u64,
    pub min_ns: u64,
    pub mean_ns: f64,
    /// Width of the bins relative to the percentile: 1/32 above 63 ns. Below, they are 1 ns wide.
    #[serde(rename = "bin_width_share")]
    pub bin_width: f64,
    /// Step of the clock, if it is 4 ns or more.
    pub clock_step_ns: Option<f64>,
    /// p50 minus that of an empty program; at least 0.
    pub net_p50_ns: Option<f64>,
    /// Runs of 4.29 s and more, which share the last bin. Mean and maximum are still exact.
    pub runs_beyond_bins: u64,
    pub untimed: Untimed,
    /// Non-empty bins.
    pub bins: Vec<Bin>,
}

/// A histogram bin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// Inclusive lower bound in nanoseconds.
    pub lower_ns: u64,
    /// Exclusive upper bound; `None` for the last bin.
    pub upper_ns: Option<u64>,
    pub runs: u64,
}

/// Runs without a known time, by reason. One run may be counted twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Untimed {
    /// The kernel skipped a tracer that was already running on that CPU.
    pub recursion: u64,
    /// Evicted entries: there were more concurrent runs on a CPU than slots, or runs ended without
    /// an exit, as exceptions do.
    pub displaced: u64,
    /// Exits without an entry: these runs began before tracing.
    pub unmatched: u64,
    /// Runs still active at the end.
    pub unfinished: u64,
}

impl Untimed {
    /// Runs that are missing although they began and ended in the measured time.
    pub fn lost(&self) -> u64 {
        self.recursion.saturating_add(self.displaced)
    }
}

/// Perf counts of a program's runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CounterReport {
    pub event: String,
    /// Sum over all runs, including the tracers' overhead; scaled up if the event was multiplexed.
    /// `None` if no run could be counted.
    pub total: Option<f64>,
    pub per_run: Option<f64>,
    /// Count per run minus that of an empty program, which is the tracers' overhead; at least 0.
    pub net_per_run: Option<f64>,
    pub runs: u64,
    /// Share of the time in which the event was counting, 0 to 1.
    #[serde(rename = "running_share")]
    pub running: Option<f64>,
}

/// The baseline: an empty program with the same tracers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EmptyRuns {
    pub single_runs: SingleRuns,
    /// Their perf counts.
    pub counters: Vec<CounterReport>,
    /// Time that the tracers add to each run, as seen by its caller.
    pub added_ns: f64,
}

impl SingleRuns {
    /// Computes percentiles from a histogram. `None` without runs.
    fn new(recording: &Recording, empty_p50_ns: Option<f64>) -> Option<Self> {
        let results = &recording.results;
        let recorded = &results.recorded;
        let step_ns = clock::step_ns([recorded.buckets.as_slice()].into_iter());
        let quantiles = Quantiles::new(recorded, step_ns).ok()?;
        // The last bin is unbounded.
        let beyond = recorded.buckets.get(BUCKETS - 1).copied().unwrap_or(0);
        let quantile = |q: f64| {
            let above = recorded.count as f64 * (1.0 - q);
            // Tolerates rounding: 0.1 % of 1,000 runs is one run.
            let is_known = (above >= 1.0 - 1e-9 || q <= 0.5) && above >= beyond as f64;
            is_known.then(|| quantiles.of(q))
        };
        let p50_ns = quantile(0.5);
        let bins = recorded.buckets.iter().enumerate().filter(|(_, runs)| **runs > 0);
        let bins = bins.map(|(bucket, &runs)| {
            let (lower_ns, upper_ns) = bounds(bucket);
            Bin { lower_ns, upper_ns: (lower_ns < VALUE_END).then_some(upper_ns), runs }
        });
        Some(Self {
            runs: recorded.count,
            p50_ns,
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            max_ns: recorded.max_ns,
            min_ns: recorded.min_ns,
            mean_ns: recorded.sum_ns as f64 / recorded.count as f64,
            bin_width: BIN_WIDTH,
            clock_step_ns: step_ns,
            net_p50_ns: p50_ns.zip(empty_p50_ns).map(|(p50, empty)| (p50 - empty).max(0.0)),
            runs_beyond_bins: beyond,
            untimed: Untimed {
                recursion: recording.recursion_misses,
                displaced: results.displaced,
                unmatched: results.unmatched,
                unfinished: results.unfinished,
            },
            bins: bins.collect(),
        })
    }
}

impl CounterReport {
    /// Builds the report from sums over `runs` timed runs.
    fn new(event: CounterEvent, sums: CounterSums, runs: u64, empty: Option<&Self>) -> Self {
        let counted = runs.saturating_sub(sums.unread);
        let running = (sums.enabled_ns > 0)
            .then(|| (sums.running_ns as f64 / sums.enabled_ns as f64).clamp(0.0, 1.0));
        // An event that was never scheduled has no count, which is not 0.
        let total = running
            .filter(|&running| counted > 0 && running > 0.0)
            .map(|running| sums.count as f64 / running);
        let per_run = total.map(|total| total / counted as f64);
        let of_empty = empty.map(|empty| empty.per_run.unwrap_or(0.0));
        Self {
            event: event.name().to_owned(),
            total,
            per_run,
            net_per_run: per_run.zip(of_empty).map(|(each, empty)| (each - empty).max(0.0)),
            runs: counted,
            running,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instrument::{tracer::RunRecords, wrapper::Recorded};

    /// A recording of these times, each with its number of runs.
    fn recording(times: &[(u64, u64)]) -> Recording {
        let recorded = Recorded::of(times);
        let results = RunRecords {
            entries: recorded.count + 3,
            recorded,
            unmatched: 1,
            displaced: 2,
            unfinished: 1,
            counters: Vec::new(),
        };
        Recording { results, recursion_misses: 5 }
    }

    #[test]
    fn percentiles_take_runs_above_them() {
        let check = |runs: u64, expected: [bool; 4]| {
            let found = SingleRuns::new(&recording(&[(100, runs)]), None).expect("runs");
            let known = [found.p50_ns, found.p90_ns, found.p99_ns, found.p999_ns];
            assert_eq!(known.map(|percentile| percentile.is_some()), expected, "{runs}");
        };
        check(1, [true, false, false, false]);
        check(9, [true, false, false, false]);
        check(10, [true, true, false, false]);
        check(100, [true, true, true, false]);
        check(999, [true, true, true, false]);
        check(1_000, [true, true, true, true]);
        assert_eq!(SingleRuns::new(&recording(&[]), None), None);
    }

    #[test]
    fn figures() {
        let times = [(40, 500), (1_000, 480), (9_000, 19), (70_000, 1)];
        let found = SingleRuns::new(&recording(&times), Some(15.0)).expect("runs");
        assert_eq!((found.runs, found.min_ns, found.max_ns), (1_000, 40, 70_000));
        assert!((found.mean_ns - 741.0).abs() < 1e-9, "{found:?}");
        let p90 = found.p90_ns.expect("p90");
        assert!((p90 - 1_000.0).abs() <= 1_000.0 * BIN_WIDTH, "{p90}");
        let (p50, net) = (found.p50_ns.expect("p50"), found.net_p50_ns.expect("net"));
        assert!((p50 - net - 15.0).abs() < 1e-9);
        assert_eq!(found.untimed.lost(), 7);
        assert_eq!(found.bins.len(), 4);
        assert_eq!(found.bins[0], Bin { lower_ns: 40, upper_ns: Some(41), runs: 500 });
    }

    #[test]
    fn runs_beyond_the_bins_are_told_and_not_guessed() {
        let check = |beyond: u64, expected: [bool; 4]| {
            let times = [(1_000, 1_000 - beyond), (7_000_000_000, beyond)];
            let found = SingleRuns::new(&recording(&times), None).expect("runs");
            let known = [found.p50_ns, found.p90_ns, found.p99_ns, found.p999_ns];
            assert_eq!(known.map(|percentile| percentile.is_some()), expected, "{beyond}");
            assert_eq!((found.runs_beyond_bins, found.max_ns), (beyond, 7_000_000_000));
            assert_eq!(
                found.bins.last().map(|bin| (bin.lower_ns, bin.upper_ns)),
                Some((1 << 32, None))
            );
        };
        check(1, [true, true, true, true]);
        check(2, [true, true, true, false]);
        check(50, [true, true, false, false]);
        check(999, [false; 4]);
    }

    #[test]
    fn counters() {
        let check = |sums: CounterSums, runs, empty: Option<f64>, expected: [Option<f64>; 3]| {
            let empty = empty.map(|per_run| CounterReport {
                per_run: Some(per_run),
                ..CounterReport::default()
            });
            let found = CounterReport::new(CounterEvent::Cycles, sums, runs, empty.as_ref());
            assert_eq!([found.total, found.per_run, found.net_per_run], expected, "{sums:?}");
        };
        let sums = |count, enabled_ns, running_ns, unread| CounterSums {
            count,
            enabled_ns,
            running_ns,
            unread,
        };
        check(sums(1_000, 50, 50, 0), 10, None, [Some(1_000.0), Some(100.0), None]);
        check(sums(1_000, 50, 50, 0), 10, Some(30.0), [Some(1_000.0), Some(100.0), Some(70.0)]);
        check(sums(1_000, 50, 50, 0), 10, Some(300.0), [Some(1_000.0), Some(100.0), Some(0.0)]);
        // Multiplexed: counted half of the time.
        check(sums(1_000, 50, 25, 0), 10, None, [Some(2_000.0), Some(200.0), None]);
        // Two runs could not be read.
        check(sums(800, 50, 50, 2), 10, None, [Some(800.0), Some(100.0), None]);
        // A counter that never ran has no value; a running one may have counted 0.
        check(sums(0, 50, 0, 0), 10, None, [None; 3]);
        check(sums(0, 0, 0, 10), 10, None, [None; 3]);
        check(sums(0, 50, 50, 0), 10, None, [Some(0.0), Some(0.0), None]);
    }
}

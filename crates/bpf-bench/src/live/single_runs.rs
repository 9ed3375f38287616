//! Single runs of loaded programs: their times and perf counts.
//!
//! - [`model`]: the result. Computes percentiles from histograms; pure.
//! - [`recorder`]: one program with tracers at its entry and exit.
//! - [`empty`]: the baseline, and the overhead of the tracers.
//! - [`measure()`]: selected programs, for a duration or while a command runs.

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

// Results of single runs of a program.

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
mod tests;

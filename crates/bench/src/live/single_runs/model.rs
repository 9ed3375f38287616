//! What is known of the single runs of a program.

use serde::Serialize;
use wingbeat_bpf::loader::CounterEvent;
use wingbeat_stats::histogram::{BUCKETS, VALUE_END, bounds};

use super::recorder::Recording;
use crate::{
    analyse::clock::{self, Quantiles},
    instrument::tracer::CounterSums,
};

/// How far a percentile may be off, as a share of it: a bin above 63 ns is that wide.
const BIN_WIDTH: f64 = 1.0 / 32.0;

/// How long single runs took, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SingleRuns {
    pub runs: u64,
    /// Half of the runs took no longer. A percentile above which there is not one run is `None`, and so
    /// is one of 4.29 s or more, where the bins end.
    pub p50_ns: Option<f64>,
    pub p90_ns: Option<f64>,
    pub p99_ns: Option<f64>,
    pub p999_ns: Option<f64>,
    pub max_ns: u64,
    pub min_ns: u64,
    pub mean_ns: f64,
    /// Width of the bins, as a share of the percentile: 1/32 above 63 ns. Below, they are 1 ns wide.
    #[serde(rename = "bin_width_share")]
    pub bin_width: f64,
    /// The step in which the clock counts, if it is 4 ns or more.
    pub clock_step_ns: Option<f64>,
    /// p50 less what an empty program shows; 0 at least.
    pub net_p50_ns: Option<f64>,
    /// Runs of 4.29 s and more, which no bin tells apart. Mean and maximum are exact all the same.
    pub runs_beyond_bins: u64,
    pub untimed: Untimed,
    /// The bins that are not empty.
    pub bins: Vec<Bin>,
}

/// Some of the runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// The shortest that belong here, in nanoseconds.
    pub lower_ns: u64,
    /// From here on they belong to the next bin; `None` for the last there is.
    pub upper_ns: Option<u64>,
    pub runs: u64,
}

/// Runs of which the time is not known, by reason. One run may be in two of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Untimed {
    /// The kernel left a tracer out, because it was running already on that CPU.
    pub recursion: u64,
    /// Their beginning was forgotten: more runs were under way on a CPU than there is room for, or they
    /// ended without an exit, as exceptions do.
    pub displaced: u64,
    /// Their end was seen and not their beginning: they began before.
    pub unmatched: u64,
    /// They were under way when it was over.
    pub unfinished: u64,
}

impl Untimed {
    /// Runs that are missing although they began and ended in the measured time.
    pub fn lost(&self) -> u64 {
        self.recursion.saturating_add(self.displaced)
    }
}

/// What perf counted in the runs of a program.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CounterReport {
    pub event: String,
    /// Sum over all runs, what the tracers added included; scaled up where the event had to share the
    /// processor's counters. `None` if no run could be counted.
    pub total: Option<f64>,
    pub per_run: Option<f64>,
    /// The same less what an empty program shows, which is what the tracers add; 0 at least.
    pub net_per_run: Option<f64>,
    pub runs: u64,
    /// Share of the time in which the event really counted, 0 to 1.
    #[serde(rename = "running_share")]
    pub running: Option<f64>,
}

/// The ruler: an empty program with the same tracers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EmptyRuns {
    pub single_runs: SingleRuns,
    /// What perf counted in them.
    pub counters: Vec<CounterReport>,
    /// How much longer each run of a program takes because of the tracers, for whoever waits for it.
    pub added_ns: f64,
}

impl SingleRuns {
    /// Makes percentiles of a histogram. `None` without a run.
    pub(super) fn new(recording: &Recording, empty_p50_ns: Option<f64>) -> Option<Self> {
        let notebook = &recording.notebook;
        let recorded = &notebook.recorded;
        let step_ns = clock::step_ns([recorded.buckets.as_slice()].into_iter());
        let quantiles = Quantiles::new(recorded, step_ns).ok()?;
        // The last bin has no end.
        let beyond = recorded.buckets.get(BUCKETS - 1).copied().unwrap_or(0);
        let quantile = |q: f64| {
            let above = recorded.count as f64 * (1.0 - q);
            // Rounding: 0.1 % of 1,000 runs is one run.
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
                displaced: notebook.displaced,
                unmatched: notebook.unmatched,
                unfinished: notebook.unfinished,
            },
            bins: bins.collect(),
        })
    }
}

impl CounterReport {
    /// Of the sums over `runs` timed runs.
    pub(super) fn new(
        event: CounterEvent,
        sums: CounterSums,
        runs: u64,
        empty: Option<&Self>,
    ) -> Self {
        let counted = runs.saturating_sub(sums.unread);
        let running = (sums.enabled_ns > 0)
            .then(|| (sums.running_ns as f64 / sums.enabled_ns as f64).clamp(0.0, 1.0));
        // An event that never had a turn counted nothing, and that is not 0.
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

//! One batch of runs, and how long it should be.
//!
//! The kernel tells the mean time of a batch in whole nanoseconds, cut off. The CPU time that the
//! calling thread spent tells it with fractions, but contains the system call: 1 µs for most types,
//! some 200 µs for XDP, whose program is put into the dispatcher and taken out again. So a sample is
//! the CPU time less that fixed part, per run, held within the nanosecond that the kernel reports.

use std::time::Duration;

use wingbeat_bpf::{ProgramType, live::Run};
use wingbeat_stats::sample::Sample;

use super::BenchError;

/// Time in the program that a batch aims at. For XDP each batch costs two grace periods of RCU
/// besides, 16 to 40 ms, and a batch that is much shorter than these would waste the time.
const BATCH: Duration = Duration::from_millis(2);
const BATCH_WITH_SWAP: Duration = Duration::from_millis(15);

/// Bounds of a batch, in runs.
const RUNS_MIN: u32 = 10;
const RUNS_MAX: u32 = 50_000_000;

/// Calls that tell the fixed part.
const FIXED_CALLS: usize = 9;

/// What the system call costs the calling thread besides the runs, for one type of program.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct FixedPart {
    cpu_time_ns: f64,
}

impl FixedPart {
    /// Measures it by calls with hardly any runs. `run` runs an empty program.
    pub(super) fn measure(
        mut run: impl FnMut(u32) -> Result<Run, BenchError>,
    ) -> Result<Self, BenchError> {
        let mut calls = Vec::with_capacity(FIXED_CALLS);
        for _ in 0..FIXED_CALLS {
            // Two, because XDP takes another way for one.
            let run = run(2)?;
            calls.push(run.cpu_time_ns as f64 - 2.0 * f64::from(run.mean_ns.min(50)));
        }
        let cpu_time_ns = Sample::new(calls).map_or(0.0, |calls| calls.median().max(0.0));
        Ok(Self { cpu_time_ns })
    }
}

/// Time per run of a batch, in nanoseconds.
pub(super) fn time_per_run_ns(r#type: ProgramType, run: &Run, fixed: FixedPart) -> f64 {
    let runs = f64::from(run.runs.max(1));
    let is_timed = r#type.test_run().is_some_and(|rules| rules.repeats);
    if !is_timed {
        return run.cpu_time_ns as f64 / runs;
    }
    let reported = f64::from(run.mean_ns);
    let by_cpu_time = (run.cpu_time_ns as f64 - fixed.cpu_time_ns) / runs;
    by_cpu_time.clamp(reported, reported + 0.999)
}

/// Runs per batch for a program, by making batches longer until one takes long enough.
pub(super) fn calibrate(
    r#type: ProgramType,
    mut run: impl FnMut(u32) -> Result<Run, BenchError>,
) -> Result<u32, BenchError> {
    let rules = r#type.test_run();
    let swaps = rules.is_some_and(|rules| rules.swaps_dispatcher);
    let target_ns = if swaps { BATCH_WITH_SWAP } else { BATCH }.as_nanos() as f64;
    let mut runs = 1_000_u32;
    // Each turn comes within reach of the aim or multiplies by a hundred at most; a handful is enough.
    for _ in 0..6 {
        let batch = run(runs)?;
        let per_run_ns = match rules {
            Some(rules) if rules.repeats => f64::from(batch.mean_ns).max(1.0),
            _ => (batch.cpu_time_ns as f64 / f64::from(batch.runs.max(1))).max(1.0),
        };
        let wanted = (target_ns / per_run_ns).clamp(f64::from(RUNS_MIN), f64::from(RUNS_MAX));
        let is_close = wanted < 1.5 * f64::from(runs);
        // Within the bounds above, which fit.
        runs = wanted.min(100.0 * f64::from(runs)) as u32;
        if is_close {
            break;
        }
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(runs: u32, mean_ns: u32, cpu_time_ns: u64) -> Run {
        Run {
            return_value: 0,
            data: Vec::new(),
            runs,
            mean_ns,
            cpu_time_ns,
            elapsed_ns: cpu_time_ns,
            retries: 0,
        }
    }

    #[test]
    fn the_fraction_comes_from_cpu_time_and_stays_within_the_reported_nanosecond() {
        let fixed = FixedPart { cpu_time_ns: 1_000.0 };
        let check = |mean_ns, cpu_time_ns, expected: f64| {
            let run = run(1_000, mean_ns, cpu_time_ns);
            let found = time_per_run_ns(ProgramType::SCHED_CLS, &run, fixed);
            assert!((found - expected).abs() < 1e-9, "{mean_ns} {cpu_time_ns}: {found}");
        };
        check(50, 51_400, 50.4);
        check(50, 45_000, 50.0);
        check(50, 90_000, 50.999);
    }

    #[test]
    fn what_is_not_timed_is_timed_by_the_call() {
        let found = time_per_run_ns(ProgramType::SYSCALL, &run(10, 0, 4_000), FixedPart::default());
        assert!((found - 400.0).abs() < 1e-9);
    }

    #[test]
    fn batches_become_as_long_as_they_should() {
        let check = |per_run_ns: u32, expected: u32| {
            let found = calibrate(ProgramType::SCHED_CLS, |runs| {
                Ok(run(runs, per_run_ns, u64::from(runs) * u64::from(per_run_ns)))
            });
            assert_eq!(found.ok(), Some(expected), "{per_run_ns}");
        };
        check(50, 40_000);
        check(1_000, 2_000);
        check(10_000_000, RUNS_MIN);
    }
}

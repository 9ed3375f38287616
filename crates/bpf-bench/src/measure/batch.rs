//! One batch of runs, and how long it should be.
//!
//! The kernel reports the mean time of a batch in whole nanoseconds, truncated. The CPU time of the
//! calling thread has fractions, but includes the system call: 1 µs for most types, some 200 µs for
//! XDP, whose program is swapped into the dispatcher and out again. So a sample is the CPU time
//! minus that fixed part, per run, clamped to the nanosecond that the kernel reports.

use std::time::Duration;

use wingbeat_bpf_loader::{ProgramType, loader::ProgramRun};
use wingbeat_stats::sample::Sample;

use super::{BenchError, runner::Pace};

/// Target time of a batch in the program. For XDP each batch also costs two RCU grace periods, 16
/// to 40 ms, so that much shorter batches would waste time.
const BATCH: Duration = Duration::from_millis(2);
const BATCH_WITH_SWAP: Duration = Duration::from_millis(15);

const RUNS_MAX: u32 = 50_000_000;

/// Single runs that determine the length of the first batch, and their maximum time.
const SINGLE_RUNS: usize = 20;
const SINGLE_RUNS_MAX: Duration = Duration::from_millis(20);

/// Maximum duration of a batch relative to its target, not counting the cost of the system call.
const BATCH_PATIENCE: f64 = 30.0;

/// Calls that measure the fixed part.
const FIXED_CALLS: usize = 5;

/// Single-run calls, and runs of one call, that measure the apparent overhead of the former.
const SINGLE_CALLS: usize = 1_000;
const REPEATED_RUNS: u32 = 50_000;

/// Share trimmed at each end of the sorted call times: calls hit by an interrupt.
const INTERRUPTED: f64 = 0.05;

/// Fixed cost of the system call for one type of program.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct FixedPart {
    /// CPU time of the calling thread.
    cpu_time_ns: f64,
    /// Apparent overhead of a run in its own call: the clock, mostly.
    call_ns: f64,
}

impl FixedPart {
    /// Measures the fixed part by calls with few runs. `run` runs an empty program of this type.
    pub(super) fn measure(
        r#type: ProgramType,
        mut run: impl FnMut(u32) -> Result<ProgramRun, BenchError>,
    ) -> Result<Self, BenchError> {
        let mut calls = Vec::with_capacity(FIXED_CALLS);
        for _ in 0..FIXED_CALLS {
            // Two, because the kernel handles a single XDP run differently.
            let run = run(2)?;
            calls.push(run.cpu_time_ns as f64 - 2.0 * f64::from(run.mean_ns.min(50)));
        }
        let cpu_time_ns = Sample::new(calls).map_or(0.0, |calls| calls.median().max(0.0));
        let mut found = Self { cpu_time_ns, call_ns: 0.0 };
        if !repeats(r#type) {
            return Ok(found);
        }
        let repeated_ns = f64::from(run(REPEATED_RUNS)?.mean_ns);
        let (by_calls_ns, _) = found.time_calls(r#type, SINGLE_CALLS as u32, run)?;
        found.call_ns = (by_calls_ns - repeated_ns).max(0.0);
        Ok(found)
    }

    /// Time per run of so many calls with one run each, in nanoseconds, as if the kernel had repeated
    /// them; and what the last one returned. `run` makes a batch of that many.
    pub(super) fn time_calls(
        self,
        r#type: ProgramType,
        calls: u32,
        mut run: impl FnMut(u32) -> Result<ProgramRun, BenchError>,
    ) -> Result<(f64, u32), BenchError> {
        if !repeats(r#type) {
            let run = run(calls.max(1))?;
            return Ok((time_per_run_ns(r#type, &run, self), run.return_value));
        }
        let mut times = Vec::new();
        let mut returned = 0;
        for _ in 0..calls.max(1) {
            let run = run(1)?;
            times.push(f64::from(run.mean_ns));
            returned = run.return_value;
        }
        let mean_ns = Sample::new(times).map_or(0.0, |times| times.trimmed_mean(INTERRUPTED));
        Ok(((mean_ns - self.call_ns).max(0.0), returned))
    }
}

/// Whether the kernel repeats runs of this type in one call. Otherwise each run of a batch is a call, with a
/// context of its own.
pub(super) fn repeats(r#type: ProgramType) -> bool {
    r#type.test_run().is_some_and(|rules| rules.repeats)
}

/// Time per run of a batch, in nanoseconds.
pub(super) fn time_per_run_ns(r#type: ProgramType, run: &ProgramRun, fixed: FixedPart) -> f64 {
    let runs = f64::from(run.runs.max(1));
    if !repeats(r#type) {
        return run.cpu_time_ns as f64 / runs;
    }
    let reported = f64::from(run.mean_ns);
    let by_cpu_time = (run.cpu_time_ns as f64 - fixed.cpu_time_ns) / runs;
    by_cpu_time.clamp(reported, reported + 0.999)
}

/// Approximate run time of a program of which only the `first` run is known: the minimum over some
/// single runs. `run` makes one. A long run is not repeated.
pub(super) fn estimate_ns(
    r#type: ProgramType,
    first: &ProgramRun,
    pace: Pace,
    mut run: impl FnMut() -> Result<ProgramRun, BenchError>,
) -> Result<f64, BenchError> {
    let mut run_ns = per_run_ns(r#type, first);
    let mut elapsed_ns = 0;
    for _ in 0..SINGLE_RUNS {
        if pace == Pace::Long || Duration::from_nanos(elapsed_ns) > SINGLE_RUNS_MAX {
            break;
        }
        let run = run()?;
        elapsed_ns += run.elapsed_ns;
        run_ns = run_ns.min(per_run_ns(r#type, &run));
    }
    Ok(run_ns)
}

/// Length of a program's batches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Length {
    pub(super) runs: u32,
    target_ns: f64,
}

impl Length {
    /// Length for a program with this approximate run time.
    pub(super) fn of(r#type: ProgramType, run_ns: f64) -> Self {
        let swaps = r#type.test_run().is_some_and(|rules| rules.swaps_dispatcher);
        let target_ns = if swaps { BATCH_WITH_SWAP } else { BATCH }.as_nanos() as f64;
        // Between 1 and RUNS_MAX.
        let runs = (target_ns / run_ns.max(1.0)).clamp(1.0, f64::from(RUNS_MAX)) as u32;
        Self { runs, target_ns }
    }

    /// Adjusts the length to an observed batch. Returns whether that was long enough for a sample:
    /// at least half the target.
    pub(super) fn learn(&mut self, r#type: ProgramType, batch: &ProgramRun) -> bool {
        let better = Self::of(r#type, per_run_ns(r#type, batch));
        let is_enough = better.runs <= 2 * batch.runs;
        // Small deviations are no reason to change it.
        if !is_enough || better.runs < self.runs / 2 {
            *self = better;
        }
        is_enough
    }

    /// Reacts to a batch that timed out.
    pub(super) fn shorten(&mut self) {
        self.runs = (self.runs / 8).max(1);
    }

    /// Timeout of a batch.
    pub(super) fn limit(self) -> Duration {
        Duration::from_nanos((BATCH_PATIENCE * self.target_ns) as u64)
    }
}

/// Approximate run time, at least 1 ns.
fn per_run_ns(r#type: ProgramType, run: &ProgramRun) -> f64 {
    match repeats(r#type) {
        true => f64::from(run.mean_ns).max(1.0),
        false => (run.cpu_time_ns as f64 / f64::from(run.runs.max(1))).max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(runs: u32, mean_ns: u32, cpu_time_ns: u64) -> ProgramRun {
        ProgramRun {
            has_changed_context: false,
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
        let fixed = FixedPart { cpu_time_ns: 1_000.0, call_ns: 0.0 };
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
    fn estimates_are_those_of_the_fastest_run() {
        let check = |cold_ns: u32, warm_ns: u32, pace, expected: f64| {
            let warm = || Ok(run(1, warm_ns, warm_ns.into()));
            let first = run(1, cold_ns, cold_ns.into());
            let found = estimate_ns(ProgramType::SCHED_CLS, &first, pace, warm).expect("runs");
            assert!((found - expected).abs() < 1e-9, "{cold_ns} {warm_ns}: {found}");
        };
        check(5_000, 50, Pace::Short, 50.0);
        check(50, 5_000, Pace::Short, 50.0);
        check(400_000_000, 50, Pace::Long, 400e6);
        check(0, 0, Pace::Short, 1.0);
    }

    #[test]
    fn batches_become_as_long_as_they_should() {
        let check = |run_ns: f64, found_ns: u32, expected: (u32, bool, u32)| {
            let mut length = Length::of(ProgramType::SCHED_CLS, run_ns);
            let runs = length.runs;
            let time_ns = u64::from(runs) * u64::from(found_ns);
            let is_enough = length.learn(ProgramType::SCHED_CLS, &run(runs, found_ns, time_ns));
            assert_eq!((runs, is_enough, length.runs), expected, "{run_ns} {found_ns}");
        };
        check(50.0, 50, (40_000, true, 40_000));
        check(50.0, 40, (40_000, true, 40_000));
        check(50.0, 10, (40_000, false, 200_000));
        check(50.0, 500, (40_000, true, 4_000));
        check(1e9, 1_000_000_000, (1, true, 1));
        let mut length = Length::of(ProgramType::XDP, 50.0);
        assert_eq!((length.runs, length.limit()), (300_000, Duration::from_millis(450)));
        length.shorten();
        assert_eq!(length.runs, 37_500);
    }
}

//! Measures the cost of a probe on this machine, at two functions of this process.

use std::time::{Duration, Instant};

use wingbeat_bpf_loader::{loader::Uprobes, uprobe_targets::UprobeTarget};
use wingbeat_profiler_abi::{heap::call, program};

use super::{KernelHalf, Path};

/// Calls of each function, once without a probe and once with it. A single-stepped one takes 10 µs.
const CALLS: u32 = 300;

/// Repetitions; the best counts, since other programs only slow it down.
const ROUNDS: u32 = 3;

/// Cost of a probe, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProbeCosts {
    /// At an instruction that the kernel emulates.
    emulated_ns: f64,
    /// At any other instruction.
    stepped_ns: f64,
}

/// Values of one virtual machine, for use if measuring fails.
impl Default for ProbeCosts {
    fn default() -> Self {
        Self { emulated_ns: 400.0, stepped_ns: 8_000.0 }
    }
}

impl ProbeCosts {
    pub(super) fn of(&self, is_emulated: bool) -> f64 {
        if is_emulated { self.emulated_ns } else { self.stepped_ns }
    }

    pub(super) fn measure(kernel_half: &KernelHalf) -> Self {
        let standard = Self::default();
        Self {
            emulated_ns: cost(kernel_half, UprobeTarget::Emulated).unwrap_or(standard.emulated_ns),
            stepped_ns: cost(kernel_half, UprobeTarget::Stepped).unwrap_or(standard.stepped_ns),
        }
    }
}

/// Nanoseconds that a probe at a function's entry adds to a call; `None` if it cannot be attached.
fn cost(kernel_half: &KernelHalf, function: UprobeTarget) -> Option<f64> {
    let without = best(function);
    let uprobes = Uprobes {
        path: Path::new("/proc/self/exe"),
        offsets: &[function.offset().ok()?],
        // The argument is 0: nothing is freed or counted.
        cookies: &[call::FREE],
        pid: std::process::id(),
    };
    let attached = kernel_half.program(program::HEAP_FREE).ok()?.attach_uprobes(&uprobes).ok()?;
    let with = best(function);
    drop(attached);
    Some(with.saturating_sub(without).as_nanos() as f64 / f64::from(CALLS))
}

fn best(function: UprobeTarget) -> Duration {
    let time = || {
        let begun = Instant::now();
        (0..CALLS).for_each(|_| function.call());
        begun.elapsed()
    };
    (0..ROUNDS).map(|_| time()).min().unwrap_or_default()
}

//! Start of heap recording: running processes are measured first, and refused if the overhead would be too large.
//! A command waits before its first instruction.

use std::{thread, time::Duration};

use wingbeat_bpf_loader::command::Launched;
use wingbeat_profiler_abi::heap::state;

use super::{Calls, KernelHalf, ProbeCosts, Probes, SAMPLE_NS, linked::linked_files};
use crate::{
    error::RecordError, proc, recorder::Recorder, session::Options, targets::with_descendants,
};

/// Duration of counting calls before the recording, and of measuring CPU time before that.
const COUNTED: Duration = Duration::from_millis(300);

/// Assumed minimum CPU use of a target.
const USED_MIN: f64 = 0.02;

impl Probes {
    /// Attaches to the allocators of running processes, unless the overhead exceeds the budget. Returns the
    /// expected slowdown as a share of their CPU time.
    pub(in crate::session) fn watch_running(
        &mut self,
        kernel_half: &KernelHalf,
        recorder: &mut Recorder,
        options: &Options,
        pids: &[u32],
    ) -> Result<f64, RecordError> {
        let family = match options.inherit {
            true => with_descendants(pids),
            false => pids.iter().copied().collect(),
        };
        let cpu_time_ns = || family.iter().map(|&pid| proc::cpu_time_ns(pid)).sum::<u64>();
        self.costs = ProbeCosts::measure(kernel_half);
        let before_ns = cpu_time_ns();
        thread::sleep(COUNTED);
        let own_ns = cpu_time_ns().saturating_sub(before_ns);
        self.update(kernel_half, recorder)?;
        if self.attached.is_empty() {
            return Err(RecordError::NoAllocator { target: options.targets.describe() });
        }
        let sample_bytes = options.heap.sample_bytes;
        let share = self.slowdown(kernel_half, recorder, sample_bytes, (own_ns, &cpu_time_ns))?;
        let budget_percent = options.heap.budget_percent;
        if share * 100.0 > f64::from(budget_percent) {
            return Err(RecordError::OverBudget { share, budget_percent });
        }
        self.is_recording = true;
        kernel_half.set_heap_state(state::RECORDING)?;
        Ok(share)
    }

    /// Attaches to the allocators of a command stopped before its first instruction, and resumes it.
    pub(in crate::session) fn watch_command(
        &mut self,
        kernel_half: &KernelHalf,
        recorder: &mut Recorder,
        command: &Launched,
    ) -> Result<(), RecordError> {
        let pid = command.pid();
        self.costs = ProbeCosts::measure(kernel_half);
        kernel_half.set_heap_state(state::RECORDING)?;
        for file in linked_files(pid) {
            let binary = recorder.binaries.find_or_open(pid, None, &file);
            self.attach(kernel_half, recorder, pid, binary)?;
        }
        self.is_recording = true;
        command.resume().map_err(RecordError::system("let the command go on"))
    }

    /// Counts calls for a while. Returns the slowdown as a share of the targets' CPU time, of which they used
    /// `own_ns` in the same duration without probes.
    fn slowdown(
        &mut self,
        kernel_half: &KernelHalf,
        recorder: &Recorder,
        sample_bytes: u32,
        (own_ns, cpu_time_ns): (u64, &dyn Fn() -> u64),
    ) -> Result<f64, RecordError> {
        let (before, cpu_before_ns) = (Calls::read(kernel_half)?, cpu_time_ns());
        thread::sleep(COUNTED);
        self.before = Calls::read(kernel_half)?;
        let with_ns = cpu_time_ns().saturating_sub(cpu_before_ns) as f64;
        let calls = self.before.since(&before);
        let probes_ns = self.probes_ns(recorder, &calls);
        let samples_ns = SAMPLE_NS * samples(&calls, sample_bytes);
        // A program that runs at full speed makes fewer calls with probes: the calls relate to the CPU time that
        // remains for itself.
        let left_ns = (with_ns - probes_ns).max(with_ns / 100.0);
        // An almost idle target is not slowed down by a small cost.
        let least_ns = COUNTED.as_nanos() as f64 * USED_MIN;
        Ok((probes_ns + samples_ns) / left_ns.min(own_ns as f64).max(least_ns))
    }
}

/// Number of allocations sampled: at most one per mean distance.
fn samples(calls: &Calls, sample_bytes: u32) -> f64 {
    match sample_bytes {
        0 => calls.allocations as f64,
        sample_bytes => {
            (calls.bytes as f64 / f64::from(sample_bytes)).min(calls.allocations as f64)
        }
    }
}

//! How watching begins: running processes are measured first, and refused if it would cost them too much; a command
//! waits before its first instruction.

use std::{thread, time::Duration};

use wingbeat_bpf::command::Launched;
use wingbeat_profile_common::heap::state;

use super::{Calls, KernelHalf, ProbeCosts, Probes, SAMPLE_NS, linked::linked_files};
use crate::{
    error::RecordError, proc, recorder::Recorder, session::Options, targets::with_descendants,
};

/// How long calls are counted before anything is recorded, and CPU time before that.
const COUNTED: Duration = Duration::from_millis(300);

/// Share of a CPU that a target is taken to use at least.
const USED_MIN: f64 = 0.02;

impl Probes {
    /// Attaches to the allocators of running processes, unless that costs them more than the budget: by what share of
    /// their CPU time they will be slower.
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

    /// Attaches to the allocators of a command that has stopped before its first instruction, and lets it go.
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

    /// Counts calls for a while, and tells by what share of their CPU time the targets will be slower, which used
    /// `own_ns` in as long a while without probes.
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
        // One that is as fast as it can be makes fewer calls with probes: they belong to what is left for itself.
        let left_ns = (with_ns - probes_ns).max(with_ns / 100.0);
        // Who does hardly anything is not made slower by little more.
        let least_ns = COUNTED.as_nanos() as f64 * USED_MIN;
        Ok((probes_ns + samples_ns) / left_ns.min(own_ns as f64).max(least_ns))
    }
}

/// How many of these allocations are sampled: at most one for each mean distance.
fn samples(calls: &Calls, sample_bytes: u32) -> f64 {
    match sample_bytes {
        0 => calls.allocations as f64,
        sample_bytes => {
            (calls.bytes as f64 / f64::from(sample_bytes)).min(calls.allocations as f64)
        }
    }
}

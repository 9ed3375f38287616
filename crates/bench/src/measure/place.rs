//! Where the measuring thread runs: one CPU, no signals.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use wingbeat_bpf::live::block_signals;

use super::BenchError;

/// The CPUs that this thread may run on, in ascending order.
pub fn allowed_cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect()
}

/// Pins the calling thread to `cpu` (the last of those allowed if `None`: interrupts tend to go to the
/// first), and keeps signals from it. Gives the CPU.
pub(super) fn settle(cpu: Option<usize>) -> Result<usize, BenchError> {
    let all = allowed_cpus();
    let cpu = cpu.or_else(|| all.last().copied()).unwrap_or(0);
    let refused = |source: io::Error| {
        let allowed = all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        BenchError::Cpu { cpu, allowed, source }
    };
    if cpu >= CpuSet::MAX_CPU {
        return Err(refused(io::ErrorKind::InvalidInput.into()));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|error| refused(error.into()))?;
    block_signals().map_err(refused)?;
    Ok(cpu)
}

//! Where measuring happens: a thread of its own, on one CPU, which gets no signal but the alarm's.

use std::{io, sync::atomic::AtomicBool, thread, time::Duration};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use wingbeat_bpf::loader::Alarm;

use super::{BenchError, kernel::Kernel};

/// How often the alarm is looked at.
const RING_EVERY: Duration = Duration::from_millis(20);

/// The CPUs that this thread may run on, in ascending order.
pub fn allowed_cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect()
}

/// Does `job` on a thread of its own, pinned to `cpu` (the last of those allowed if `None`: interrupts
/// tend to go to the first), while this one watches the alarm, which goes off when `stop` is set.
pub(super) fn on_thread_of_its_own<T: Send>(
    cpu: Option<usize>,
    stop: &AtomicBool,
    job: impl FnOnce(Kernel<'_>) -> Result<T, BenchError> + Send,
) -> Result<T, BenchError> {
    let alarm = Alarm::new(stop);
    let watching = thread::current();
    thread::scope(|scope| {
        let measuring = scope.spawn(|| {
            let done = settle(cpu, &alarm).and_then(|cpu| job(Kernel { alarm: &alarm, cpu }));
            watching.unpark();
            done
        });
        while !measuring.is_finished() {
            thread::park_timeout(RING_EVERY);
            alarm.ring();
        }
        measuring.join().unwrap_or(Err(BenchError::Thread))
    })
}

/// Pins the calling thread, and leaves it no signal but the alarm's. Gives the CPU.
fn settle(cpu: Option<usize>, alarm: &Alarm<'_>) -> Result<usize, BenchError> {
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
    alarm.settle().map_err(refused)?;
    Ok(cpu)
}

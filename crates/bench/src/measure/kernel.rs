//! The kernel as what a measurement is made with: a thread of its own, on one CPU, which gets no signal
//! but the alarm's, and on which no run keeps anybody waiting for longer than it was given.

use std::{io, os::fd::BorrowedFd, sync::atomic::AtomicBool, thread, time::Duration};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use wingbeat_bpf::{
    ProgramType,
    loader::{Alarm, Effort, Explained, ProgramRun, RunError, RunInput, run_apart, run_until},
};

use super::{
    BenchError,
    runner::{Given, Pace},
};

/// How often the alarm is looked at.
const RING_EVERY: Duration = Duration::from_millis(20);

/// Time of creating maps, which cannot be interrupted, that may pass when the time is over.
pub(super) const MAPS_TIME_OVER: Duration = Duration::from_millis(500);

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

/// Runs programs on one CPU until the alarm goes off.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernel<'a> {
    pub(super) alarm: &'a Alarm<'a>,
    pub(super) cpu: usize,
}

impl<'a> Kernel<'a> {
    /// How a program of the user's is loaded.
    pub(super) fn effort(self) -> Effort<'a> {
        Effort { alarm: self.alarm, explained: Explained::Quickly }
    }

    /// How code is loaded that the user did not write, whose log would not help.
    pub(super) fn little_effort(self) -> Effort<'a> {
        Effort { alarm: self.alarm, explained: Explained::Reason }
    }

    /// Fails if there is no time to create maps once more, which takes so long and cannot be interrupted.
    pub(super) fn has_time_for_maps(self, takes: Duration) -> Result<(), BenchError> {
        let left = self.alarm.left().unwrap_or(Duration::MAX);
        match takes > MAPS_TIME_OVER && takes > left {
            true => Err(BenchError::NotMeasurable(format!(
                "the time ran out: creating its maps takes {:.1} s; increase --time",
                takes.as_secs_f64()
            ))),
            false => Ok(()),
        }
    }

    /// Runs a form of a program.
    pub(super) fn run(
        self,
        program: BorrowedFd<'_>,
        r#type: ProgramType,
        (input, context): Given<'_>,
        repeat: u32,
        pace: Pace,
    ) -> Result<ProgramRun, BenchError> {
        let given = RunInput { data: &input.data, context };
        Ok(match pace {
            Pace::Short => run_until(program, r#type, given, repeat, self.alarm)?,
            Pace::Long => {
                let roaming = Roaming::begin(self.cpu);
                let run = run_apart(program, r#type, given, repeat, self.cpu, self.alarm);
                if let Err(RunError::TimeOver(_)) = run {
                    roaming.go_on();
                }
                run?
            }
        })
    }
}

/// Keeps this thread off the CPU that is measured on, which a child may keep, where there are others.
struct Roaming(Option<CpuSet>);

impl Roaming {
    fn begin(measured: usize) -> Self {
        let before = sched_getaffinity(None).ok();
        let mut all = CpuSet::new();
        for cpu in (0..CpuSet::MAX_CPU).filter(|&cpu| cpu != measured) {
            all.set(cpu);
        }
        // The kernel leaves out those that the process may not use, and refuses an empty set.
        _ = sched_setaffinity(None, &all);
        Self(before)
    }

    /// Stays on any CPU: the child still has the other one.
    fn go_on(mut self) {
        self.0 = None;
    }
}

impl Drop for Roaming {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            _ = sched_setaffinity(None, before);
        }
    }
}

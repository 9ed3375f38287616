//! The kernel as a runner: a dedicated thread, pinned to one CPU, which receives no signal but the
//! alarm's, and on which no run blocks anyone for longer than its limit.

use std::{
    cell::RefCell, io, os::fd::BorrowedFd, sync::atomic::AtomicBool, thread, time::Duration,
};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use wingbeat_bpf_loader::{
    ProgramType,
    loader::{Alarm, Effort, Explained, ProgramRun, RunError, RunInput, run_apart, run_until},
};

use super::{
    BenchError,
    runner::{Given, Pace},
};

/// Interval of checking the alarm.
const RING_EVERY: Duration = Duration::from_millis(20);

/// Time beyond the deadline for creating maps, which cannot be interrupted.
pub(super) const MAPS_TIME_OVER: Duration = Duration::from_millis(500);

/// The CPUs that this thread may run on, ascending.
pub fn allowed_cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect()
}

/// Runs `job` on a dedicated thread, pinned to `cpu` (if `None`, to the last of the allowed ones:
/// interrupts tend to go to the first). Meanwhile this thread watches the alarm, which goes off
/// when `stop` is set.
pub(super) fn on_thread_of_its_own<T: Send>(
    cpu: Option<usize>,
    stop: &AtomicBool,
    job: impl FnOnce(Kernel<'_>) -> Result<T, BenchError> + Send,
) -> Result<T, BenchError> {
    let alarm = Alarm::new(stop);
    let watching = thread::current();
    thread::scope(|scope| {
        let measuring = scope.spawn(|| {
            let allowed = allowed_cpus();
            let done = settle(cpu, &allowed, &alarm).and_then(|cpu| {
                let cpus = RefCell::new(Cpus { allowed, kept: Vec::new(), current: cpu });
                job(Kernel { alarm: &alarm, cpu, cpus: &cpus })
            });
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

/// Pins the calling thread, and blocks all signals but the alarm's. Returns the CPU.
fn settle(cpu: Option<usize>, all: &[usize], alarm: &Alarm<'_>) -> Result<usize, BenchError> {
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
    cpus: &'a RefCell<Cpus>,
}

/// CPUs for runs.
#[derive(Debug)]
struct Cpus {
    /// CPUs that the process may use.
    allowed: Vec<usize>,
    /// CPUs occupied by abandoned runs.
    kept: Vec<usize>,
    /// The current CPU for runs.
    current: usize,
}

impl Cpus {
    /// Leaves the CPU to an abandoned run, if there is another one.
    fn move_on(&mut self) {
        self.kept.push(self.current);
        let free = self.allowed.iter().rfind(|cpu| !self.kept.contains(cpu));
        let Some(&cpu) = free else { return };
        let mut set = CpuSet::new();
        set.set(cpu);
        if sched_setaffinity(None, &set).is_ok() {
            self.current = cpu;
        }
    }
}

impl<'a> Kernel<'a> {
    /// Effort for loading a program of the user.
    pub(super) fn effort(self) -> Effort<'a> {
        Effort { alarm: self.alarm, explained: Explained::Quickly }
    }

    /// Effort for loading generated code, whose log would not help.
    pub(super) fn little_effort(self) -> Effort<'a> {
        Effort { alarm: self.alarm, explained: Explained::Reason }
    }

    /// Fails if there is no time to create maps again, which takes this long and cannot be interrupted.
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

    /// Whether a batch of this type would wait for abandoned runs: before swapping a program into
    /// the XDP dispatcher, the kernel waits until all active runs have ended.
    fn must_not_swap(self, r#type: ProgramType) -> bool {
        let swaps = r#type.test_run().is_some_and(|rules| rules.swaps_dispatcher);
        swaps && !self.cpus.borrow().kept.is_empty()
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
            Pace::Short if self.must_not_swap(r#type) => {
                run_one_by_one(program, r#type, given, repeat, self.alarm)?
            }
            Pace::Short => run_until(program, r#type, given, repeat, self.alarm)?,
            Pace::Long => {
                let mut cpus = self.cpus.borrow_mut();
                let roaming = Roaming::begin(&cpus);
                let run = run_apart(program, r#type, given, repeat, cpus.current, self.alarm);
                if let Err(RunError::TimeOver(_)) = run {
                    roaming.go_on();
                    cpus.move_on();
                }
                run?
            }
        })
    }
}

/// Maximum number of runs made one by one in place of a batch.
const ONE_BY_ONE_MAX: u32 = 1_000;

/// Replaces a batch that the kernel repeats by single-run calls.
fn run_one_by_one(
    program: BorrowedFd<'_>,
    r#type: ProgramType,
    given: RunInput<'_>,
    repeat: u32,
    alarm: &Alarm<'_>,
) -> Result<ProgramRun, RunError> {
    let mut last = run_until(program, r#type, given, 1, alarm)?;
    let (mut runs, mut total_ns) = (1, u64::from(last.mean_ns));
    let (mut cpu_time_ns, mut elapsed_ns) = (last.cpu_time_ns, last.elapsed_ns);
    while runs < repeat.min(ONE_BY_ONE_MAX) && !alarm.is_over() {
        last = run_until(program, r#type, given, 1, alarm)?;
        runs += 1;
        total_ns += u64::from(last.mean_ns);
        cpu_time_ns += last.cpu_time_ns;
        elapsed_ns += last.elapsed_ns;
    }
    let mean_ns = u32::try_from(total_ns / u64::from(runs)).unwrap_or(u32::MAX);
    Ok(ProgramRun { runs, mean_ns, cpu_time_ns, elapsed_ns, ..last })
}

/// Keeps this thread off the CPUs that children may occupy, if there are others.
struct Roaming(Option<CpuSet>);

impl Roaming {
    fn begin(cpus: &Cpus) -> Self {
        let before = sched_getaffinity(None).ok();
        let mut others = CpuSet::new();
        let is_other = |cpu: &&usize| **cpu != cpus.current && !cpus.kept.contains(cpu);
        cpus.allowed.iter().filter(is_other).for_each(|&cpu| others.set(cpu));
        // The kernel rejects an empty set.
        _ = sched_setaffinity(None, &others);
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

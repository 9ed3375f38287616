//! A recording, from start to end: load, launch, drain, stop.

mod continuous;
mod counters;
mod descriptors;
mod heap;
mod kernel;
mod memory;
mod object;
mod ring;
mod run;
mod sideband;
mod space;
mod switch;
mod tables;

use std::{fs, os::fd::BorrowedFd, time::Duration};

pub use self::{
    continuous::{Continuous, Window},
    heap::{HeapAccounts, LeftOut, ProbedFile, SAMPLE_NS},
    space::SpaceAccounts,
};
pub use crate::{recorder::threads::Lineage, symbolize::known::NameCounts};
pub use tables::TableCounts;
use wingbeat_bpf::rights::Rights;
pub use wingbeat_bpf::{
    caller::Caller,
    command::{Ended, Printing},
};
use wingbeat_profile_common::{counter, walk};

use self::{kernel::KernelHalf, run::Session, sideband::Sideband};
use crate::{
    counts::{Switches, Ticks},
    error::RecordError,
    model::{Meta, Mode},
    recorder::Recorder,
    targets::Targets,
};

/// What to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    pub targets: Targets,
    pub mode: Mode,
    /// Blocks shorter than this are summed only, nanoseconds.
    pub min_block_ns: u64,
    pub wakers: bool,
    pub frequency_hz: u64,
    /// How long; without it until the targets end or `stop` says so.
    pub duration: Option<Duration>,
    pub inherit: bool,
    /// Size of the ring buffer; chosen by frequency and CPUs if not given.
    pub buffer_bytes: Option<u32>,
    pub unwind: Unwind,
    /// Memory of the kernel for unwind tables, at most 64 MiB.
    pub unwind_bytes: u64,
    /// What becomes of what the command prints, if there is one.
    pub printing: Printing,
    /// Whose rights, folder and environment the command gets, if not those of this process.
    pub caller: Option<Caller>,
    /// Allocations, in the mode that watches them.
    pub heap: HeapOptions,
    /// Page faults for each sample, where these are taken.
    pub faults: u64,
    /// Sample page faults beside what the mode records.
    pub with_faults: bool,
    /// Buffers are read at most this often, however many processes come and go: a swarm of them must not make the
    /// profiler a load of its own. A new process lives at least this long before its files are opened.
    pub rest: Duration,
}

/// How much a recording takes of what happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    pub frequency_hz: u64,
    /// The shortest block that is not only summed, where blocks are recorded.
    pub min_block_ns: Option<u64>,
    /// Page faults for each sample, where these are taken.
    pub faults: Option<u64>,
}

impl Rates {
    /// Halved so many times: the rate of samples, that of page faults, and the number of blocks where half
    /// of them are shorter than twice the limit.
    #[must_use]
    pub fn halved(self, times: u32) -> Self {
        let doubled = |value: u64| value.saturating_mul(1 << times.min(32));
        Self {
            frequency_hz: (self.frequency_hz >> times.min(63)).max(1),
            min_block_ns: self.min_block_ns.map(doubled),
            faults: self.faults.map(doubled),
        }
    }
}

/// How allocations are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapOptions {
    /// Mean bytes between two samples; 0: every allocation is taken.
    pub sample_bytes: u32,
    /// Percent of its CPU time by which a running process may become slower.
    pub budget_percent: u32,
}

impl Default for HeapOptions {
    fn default() -> Self {
        Self { sample_bytes: 512 << 10, budget_percent: 10 }
    }
}

impl Options {
    /// What `wingbeat profile` does without flags.
    pub fn new(targets: Targets) -> Self {
        Self {
            targets,
            mode: Mode::OnCpu,
            // Shorter ones take less time than looking at them.
            min_block_ns: 1_000,
            wakers: false,
            frequency_hz: 99,
            duration: None,
            inherit: true,
            buffer_bytes: None,
            unwind: Unwind::Auto,
            unwind_bytes: 64 << 20,
            printing: Printing::Shown,
            caller: None,
            heap: HeapOptions::default(),
            faults: 64,
            with_faults: false,
            rest: Duration::from_millis(1),
        }
    }

    /// What is recorded, and how much of it.
    pub fn rates(&self) -> Rates {
        Rates {
            frequency_hz: self.frequency_hz,
            min_block_ns: self.mode.blocks().then_some(self.min_block_ns),
            faults: self.takes_faults().then_some(self.faults),
        }
    }

    /// Are page faults sampled?
    pub(crate) fn takes_faults(&self) -> bool {
        self.mode == Mode::Pages || self.with_faults
    }
}

/// How user stacks are walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Unwind {
    /// By unwind tables, along frame pointers where code has none.
    #[default]
    Auto,
    /// Along frame pointers.
    FramePointer,
    /// By unwind tables alone.
    Table,
}

impl Unwind {
    pub const ALL: [Self; 3] = [Self::Auto, Self::FramePointer, Self::Table];

    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::FramePointer => "frame-pointer",
            Self::Table => "table",
        }
    }

    fn code(self) -> u32 {
        match self {
            Self::Auto => walk::AUTO,
            Self::FramePointer => walk::FRAME_POINTERS,
            Self::Table => walk::TABLES,
        }
    }
}

/// How user stacks were walked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unwinding {
    pub unwind: Unwind,
    /// What the tables took; `None` if the kernel half had none.
    pub tables: Option<TableCounts>,
    /// Stacks that were sent with a copy, to be walked in user space.
    pub copied: u64,
}

/// How a recording is going.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Progress {
    pub elapsed: Duration,
    pub samples: u64,
    pub lost: u64,
    /// Before the start: the share of its CPU time by which what is watched will be slower.
    pub expected_slowdown: Option<f64>,
}

/// A finished recording: raw stacks, open files, and the accounts.
pub struct Finished {
    pub(crate) recorder: Recorder,
    /// Keeps our programs in the kernel until their frames have names, and counts the ends of
    /// targets.
    kernel_half: KernelHalf,
    /// Holds the BPF programs that were seen.
    _sideband: Sideband,
    cpu_time: CpuTime,
    cpu_time_before_ns: u64,
    pub meta: Meta,
    /// CPUs with a clock.
    pub cpus: u32,
    /// Every switch, where the scheduler was watched.
    pub off_cpu: Option<OffCpuAccounts>,
    /// Calls of allocators, where these were watched.
    pub heap: Option<HeapAccounts>,
    /// Calls that change address spaces, where these were watched.
    pub space: Option<SpaceAccounts>,
    pub ticks: Ticks,
    /// Size of all records in the ring buffer.
    pub record_bytes: u64,
    pub events_lost: u64,
    pub unwinding: Unwinding,
    /// Children not followed.
    pub children_lost: u64,
    pub ended: Option<Ended>,
    /// Processes that were followed and outlive the command: PID and name.
    pub left: Vec<(u32, String)>,
    /// By how much the memory of targets grew that belongs to no file, at the most that was seen, where allocations
    /// were watched.
    pub grown_bytes: u64,
}

/// Accounts of time off the CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffCpuAccounts {
    /// Blocks below this were summed only.
    pub min_block_ns: u64,
    pub back_end: &'static str,
    /// Why not by `tp_btf`.
    pub fell_back: Option<String>,
    pub switches: Switches,
    /// Stacks that did not fit into the ring buffer.
    pub stacks_lost: u64,
    pub walked: u64,
    /// Blocks that took an earlier stack.
    pub reused: u64,
}

/// CPU time of the targets up to the end of the recording.
struct CpuTime {
    /// What is known by then.
    ns: u64,
    /// If all targets had ended by then: what the counter of ended threads said. What it says later
    /// is the rest of their ends.
    exited_ns: Option<u64>,
}

impl Finished {
    /// We started a process ourselves: it is no target, though the kernel half follows our children where one is the
    /// launched command.
    pub(crate) fn disown(&self, pid: u32) {
        self.kernel_half.remove_target(pid);
    }

    /// CPU time that the targets used during the recording, nanoseconds. Best asked late: what
    /// taking down a process costs is known when its parent has noticed, some milliseconds after.
    pub fn target_cpu_time_ns(&self) -> u64 {
        let late_ns = self.cpu_time.exited_ns.map_or(0, |before_ns| {
            let now_ns = self.kernel_half.counter(counter::EXITED_CPU_NS).unwrap_or(0);
            now_ns.saturating_sub(before_ns)
        });
        (self.cpu_time.ns + late_ns).saturating_sub(self.cpu_time_before_ns)
    }
}

/// Records until the targets end, the time is up, or `stop` becomes readable.
///
/// # Errors
///
/// Targets that do not exist, rights that are missing, a kernel that refuses. Nothing is left
/// behind in the kernel.
pub fn record(
    options: &Options,
    stop: BorrowedFd<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Finished, RecordError> {
    let mut session = started(options)?;
    if session.expected_slowdown.is_some() {
        progress(Progress { expected_slowdown: session.expected_slowdown, ..Progress::default() });
    }
    session.run(options, stop, progress)?;
    session.finish(options)
}

/// A session whose clocks run.
fn started(options: &Options) -> Result<Session, RecordError> {
    options.targets.check()?;
    if options.mode == Mode::Heap {
        options.targets.check_for_probes()?;
    }
    check_frequency(options.frequency_hz)?;
    let rights =
        Rights::current().map_err(RecordError::system("read the rights of this process"))?;
    rights.check_for_profile()?;
    memory::return_large_blocks();
    let mut session = Session::set_up(options, rights.is_in_pid_namespace())?;
    session.start(options)?;
    Ok(session)
}

fn check_frequency(asked: u64) -> Result<(), RecordError> {
    let max = fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(100_000);
    if (1..=max).contains(&asked) { Ok(()) } else { Err(RecordError::Frequency { asked, max }) }
}

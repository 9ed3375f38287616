//! A recording from start to end: load, launch, drain, stop.

mod continuous;
mod heap;
mod kernel;
mod limits;
mod object;
mod ring;
mod run;
mod sideband;
mod switch;
mod tables;

use std::{fs, os::fd::BorrowedFd, time::Duration};

pub use self::{
    continuous::{Continuous, Window},
    heap::{HeapAccounts, LeftOut, ProbedFile, SAMPLE_NS},
};
pub use crate::{recorder::threads::Lineage, symbolize::known::NameCounts};
pub use tables::TableCounts;
use wingbeat_bpf_loader::rights::Rights;
pub use wingbeat_bpf_loader::{
    caller::Caller,
    command::{Ended, Printing},
};
use wingbeat_profiler_abi::{counter, walk};

use self::{kernel::KernelHalf, run::Session, sideband::Sideband};
use crate::{
    counts::{Counters, Switches, Ticks},
    error::RecordError,
    model::{Amount, Meta, Mode},
    recorder::Recorder,
    targets::Targets,
};

/// What to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    pub targets: Targets,
    pub mode: Mode,
    /// Shorter blocks are only summed up, in nanoseconds.
    pub min_block_ns: u64,
    pub wakers: bool,
    pub frequency_hz: u64,
    /// Duration; `None` records until the targets exit or `stop` is signalled.
    pub duration: Option<Duration>,
    pub inherit: bool,
    /// Size of the ring buffer; by default chosen from frequency and CPUs.
    pub buffer_bytes: Option<u32>,
    pub unwind: Unwind,
    /// Kernel memory for unwind tables, at most 64 MiB.
    pub unwind_bytes: u64,
    /// What to do with the command's output.
    pub printing: Printing,
    /// Rights, folder and environment of the command, if different from this process's.
    pub caller: Option<Caller>,
    /// Options of allocations, in heap mode.
    pub heap: HeapOptions,
    /// Page faults per sample, if sampled.
    pub faults: u64,
    /// Also sample page faults.
    pub with_faults: bool,
    /// Minimum time between reads of the buffers, however many processes start and exit, which bounds the
    /// profiler's own load. A new process must live this long before its files are opened.
    pub rest: Duration,
}

/// Rates of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    pub frequency_hz: u64,
    /// Minimum duration of reported blocks, if recorded.
    pub min_block_ns: Option<u64>,
    /// Page faults per sample, if sampled.
    pub faults: Option<u64>,
}

impl Rates {
    /// Halves the load `times` times: the rates of samples and page faults, and the number of blocks, assuming
    /// that half of them are shorter than twice the limit.
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

/// Options of allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapOptions {
    /// Mean bytes between two samples; 0 records every allocation.
    pub sample_bytes: u32,
    /// Maximum slowdown of a running process, in percent of its CPU time.
    pub budget_percent: u32,
}

impl Default for HeapOptions {
    fn default() -> Self {
        Self { sample_bytes: 512 << 10, budget_percent: 10 }
    }
}

impl Options {
    /// The defaults of `wingbeat profile`.
    pub fn new(targets: Targets) -> Self {
        Self {
            targets,
            mode: Mode::OnCpu,
            // Processing a shorter block takes longer than the block itself.
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

    /// What is recorded, at which rates.
    pub fn rates(&self) -> Rates {
        Rates {
            frequency_hz: self.frequency_hz,
            min_block_ns: self.mode.blocks().then_some(self.min_block_ns),
            faults: self.takes_faults().then_some(self.faults),
        }
    }

    /// Whether page faults are sampled.
    pub(crate) fn takes_faults(&self) -> bool {
        self.mode == Mode::Pages || self.with_faults
    }
}

/// How to walk user stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Unwind {
    /// By unwind tables, with frame pointers for code without tables.
    #[default]
    Auto,
    /// By frame pointers.
    FramePointer,
    /// By unwind tables alone.
    Table,
}

impl Unwind {
    pub const ALL: [Self; 3] = [Self::Auto, Self::FramePointer, Self::Table];

    /// As on the command line.
    pub const fn name(self) -> &'static str {
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
    /// Counts of the tables; `None` if the kernel half had none.
    pub tables: Option<TableCounts>,
    /// Stacks sent with a copy, to be walked in user space.
    pub copied: u64,
}

/// Progress of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Progress {
    pub elapsed: Duration,
    pub samples: u64,
    pub lost: u64,
    /// Before the start: the expected slowdown of the targets, as a share of their CPU time.
    pub expected_slowdown: Option<f64>,
}

/// A finished recording: raw stacks, open files and accounts.
pub struct Finished {
    pub(crate) recorder: Recorder,
    /// Keeps our programs in the kernel until their frames have names, and counts exits of targets.
    kernel_half: KernelHalf,
    /// Keeps the BPF programs that were seen.
    _sideband: Sideband,
    cpu_time: CpuTime,
    cpu_time_before_ns: u64,
    pub meta: Meta,
    /// CPUs with a clock.
    pub cpus: u32,
    /// Account of every switch, if recorded.
    pub off_cpu: Option<OffCpuAccounts>,
    /// Allocator calls, if recorded.
    pub heap: Option<HeapAccounts>,
    /// Address space calls, if recorded.
    pub space: Option<SpaceAccounts>,
    pub ticks: Ticks,
    /// Size of all records in the ring buffer.
    pub record_bytes: u64,
    pub events_lost: u64,
    pub unwinding: Unwinding,
    /// Children not followed.
    pub children_lost: u64,
    pub ended: Option<Ended>,
    /// Followed processes that outlive the command: PID and name.
    pub left: Vec<(u32, String)>,
    /// Maximum observed growth of the targets' anonymous memory, if allocations were recorded.
    pub grown_bytes: u64,
}

/// Accounts of off-CPU time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffCpuAccounts {
    /// Shorter blocks were only summed up.
    pub min_block_ns: u64,
    pub back_end: &'static str,
    /// Why `tp_btf` was not used.
    pub fell_back: Option<String>,
    pub switches: Switches,
    /// Stacks lost because the ring buffer was full.
    pub stacks_lost: u64,
    pub walked: u64,
    /// Blocks with a reused stack.
    pub reused: u64,
}

/// Accounts of requested and released address space.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpaceAccounts {
    /// Peak of mapped memory requested during the recording.
    pub peak: Amount,
    /// Time of the peak, in nanoseconds since the start.
    pub peak_ns: u64,
    /// Releasing calls and their bytes, including memory mapped before the recording.
    pub unmapped: (u64, u64),
    /// Calls lost because the ring buffer was full.
    pub lost: u64,
}

impl SpaceAccounts {
    /// Of a finished recording; `None` if it did not record these calls.
    fn of(recorder: &Recorder, counters: &Counters, start_ns: u64) -> Option<Self> {
        let mapped = recorder.heap.space.as_ref()?;
        Some(Self {
            peak: mapped.sums.peak,
            peak_ns: mapped.sums.peak_ns.saturating_sub(start_ns),
            unmapped: mapped.unmapped,
            lost: counters.get(counter::SPACES_LOST) + mapped.without_stack,
        })
    }
}

/// CPU time of the targets until the end of the recording.
struct CpuTime {
    /// As known at that time.
    ns: u64,
    /// If all targets had exited by then: the counter of exited threads. Its later growth is the rest of their exits.
    exited_ns: Option<u64>,
}

impl Finished {
    /// Excludes one of our own processes: the kernel half follows our children if one is the launched command.
    pub(crate) fn disown(&self, pid: u32) {
        self.kernel_half.remove_target(pid);
    }

    /// CPU time of the targets during the recording, in nanoseconds. Call it late: the cost of freeing a process's
    /// memory is known some milliseconds later, when its parent has reaped it.
    pub fn target_cpu_time_ns(&self) -> u64 {
        let late_ns = self.cpu_time.exited_ns.map_or(0, |before_ns| {
            let now_ns = self.kernel_half.counter(counter::EXITED_CPU_NS).unwrap_or(0);
            now_ns.saturating_sub(before_ns)
        });
        (self.cpu_time.ns + late_ns).saturating_sub(self.cpu_time_before_ns)
    }
}

/// Records until the targets exit, the time is up, or `stop` becomes readable.
///
/// # Errors
///
/// Missing targets, missing rights, or a refusal by the kernel. Nothing remains in the kernel.
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

/// Creates a session with running clocks.
fn started(options: &Options) -> Result<Session, RecordError> {
    options.targets.check()?;
    if options.mode == Mode::Heap {
        options.targets.check_for_probes()?;
    }
    check_frequency(options.frequency_hz)?;
    let rights =
        Rights::current().map_err(RecordError::system("read the rights of this process"))?;
    rights.check_for_profile()?;
    limits::return_large_blocks();
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

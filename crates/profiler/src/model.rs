//! The profile: a session's measurements with symbols, ready for exporters.
//!
//! Plain data, independent of the machine. Ids are indices into the tables of [`Profile`], assigned densely in
//! order of first appearance.

mod benchmark;
mod durations;
mod heap;
mod off_cpu;

use std::time::SystemTime;

pub use durations::Durations;
pub use heap::{Amount, Site};
pub use off_cpu::{BlockTimes, Blocked, Interval, Mode, State, Sum, Weight};

/// A finished, symbolized profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Target, time and duration.
    pub meta: Meta,
    pub functions: Vec<Function>,
    /// Code files, or their equivalents.
    pub binaries: Vec<Binary>,
    pub frames: Vec<Frame>,
    pub stacks: Vec<Stack>,
    /// Processes with samples.
    pub processes: Vec<Process>,
    /// Threads with samples.
    pub threads: Vec<Thread>,
    /// Samples, ordered by time.
    pub samples: Vec<Sample>,
    pub blocked: Vec<Blocked>,
    /// Individual blocks long enough for a timeline, by start time.
    pub intervals: Vec<Interval>,
    /// Sites that allocated memory or touched it first.
    pub sites: Vec<Site>,
    /// Sites that requested address space from the kernel, if recorded.
    pub mapped: Option<Vec<Site>>,
    /// Sums without individual samples and blocks: from profiles that were read.
    pub sums: Vec<Sum>,
}

impl Profile {
    /// A profile with empty tables.
    pub fn new(meta: Meta) -> Self {
        Self {
            meta,
            functions: Vec::new(),
            binaries: Vec::new(),
            frames: Vec::new(),
            stacks: Vec::new(),
            processes: Vec::new(),
            threads: Vec::new(),
            samples: Vec::new(),
            blocked: Vec::new(),
            intervals: Vec::new(),
            sites: Vec::new(),
            mapped: None,
            sums: Vec::new(),
        }
    }

    /// Copy with each thread as a process, `process/thread-TID`, which is the first frame in exporters that
    /// separate processes.
    pub fn by_thread(&self) -> Self {
        let mut shown = self.clone();
        shown.processes.clear();
        for thread in &mut shown.threads {
            let Some(process) = self.processes.get(thread.process as usize) else { continue };
            let name = format!("{}/{}-{}", process.name, thread.name, thread.tid);
            thread.process = shown.processes.len() as ProcessId;
            shown.processes.push(Process { name, ..process.clone() });
        }
        shown
    }

    /// Frames of a stack, innermost first. Invalid ids are skipped here and below: exporters reject such a
    /// profile, but summaries need not.
    pub(crate) fn frames_of(&self, stack: StackId) -> impl Iterator<Item = &Frame> {
        let frames = self.stacks.get(stack as usize).map_or(&[][..], |stack| &stack.frames);
        frames.iter().filter_map(|&id| self.frames.get(id as usize))
    }

    /// Functions of a frame including inlined ones, innermost first.
    pub(crate) fn functions_at<'a>(
        &'a self,
        frame: &'a Frame,
    ) -> impl Iterator<Item = &'a Function> {
        frame.lines.iter().filter_map(|line| self.functions.get(line.function as usize))
    }

    /// Sites of [`Self::mapped`]; empty if not recorded.
    pub fn mapped_sites(&self) -> &[Site] {
        self.mapped.as_deref().unwrap_or_default()
    }

    /// The part of a recording that belongs to one mode: samples, blocks, or first-touch sites. Excludes threads
    /// that slept all the time.
    #[must_use]
    pub fn of_mode(&self, mode: Mode) -> Self {
        let mut part = self.clone();
        part.meta.mode = mode;
        if !matches!(mode, Mode::OnCpu | Mode::Wall) {
            part.samples.clear();
        }
        if !mode.blocks() {
            part.blocked.clear();
            part.intervals.clear();
        }
        if mode == Mode::Pages {
            part.meta.period = self.meta.fault_bytes;
        } else {
            part.sites.clear();
        }
        part.retain_blocked(|blocked| blocked.state != State::Idle);
        part
    }

    /// The part of a recording that belongs to some threads, with unchanged tables.
    #[must_use]
    pub fn of_threads(&self, keep: impl Fn(ThreadId) -> bool) -> Self {
        let mut part = self.clone();
        part.samples.retain(|sample| keep(sample.thread));
        part.retain_blocked(|blocked| keep(blocked.thread));
        part.sites.retain(|site| keep(site.thread));
        part.sums.retain(|sum| keep(sum.thread));
        part
    }

    /// Keeps only frames of some kinds of binaries. Frames without a binary count as user code. Samples without
    /// remaining frames are dropped, unless off-CPU time was measured too. State frames and all blocks are kept.
    /// Without user frames every stack is complete.
    pub fn retain_frames(&mut self, keep: impl Fn(BinaryKind) -> bool) {
        let Self { meta, binaries, frames, stacks, samples, sums, .. } = self;
        let kind = |frame: &FrameId| {
            let binary = frames.get(*frame as usize).and_then(|frame| frame.binary);
            binary.and_then(|id| binaries.get(id as usize)).map_or(BinaryKind::User, |b| b.kind)
        };
        let keeps_user = keep(BinaryKind::User);
        for stack in stacks.iter_mut() {
            if !keeps_user {
                stack.completeness = Completeness::Complete;
            }
            stack.frames.retain(|frame| {
                let kind = kind(frame);
                kind == BinaryKind::State || keep(kind)
            });
        }
        // In other modes a sample is a share of time that must add up.
        if meta.mode == Mode::OnCpu {
            let has_frames = |stack: StackId| {
                stacks.get(stack as usize).is_some_and(|stack| !stack.frames.is_empty())
            };
            samples.retain(|sample| has_frames(sample.stack));
            sums.retain(|sum| has_frames(sum.stack));
        }
    }
}

/// Conditions of the recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Meta {
    pub mode: Mode,
    /// Profiled target, for titles: the command line, `PID 4711 (nginx)`, or `all processes`.
    pub target: String,
    pub start: SystemTime,
    /// `CLOCK_MONOTONIC` at the start, in nanoseconds: origin of the sample times.
    pub start_ns: u64,
    /// Duration of the recording.
    pub duration_ns: u64,
    /// Requested sampling frequency per CPU.
    pub frequency_hz: u64,
    /// Weight of a sample: nanoseconds of CPU time, or bytes in the memory modes.
    pub period: u64,
    /// Memory represented by a page fault sample, in bytes.
    pub fault_bytes: u64,
    /// `Linux 6.18.0 x86_64`.
    pub system: String,
}

/// Index into [`Profile::functions`].
pub type FunctionId = u32;
/// Index into [`Profile::binaries`].
pub type BinaryId = u32;
/// Index into [`Profile::frames`].
pub type FrameId = u32;
/// Index into [`Profile::stacks`].
pub type StackId = u32;
/// Index into [`Profile::processes`].
pub type ProcessId = u32;
/// Index into [`Profile::threads`].
pub type ThreadId = u32;

/// A function, or the placeholder `module+0xoffset` of an address without a symbol.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Function {
    pub name: String,
    pub is_symbol: bool,
}

/// Kind of a code source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BinaryKind {
    /// An ELF file mapped by a process.
    User,
    Vdso,
    /// Executable memory without a file (a JIT).
    Anonymous,
    /// The kernel and its modules.
    Kernel,
    Bpf,
    /// Not code: the state of a thread off the CPU.
    State,
}

impl BinaryKind {
    /// Whether code of this kind runs in the kernel.
    pub fn is_kernel(self) -> bool {
        matches!(self, Self::Kernel | Self::Bpf)
    }
}

/// A code file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Binary {
    pub kind: BinaryKind,
    /// Path as seen by the process, `[vdso]`, `[kernel]`, `[bpf]`, `[anon]` or `[state]`.
    pub path: String,
    /// GNU build id; empty if there is none.
    pub build_id: Vec<u8>,
    /// ELF addresses (not file offsets) of the first and one past the last executable byte.
    pub text: (u64, u64),
    /// File offset of the first executable byte.
    pub text_offset: u64,
}

impl Binary {
    /// Last component of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// A code location and its functions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Frame {
    pub binary: Option<BinaryId>,
    /// ELF address in the file; virtual address for kernel, BPF and anonymous code. For callers, the address of
    /// the call and not the return address.
    pub address: u64,
    /// The function at this address, preceded by functions inlined into it: innermost first, never empty.
    pub lines: Vec<Line>,
}

/// A function at a source position.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Line {
    pub function: FunctionId,
    pub file: Option<String>,
    /// Line number from 1, if known.
    pub line: Option<u32>,
}

/// Completeness of a user stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Completeness {
    /// Up to the thread's entry point (or a kernel thread without one).
    Complete,
    /// Truncated at the depth limit.
    Truncated,
    Broken(BrokenReason),
}

/// Why a stack is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BrokenReason {
    /// A word of the stack could not be read.
    Unreadable,
    /// The function has no call frame information and no valid frame pointer.
    NoFramePointer,
    /// The walker does not support its call frame information.
    Unsupported,
    /// The function's unwind table was not loaded yet, and the copied part of the stack, if any, does not reach
    /// its end.
    NoTable,
    /// A return address is invalid.
    BadReturnAddress,
    /// Not walked: the buffer was full, or the kernel did not report the switch.
    NotTaken,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stack {
    /// Innermost frame first: kernel frames, then user frames.
    pub frames: Vec<FrameId>,
    pub completeness: Completeness,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// PID. A PID that was reused (or called `exec`) has several entries.
    pub pid: u32,
    /// PID of the parent, if the process was created during the recording.
    pub parent: Option<u32>,
    /// Name (`comm`) at its last sample.
    pub name: String,
    /// Nanoseconds since the start of recording; 0 if it existed before.
    pub start_ns: u64,
    /// Nanoseconds since the start of recording, if it exited.
    pub end_ns: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    pub process: ProcessId,
    /// TID; equal to the PID for the main thread.
    pub tid: u32,
    /// Name (`comm`) at its last sample.
    pub name: String,
    /// Nanoseconds since the start of recording; 0 if it existed before.
    pub start_ns: u64,
    /// Nanoseconds since the start of recording, if it exited.
    pub end_ns: Option<u64>,
    /// Time on the CPU according to scheduler switches, if recorded.
    pub on_cpu_ns: Option<u64>,
}

/// A timer tick in a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Nanoseconds since the start of recording.
    pub time_ns: u64,
    pub thread: ThreadId,
    pub stack: StackId,
    pub cpu: u16,
}

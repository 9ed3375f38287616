//! The profile: what a session measured, with names, ready for any exporter.
//!
//! Plain data without behaviour that touches the machine. Ids are indices into the tables of
//! [`Profile`]; they are given out densely, in order of first appearance.

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
    /// What was run, when and for how long.
    pub meta: Meta,
    pub functions: Vec<Function>,
    /// Files (or what stands for one) that code came from.
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
    /// The single blocks that are long enough for a timeline, ordered by their start.
    pub intervals: Vec<Interval>,
    /// Places that allocated memory, or touched it first.
    pub sites: Vec<Site>,
    /// Places that asked the kernel for address space, where this was watched.
    pub mapped: Option<Vec<Site>>,
    /// What was added up before it came here, without single samples and blocks: profiles that were read.
    pub sums: Vec<Sum>,
}

impl Profile {
    /// The same with a process for each thread, `process/thread-TID`: with these begin the stacks of exporters that tell
    /// processes apart.
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

    /// The frames of a stack, innermost first. Ids outside of their tables are left out here and below:
    /// exporters refuse such a profile, summaries need not.
    pub(crate) fn frames_of(&self, stack: StackId) -> impl Iterator<Item = &Frame> {
        let frames = self.stacks.get(stack as usize).map_or(&[][..], |stack| &stack.frames);
        frames.iter().filter_map(|&id| self.frames.get(id as usize))
    }

    /// The functions at a frame, innermost first, inlined ones too.
    pub(crate) fn functions_at<'a>(
        &'a self,
        frame: &'a Frame,
    ) -> impl Iterator<Item = &'a Function> {
        frame.lines.iter().filter_map(|line| self.functions.get(line.function as usize))
    }

    /// The places of [`Self::mapped`]; none where this was not watched.
    pub fn mapped_sites(&self) -> &[Site] {
        self.mapped.as_deref().unwrap_or_default()
    }

    /// What one mode shows of a recording that has more: samples, blocks, or places that touched memory first.
    /// Threads that slept all the time are left out.
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

    /// What some threads did. Tables are those of the whole profile.
    #[must_use]
    pub fn of_threads(&self, keep: impl Fn(ThreadId) -> bool) -> Self {
        let mut part = self.clone();
        part.samples.retain(|sample| keep(sample.thread));
        part.retain_blocked(|blocked| keep(blocked.thread));
        part.sites.retain(|site| keep(site.thread));
        part.sums.retain(|sum| keep(sum.thread));
        part
    }

    /// Keeps the frames of some kinds of binaries only. Frames without a binary count as user code;
    /// samples that have no frame left are dropped, unless time off the CPU was measured as well. The
    /// frames of states stay, and so does every block. Without user frames every stack is complete.
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
        // Elsewhere a sample is a share of time that has to add up.
        if meta.mode == Mode::OnCpu {
            let has_frames = |stack: StackId| {
                stacks.get(stack as usize).is_some_and(|stack| !stack.frames.is_empty())
            };
            samples.retain(|sample| has_frames(sample.stack));
            sums.retain(|sum| has_frames(sum.stack));
        }
    }
}

/// Circumstances of the recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Meta {
    pub mode: Mode,
    /// What was profiled, for titles: the command line, or `PID 4711 (nginx)`, or `all processes`.
    pub target: String,
    pub start: SystemTime,
    /// `CLOCK_MONOTONIC` at the start, nanoseconds: sample times count from here.
    pub start_ns: u64,
    /// From start to end of recording.
    pub duration_ns: u64,
    /// Sampling frequency per CPU that was asked for.
    pub frequency_hz: u64,
    /// What one sample stands for: nanoseconds of CPU time, or bytes in the modes about memory.
    pub period: u64,
    /// Memory that a sample of a page fault stands for, bytes.
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

/// Where code came from.
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
    /// No code: the state of a thread that is off the CPU.
    State,
}

impl BinaryKind {
    /// Does code of this kind run in the kernel?
    pub fn is_kernel(self) -> bool {
        matches!(self, Self::Kernel | Self::Bpf)
    }
}

/// A file with code.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Binary {
    pub kind: BinaryKind,
    /// Path as the process saw it, `[vdso]`, `[kernel]`, `[bpf]`, `[anon]` or
    /// `[state]`.
    pub path: String,
    /// GNU build id; empty when there is none.
    pub build_id: Vec<u8>,
    /// ELF address (not file offset) of the first and one past the last executable byte.
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

/// One code location and the functions that it expands to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Frame {
    pub binary: Option<BinaryId>,
    /// ELF address in that file; a virtual address for kernel, BPF and anonymous code. For callers
    /// the address of the call, not the return address.
    pub address: u64,
    /// The function at this address, preceded by what was inlined into it: innermost first, never
    /// empty.
    pub lines: Vec<Line>,
}

/// A function at a source position.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Line {
    pub function: FunctionId,
    pub file: Option<String>,
    /// Line number from 1, when known.
    pub line: Option<u32>,
}

/// How far a user stack reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Completeness {
    /// Down to the entry point of its thread (or there is none: a kernel thread).
    Complete,
    /// Cut at the limit of depth.
    Truncated,
    Broken(BrokenReason),
}

/// Why a stack is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BrokenReason {
    /// A word of the stack could not be read.
    Unreadable,
    /// The function has no call frame information, and its frame pointer leads nowhere.
    NoFramePointer,
    /// Its call frame information needs more than a walker knows.
    Unsupported,
    /// The unwind table of the function was not there yet, and the copied part of the stack, if any, does
    /// not reach its end.
    NoTable,
    /// A return address is not one.
    BadReturnAddress,
    /// Nobody took it: there was no room in the buffer, or the kernel did not tell of the switch.
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
    /// PID. A PID that was used again (or that called `exec`) has several entries.
    pub pid: u32,
    /// PID of the process that it came from, if it was born since the start of recording.
    pub parent: Option<u32>,
    /// Name (`comm`) at its last sample.
    pub name: String,
    /// Nanoseconds since the start of recording; 0 when it was there before.
    pub start_ns: u64,
    /// Nanoseconds since the start of recording, if it ended.
    pub end_ns: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    pub process: ProcessId,
    /// TID; equal to the PID for the main thread.
    pub tid: u32,
    /// Name (`comm`) at its last sample.
    pub name: String,
    /// Nanoseconds since the start of recording; 0 when it was there before.
    pub start_ns: u64,
    /// Nanoseconds since the start of recording, if it ended.
    pub end_ns: Option<u64>,
    /// Time on the CPU by the scheduler's switches, where these were watched.
    pub on_cpu_ns: Option<u64>,
}

/// One tick of the timer that met a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Nanoseconds since the start of recording.
    pub time_ns: u64,
    pub thread: ThreadId,
    pub stack: StackId,
    pub cpu: u16,
}

//! What crosses the border between the profiler's two halves.
//!
//! The kernel half ([`profile-ebpf`](../ebpf)) writes records into a ring buffer and counts
//! every timer tick in per-CPU counters; the user half reads both. All integers are little-endian, as
//! the machine's. Sizes are asserted here, and so on both sides.
#![no_std]

pub mod heap;
pub mod off_cpu;
pub mod space;
pub mod unwind;

use unwind::{Beside, Problem};

/// User frames kept per sample. Deeper stacks are truncated at the root, and counted so.
pub const USER_FRAMES_MAX: usize = 512;
/// Kernel frames kept per sample: the kernel's own limit (`kernel.perf_event_max_stack`).
pub const KERNEL_FRAMES_MAX: usize = 127;
/// Pages of stack that are sent with a stack whose walk met code without a table, so that user space walks
/// on by them: 1 MiB, the first page in part. rustc uses 600 KiB.
pub const COPIED_PAGES: usize = 256;
/// Bytes of a copy below the stack pointer: a function that is about to return has its caller's registers in
/// the red zone (psABI of x86-64, 3.2.2).
pub const RED_ZONE_BYTES: u64 = 128;
/// Pages at the beginning of a stack that may be missing in a copy, because they cannot be read.
pub const UNREAD_PAGES_MAX: u64 = 8;
/// Words of the smallest page.
pub const PAGE_WORDS: usize = 512;

/// First field of every record: which one it is.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::TryFromBytes))]
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// A [`StackHeader`], followed by frames.
    Sample = 1,
    /// A [`CopyHeader`], followed by words of a stack. The stack that they belong to comes after them.
    Copy = 2,
    /// User frames of a thread that goes off the CPU: an [`off_cpu::HalfHeader`], followed by frames.
    UserStack = 3,
    /// Kernel frames of a thread that is off the CPU: an [`off_cpu::HalfHeader`], followed by frames.
    KernelStack = 4,
    /// A [`off_cpu::BlockRecord`].
    Block = 5,
    /// A [`off_cpu::EndRecord`].
    ThreadEnd = 6,
    /// User frames of a thread that wakes others, as `UserStack`.
    WakerUser = 7,
    /// Its kernel frames, sent before them.
    WakerKernel = 8,
    /// Where a block is allocated: a [`StackHeader`], followed by frames. The block itself comes after it.
    AllocationStack = 9,
    /// A [`heap::AllocationRecord`].
    Allocation = 10,
    /// A [`heap::FreeRecord`].
    Free = 11,
    /// A [`space::SpaceRecord`].
    Space = 12,
    /// Where a page is touched first, as `Sample`.
    Fault = 13,
}

/// Why the walk of a user stack ended.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::TryFromBytes))]
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stop {
    /// The outermost frame.
    End = 0,
    /// [`USER_FRAMES_MAX`] frames were taken.
    Depth = 1,
    /// A word of the stack cannot be read (paged out, or not memory at all).
    Unreadable = 2,
    /// No call frame information covers the code, and its frame pointer leads nowhere.
    NoRule = 3,
    /// The call frame information needs more than a walker knows.
    Unsupported = 4,
    /// The caller would lie no higher on the stack than what it called.
    NotHigher = 5,
    /// The return address is not one.
    NotAReturn = 6,
    /// The table of the code is not there yet, or the code is not known at all.
    NoTable = 7,
    /// There is no user stack: this is a kernel thread, or a process that has given up its memory,
    /// because it ends or becomes another program.
    NoStack = 8,
}

impl Stop {
    /// All reasons, by their number.
    pub const ALL: [Self; 9] = [
        Self::End,
        Self::Depth,
        Self::Unreadable,
        Self::NoRule,
        Self::Unsupported,
        Self::NotHigher,
        Self::NotAReturn,
        Self::NoTable,
        Self::NoStack,
    ];
}

impl From<Problem> for Stop {
    #[inline(always)]
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::NoRule => Self::NoRule,
            Problem::Unsupported | Problem::RegisterLost => Self::Unsupported,
            Problem::Unreadable => Self::Unreadable,
            Problem::NotHigher => Self::NotHigher,
            Problem::NotAReturn => Self::NotAReturn,
            Problem::NoTable => Self::NoTable,
        }
    }
}

/// What each record of a stack begins with. After the header follow [`user_frames`](Self::user_frames) and
/// [`kernel_frames`](Self::kernel_frames) words, frames with the innermost first.
///
/// The first user frame is the instruction pointer, the others are return addresses. What a signal
/// interrupted has none: there the address is one past that of the instruction.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[cfg_attr(feature = "zerocopy", derive(zerocopy::KnownLayout, zerocopy::Immutable))]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackHeader {
    /// A [`RecordKind`].
    pub kind: u8,
    /// A [`Stop`].
    pub stop: u8,
    pub cpu: u16,
    pub user_frames: u16,
    pub kernel_frames: u16,
    /// Thread group: what users call the PID.
    pub pid: u32,
    pub tid: u32,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub time_ns: u64,
    /// Stack pointer in the last user frame that was found: where unwinding can go on.
    pub stop_sp: u64,
    /// Frame pointer in that frame.
    pub stop_fp: u64,
    /// 1: the last user frame is what a signal interrupted.
    pub is_interrupted: u8,
    /// 1: [`stop_fp`](Self::stop_fp) is not known.
    pub is_fp_lost: u8,
    /// What is known of one register more in that frame.
    pub beside: Beside,
    /// The control group of the thread at that time, by its id in the hierarchy of version 2; 0 if it is no sample of CPU
    /// time or of a page fault.
    pub cgroup: u64,
}

/// What each piece of a copied stack begins with. The first piece begins at the
/// [`stop_sp`](StackHeader::stop_sp) of the stack, each other where the one before ends.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[cfg_attr(feature = "zerocopy", derive(zerocopy::KnownLayout, zerocopy::Immutable))]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyHeader {
    /// [`RecordKind::Copy`].
    pub kind: u8,
    pub reserved: u8,
    /// Words that follow.
    pub words: u16,
    /// Thread and time of the stack.
    pub tid: u32,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub time_ns: u64,
    /// Of the first word.
    pub address: u64,
}

/// Size of [`CopyHeader`] in bytes.
pub const COPY_HEADER_BYTES: usize = 24;
const _: () = assert!(size_of::<CopyHeader>() == COPY_HEADER_BYTES);

/// Size of [`StackHeader`] in bytes.
pub const STACK_HEADER_BYTES: usize = 56;
/// Largest record in bytes.
pub const RECORD_BYTES_MAX: usize =
    off_cpu::HALF_HEADER_BYTES + 8 * (USER_FRAMES_MAX + KERNEL_FRAMES_MAX);

/// What a record of `size` bytes takes in the ring buffer: a header of 8 bytes, and whole words
/// (kernel/bpf/ringbuf.c, `__bpf_ringbuf_reserve`).
pub const fn ring_bytes(size: u64) -> u64 {
    (size + 8).next_multiple_of(8)
}

const _: () = assert!(size_of::<StackHeader>() == STACK_HEADER_BYTES);
const _: () = assert!(STACK_HEADER_BYTES <= off_cpu::HALF_HEADER_BYTES);
// What the kernel's allocator of per-CPU memory gives at once (include/linux/percpu.h).
const _: () = assert!(RECORD_BYTES_MAX < 32 << 10);

/// Indices of the per-CPU counters. Each tick of the timer raises exactly one of `SAMPLED`, `IDLE`,
/// `OTHER`, `LOST` or a `FAILED`.
pub mod counter {
    /// Ticks whose sample was handed to user space.
    pub const SAMPLED: u32 = 0;
    /// Ticks that met the idle task: few, for the clocks are told to leave it out.
    pub const IDLE: u32 = 1;
    /// Ticks that met a process that is not a target.
    pub const OTHER: u32 = 2;
    /// Ticks whose sample did not fit into the ring buffer.
    pub const LOST: u32 = 3;
    /// Bytes of all records handed over, headers of the ring buffer included.
    pub const RECORD_BYTES: u32 = 4;
    /// Stacks sent with a copy of what was not walked.
    pub const COPIED: u32 = 5;
    /// Children that could not be followed, because the table of targets was full.
    pub const CHILDREN_LOST: u32 = 6;
    /// CPU time of the threads of targets that ended, from their birth, nanoseconds.
    pub const EXITED_CPU_NS: u32 = 7;
    /// Switches of targets off a CPU, those to end among them.
    pub const SWITCHED_OUT: u32 = 8;
    /// Threads of targets that were born.
    pub const BORN: u32 = 9;
    /// Threads that were off the CPU when the recording began.
    pub const BEGUN_BEFORE: u32 = 10;
    /// Blocks handed to user space.
    pub const REPORTED: u32 = 11;
    /// Blocks below the limit.
    pub const BELOW: u32 = 12;
    /// Time of the blocks below the limit, nanoseconds.
    pub const BELOW_NS: u32 = 13;
    /// Threads that went off a CPU to end.
    pub const ENDED: u32 = 14;
    /// Blocks that had not ended when the recording did, handed to user space.
    pub const STILL_BLOCKED: u32 = 15;
    /// Threads that came in and were not known.
    pub const UNMATCHED: u32 = 16;
    /// Blocks that did not fit into the ring buffer.
    pub const BLOCKS_LOST: u32 = 17;
    /// Switches of threads that did not fit into the table of threads.
    pub const UNTRACKED: u32 = 18;
    /// Switches that the kernel did not tell of, though the thread was known: what is missing is
    /// reckoned from its CPU time.
    pub const RECKONED: u32 = 19;
    /// Halves of stacks walked for blocks.
    pub const WALKED: u32 = 20;
    /// Halves of stacks known from an earlier block, whether walked again or not.
    pub const REUSED: u32 = 21;
    /// Stacks of blocks that did not fit into the ring buffer.
    pub const STACKS_LOST: u32 = 22;
    /// Blocks of threads that were gone before their end was seen.
    pub const GONE: u32 = 23;
    /// Calls that allocate, whether sampled or not.
    pub const ALLOCATIONS: u32 = 24;
    /// Bytes that they asked for.
    pub const ALLOCATED_BYTES: u32 = 25;
    /// Calls that free, those without a block left out.
    pub const FREES: u32 = 26;
    /// Sampled allocations that did not fit into the ring buffer.
    pub const ALLOCATIONS_LOST: u32 = 27;
    /// Ends of sampled blocks that did not fit into it.
    pub const FREES_LOST: u32 = 28;
    /// Sampled calls whose return could not be waited for, or whose stack could not be walked.
    pub const CALLS_LOST: u32 = 29;
    /// Sampled blocks that did not fit into the table of live ones.
    pub const BLOCKS_UNTRACKED: u32 = 30;
    /// Sampled calls that gave no block.
    pub const ALLOCATIONS_FAILED: u32 = 31;
    /// Calls for address space that did not fit into the ring buffer, or whose stack did not.
    pub const SPACES_LOST: u32 = 32;
    /// Ticks at which a helper failed: `FAILED + errno`.
    pub const FAILED: u32 = 33;
    /// Errnos told apart; larger ones count as the last.
    pub const ERRNOS: u32 = 135;
    /// Number of counters.
    pub const COUNT: u32 = FAILED + ERRNOS;
}

/// A PID namespace, as the kernel half notes it for itself.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespace {
    /// Where the kernel keeps it; it stays there while a process is in it.
    pub pointer: u64,
    /// How many namespaces it is in.
    pub level: u32,
    pub reserved: u32,
}

/// Where a field of a structure of the kernel lies and how many bytes it has, as one setting: the sizes of some
/// differ from kernel to kernel.
pub const fn sized_field(offset: u32, size_bytes: u32) -> u32 {
    size_bytes << SIZE_SHIFT | offset
}

/// Offset and size of a [`sized_field`].
pub const fn offset_and_size(field: u32) -> (u32, u32) {
    (field & ((1 << SIZE_SHIFT) - 1), field >> SIZE_SHIFT)
}

/// Structures of the kernel have some thousand bytes.
const SIZE_SHIFT: u32 = 24;

/// Values of the table of targets, keyed by process.
pub mod target {
    /// Sampled.
    pub const ACTIVE: u32 = 1;
    /// Launched by us and not yet past `exec`: not sampled, because it still runs our own code.
    pub const BEFORE_EXEC: u32 = 2;
}

/// How user stacks are walked.
pub mod walk {
    /// Along frame pointers.
    pub const FRAME_POINTERS: u32 = 0;
    /// By unwind tables, along frame pointers where code has none.
    pub const AUTO: u32 = 1;
    /// By unwind tables alone.
    pub const TABLES: u32 = 2;
}

/// Names of the globals that user space sets before loading, each a `u32`.
pub mod global {
    /// 1: every process is a target.
    pub const ALL: &str = "ALL";
    /// 1: children of targets become targets.
    pub const INHERIT: &str = "INHERIT";
    /// Our own process, when it launches a command: its children become targets at `exec`.
    pub const LAUNCHER: &str = "LAUNCHER";
    /// Bytes waiting in the ring buffer at which user space is woken.
    pub const WAKEUP_BYTES: &str = "WAKEUP_BYTES";
    /// Offset of the address of the thread's local storage in `task_struct`: `thread.fsbase`, or on aarch64
    /// `thread.uw`; 0 if it is unknown.
    pub const TASK_TLS: &str = "TASK_TLS";
    /// Offset of `mm` in `task_struct`.
    pub const TASK_MM: &str = "TASK_MM";
    /// Offset of `start_stack` in `mm_struct`.
    pub const MM_START_STACK: &str = "MM_START_STACK";
    /// Offset of `pid` in `task_struct`.
    pub const TASK_PID: &str = "TASK_PID";
    /// Offset of `tgid` in `task_struct`.
    pub const TASK_TGID: &str = "TASK_TGID";
    /// Offset of `se.sum_exec_runtime` in `task_struct`.
    pub const TASK_RUNTIME: &str = "TASK_RUNTIME";
    /// 1: time off the CPU is watched.
    pub const BLOCKS: &str = "BLOCKS";
    /// `__state` in `task_struct`: a [`sized_field`](super::sized_field).
    pub const TASK_STATE: &str = "TASK_STATE";
    /// `on_cpu` in `task_struct`: a [`sized_field`](super::sized_field).
    pub const TASK_ON_CPU: &str = "TASK_ON_CPU";
    /// Offset of the byte with `in_iowait` in `task_struct`.
    pub const TASK_IOWAIT: &str = "TASK_IOWAIT";
    /// The bit of `in_iowait` in it, as a mask.
    pub const TASK_IOWAIT_MASK: &str = "TASK_IOWAIT_MASK";
    /// Offset of `blocked_on` in `task_struct`; 0 where the kernel has none.
    pub const TASK_BLOCKED_ON: &str = "TASK_BLOCKED_ON";
    /// Offset of the kernel's stack pointer of a thread that is off the CPU; 0 if it is unknown.
    pub const TASK_KERNEL_SP: &str = "TASK_KERNEL_SP";
    /// 1: `sched_switch` hands over the state of the thread that goes (since 5.18).
    pub const SWITCH_HAS_STATE: &str = "SWITCH_HAS_STATE";
    /// How user stacks are walked, see [`walk`](super::walk).
    pub const WALK: &str = "WALK";
    /// Bytes waiting in the ring buffer from which on no stacks are copied.
    pub const COPIES_UNTIL_BYTES: &str = "COPIES_UNTIL_BYTES";
    /// 1: who wakes threads is watched.
    pub const WAKERS: &str = "WAKERS";
    /// 1: user space is in a PID namespace other than the first, whose numbers are to be used.
    pub const NAMESPACED: &str = "NAMESPACED";
    /// Offset of `thread_pid` in `task_struct`.
    pub const TASK_THREAD_PID: &str = "TASK_THREAD_PID";
    /// Offset of `signal` in `task_struct`.
    pub const TASK_SIGNAL: &str = "TASK_SIGNAL";
    /// Offset of `pids[PIDTYPE_TGID]` in `signal_struct`.
    pub const SIGNAL_TGID: &str = "SIGNAL_TGID";
    /// Offset of `level` in `pid`.
    pub const PID_LEVEL: &str = "PID_LEVEL";
    /// Offset of `numbers` in `pid`.
    pub const PID_NUMBERS: &str = "PID_NUMBERS";
    /// Offset of `ns` in `upid`.
    pub const UPID_NS: &str = "UPID_NS";
    /// Mean bytes between two sampled allocations; 0: each is taken.
    pub const SAMPLE_BYTES: &str = "SAMPLE_BYTES";
}

/// Names of the maps.
pub mod map {
    /// Ring buffer of records.
    pub const RECORDS: &str = "RECORDS";
    /// Per-CPU counters, indexed by [`counter`](super::counter).
    pub const COUNTERS: &str = "COUNTERS";
    /// Table of targets: process to state, see [`target`](super::target).
    pub const TARGETS: &str = "TARGETS";
    /// Table of threads: TID to [`off_cpu::Thread`](super::off_cpu::Thread).
    pub const THREADS: &str = "THREADS";
    /// Distinct rules of all unwind tables, by number: [`unwind::Rule`](super::unwind::Rule).
    pub const RULES: &str = "RULES";
    /// Chunks of the pool of blocks, see [`unwind::layout`](super::unwind::layout).
    pub const CHUNKS: &str = "CHUNKS";
    /// Code of all address spaces:
    /// [`unwind::layout::CodeMapping`](super::unwind::layout::CodeMapping).
    pub const MAPPINGS: &str = "MAPPINGS";
    /// Process to [`unwind::layout::Space`](super::unwind::layout::Space).
    pub const SPACES: &str = "SPACES";
    /// Threads by their numbers in the first PID namespace, while user space is in another.
    pub const NUMBERS: &str = "NUMBERS";
    /// One element: 1 while switches are watched.
    pub const WATCHING: &str = "WATCHING";
    /// One element: the shortest block that is reported, in nanoseconds.
    pub const MIN_BLOCK: &str = "MIN_BLOCK";
    /// Live blocks: [`heap::BlockKey`](super::heap::BlockKey) to [`heap::LiveBlock`](super::heap::LiveBlock).
    pub const BLOCKS: &str = "BLOCKS_LIVE";
    /// Calls that have not returned: [`heap::PendingCall`](super::heap::PendingCall).
    pub const CALLS: &str = "CALLS";
    /// One element: what the probes do, see [`heap::state`](super::heap::state).
    pub const HEAP_STATE: &str = "HEAP_STATE";
}

/// Names of the programs.
pub mod program {
    /// perf_event: takes the samples.
    pub const SAMPLE: &str = "sample";
    /// perf_event: takes samples of page faults.
    pub const FAULT: &str = "fault";
    /// tp_btf: watches the scheduler.
    pub const SWITCH: &str = "on_switch";
    /// tp_btf, attached before that one: makes up for switches that were not told.
    pub const MISSED: &str = "on_missed";
    /// Raw tracepoint: the same.
    pub const MISSED_RAW: &str = "on_missed_raw";
    /// Raw tracepoint: the same, where the kernel refuses `tp_btf`.
    pub const SWITCH_RAW: &str = "on_switch_raw";
    /// Raw tracepoint `sched_waking`: who wakes whom.
    pub const WAKING: &str = "on_waking";
    /// Task iterator: which threads are off the CPU when a recording begins.
    pub const BEGIN: &str = "on_begin";
    /// Task iterator: which are when it ends.
    pub const FINISH: &str = "on_finish";
    /// Raw tracepoint, run on demand: notes which PID namespace user space is in.
    pub const NAMESPACE: &str = "on_namespace";
    /// uprobe.multi: entries of functions of an allocator.
    pub const HEAP_ENTRY: &str = "heap_entry";
    /// uprobe.multi: the ways out of them.
    pub const HEAP_EXIT: &str = "heap_exit";
    /// uprobe.multi: blocks that are freed.
    pub const HEAP_FREE: &str = "heap_free";
    /// Raw tracepoint `sys_exit`: calls that change the address space.
    pub const SPACE: &str = "on_sys_exit";
    /// Raw tracepoint `sched_process_fork`: children join their parents.
    pub const FORK: &str = "on_fork";
    /// Raw tracepoints, each with the name of its program.
    pub const TRACEPOINTS: [(&str, &str); 4] = [
        (FORK, "sched_process_fork"),
        ("on_exec", "sched_process_exec"),
        ("on_exit", "sched_process_exit"),
        ("on_free", "sched_process_free"),
    ];
}

/// Numbers of helpers that no kernel has. User space replaces calls of them, before it loads a program, by calls of
/// functions of the running kernel, or by nothing.
pub mod placeholder {
    pub const PREEMPT_DISABLE: usize = 1_000_001;
    pub const PREEMPT_ENABLE: usize = 1_000_002;
    /// Each with the function that it stands for (Linux 6.10).
    pub const FUNCTIONS: [(usize, &str); 2] =
        [(PREEMPT_DISABLE, "bpf_preempt_disable"), (PREEMPT_ENABLE, "bpf_preempt_enable")];
}

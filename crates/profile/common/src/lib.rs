//! What crosses the border between the profiler's two halves.
//!
//! The kernel half ([`profile-ebpf`](../ebpf)) writes records into a ring buffer and counts
//! every timer tick in per-CPU counters; the user half reads both. All integers are little-endian, as
//! the machine's. Sizes are asserted here, and so on both sides.
#![no_std]

pub mod off_cpu;
pub mod unwind;

/// User frames kept per sample. Deeper stacks are truncated at the root, and counted so.
pub const USER_FRAMES_MAX: usize = 512;
/// Kernel frames kept per sample: the kernel's own limit (`kernel.perf_event_max_stack`).
pub const KERNEL_FRAMES_MAX: usize = 127;
/// Words of raw stack that a [`TailHeader`] record carries. From `main` to the entry point of a
/// program glibc 2.36 takes 30, from a thread's function 20.
pub const TAIL_WORDS: usize = TAIL_CHECKS * TAIL_WORDS_PER_CHECK;
/// Checks of a tail: the n-th is a hash of the first n times [`TAIL_WORDS_PER_CHECK`] words. Above the
/// bottom of a thread's stack lie its thread-local variables, which change, so that only the words
/// that unwinding looked at may be compared.
pub const TAIL_CHECKS: usize = 8;
/// Words from one check to the next.
pub const TAIL_WORDS_PER_CHECK: usize = 6;

/// First field of every record: which one it is.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::TryFromBytes))]
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// A [`SampleHeader`], followed by frames.
    Sample = 1,
    /// A [`TailHeader`], followed by words of stack.
    Tail = 2,
    /// User frames of a thread that goes off the CPU: an [`off_cpu::HalfHeader`], followed by frames
    /// and words of stack.
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
}

/// Why the walk along the frame pointers of a user stack ended.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::TryFromBytes))]
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stop {
    /// The frame pointer is zero: how the ABI marks the outermost frame.
    Zero = 0,
    /// [`USER_FRAMES_MAX`] frames were taken.
    Depth = 1,
    /// The memory at the frame pointer cannot be read (paged out, or not memory at all).
    Unreadable = 2,
    /// The frame pointer is not one: unaligned, out of user space or pointing back down the stack.
    NotAFrame = 3,
    /// The word where the return address should be is not an address in user space.
    NotAReturn = 4,
    /// A kernel thread: there is no user stack.
    KernelThread = 5,
}

impl Stop {
    /// All reasons, by their number.
    pub const ALL: [Self; 6] = [
        Self::Zero,
        Self::Depth,
        Self::Unreadable,
        Self::NotAFrame,
        Self::NotAReturn,
        Self::KernelThread,
    ];
}

/// What each record of a stack begins with. After the header follow [`user_frames`](Self::user_frames)
/// then [`kernel_frames`](Self::kernel_frames) words, each list with the innermost frame first.
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
    /// Number of user frames; the first is the instruction pointer.
    pub user_frames: u16,
    pub kernel_frames: u16,
    /// Thread group: what users call the PID.
    pub pid: u32,
    pub tid: u32,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub time_ns: u64,
    /// Stack pointer in the caller of the last user frame that was found: where unwinding can go on.
    pub stop_sp: u64,
    pub stop_bp: u64,
    /// Checks of the stack above [`stop_sp`](Self::stop_sp); all zero if it could not be read.
    pub tail_checks: [u16; TAIL_CHECKS],
}

/// One sample.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[cfg_attr(feature = "zerocopy", derive(zerocopy::KnownLayout, zerocopy::Immutable))]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleHeader {
    pub stack: StackHeader,
    /// The two words at the stack pointer of the innermost user frame: the return address is there
    /// while a function has not set up its frame yet. Zero when unreadable.
    pub leaf: [u64; 2],
}

/// Raw stack above the frame at which a walk ended, sent once while it stays the same; the words
/// follow. The bottom of a thread's stack does not change, so one copy serves all its samples.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[cfg_attr(feature = "zerocopy", derive(zerocopy::KnownLayout, zerocopy::Immutable))]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TailHeader {
    /// [`RecordKind::Tail`].
    pub kind: u8,
    pub reserved: u8,
    pub words: u16,
    pub pid: u32,
    pub tid: u32,
    pub reserved2: u32,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub time_ns: u64,
    /// Address of the first word.
    pub sp: u64,
    pub checks: [u16; TAIL_CHECKS],
}

/// Size of [`SampleHeader`] in bytes.
pub const SAMPLE_HEADER_BYTES: usize = 72;
/// Size of [`TailHeader`] in bytes.
pub const TAIL_HEADER_BYTES: usize = 48;
/// Largest record in bytes.
pub const RECORD_BYTES_MAX: usize =
    off_cpu::HALF_HEADER_BYTES + 8 * (USER_FRAMES_MAX + off_cpu::NEAR_WORDS_MAX);

/// What a record of `size` bytes takes in the ring buffer: a header of 8 bytes, and whole words
/// (kernel/bpf/ringbuf.c, `__bpf_ringbuf_reserve`).
pub const fn ring_bytes(size: u64) -> u64 {
    (size + 8).next_multiple_of(8)
}

const _: () = assert!(size_of::<SampleHeader>() == SAMPLE_HEADER_BYTES);
const _: () = assert!(SAMPLE_HEADER_BYTES <= off_cpu::HALF_HEADER_BYTES);
const _: () = assert!(size_of::<TailHeader>() == TAIL_HEADER_BYTES);
const _: () = assert!(TAIL_HEADER_BYTES + 8 * TAIL_WORDS <= RECORD_BYTES_MAX);

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
    /// Tail records that did not fit into the ring buffer.
    pub const TAILS_LOST: u32 = 5;
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
    /// User stacks walked for blocks.
    pub const WALKED: u32 = 20;
    /// User stacks taken over from an earlier block.
    pub const REUSED: u32 = 21;
    /// Stacks of blocks that did not fit into the ring buffer.
    pub const STACKS_LOST: u32 = 22;
    /// Blocks of threads that were gone before their end was seen.
    pub const GONE: u32 = 23;
    /// Ticks at which a helper failed: `FAILED + errno`.
    pub const FAILED: u32 = 24;
    /// Errnos told apart; larger ones count as the last.
    pub const ERRNOS: u32 = 135;
    /// Number of counters.
    pub const COUNT: u32 = FAILED + ERRNOS;
}

/// Values of the table of targets, keyed by process.
pub mod target {
    /// Sampled.
    pub const ACTIVE: u32 = 1;
    /// Launched by us and not yet past `exec`: not sampled, because it still runs our own code.
    pub const BEFORE_EXEC: u32 = 2;
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
    /// Offset of `pid` in `task_struct`.
    pub const TASK_PID: &str = "TASK_PID";
    /// Offset of `tgid` in `task_struct`.
    pub const TASK_TGID: &str = "TASK_TGID";
    /// 1: the kernel has the helper `bpf_loop` (since 5.17).
    pub const HAS_BPF_LOOP: &str = "HAS_BPF_LOOP";
    /// Offset of `se.sum_exec_runtime` in `task_struct`.
    pub const TASK_RUNTIME: &str = "TASK_RUNTIME";
    /// 1: time off the CPU is watched.
    pub const BLOCKS: &str = "BLOCKS";
    /// A `u64`: blocks shorter than this are summed only, nanoseconds.
    pub const MIN_BLOCK_NS: &str = "MIN_BLOCK_NS";
    /// Offset of `__state` in `task_struct`.
    pub const TASK_STATE: &str = "TASK_STATE";
    /// Offset of `on_cpu` in `task_struct`.
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
    /// 1: who wakes threads is watched.
    pub const WAKERS: &str = "WAKERS";
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
    /// One element: 1 while switches are watched.
    pub const WATCHING: &str = "WATCHING";
}

/// Names of the programs.
pub mod program {
    /// perf_event: takes the samples.
    pub const SAMPLE: &str = "sample";
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
    /// Raw tracepoints, each with the name of its program.
    pub const TRACEPOINTS: [(&str, &str); 4] = [
        ("on_fork", "sched_process_fork"),
        ("on_exec", "sched_process_exec"),
        ("on_exit", "sched_process_exit"),
        ("on_free", "sched_process_free"),
    ];
}

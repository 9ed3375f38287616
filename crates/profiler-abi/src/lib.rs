//! Records and constants shared by the profiler's two halves.
//!
//! The kernel half ([`profile-ebpf`](../ebpf)) writes records into a ring buffer and counts every timer tick in
//! per-CPU counters. The user half reads both. All integers are little-endian, like the machine's. Assertions here
//! check the sizes on both sides.
#![no_std]

pub mod heap;
pub mod off_cpu;
pub mod space;
pub mod unwind;

use unwind::{ExtraRegister, Problem};

/// User frames kept per sample. Deeper stacks are truncated at the root and counted.
pub const USER_FRAMES_MAX: usize = 512;
/// Kernel frames kept per sample: the kernel's limit (`kernel.perf_event_max_stack`).
pub const KERNEL_FRAMES_MAX: usize = 127;
/// Stack pages copied when a walk reaches code without a table, so that user space can continue it: 1 MiB,
/// counting a partial first page. rustc uses 600 KiB.
pub const COPIED_PAGES: usize = 256;
/// Bytes copied below the stack pointer: a function about to return may keep its caller's registers in the red
/// zone (psABI of x86-64, 3.2.2).
pub const RED_ZONE_BYTES: u64 = 128;
/// Unreadable pages at the start of a stack that a copy may skip.
pub const UNREAD_PAGES_MAX: u64 = 8;
/// Words in the smallest page.
pub const PAGE_WORDS: usize = 512;

/// First field of every record: its type.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::TryFromBytes))]
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// A [`StackHeader`], followed by frames.
    Sample = 1,
    /// A [`CopyHeader`], followed by words of a stack. Sent before the stack itself.
    Copy = 2,
    /// User frames of a thread that goes off the CPU: an [`off_cpu::HalfHeader`], followed by frames.
    UserStack = 3,
    /// Kernel frames of a thread that is off the CPU: an [`off_cpu::HalfHeader`], followed by frames.
    KernelStack = 4,
    /// A [`off_cpu::BlockRecord`].
    Block = 5,
    /// A [`off_cpu::EndRecord`].
    ThreadEnd = 6,
    /// User frames of a waking thread, as `UserStack`.
    WakerUser = 7,
    /// Kernel frames of a waking thread, sent before its user frames.
    WakerKernel = 8,
    /// Stack of an allocation: a [`StackHeader`], followed by frames. Sent before the allocation.
    AllocationStack = 9,
    /// A [`heap::AllocationRecord`].
    Allocation = 10,
    /// A [`heap::FreeRecord`].
    Free = 11,
    /// A [`space::SpaceRecord`].
    Space = 12,
    /// Stack of a page fault, as `Sample`.
    Fault = 13,
}

/// Why the walk of a user stack ended.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::TryFromBytes))]
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stop {
    /// The outermost frame.
    End = 0,
    /// [`USER_FRAMES_MAX`] frames were reached.
    Depth = 1,
    /// A word of the stack cannot be read (paged out, or not memory at all).
    Unreadable = 2,
    /// No call frame information covers the code, and the frame pointer is invalid.
    NoRule = 3,
    /// The call frame information uses features that the walker does not support.
    Unsupported = 4,
    /// The caller would not be higher on the stack than its callee.
    NotHigher = 5,
    /// The return address is invalid.
    NotAReturn = 6,
    /// The code's table is not loaded yet, or the code is unknown.
    NoTable = 7,
    /// There is no user stack: a kernel thread, or a process that released its memory because it exits or calls `exec`.
    NoStack = 8,
}

impl Stop {
    /// All reasons, by number.
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

/// Header of every stack record, followed by [`user_frames`](Self::user_frames) and
/// [`kernel_frames`](Self::kernel_frames) words, innermost frame first.
///
/// The first user frame is the instruction pointer, the others are return addresses. A frame that a signal
/// interrupted has no return address: its entry is one past its instruction pointer.
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
    /// Thread group: the PID that users see.
    pub pid: u32,
    pub tid: u32,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub time_ns: u64,
    /// Stack pointer in the last frame found, from which unwinding can continue.
    pub stop_sp: u64,
    /// Frame pointer in that frame.
    pub stop_fp: u64,
    /// 1: a signal interrupted the last user frame.
    pub is_interrupted: u8,
    /// 1: [`stop_fp`](Self::stop_fp) is unknown.
    pub is_fp_lost: u8,
    /// What is known about one more register in that frame.
    pub extra_register: ExtraRegister,
    /// Control group of the thread at that time, by its cgroup v2 id; 0 unless this is a sample of CPU time or of
    /// a page fault.
    pub cgroup: u64,
}

/// Header of each piece of a copied stack. The first piece begins at the stack's
/// [`stop_sp`](StackHeader::stop_sp), each other at the end of the previous one.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[cfg_attr(feature = "zerocopy", derive(zerocopy::KnownLayout, zerocopy::Immutable))]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyHeader {
    /// [`RecordKind::Copy`].
    pub kind: u8,
    pub reserved: u8,
    /// Number of words that follow.
    pub words: u16,
    /// Thread and time of the stack.
    pub tid: u32,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub time_ns: u64,
    /// Address of the first word.
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

/// Ring buffer space taken by a record of `size` bytes: rounded up to whole words, plus a header of 8 bytes
/// (kernel/bpf/ringbuf.c, `__bpf_ringbuf_reserve`).
pub const fn ring_bytes(size: u64) -> u64 {
    (size + 8).next_multiple_of(8)
}

const _: () = assert!(size_of::<StackHeader>() == STACK_HEADER_BYTES);
const _: () = assert!(STACK_HEADER_BYTES <= off_cpu::HALF_HEADER_BYTES);
// Largest allocation of the kernel's per-CPU allocator (include/linux/percpu.h).
const _: () = assert!(RECORD_BYTES_MAX < 32 << 10);

/// Indices of the per-CPU counters. Each timer tick increments exactly one of `SAMPLED`, `IDLE`, `OTHER`, `LOST`
/// or a `FAILED`.
pub mod counter {
    /// Ticks whose sample was sent to user space.
    pub const SAMPLED: u32 = 0;
    /// Ticks in the idle task: few, since the clocks are set to exclude it.
    pub const IDLE: u32 = 1;
    /// Ticks in a process that is not a target.
    pub const OTHER: u32 = 2;
    /// Ticks whose sample did not fit into the ring buffer.
    pub const LOST: u32 = 3;
    /// Bytes of all records sent, ring buffer headers included.
    pub const RECORD_BYTES: u32 = 4;
    /// Stacks sent with a copy of the part not walked.
    pub const COPIED: u32 = 5;
    /// Children not followed, because the table of targets was full.
    pub const CHILDREN_LOST: u32 = 6;
    /// CPU time of exited target threads, since their creation, in nanoseconds.
    pub const EXITED_CPU_NS: u32 = 7;
    /// Switches of targets off a CPU, including final ones.
    pub const SWITCHED_OUT: u32 = 8;
    /// Threads created by targets.
    pub const BORN: u32 = 9;
    /// Threads that were off the CPU when recording began.
    pub const BEGUN_BEFORE: u32 = 10;
    /// Blocks sent to user space.
    pub const REPORTED: u32 = 11;
    /// Blocks shorter than the limit.
    pub const BELOW: u32 = 12;
    /// Time of the blocks shorter than the limit, in nanoseconds.
    pub const BELOW_NS: u32 = 13;
    /// Threads that switched off a CPU to exit.
    pub const ENDED: u32 = 14;
    /// Blocks still in progress at the end of the recording, sent to user space.
    pub const STILL_BLOCKED: u32 = 15;
    /// Unknown threads that switched onto a CPU.
    pub const UNMATCHED: u32 = 16;
    /// Blocks lost because the ring buffer was full.
    pub const BLOCKS_LOST: u32 = 17;
    /// Switches of threads lost because the table of threads was full.
    pub const UNTRACKED: u32 = 18;
    /// Switches of known threads that the kernel did not report: reconstructed from CPU time.
    pub const RECONSTRUCTED: u32 = 19;
    /// Halves of stacks walked for blocks.
    pub const WALKED: u32 = 20;
    /// Halves of stacks reused from an earlier block, whether verified or not.
    pub const REUSED: u32 = 21;
    /// Stacks of blocks lost because the ring buffer was full.
    pub const STACKS_LOST: u32 = 22;
    /// Blocks whose thread exited before the end was seen.
    pub const GONE: u32 = 23;
    /// Allocating calls, sampled or not.
    pub const ALLOCATIONS: u32 = 24;
    /// Bytes requested by them.
    pub const ALLOCATED_BYTES: u32 = 25;
    /// Freeing calls, except those without a block.
    pub const FREES: u32 = 26;
    /// Sampled allocations lost because the ring buffer was full.
    pub const ALLOCATIONS_LOST: u32 = 27;
    /// Frees of sampled blocks lost because the ring buffer was full.
    pub const FREES_LOST: u32 = 28;
    /// Sampled calls whose return could not be tracked, or whose stack could not be walked.
    pub const CALLS_LOST: u32 = 29;
    /// Sampled blocks lost because the table of live blocks was full.
    pub const BLOCKS_UNTRACKED: u32 = 30;
    /// Sampled calls that returned no block.
    pub const ALLOCATIONS_FAILED: u32 = 31;
    /// Address space calls lost because the ring buffer was full for them or for their stacks.
    pub const SPACES_LOST: u32 = 32;
    /// Ticks at which a helper failed, one counter per errno: `FAILED + errno`.
    pub const FAILED: u32 = 33;
    /// Errnos counted separately; larger ones count as the last.
    pub const ERRNOS: u32 = 135;
    /// Number of counters.
    pub const COUNT: u32 = FAILED + ERRNOS;
}

/// A PID namespace, as stored by the kernel half.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespace {
    /// Address of the kernel's structure, constant while a process is in the namespace.
    pub pointer: u64,
    /// Nesting level.
    pub level: u32,
    pub reserved: u32,
}

/// Packs the offset and size in bytes of a kernel structure's field into one setting: some sizes differ between
/// kernels.
pub const fn sized_field(offset: u32, size_bytes: u32) -> u32 {
    size_bytes << SIZE_SHIFT | offset
}

/// Unpacks a [`sized_field`].
pub const fn offset_and_size(field: u32) -> (u32, u32) {
    (field & ((1 << SIZE_SHIFT) - 1), field >> SIZE_SHIFT)
}

/// Kernel structures have a few thousand bytes.
const SIZE_SHIFT: u32 = 24;

/// Values of the table of targets, by process.
pub mod target {
    /// Sampled.
    pub const ACTIVE: u32 = 1;
    /// Launched by us and before its `exec`: not sampled, because it still runs our code.
    pub const BEFORE_EXEC: u32 = 2;
}

/// How user stacks are walked.
pub mod walk {
    /// By frame pointers.
    pub const FRAME_POINTERS: u32 = 0;
    /// By unwind tables, with frame pointers for code without tables.
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
    /// Our own process when it launches a command: its children become targets at `exec`.
    pub const LAUNCHER: &str = "LAUNCHER";
    /// Unread bytes in the ring buffer at which user space is woken.
    pub const WAKEUP_BYTES: &str = "WAKEUP_BYTES";
    /// Offset of the thread-local storage pointer in `task_struct`: `thread.fsbase`, or `thread.uw` on aarch64; 0
    /// if unknown.
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
    /// 1: record time off the CPU.
    pub const BLOCKS: &str = "BLOCKS";
    /// `__state` in `task_struct`: a [`sized_field`](super::sized_field).
    pub const TASK_STATE: &str = "TASK_STATE";
    /// `on_cpu` in `task_struct`: a [`sized_field`](super::sized_field).
    pub const TASK_ON_CPU: &str = "TASK_ON_CPU";
    /// Offset of the byte with `in_iowait` in `task_struct`.
    pub const TASK_IOWAIT: &str = "TASK_IOWAIT";
    /// Mask of the `in_iowait` bit in that byte.
    pub const TASK_IOWAIT_MASK: &str = "TASK_IOWAIT_MASK";
    /// Offset of `blocked_on` in `task_struct`; 0 if the kernel has none.
    pub const TASK_BLOCKED_ON: &str = "TASK_BLOCKED_ON";
    /// Offset of the saved kernel stack pointer of a thread off the CPU; 0 if unknown.
    pub const TASK_KERNEL_SP: &str = "TASK_KERNEL_SP";
    /// 1: `sched_switch` passes the state of the previous thread (since 5.18).
    pub const SWITCH_HAS_STATE: &str = "SWITCH_HAS_STATE";
    /// How user stacks are walked, see [`walk`](super::walk).
    pub const WALK: &str = "WALK";
    /// Unread bytes in the ring buffer from which on no stacks are copied.
    pub const COPIES_UNTIL_BYTES: &str = "COPIES_UNTIL_BYTES";
    /// 1: record wakers.
    pub const WAKERS: &str = "WAKERS";
    /// 1: user space is in a PID namespace other than the initial one, whose numbers are used.
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
    /// Mean bytes between two sampled allocations; 0 samples every allocation.
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
    /// Process to its [`unwind::layout::Space`](super::unwind::layout::Space).
    pub const SPACES: &str = "SPACES";
    /// Threads by their number in the initial PID namespace, if user space is in another.
    pub const NUMBERS: &str = "NUMBERS";
    /// One element: 1 while switches are recorded.
    pub const WATCHING: &str = "WATCHING";
    /// One element: the shortest block reported, in nanoseconds.
    pub const MIN_BLOCK: &str = "MIN_BLOCK";
    /// Live blocks: [`heap::BlockKey`](super::heap::BlockKey) to [`heap::LiveBlock`](super::heap::LiveBlock).
    pub const BLOCKS: &str = "BLOCKS_LIVE";
    /// Calls in progress: [`heap::PendingCall`](super::heap::PendingCall).
    pub const CALLS: &str = "CALLS";
    /// One element: the mode of the probes, see [`heap::state`](super::heap::state).
    pub const HEAP_STATE: &str = "HEAP_STATE";
}

/// Names of the programs.
pub mod program {
    /// perf_event: takes the samples.
    pub const SAMPLE: &str = "sample";
    /// perf_event: samples page faults.
    pub const FAULT: &str = "fault";
    /// tp_btf: handles scheduler switches.
    pub const SWITCH: &str = "on_switch";
    /// tp_btf, attached before `on_switch`: reconstructs unreported switches.
    pub const MISSED: &str = "on_missed";
    /// Raw tracepoint variant of `on_missed`.
    pub const MISSED_RAW: &str = "on_missed_raw";
    /// Raw tracepoint variant of `on_switch`, for kernels that refuse `tp_btf`.
    pub const SWITCH_RAW: &str = "on_switch_raw";
    /// Raw tracepoint `sched_waking`: records wakers.
    pub const WAKING: &str = "on_waking";
    /// Task iterator: finds the threads that are off the CPU when a recording begins.
    pub const BEGIN: &str = "on_begin";
    /// Task iterator: finds those that are when it ends.
    pub const FINISH: &str = "on_finish";
    /// Raw tracepoint, run on demand: stores the PID namespace of user space.
    pub const NAMESPACE: &str = "on_namespace";
    /// uprobe.multi: entries of allocator functions.
    pub const HEAP_ENTRY: &str = "heap_entry";
    /// uprobe.multi: exits of allocator functions.
    pub const HEAP_EXIT: &str = "heap_exit";
    /// uprobe.multi: functions that free blocks.
    pub const HEAP_FREE: &str = "heap_free";
    /// Raw tracepoint `sys_exit`: system calls that change the address space.
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

//! What crosses the border for time off the CPU.

#[cfg(doc)]
use crate::RecordKind;
use crate::StackHeader;

/// Halves of stacks remembered per thread, of each kind.
pub const PLACES: usize = 4;
/// No place: a thread of the kernel, which has no user stack; or no kernel stack.
pub const NO_PLACE: u8 = PLACES as u8;
/// In the place of a user stack: a thread before its first instruction, which has no stack of either
/// kind.
pub const NEW_THREAD: u8 = NO_PLACE + 1;
/// In the place of a user stack: there is one, but nobody saw the thread go.
pub const UNSEEN: u8 = NO_PLACE + 2;
/// Flag of a [`HalfHeader`]: the place was known, and is walked again to see whether it has the same
/// stack.
pub const CHECK: u8 = 1;
/// Flag of a [`HalfHeader`]: the stack of another thread, of which only the registers could be read.
/// The user half reads the rest.
pub const REMOTE: u8 = 2;
/// As PID and TID of a waker: it is outside the PID namespace that wingbeat runs in.
pub const OUTSIDE: u32 = u32::MAX - 1;
/// One reuse of a stack in so many is checked.
pub const REUSES_PER_CHECK: u32 = 64;

/// Of a [`Thread`]: it runs.
pub const ON_CPU: u8 = 0;
/// Of a [`Thread`]: it is off the CPU.
pub const OFF_CPU: u8 = 1;
/// Of a [`Thread`]: it has ended, and its account could not be sent.
pub const ENDED: u8 = 2;

/// Why a thread went off the CPU, as the kernel tells it.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::TryFromBytes))]
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockState {
    /// `TASK_INTERRUPTIBLE`, and whatever has no better name.
    Sleeping = 0,
    /// `TASK_UNINTERRUPTIBLE`.
    Uninterruptible = 1,
    /// `in_iowait`.
    Io = 2,
    /// `blocked_on`, or `TASK_RTLOCK_WAIT`.
    Lock = 3,
    /// `TASK_RUNNING`: it could run.
    Preempted = 4,
    /// `__TASK_STOPPED`, `__TASK_TRACED`, `TASK_FROZEN`.
    Stopped = 5,
}

impl BlockState {
    /// All states, by their number.
    pub const ALL: [Self; 6] = [
        Self::Sleeping,
        Self::Uninterruptible,
        Self::Io,
        Self::Lock,
        Self::Preempted,
        Self::Stopped,
    ];
}

/// Half of the stack of a thread that goes off the CPU, or wakes one that did.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[cfg_attr(feature = "zerocopy", derive(zerocopy::KnownLayout, zerocopy::Immutable))]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HalfHeader {
    pub stack: StackHeader,
    /// Which of the thread's stacks of this half, below [`PLACES`].
    pub place: u8,
    /// [`CHECK`] or [`REMOTE`], or none.
    pub flags: u8,
    pub reserved: [u8; 6],
}

/// Time between going off a CPU and coming back.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[cfg_attr(feature = "zerocopy", derive(zerocopy::KnownLayout, zerocopy::Immutable))]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRecord {
    /// [`RecordKind::Block`].
    pub kind: u8,
    /// A [`BlockState`].
    pub state: u8,
    /// Which of the thread's user stacks, or [`NO_PLACE`], [`NEW_THREAD`], [`UNSEEN`].
    pub place: u8,
    /// Which of its kernel stacks, or [`NO_PLACE`].
    pub kernel_place: u8,
    pub pid: u32,
    pub tid: u32,
    /// Thread that woke it; 0 if that is not known.
    pub waker_tid: u32,
    /// When it went, `CLOCK_MONOTONIC`, nanoseconds.
    pub start_ns: u64,
    pub end_ns: u64,
    /// Time of the user stack; 0 without one. With a place, 0 says that the stack was lost.
    pub user_ns: u64,
    /// Time of the kernel stack; the same.
    pub kernel_ns: u64,
    /// Time of the waker's stack; 0 without one.
    pub waker_ns: u64,
}

/// The account of a thread that ended, or became another program.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[cfg_attr(feature = "zerocopy", derive(zerocopy::KnownLayout, zerocopy::Immutable))]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndRecord {
    /// [`RecordKind::ThreadEnd`].
    pub kind: u8,
    /// 1: the thread goes on as another program, with an account of its own.
    pub is_exec: u8,
    pub reserved: [u8; 2],
    pub pid: u32,
    pub tid: u32,
    pub below: u32,
    /// When it was first known, `CLOCK_MONOTONIC`, nanoseconds.
    pub begun_ns: u64,
    pub end_ns: u64,
    /// Time on the CPU between the two.
    pub on_cpu_ns: u64,
    /// Time of the blocks below the limit.
    pub below_ns: u64,
}

/// Half of a stack that a thread had, by what tells it from others.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[cfg_attr(feature = "zerocopy", derive(zerocopy::KnownLayout, zerocopy::Immutable))]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackPlace {
    /// A hash of what tells it; 0 if there is none.
    pub key: u64,
    /// When it was taken; 0 if it was not.
    pub time_ns: u64,
    pub uses: u64,
    /// Of a kernel stack: where its innermost return addresses lie, a byte each, in words from the
    /// stack pointer.
    pub offsets: u64,
}

impl StackPlace {
    /// None.
    pub const EMPTY: Self = Self { key: 0, time_ns: 0, uses: 0, offsets: 0 };
}

/// Who woke a thread last.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[cfg_attr(feature = "zerocopy", derive(zerocopy::KnownLayout, zerocopy::Immutable))]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waker {
    /// Thread; 0 if there was none since it went.
    pub tid: u32,
    pub reserved: u32,
    /// Hash of the waker and its stack.
    pub key: u64,
    pub stack_ns: u64,
}

/// By how much the scheduler's account of a thread that runs may be behind what it ran, nanoseconds:
/// it is brought up at each tick.
pub const BEHIND_NS_MAX: u64 = 20_000_000;

/// Must a thread that was thought to run since it came in have been away meanwhile? `ran_ns` is what it
/// ran by the scheduler's account, `gap_ns` the rest. A hypervisor makes a gap as well, but none
/// as large.
pub const fn was_away(ran_ns: u64, gap_ns: u64) -> bool {
    gap_ns > BEHIND_NS_MAX && gap_ns > ran_ns / 4
}

/// The same when the thread goes, where the scheduler's account is exact. A gap this small is what
/// interrupts took, and the way through the scheduler.
pub const fn was_kept_away(ran_ns: u64, gap_ns: u64) -> bool {
    gap_ns > 500_000 && gap_ns > ran_ns / 32
}

/// What the kernel half knows of a thread.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[cfg_attr(feature = "zerocopy", derive(zerocopy::KnownLayout, zerocopy::Immutable))]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    pub pid: u32,
    /// [`ON_CPU`], [`OFF_CPU`] or [`ENDED`].
    pub whereabouts: u8,
    /// A [`BlockState`], while off the CPU.
    pub state: u8,
    /// Which place, while off the CPU.
    pub place: u8,
    /// The place that the next new user stack takes.
    pub next_place: u8,
    /// When it went off the CPU, or on.
    pub since_ns: u64,
    /// When it was first known.
    pub begun_ns: u64,
    /// Time on the CPU, up to `since_ns`.
    pub on_cpu_ns: u64,
    /// Time of the blocks below the limit.
    pub below_ns: u64,
    /// Number of blocks below the limit.
    pub below: u32,
    /// Which kernel stack, while off the CPU.
    pub kernel_place: u8,
    /// The place that the next new kernel stack takes.
    pub next_kernel_place: u8,
    /// 1: brought to the end of the recording by the kernel half.
    pub is_final: u8,
    pub reserved: u8,
    pub waker: Waker,
    /// Its CPU time by the scheduler's account when it last went off the CPU, or was first known.
    pub runtime_ns: u64,
    pub users: [StackPlace; PLACES],
    pub kernels: [StackPlace; PLACES],
}

/// Size of [`HalfHeader`] in bytes.
pub const HALF_HEADER_BYTES: usize = 64;
/// Size of [`BlockRecord`] in bytes.
pub const BLOCK_RECORD_BYTES: usize = 56;
/// Size of [`EndRecord`] in bytes.
pub const END_RECORD_BYTES: usize = 48;
/// Size of [`Thread`] in bytes.
pub const THREAD_BYTES: usize = 336;

const _: () = assert!(size_of::<HalfHeader>() == HALF_HEADER_BYTES);
const _: () = assert!(size_of::<BlockRecord>() == BLOCK_RECORD_BYTES);
const _: () = assert!(size_of::<EndRecord>() == END_RECORD_BYTES);
const _: () = assert!(size_of::<Thread>() == THREAD_BYTES);

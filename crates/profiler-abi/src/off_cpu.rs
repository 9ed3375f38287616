//! Records and constants for time off the CPU.

#[cfg(doc)]
use crate::RecordKind;
use crate::StackHeader;

/// Slots for cached stack halves, per thread and kind.
pub const SLOTS: usize = 4;
/// No slot: a kernel thread, which has no user stack, or a missing kernel stack.
pub const NO_SLOT: u8 = SLOTS as u8;
/// Instead of a user stack's slot: a thread before its first instruction, which has neither stack.
pub const NEW_THREAD: u8 = NO_SLOT + 1;
/// Instead of a user stack's slot: the stack exists, but the switch was not seen.
pub const UNSEEN: u8 = NO_SLOT + 2;
/// Flag of a [`HalfHeader`]: the slot was cached and is walked again to verify it.
pub const CHECK: u8 = 1;
/// Flag of a [`HalfHeader`]: the stack of another thread, of which only the registers could be read. The user half
/// reads the rest.
pub const REMOTE: u8 = 2;
/// PID and TID of a waker outside wingbeat's PID namespace.
pub const OUTSIDE: u32 = u32::MAX - 1;
/// One in this many reused stacks is verified.
pub const REUSES_PER_CHECK: u32 = 64;

/// [`Thread`] is on a CPU.
pub const ON_CPU: u8 = 0;
/// [`Thread`] is off the CPU.
pub const OFF_CPU: u8 = 1;
/// [`Thread`] has exited, and its account could not be sent.
pub const ENDED: u8 = 2;

/// Why a thread went off the CPU, according to the kernel.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::TryFromBytes))]
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockState {
    /// `TASK_INTERRUPTIBLE`, and any state not listed.
    Sleeping = 0,
    /// `TASK_UNINTERRUPTIBLE`.
    Uninterruptible = 1,
    /// `in_iowait`.
    Io = 2,
    /// `blocked_on`, or `TASK_RTLOCK_WAIT`.
    Lock = 3,
    /// `TASK_RUNNING`: runnable.
    Preempted = 4,
    /// `__TASK_STOPPED`, `__TASK_TRACED`, `TASK_FROZEN`.
    Stopped = 5,
}

impl BlockState {
    /// All states, by number.
    pub const ALL: [Self; 6] = [
        Self::Sleeping,
        Self::Uninterruptible,
        Self::Io,
        Self::Lock,
        Self::Preempted,
        Self::Stopped,
    ];
}

/// Half of the stack of a thread that goes off the CPU or wakes another.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[cfg_attr(feature = "zerocopy", derive(zerocopy::KnownLayout, zerocopy::Immutable))]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HalfHeader {
    pub stack: StackHeader,
    /// Index of the thread's stack of this kind, below [`SLOTS`].
    pub slot: u8,
    /// [`CHECK`], [`REMOTE`] or 0.
    pub flags: u8,
    pub reserved: [u8; 6],
}

/// An interval between going off a CPU and coming back.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[cfg_attr(feature = "zerocopy", derive(zerocopy::KnownLayout, zerocopy::Immutable))]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRecord {
    /// [`RecordKind::Block`].
    pub kind: u8,
    /// A [`BlockState`].
    pub state: u8,
    /// Slot of the user stack, or [`NO_SLOT`], [`NEW_THREAD`], [`UNSEEN`].
    pub slot: u8,
    /// Slot of the kernel stack, or [`NO_SLOT`].
    pub kernel_slot: u8,
    pub pid: u32,
    pub tid: u32,
    /// Waking thread; 0 if unknown.
    pub waker_tid: u32,
    /// Start, `CLOCK_MONOTONIC`, nanoseconds.
    pub start_ns: u64,
    pub end_ns: u64,
    /// Time of the user stack, 0 if there is none. 0 with a slot means that the stack was lost.
    pub user_ns: u64,
    /// Time of the kernel stack, as `user_ns`.
    pub kernel_ns: u64,
    /// Time of the waker's stack; 0 without one.
    pub waker_ns: u64,
}

/// The account of a thread that exited or called `exec`.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[cfg_attr(feature = "zerocopy", derive(zerocopy::KnownLayout, zerocopy::Immutable))]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndRecord {
    /// [`RecordKind::ThreadEnd`].
    pub kind: u8,
    /// 1: the thread continues as another program, with a new account.
    pub is_exec: u8,
    pub reserved: [u8; 2],
    pub pid: u32,
    pub tid: u32,
    pub below: u32,
    /// When the thread was first seen, `CLOCK_MONOTONIC`, nanoseconds.
    pub begun_ns: u64,
    pub end_ns: u64,
    /// Time on the CPU between `begun_ns` and the end.
    pub on_cpu_ns: u64,
    /// Time of the blocks shorter than the limit.
    pub below_ns: u64,
}

/// A cached stack half.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[cfg_attr(feature = "zerocopy", derive(zerocopy::KnownLayout, zerocopy::Immutable))]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedStack {
    /// Hash that identifies it; 0 if empty.
    pub key: u64,
    /// When it was walked; 0 if it was not.
    pub time_ns: u64,
    pub uses: u64,
    /// For kernel stacks: positions of the innermost return addresses, a byte each, in words from the stack pointer.
    pub offsets: u64,
}

impl CachedStack {
    /// An empty slot.
    pub const EMPTY: Self = Self { key: 0, time_ns: 0, uses: 0, offsets: 0 };
}

/// Last waker of a thread.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[cfg_attr(feature = "zerocopy", derive(zerocopy::KnownLayout, zerocopy::Immutable))]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waker {
    /// Waking thread; 0 if none since the switch.
    pub tid: u32,
    pub reserved: u32,
    /// Hash of the waker and its stack.
    pub key: u64,
    pub stack_ns: u64,
}

/// Maximum lag of the scheduler's runtime of a running thread, in nanoseconds: it is updated at each tick.
pub const BEHIND_NS_MAX: u64 = 20_000_000;

/// Whether a thread that seemed to run since it came in must have been away. `ran_ns` is its runtime by the
/// scheduler, `gap_ns` the remaining time. A hypervisor causes gaps too, but smaller ones.
pub const fn was_away(ran_ns: u64, gap_ns: u64) -> bool {
    gap_ns > BEHIND_NS_MAX && gap_ns > ran_ns / 4
}

/// Same as [`was_away`] for a thread that is switched out, whose runtime is exact. A gap below this comes from
/// interrupts and the scheduler.
pub const fn was_kept_away(ran_ns: u64, gap_ns: u64) -> bool {
    gap_ns > 500_000 && gap_ns > ran_ns / 32
}

/// State of a thread in the kernel half.
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
    /// Slot of the user stack, while off the CPU.
    pub slot: u8,
    /// Next slot to overwrite with a new user stack.
    pub next_slot: u8,
    /// Time of the last switch off or onto a CPU.
    pub since_ns: u64,
    /// When the thread was first seen.
    pub begun_ns: u64,
    /// Time on the CPU, up to `since_ns`.
    pub on_cpu_ns: u64,
    /// Time of the blocks shorter than the limit.
    pub below_ns: u64,
    /// Number of blocks shorter than the limit.
    pub below: u32,
    /// Slot of the kernel stack, while off the CPU.
    pub kernel_slot: u8,
    /// Next slot to overwrite with a new kernel stack.
    pub next_kernel_slot: u8,
    /// 1: closed by the kernel half at the end of the recording.
    pub is_final: u8,
    pub reserved: u8,
    pub waker: Waker,
    /// Scheduler's runtime when it last went off the CPU or was first seen.
    pub runtime_ns: u64,
    pub users: [CachedStack; SLOTS],
    pub kernels: [CachedStack; SLOTS],
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

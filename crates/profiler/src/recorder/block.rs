//! A block, the interval that a thread is off the CPU, as sent by the kernel half.

use wingbeat_profiler_abi::off_cpu::{BlockRecord, BlockState, CachedStack, SLOTS, Thread};

use crate::model::State;

/// A received block; times are `CLOCK_MONOTONIC`, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub pid: u32,
    pub tid: u32,
    pub state: State,
    /// Slots of the user stack and the kernel stack.
    pub slot: u8,
    pub kernel_slot: u8,
    /// When the stacks were walked; 0 if they were not.
    pub user_ns: u64,
    pub kernel_ns: u64,
    /// Waking thread, and the time of its stack.
    pub waker: Option<(u32, u64)>,
    pub start_ns: u64,
    pub end_ns: u64,
    /// Still in progress.
    pub is_open: bool,
}

impl From<&BlockRecord> for Block {
    fn from(record: &BlockRecord) -> Self {
        // The idle task has the number 0, which means no waker.
        let waker_tid = if record.waker_tid == u32::MAX { 0 } else { record.waker_tid };
        Self {
            pid: record.pid,
            tid: record.tid,
            state: state(record.state),
            slot: record.slot,
            kernel_slot: record.kernel_slot,
            user_ns: record.user_ns,
            kernel_ns: record.kernel_ns,
            waker: (record.waker_ns != 0).then_some((waker_tid, record.waker_ns)),
            start_ns: record.start_ns,
            end_ns: record.end_ns,
            is_open: false,
        }
    }
}

impl Block {
    /// The block of a thread that is still off the CPU at `end_ns`.
    pub(super) fn open(tid: u32, thread: &Thread, end_ns: u64) -> Self {
        let time_of = |slots: &[CachedStack; SLOTS], slot: u8| {
            slots.get(usize::from(slot)).map_or(0, |slot| slot.time_ns)
        };
        Self {
            pid: thread.pid,
            tid,
            state: state(thread.state),
            slot: thread.slot,
            kernel_slot: thread.kernel_slot,
            user_ns: time_of(&thread.users, thread.slot),
            kernel_ns: time_of(&thread.kernels, thread.kernel_slot),
            waker: None,
            start_ns: thread.since_ns,
            end_ns,
            is_open: true,
        }
    }
}

/// Converts to the model's state.
fn state(state: u8) -> State {
    match BlockState::ALL.get(usize::from(state)) {
        Some(BlockState::Uninterruptible) => State::Uninterruptible,
        Some(BlockState::Io) => State::Io,
        Some(BlockState::Lock) => State::Lock,
        Some(BlockState::Preempted) => State::Preempted,
        Some(BlockState::Stopped) => State::Stopped,
        Some(BlockState::Sleeping) | None => State::Sleeping,
    }
}

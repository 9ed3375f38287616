//! A block: a time that a thread is off the CPU, as the kernel half tells it.

use wingbeat_profile_common::off_cpu::{BlockRecord, BlockState, PLACES, StackPlace, Thread};

use crate::model::State;

/// A block as it comes in; `CLOCK_MONOTONIC`, nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub pid: u32,
    pub tid: u32,
    pub state: State,
    /// Which of the thread's user stacks, and of its kernel stacks.
    pub place: u8,
    pub kernel_place: u8,
    /// When these were taken; 0 if they were not.
    pub user_ns: u64,
    pub kernel_ns: u64,
    /// Thread that woke it, and the time of its stack.
    pub waker: Option<(u32, u64)>,
    pub start_ns: u64,
    pub end_ns: u64,
    /// It has not ended.
    pub is_open: bool,
}

impl From<&BlockRecord> for Block {
    fn from(record: &BlockRecord) -> Self {
        // The idle task has the number 0, which stands for nobody.
        let waker_tid = if record.waker_tid == u32::MAX { 0 } else { record.waker_tid };
        Self {
            pid: record.pid,
            tid: record.tid,
            state: state(record.state),
            place: record.place,
            kernel_place: record.kernel_place,
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
    /// That of a thread which is still off the CPU at `end_ns`.
    pub(super) fn open(tid: u32, thread: &Thread, end_ns: u64) -> Self {
        let time_of = |places: &[StackPlace; PLACES], place: u8| {
            places.get(usize::from(place)).map_or(0, |place| place.time_ns)
        };
        Self {
            pid: thread.pid,
            tid,
            state: state(thread.state),
            place: thread.place,
            kernel_place: thread.kernel_place,
            user_ns: time_of(&thread.users, thread.place),
            kernel_ns: time_of(&thread.kernels, thread.kernel_place),
            waker: None,
            start_ns: thread.since_ns,
            end_ns,
            is_open: true,
        }
    }
}

/// The state as the model has it.
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

//! Time off the CPU: blocks in, added up by thread, stack, state and waker.
//!
//! The kernel half sends a stack once and then names it by its place and time. What is kept here are
//! sums and distributions, so that a flood of short blocks takes no memory; long ones are kept singly.

use rustc_hash::FxHashMap;
use wingbeat_profile_common::off_cpu::{BlockRecord, BlockState, EndRecord, PLACES};

use super::{intern::RawStackId, spaces::GenerationId};
use crate::model::{Completeness, Durations, State, ThreadId};

/// Blocks from here on are kept singly.
const INTERVAL_NS_MIN: u64 = 100_000;
/// Waker stacks kept by their time: at least as many as were used last, at most twice that.
const WAKERS_MAX: usize = 1 << 14;
/// A sleep as long as this says that there was nothing to do.
const IDLE_NS_MIN: u64 = 1_000_000_000;

/// Index into [`Blocks::wakers`].
pub(crate) type WakerId = u32;

/// Blocks that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawBlocked {
    pub kind: Kind,
    pub total_ns: u64,
    pub durations: Durations,
}

/// What tells blocks from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Kind {
    pub thread: ThreadId,
    pub stack: RawStackId,
    pub state: State,
    pub waker: Option<WakerId>,
}

/// Who woke, and from where.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RawWaker {
    pub name: String,
    pub stack: RawStackId,
}

/// A single block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawInterval {
    /// Index into [`Blocks::rows`].
    pub row: u32,
    pub start_ns: u64,
    pub end_ns: u64,
}

/// The time of a thread, from when it was first known to its end or that of the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    pub thread: ThreadId,
    pub pid: u32,
    pub tid: u32,
    pub begun_ns: u64,
    pub end_ns: u64,
    pub on_cpu_ns: u64,
    pub off_cpu_ns: u64,
    pub below: u64,
    pub below_ns: u64,
    /// It slept all the time, in long stretches.
    pub is_idle: bool,
}

/// The user half of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UserPart {
    pub time_ns: u64,
    pub generation: GenerationId,
    pub completeness: Completeness,
    pub frames: Vec<u64>,
}

/// The kernel half of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KernelPart {
    pub time_ns: u64,
    pub frames: Vec<u64>,
}

/// A stack of both halves, and the row that it was last counted in.
#[derive(Debug, Clone, Copy)]
struct Whole {
    user_ns: u64,
    kernel_ns: u64,
    stack: RawStackId,
    row: Option<(Kind, u32)>,
}

/// The stacks of a thread, by their places.
#[derive(Debug, Default)]
pub(super) struct Blocker {
    pub users: [Option<UserPart>; PLACES],
    pub kernels: [Option<KernelPart>; PLACES],
    /// By both places; a half that is missing has the last.
    wholes: [[Option<Whole>; PLACES + 1]; PLACES + 1],
    off_cpu_ns: u64,
    slept_long_ns: u64,
}

impl Blocker {
    fn whole(&mut self, block: &BlockRecord) -> &mut Option<Whole> {
        let user = usize::from(block.place).min(PLACES);
        let kernel = usize::from(block.kernel_place).min(PLACES);
        &mut self.wholes[user][kernel]
    }

    /// The whole stack of a block, if it was put together before.
    pub(super) fn known(&mut self, block: &BlockRecord) -> Option<RawStackId> {
        let whole = (*self.whole(block))?;
        let is_same = whole.user_ns == block.user_ns && whole.kernel_ns == block.kernel_ns;
        is_same.then_some(whole.stack)
    }

    /// Remembers the whole stack of a block.
    pub(super) fn remember(&mut self, block: &BlockRecord, stack: RawStackId) {
        let BlockRecord { user_ns, kernel_ns, .. } = *block;
        *self.whole(block) = Some(Whole { user_ns, kernel_ns, stack, row: None });
    }
}

/// Waker stacks by thread and time: two halves, so that those which nobody names any more go.
#[derive(Debug, Default)]
struct WakerStacks {
    young: FxHashMap<(u32, u64), WakerId>,
    old: FxHashMap<(u32, u64), WakerId>,
}

impl WakerStacks {
    fn insert(&mut self, key: (u32, u64), waker: WakerId) {
        if self.young.len() >= WAKERS_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, waker);
    }

    fn get(&mut self, key: (u32, u64)) -> Option<WakerId> {
        if let Some(&waker) = self.young.get(&key) {
            return Some(waker);
        }
        let waker = self.old.remove(&key)?;
        self.insert(key, waker);
        Some(waker)
    }
}

/// All blocks of a recording.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    pub rows: Vec<RawBlocked>,
    pub wakers: Vec<RawWaker>,
    pub intervals: Vec<RawInterval>,
    pub accounts: Vec<Account>,
    /// Stacks that were walked again although their place was known, and those that had changed.
    pub checked: u64,
    pub wrong: u64,
    /// Blocks that named a stack which never came.
    pub stacks_missing: u64,
    /// The kernel half of a waker's stack, until the other half comes.
    pub(super) waker_kernel: Option<(u32, KernelPart)>,
    row_ids: FxHashMap<Kind, u32>,
    waker_ids: FxHashMap<RawWaker, WakerId>,
    waker_stacks: WakerStacks,
    blockers: FxHashMap<u32, Blocker>,
}

impl Blocks {
    /// The stacks of a thread.
    pub(super) fn blocker(&mut self, tid: u32) -> &mut Blocker {
        self.blockers.entry(tid).or_default()
    }

    /// Takes the stack of a waker.
    pub(super) fn add_waker(&mut self, tid: u32, time_ns: u64, waker: RawWaker) {
        let Self { wakers, waker_ids, .. } = self;
        let id = *waker_ids.entry(waker).or_insert_with_key(|waker| {
            wakers.push(waker.clone());
            wakers.len() as WakerId - 1
        });
        self.waker_stacks.insert((tid, time_ns), id);
    }

    /// The waker that a block names.
    pub(super) fn waker(&mut self, block: &BlockRecord) -> Option<WakerId> {
        // The idle task has the number 0, which stands for nobody.
        let tid = if block.waker_tid == u32::MAX { 0 } else { block.waker_tid };
        if block.waker_ns == 0 { None } else { self.waker_stacks.get((tid, block.waker_ns)) }
    }

    /// Counts a block from `start_ns` to `end_ns` since the start of recording; `is_open` if it has not
    /// ended.
    pub(super) fn add(
        &mut self,
        block: &BlockRecord,
        kind: Kind,
        (start_ns, end_ns): (u64, u64),
        is_open: bool,
    ) {
        let duration_ns = end_ns.saturating_sub(start_ns);
        let row = self.row(block, kind);
        if let Some(blocked) = self.rows.get_mut(row as usize) {
            blocked.total_ns += duration_ns;
            blocked.durations.record(duration_ns);
        }
        if duration_ns >= INTERVAL_NS_MIN {
            self.intervals.push(RawInterval { row, start_ns, end_ns });
        }
        let blocker = self.blockers.entry(block.tid).or_default();
        blocker.off_cpu_ns += duration_ns;
        if kind.state == State::Sleeping && (duration_ns >= IDLE_NS_MIN || is_open) {
            blocker.slept_long_ns += duration_ns;
        }
    }

    /// The row of a kind; the one that a stack was counted in last is found without a search.
    fn row(&mut self, block: &BlockRecord, kind: Kind) -> u32 {
        let Self { blockers, rows, row_ids, .. } = self;
        let whole = blockers.get_mut(&block.tid).and_then(|blocker| blocker.whole(block).as_mut());
        if let Some((known, row)) = whole.as_ref().and_then(|whole| whole.row)
            && known == kind
        {
            return row;
        }
        let row = *row_ids.entry(kind).or_insert_with(|| {
            rows.push(RawBlocked { kind, total_ns: 0, durations: Durations::default() });
            rows.len() as u32 - 1
        });
        if let Some(whole) = whole {
            whole.row = Some((kind, row));
        }
        row
    }

    /// Closes the account of a thread.
    pub(super) fn end(&mut self, thread: ThreadId, start_ns: u64, end: &EndRecord) {
        let blocker = self.blockers.remove(&end.tid).unwrap_or_default();
        let elapsed_ns = end.end_ns.saturating_sub(end.begun_ns);
        self.accounts.push(Account {
            thread,
            pid: end.pid,
            tid: end.tid,
            begun_ns: end.begun_ns.saturating_sub(start_ns),
            end_ns: end.end_ns.saturating_sub(start_ns),
            on_cpu_ns: end.on_cpu_ns,
            off_cpu_ns: blocker.off_cpu_ns,
            below: end.below.into(),
            below_ns: end.below_ns,
            is_idle: elapsed_ns > 0 && blocker.slept_long_ns >= elapsed_ns - elapsed_ns / 100,
        });
    }
}

/// The state as the model has it.
pub(super) fn state(state: u8) -> State {
    match BlockState::ALL.get(usize::from(state)) {
        Some(BlockState::Uninterruptible) => State::Uninterruptible,
        Some(BlockState::Io) => State::Io,
        Some(BlockState::Lock) => State::Lock,
        Some(BlockState::Preempted) => State::Preempted,
        Some(BlockState::Stopped) => State::Stopped,
        Some(BlockState::Sleeping) | None => State::Sleeping,
    }
}

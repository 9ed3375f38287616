//! Off-CPU time: sums blocks by thread, stack, state and waker.
//!
//! The kernel half sends a stack once and then refers to it by slot and time. Only sums and distributions are
//! kept, so that many short blocks take no memory. Long blocks are kept individually.

use rustc_hash::{FxHashMap, FxHashSet};
use wingbeat_profiler_abi::off_cpu::{
    BlockRecord, BlockState, CachedStack, EndRecord, NO_SLOT, SLOTS, Thread, UNSEEN,
};

use crate::{
    model::{Completeness, Durations, State, ThreadId},
    recorder::{address_spaces::GenerationId, raw_stacks::RawStackId},
};

/// Minimum duration of blocks kept individually.
const INTERVAL_NS_MIN: u64 = 100_000;
/// Waker stacks kept by time: at least this many recently used ones, at most twice that.
const WAKERS_MAX: usize = 1 << 14;
/// A sleep of this duration means that the thread was idle.
const IDLE_NS_MIN: u64 = 1_000_000_000;

/// Slots of user stacks, including the special values.
const USERS: usize = UNSEEN as usize + 1;

/// Index into [`Blocks::wakers`].
pub(crate) type WakerId = u32;

/// A group of equal blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawBlocked {
    pub kind: BlockKind,
    pub total_ns: u64,
    pub durations: Durations,
}

/// Identity of a group of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct BlockKind {
    pub thread: ThreadId,
    pub stack: RawStackId,
    pub state: State,
    pub waker: Option<WakerId>,
}

/// A waker and its stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RawWaker {
    pub name: String,
    pub stack: RawStackId,
}

/// An individual block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawInterval {
    /// Index into [`Blocks::rows`].
    pub row: u32,
    pub start_ns: u64,
    pub end_ns: u64,
}

/// Time of a thread, from when it was first seen to its end or that of the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    pub thread: ThreadId,
    /// Relative to the start of recording.
    pub span: Span,
    /// Slept all the time, in long intervals.
    pub is_idle: bool,
}

/// Half of a stack: user frames, or kernel frames, which are always complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Half {
    pub time_ns: u64,
    pub generation: GenerationId,
    pub completeness: Completeness,
    pub frames: Vec<u64>,
}

/// A stack of both halves, and the row that last counted it.
#[derive(Debug, Clone, Copy)]
struct Whole {
    user_ns: u64,
    kernel_ns: u64,
    stack: RawStackId,
    is_missing: bool,
    row: Option<(BlockKind, u32)>,
}

/// An `exec` of a thread. The new name applies at once; the kernel half's account changes only when the program is
/// loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exec {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub time_ns: u64,
    /// Previous name.
    pub name: String,
    /// Previous entry, if it had one.
    pub thread: Option<ThreadId>,
}

/// The stacks of a thread by slot.
#[derive(Debug, Default)]
pub(super) struct Blocker {
    pub users: [Option<Half>; SLOTS],
    pub kernels: [Option<Half>; SLOTS],
    wholes: [[Option<Whole>; NO_SLOT as usize + 1]; USERS],
    off: Off,
    /// The last `exec`, and the off-CPU time up to then.
    exec: Option<(Exec, Off)>,
    /// Start and CPU time as this program before its account began.
    earlier: Option<(u64, u64)>,
    /// Counted by earlier windows.
    counted: Counted,
}

/// What earlier windows of a recording have counted of a thread.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    /// Its block up to this time, `CLOCK_MONOTONIC`, nanoseconds.
    until_ns: u64,
    /// Its blocks shorter than the limit.
    below: u64,
    below_ns: u64,
}

impl Blocker {
    /// Stores a half at a slot. Returns whether it had different frames.
    pub(super) fn replace(slots: &mut [Option<Half>; SLOTS], slot: u8, half: Half) -> bool {
        let Some(slot) = slots.get_mut(usize::from(slot)) else { return false };
        let is_other = slot.as_ref().is_some_and(|known| known.frames != half.frames);
        *slot = Some(half);
        is_other
    }

    /// The half at a slot, if it was walked at that time.
    pub(super) fn half(slots: &[Option<Half>; SLOTS], slot: u8, time_ns: u64) -> Option<&Half> {
        let half = slots.get(usize::from(slot))?.as_ref()?;
        (time_ns != 0 && half.time_ns == time_ns).then_some(half)
    }

    fn whole(&mut self, block: &Block) -> &mut Option<Whole> {
        let user = usize::from(block.slot).min(USERS - 1);
        let kernel = usize::from(block.kernel_slot.min(NO_SLOT));
        &mut self.wholes[user][kernel]
    }

    /// The complete stack of a block, if assembled before, and whether half of it is missing.
    pub(super) fn known(&mut self, block: &Block) -> Option<(RawStackId, bool)> {
        let whole = (*self.whole(block))?;
        let is_same = whole.user_ns == block.user_ns && whole.kernel_ns == block.kernel_ns;
        is_same.then_some((whole.stack, whole.is_missing))
    }

    /// Caches the complete stack of a block.
    pub(super) fn remember(&mut self, block: &Block, stack: RawStackId, is_missing: bool) {
        let Block { user_ns, kernel_ns, .. } = *block;
        *self.whole(block) = Some(Whole { user_ns, kernel_ns, stack, is_missing, row: None });
    }

    /// Start of a block, or of the part that earlier windows have not counted.
    pub(super) fn start_of(&self, block: &Block) -> u64 {
        block.start_ns.max(self.counted.until_ns)
    }

    /// Records that a window has counted the thread's off-CPU time until then.
    pub(super) fn count_until(&mut self, end_ns: u64) {
        self.counted.until_ns = end_ns;
    }

    /// Records an `exec` of the thread.
    pub(super) fn exec(&mut self, exec: Exec) {
        self.exec = Some((exec, self.off));
    }
}

/// Waker stacks by thread and time, in two generations, so that unused ones are dropped.
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
    pub is_watched: bool,
    pub rows: Vec<RawBlocked>,
    pub wakers: Vec<RawWaker>,
    pub intervals: Vec<RawInterval>,
    pub accounts: Vec<Account>,
    /// Stacks verified although their slot was known, and those that had changed.
    pub checked: u64,
    pub wrong: u64,
    /// Blocks without half of their stack, because the buffer was full.
    pub stacks_missing: u64,
    /// Kernel half of a waker's stack, until the user half arrives.
    pub(super) waker_kernel: Option<(u32, Half)>,
    row_ids: FxHashMap<BlockKind, u32>,
    waker_ids: FxHashMap<RawWaker, WakerId>,
    waker_stacks: WakerStacks,
    blockers: FxHashMap<u32, Blocker>,
}

impl Blocks {
    /// The stacks of a thread.
    pub(super) fn blocker(&mut self, tid: u32) -> &mut Blocker {
        self.blockers.entry(tid).or_default()
    }

    /// Adds the stack of a waker.
    pub(super) fn add_waker(&mut self, tid: u32, time_ns: u64, waker: RawWaker) {
        let Self { wakers, waker_ids, .. } = self;
        let id = *waker_ids.entry(waker).or_insert_with_key(|waker| {
            wakers.push(waker.clone());
            wakers.len() as WakerId - 1
        });
        self.waker_stacks.insert((tid, time_ns), id);
    }

    /// The waker that a block refers to.
    pub(super) fn waker(&mut self, block: &Block) -> Option<WakerId> {
        self.waker_stacks.get(block.waker?)
    }

    /// Counts a block from `start_ns` to `end_ns`, relative to the start of recording.
    pub(super) fn add(&mut self, block: &Block, kind: BlockKind, (start_ns, end_ns): (u64, u64)) {
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
        blocker.off.total_ns += duration_ns;
        // By its whole duration, not only its part in this window.
        let is_long = block.end_ns.saturating_sub(block.start_ns) >= IDLE_NS_MIN;
        if kind.state == State::Sleeping && (is_long || block.is_open) {
            blocker.off.slept_long_ns += duration_ns;
        }
    }

    /// The row of a kind. The row that last counted a stack is found without a search.
    fn row(&mut self, block: &Block, kind: BlockKind) -> u32 {
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

    /// Closes a thread's account at the end of a window. If it is off the CPU (`is_out`), that time is counted in
    /// this window and not in the next.
    pub(super) fn so_far(&mut self, mut span: Span, is_out: bool) -> Option<Span> {
        let blocker = self.blocker(span.tid);
        if is_out {
            blocker.count_until(span.end_ns);
        }
        let Counted { below, below_ns, .. } = blocker.counted;
        (blocker.counted.below, blocker.counted.below_ns) = (span.below, span.below_ns);
        span.below = span.below.saturating_sub(below);
        span.below_ns = span.below_ns.saturating_sub(below_ns);
        span.off = blocker.off;
        (span.off.total_ns > 0 || span.below > 0).then_some(span)
    }

    /// Starts another window: keeps the threads' stacks, which are not sent again.
    pub(super) fn next_window(&mut self, gone: &FxHashSet<u32>) {
        self.rows.clear();
        self.wakers.clear();
        self.intervals.clear();
        self.accounts.clear();
        self.row_ids.clear();
        self.waker_ids.clear();
        self.waker_stacks = WakerStacks::default();
        self.blockers.retain(|tid, _| !gone.contains(tid));
        for blocker in self.blockers.values_mut() {
            blocker.wholes = Default::default();
            (blocker.off, blocker.exec, blocker.earlier) = (Off::default(), None, None);
        }
    }

    /// Ends a thread's account. Returns the part of an earlier program first and that of the current one second.
    /// If the thread continues as the latter (`is_exec`), that part waits for its end.
    pub(super) fn end(&mut self, mut span: Span, is_exec: bool) -> Ended {
        let blocker = self.blockers.remove(&span.tid).unwrap_or_default();
        span.off = blocker.off;
        span.below = span.below.saturating_sub(blocker.counted.below);
        span.below_ns = span.below_ns.saturating_sub(blocker.counted.below_ns);
        if let Some((begun_ns, on_cpu_ns)) = blocker.earlier {
            span.begun_ns = begun_ns;
            span.on_cpu_ns += on_cpu_ns;
        }
        let Some((exec, off)) = blocker.exec.filter(|(exec, _)| exec.time_ns <= span.end_ns) else {
            return Ended { before: None, last: Some(span) };
        };
        let (before, last) = match exec.time_ns > span.begun_ns {
            true => {
                let (before, last) = span.split(exec.time_ns, off);
                (Some((exec, before)), last)
            }
            false => (None, span),
        };
        if !is_exec {
            return Ended { before, last: Some(last) };
        }
        let earlier = Some((last.begun_ns, last.on_cpu_ns));
        let blocker = Blocker { off: last.off, earlier, ..Blocker::default() };
        self.blockers.insert(span.tid, blocker);
        Ended { before, last: None }
    }

    /// The threads that slept all the time. A thread may have several accounts if the kernel half lost track of it.
    pub(crate) fn idle(&self) -> FxHashSet<ThreadId> {
        let of = |is_idle| {
            let accounts = self.accounts.iter().filter(move |account| account.is_idle == is_idle);
            accounts.map(|account| account.thread)
        };
        let mut idle: FxHashSet<ThreadId> = of(true).collect();
        for thread in of(false) {
            idle.remove(&thread);
        }
        idle
    }

    /// Adds time to the account that it continues: of a thread that takes over the number of its process's first
    /// thread by `exec`, and was seen under that number before the `exec` was reported. Its account under the old
    /// number ends where this time begins. Returns false if there is none.
    pub(super) fn carry_on(&mut self, start_ns: u64, span: Span) -> bool {
        let span = span.since(start_ns);
        let mut known = self.accounts.iter_mut().rev().map(|account| &mut account.span);
        let Some(account) = known.find(|known| {
            known.pid == span.pid && known.tid != span.tid && known.end_ns == span.begun_ns
        }) else {
            return false;
        };
        account.end_ns = span.end_ns;
        account.on_cpu_ns += span.on_cpu_ns;
        account.off.total_ns += span.off.total_ns;
        account.below += span.below;
        account.below_ns += span.below_ns;
        true
    }

    /// Closes the account of a thread.
    pub(super) fn close(&mut self, thread: ThreadId, start_ns: u64, span: Span) {
        let elapsed_ns = span.end_ns.saturating_sub(span.begun_ns);
        let is_idle = elapsed_ns > 0 && span.off.slept_long_ns >= elapsed_ns - elapsed_ns / 100;
        self.accounts.push(Account { thread, span: span.since(start_ns), is_idle });
    }
}

/// Parts of an ended account.
pub(super) struct Ended {
    pub before: Option<(Exec, Span)>,
    /// Of the current program, if it has ended.
    pub last: Option<Span>,
}

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

/// Off-CPU time, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Off {
    pub total_ns: u64,
    /// In sleeps long enough to count as idle.
    pub slept_long_ns: u64,
}

impl Off {
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            total_ns: self.total_ns.saturating_sub(earlier.total_ns),
            slept_long_ns: self.slept_long_ns.saturating_sub(earlier.slept_long_ns),
        }
    }
}

/// The time of a thread as one program; `CLOCK_MONOTONIC` unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub pid: u32,
    pub tid: u32,
    pub begun_ns: u64,
    pub end_ns: u64,
    pub on_cpu_ns: u64,
    pub off: Off,
    pub below: u64,
    pub below_ns: u64,
}

impl From<&EndRecord> for Span {
    fn from(end: &EndRecord) -> Self {
        Self {
            pid: end.pid,
            tid: end.tid,
            begun_ns: end.begun_ns,
            end_ns: end.end_ns,
            on_cpu_ns: end.on_cpu_ns,
            off: Off::default(),
            below: end.below.into(),
            below_ns: end.below_ns,
        }
    }
}

impl Span {
    /// The same relative to a start time.
    pub(super) fn since(self, start_ns: u64) -> Self {
        let since = |time_ns: u64| time_ns.saturating_sub(start_ns);
        Self { begun_ns: since(self.begun_ns), end_ns: since(self.end_ns), ..self }
    }

    /// Splits at a time at which the off-CPU time was `off`. Blocks shorter than the limit stay with the first part.
    pub(super) fn split(self, time_ns: u64, off: Off) -> (Self, Self) {
        let off_after = self.off.since(off);
        // A block with a reconstructed end may extend beyond that time. It counts for the new program.
        let after_ns = self.end_ns.saturating_sub(time_ns).max(off_after.total_ns);
        let time_ns = self.end_ns.saturating_sub(after_ns).max(self.begun_ns);
        let on_after_ns = after_ns.saturating_sub(off_after.total_ns).min(self.on_cpu_ns);
        let before = Self { end_ns: time_ns, on_cpu_ns: self.on_cpu_ns - on_after_ns, off, ..self };
        let after = Self {
            begun_ns: time_ns,
            on_cpu_ns: on_after_ns,
            off: off_after,
            below: 0,
            below_ns: 0,
            ..self
        };
        (before, after)
    }
}

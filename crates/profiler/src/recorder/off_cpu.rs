//! Off-CPU part of the recorder: assembles stacks from halves, and counts blocks with them.

use wingbeat_profiler_abi::{
    StackHeader,
    off_cpu::{
        BlockRecord, BlockState, CHECK, ENDED, NEW_THREAD, NO_SLOT, OFF_CPU, ON_CPU, OUTSIDE,
        REMOTE, SLOTS, Thread, UNSEEN, was_away,
    },
};

use super::{
    Recorder,
    blocks::{BlockKind, Blocker, Ended, Exec, Half, RawWaker},
};
use crate::recorder::address_spaces::GenerationId;
use crate::recorder::blocks::Block;
use crate::recorder::blocks::{Off, Span};
use crate::recorder::raw_stacks::RawStackId;
use crate::{
    model::{BrokenReason, Completeness, State},
    proc,
    unwind::Memory,
    wire::{HalfStack, Stack},
};

/// Bytes of another thread's stack to read for unwinding.
const REMOTE_STACK_BYTES: usize = 256 << 10;

impl Recorder {
    /// Handles the user half of a stack.
    pub(super) fn user_stack(&mut self, half: &HalfStack<'_>) {
        let (generation, completeness, frames) = if half.flags & REMOTE != 0 {
            self.remote_frames(&half.stack)
        } else {
            self.user_frames(&half.stack)
        };
        let StackHeader { tid, time_ns, .. } = half.stack.header;
        let part = Half { time_ns, generation, completeness, frames };
        let users = &mut self.blocks.blocker(tid).users;
        let is_wrong = Blocker::replace(users, half.slot, part);
        self.count_check(half, is_wrong);
    }

    /// Handles the kernel half of a stack.
    pub(crate) fn kernel_stack(&mut self, half: &HalfStack<'_>) {
        let kernels = &mut self.blocks.blocker(half.stack.header.tid).kernels;
        let is_wrong = Blocker::replace(kernels, half.slot, kernel_half(&half.stack));
        self.count_check(half, is_wrong);
    }

    fn count_check(&mut self, half: &HalfStack<'_>, is_wrong: bool) {
        if half.flags & CHECK != 0 {
            self.blocks.checked += 1;
            self.blocks.wrong += u64::from(is_wrong);
        }
    }

    /// Handles the kernel half of a waker's stack.
    pub(super) fn waker_kernel(&mut self, stack: &Stack<'_>) {
        self.blocks.waker_kernel = Some((stack.header.tid, kernel_half(stack)));
    }

    /// Handles the user half of a waker's stack, which follows.
    pub(super) fn waker_user(&mut self, half: &HalfStack<'_>) {
        let StackHeader { pid, tid, time_ns, .. } = half.stack.header;
        let (generation, completeness, frames) = self.user_frames(&half.stack);
        let kernel = self.blocks.waker_kernel.take();
        let kernel = kernel
            .filter(|(kernel_tid, part)| *kernel_tid == tid && part.time_ns == time_ns)
            .map(|(_, part)| part.frames)
            .unwrap_or_default();
        let stack = self.stacks.intern(generation, completeness, frames, kernel.into_iter());
        let name = match tid {
            0 => String::new(),
            OUTSIDE => "a process outside".to_owned(),
            tid => self.threads.name(pid, tid),
        };
        self.blocks.add_waker(tid, time_ns, RawWaker { name, stack });
    }

    pub(super) fn block(&mut self, block: &Block) {
        let thread = self.threads.sampled(block.pid, block.tid);
        let stack = self.whole_stack(block);
        let waker = self.blocks.waker(block);
        let kind = BlockKind { thread, stack, state: block.state, waker };
        let since = |time_ns: u64| time_ns.saturating_sub(self.start_ns);
        let start_ns = self.blocks.blocker(block.tid).start_of(block);
        let span = (since(start_ns), since(block.end_ns));
        self.blocks.add(block, kind, span);
    }

    /// Counts the part of a block within a window that ended at `end_ns`, before the block.
    pub(crate) fn block_so_far(&mut self, record: &BlockRecord, end_ns: u64) {
        let block = Block { end_ns, is_open: true, ..Block::from(record) };
        if block.start_ns >= end_ns {
            return;
        }
        // Nothing is counted for a thread that slept all the time.
        if block.state != State::Sleeping || block.start_ns > self.start_ns {
            self.block(&block);
        }
        self.blocks.blocker(block.tid).count_until(end_ns);
    }

    /// The stack that a block refers to.
    fn whole_stack(&mut self, block: &Block) -> RawStackId {
        let Self { blocks, stacks, .. } = self;
        let blocker = blocks.blocker(block.tid);
        if let Some((stack, is_missing)) = blocker.known(block) {
            blocks.stacks_missing += u64::from(is_missing);
            return stack;
        }
        let user = Blocker::half(&blocker.users, block.slot, block.user_ns);
        let kernel = Blocker::half(&blocker.kernels, block.kernel_slot, block.kernel_ns);
        let is_missing = (user.is_none() && block.slot < NO_SLOT)
            || (kernel.is_none() && block.kernel_slot < NO_SLOT);
        let completeness = match user {
            Some(part) => part.completeness,
            None if matches!(block.slot, NO_SLOT | NEW_THREAD) => Completeness::Complete,
            None => Completeness::Broken(BrokenReason::NotTaken),
        };
        let stack = stacks.intern(
            user.map_or(0, |part| part.generation),
            completeness,
            user.into_iter().flat_map(|part| part.frames.iter().copied()),
            kernel.map_or(&[][..], |part| &part.frames).iter().copied(),
        );
        blocker.remember(block, stack, is_missing);
        blocks.stacks_missing += u64::from(is_missing);
        stack
    }

    /// Handles an `exec` at `time_ns` of a process, by the thread with the same number.
    pub(super) fn exec(&mut self, pid: u32, time_ns: u64) {
        let (name, thread) = (self.threads.known_name(pid), self.threads.live(pid));
        self.blocks.blocker(pid).exec(Exec { time_ns, name, thread });
    }

    /// Closes the account of a thread that exited or called `exec` (`is_exec`).
    pub(super) fn thread_ended(&mut self, span: Span, is_exec: bool) {
        let Ended { before, last } = self.blocks.end(span, is_exec);
        if let Some((exec, span)) = before
            && !self.blocks.carry_on(self.start_ns, span)
        {
            let Span { begun_ns, end_ns, .. } = span.since(self.start_ns);
            let add =
                || self.threads.add_ended((span.pid, span.tid), exec.name, (begun_ns, end_ns));
            let thread = exec.thread.unwrap_or_else(add);
            self.blocks.close(thread, self.start_ns, span);
        }
        if let Some(span) = last {
            let thread = self.threads.sampled(span.pid, span.tid);
            self.blocks.close(thread, self.start_ns, span);
        }
    }

    /// Counts a thread's time up to the end of a window at `end_ns`. A thread that slept all the time has none.
    pub(crate) fn thread_so_far(&mut self, tid: u32, thread: &Thread, end_ns: u64) {
        let is_out = thread.whereabouts == OFF_CPU && thread.since_ns < end_ns;
        let is_asleep = thread.state == BlockState::Sleeping as u8;
        if is_out && !(is_asleep && thread.since_ns <= self.start_ns) {
            self.block(&Block::open(tid, thread, end_ns));
        }
        let span = Span {
            pid: thread.pid,
            tid,
            begun_ns: thread.begun_ns.max(self.start_ns),
            end_ns,
            on_cpu_ns: 0,
            off: Off::default(),
            below: thread.below.into(),
            below_ns: thread.below_ns,
        };
        if let Some(span) = self.blocks.so_far(span, is_out) {
            let thread = self.threads.sampled(span.pid, tid);
            self.blocks.close(thread, self.start_ns, span);
        }
    }

    /// Closes the account of a thread that exists at the end of the recording, `end_ns`, with its block in
    /// progress. Returns whether there is one.
    pub(crate) fn thread_left(&mut self, tid: u32, thread: &Thread, end_ns: u64) -> bool {
        let end_ns = if thread.whereabouts == ENDED { thread.since_ns } else { end_ns };
        let is_out = thread.whereabouts == OFF_CPU;
        let mut on_cpu_ns = thread.on_cpu_ns;
        if is_out {
            self.block(&Block::open(tid, thread, end_ns));
        } else {
            on_cpu_ns += end_ns.saturating_sub(thread.since_ns);
        }
        let span = Span {
            pid: thread.pid,
            tid,
            begun_ns: thread.begun_ns,
            end_ns,
            on_cpu_ns,
            off: Off::default(),
            below: thread.below.into(),
            below_ns: thread.below_ns,
        };
        self.thread_ended(span, false);
        is_out
    }

    /// The user frames of a thread of which only the registers are known. Its memory is read from outside, which
    /// is valid while it sleeps.
    fn remote_frames(&mut self, stack: &Stack<'_>) -> (GenerationId, Completeness, Vec<u64>) {
        let StackHeader { pid, stop_sp: sp, .. } = stack.header;
        let generation = self.generation(pid);
        let mut frames: Vec<u64> = stack.user.iter().collect();
        let memory = Memory { start: sp, words: proc::stack_words(pid, sp, REMOTE_STACK_BYTES) };
        let completeness = self.walk_on(generation, &stack.header, &memory, &mut frames);
        (generation, completeness, frames)
    }
}

/// The kernel frames of a stack.
fn kernel_half(stack: &Stack<'_>) -> Half {
    Half {
        time_ns: stack.header.time_ns,
        generation: 0,
        completeness: Completeness::Complete,
        frames: stack.kernel.iter().collect(),
    }
}

/// Corrects a thread that seems to be running at the end of the recording: the kernel half neither saw it leave
/// nor found it then. `runtime_ns` is its CPU time by the scheduler. Returns true if it must have left.
pub(crate) fn reconstruct_leaving(thread: &mut Thread, runtime_ns: u64, end_ns: u64) -> bool {
    let elapsed_ns = end_ns.saturating_sub(thread.since_ns);
    let ran_ns = runtime_ns.saturating_sub(thread.runtime_ns).min(elapsed_ns);
    if thread.whereabouts != ON_CPU || !was_away(ran_ns, elapsed_ns - ran_ns) {
        return false;
    }
    thread.on_cpu_ns += ran_ns;
    thread.since_ns += ran_ns;
    thread.whereabouts = OFF_CPU;
    thread.state = BlockState::Sleeping as u8;
    thread.slot = UNSEEN;
    thread.kernel_slot = NO_SLOT;
    true
}

const _: () = assert!(NO_SLOT as usize == SLOTS);

/// Accounts of threads that call `exec` or leave the CPU unseen.
#[cfg(test)]
mod tests {
    use wingbeat_profiler_abi::off_cpu::{CachedStack, Waker};

    use super::*;
    use crate::{
        model::State,
        recorder::{
            Scope,
            event::{Event, EventKind},
        },
    };

    /// A PID that does not exist.
    const PID: u32 = 4_200_000;
    const MS: u64 = 1_000_000;

    fn block(start_ns: u64, end_ns: u64) -> Block {
        Block {
            pid: PID,
            tid: PID,
            state: State::Sleeping,
            slot: NO_SLOT,
            kernel_slot: NO_SLOT,
            user_ns: 0,
            kernel_ns: 0,
            waker: None,
            start_ns,
            end_ns,
            is_open: false,
        }
    }

    fn end(begun_ns: u64, end_ns: u64, on_cpu_ns: u64) -> Span {
        let off = Off::default();
        Span { pid: PID, tid: PID, begun_ns, end_ns, on_cpu_ns, off, below: 0, below_ns: 0 }
    }

    fn named(name: &str, exec: bool, time_ns: u64) -> Event {
        let name = name.to_owned();
        Event { time_ns, kind: EventKind::Name { pid: PID, tid: PID, name, exec } }
    }

    fn recorder() -> Recorder {
        let mut recorder = Recorder::new(0, Scope::All);
        recorder.watch_blocks();
        recorder.event(named("sh", false, MS));
        recorder
    }

    /// Each account's name, start, end, on-CPU time and off-CPU time, in milliseconds.
    fn accounts(recorder: &Recorder) -> Vec<(&str, [u64; 4])> {
        let accounts = recorder.blocks.accounts.iter();
        let of = |account: &crate::recorder::blocks::Account| {
            let thread = &recorder.threads.threads[account.thread as usize];
            let span = account.span;
            let times =
                [span.begun_ns, span.end_ns, span.on_cpu_ns, span.off.total_ns].map(|ns| ns / MS);
            (thread.name.as_str(), times)
        };
        accounts.map(of).collect()
    }

    #[test]
    fn a_program_begins_with_its_name() {
        // Its account begins when the program is loaded, 5 ms later, 3 of them asleep.
        let mut recorder = recorder();
        recorder.block(&block(10 * MS, 40 * MS));
        recorder.event(named("ls", true, 100 * MS));
        recorder.block(&block(101 * MS, 104 * MS));
        recorder.thread_ended(end(10 * MS, 105 * MS, 62 * MS), true);
        recorder.block(&block(110 * MS, 160 * MS));
        recorder.thread_ended(end(105 * MS, 200 * MS, 45 * MS), false);
        assert_eq!(accounts(&recorder), [("sh", [10, 100, 60, 30]), ("ls", [100, 200, 47, 53])]);
    }

    #[test]
    fn a_program_that_never_blocked_keeps_its_name() {
        let mut recorder = recorder();
        recorder.event(named("ls", true, 20 * MS));
        recorder.thread_ended(end(10 * MS, 21 * MS, 11 * MS), true);
        recorder.thread_ended(end(21 * MS, 30 * MS, 9 * MS), false);
        assert_eq!(accounts(&recorder), [("sh", [10, 20, 10, 0]), ("ls", [20, 30, 10, 0])]);
    }

    #[test]
    fn a_block_may_reach_over_the_change_of_the_program() {
        let mut recorder = recorder();
        recorder.event(named("ls", true, 30 * MS));
        recorder.block(&block(10 * MS, 40 * MS));
        recorder.thread_ended(end(5 * MS, 40 * MS, 5 * MS), true);
        recorder.thread_ended(end(40 * MS, 45 * MS, 5 * MS), false);
        assert_eq!(accounts(&recorder), [("sh", [5, 10, 5, 0]), ("ls", [10, 45, 5, 30])]);
    }

    #[test]
    fn an_account_that_begins_with_the_program_is_whole() {
        // A launched command: its time before `exec` is not recorded.
        let mut recorder = recorder();
        recorder.event(named("ls", true, 20 * MS));
        recorder.thread_ended(end(21 * MS, 30 * MS, 9 * MS), false);
        assert_eq!(accounts(&recorder), [("ls", [21, 30, 9, 0])]);
    }

    #[test]
    fn a_thread_that_takes_over_the_number_of_the_first_keeps_its_account() {
        // It is off the CPU once more before its `exec` is reported.
        let mut recorder = recorder();
        let name = "worker".to_owned();
        let kind = EventKind::Name { pid: PID, tid: PID + 1, name, exec: false };
        recorder.event(Event { time_ns: 2 * MS, kind });
        recorder.thread_ended(end(5 * MS, 19 * MS, 14 * MS), false);
        recorder.block(&block(20 * MS, 22 * MS));
        recorder.event(named("ls", true, 23 * MS));
        recorder.thread_ended(Span { tid: PID + 1, ..end(10 * MS, 20 * MS, 10 * MS) }, false);
        recorder.thread_ended(end(20 * MS, 24 * MS, 2 * MS), true);
        recorder.thread_ended(end(24 * MS, 30 * MS, 6 * MS), false);
        let expected =
            [("sh", [5, 19, 14, 0]), ("worker", [10, 23, 11, 2]), ("ls", [23, 30, 7, 0])];
        assert_eq!(accounts(&recorder), expected);
    }

    #[test]
    fn a_stack_that_was_lost_is_missing_in_each_block() {
        let check = |slot, kernel_slot, missing, completeness| {
            let mut recorder = recorder();
            for start in [10, 20] {
                let block = block(start * MS, (start + 1) * MS);
                recorder.block(&Block { slot, kernel_slot, ..block });
            }
            assert_eq!(recorder.blocks.stacks_missing, missing, "{slot} {kernel_slot}");
            let stacks = recorder.stacks.in_order();
            assert_eq!(stacks.len(), 1);
            assert_eq!(stacks[0].completeness, completeness, "{slot} {kernel_slot}");
        };
        let not_taken = Completeness::Broken(BrokenReason::NotTaken);
        check(0, NO_SLOT, 2, not_taken);
        check(NO_SLOT, 1, 2, Completeness::Complete);
        check(NO_SLOT, NO_SLOT, 0, Completeness::Complete);
        check(NEW_THREAD, NO_SLOT, 0, Completeness::Complete);
        check(UNSEEN, NO_SLOT, 0, not_taken);
    }

    #[test]
    fn a_block_over_the_end_of_a_window_is_in_both() {
        let check = |(start_ms, end_ms), state: BlockState, expected_ms: [u64; 2]| {
            let record = BlockRecord {
                kind: 0,
                state: state as u8,
                slot: NO_SLOT,
                kernel_slot: NO_SLOT,
                pid: PID,
                tid: PID,
                waker_tid: 0,
                start_ns: start_ms * MS,
                end_ns: end_ms * MS,
                user_ns: 0,
                kernel_ns: 0,
                waker_ns: 0,
            };
            let mut recorder = recorder();
            recorder.start_at(10 * MS);
            let sum = |recorder: &Recorder| -> u64 {
                recorder.blocks.rows.iter().map(|row| row.total_ns).sum()
            };
            // The window ended at 100 ms, and the block is read a little later.
            recorder.block_so_far(&record, 100 * MS);
            let first_ns = sum(&recorder);
            recorder.next_window(100 * MS);
            recorder.block(&Block::from(&record));
            assert_eq!([first_ns / MS, sum(&recorder) / MS], expected_ms, "{start_ms} {end_ms}");
        };
        check((30, 120), BlockState::Sleeping, [70, 20]);
        check((100, 120), BlockState::Sleeping, [0, 20]);
        check((5, 120), BlockState::Sleeping, [0, 20]);
        check((5, 120), BlockState::Preempted, [90, 20]);
    }

    #[test]
    fn who_ran_too_little_has_gone() {
        let check = |ran_ms: u64, elapsed_ms: u64, expected| {
            let mut thread = Thread {
                pid: PID,
                whereabouts: ON_CPU,
                state: 0,
                slot: 0,
                next_slot: 0,
                since_ns: 1_000 * MS,
                begun_ns: 0,
                on_cpu_ns: 7 * MS,
                below_ns: 0,
                below: 0,
                kernel_slot: 0,
                next_kernel_slot: 0,
                is_final: 0,
                reserved: 0,
                waker: Waker { tid: 0, reserved: 0, key: 0, stack_ns: 0 },
                runtime_ns: 500 * MS,
                users: [CachedStack::EMPTY; SLOTS],
                kernels: [CachedStack::EMPTY; SLOTS],
            };
            let end_ns = thread.since_ns + elapsed_ms * MS;
            let is_gone = reconstruct_leaving(&mut thread, (500 + ran_ms) * MS, end_ns);
            assert_eq!(is_gone, expected, "{ran_ms} of {elapsed_ms}");
            let ran_ms = if is_gone { ran_ms } else { 0 };
            assert_eq!(thread.on_cpu_ns, (7 + ran_ms) * MS);
            assert_eq!(thread.since_ns, (1_000 + ran_ms) * MS);
        };
        check(0, 1_000, true);
        check(4, 1_000, true);
        check(700, 1_000, true);
        // A pending tick, or a hypervisor.
        check(0, 4, false);
        check(900, 1_000, false);
        check(1_000, 1_000, false);
        // Queried after the end.
        check(1_100, 1_000, false);
    }
}

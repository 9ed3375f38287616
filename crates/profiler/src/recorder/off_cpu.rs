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
    block::Block,
    blocks::{BlockKind, Blocker, Ended, Exec, Half, RawWaker},
    intern::RawStackId,
    spaces::GenerationId,
    span::{Off, Span},
};
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

#[cfg(test)]
mod tests;

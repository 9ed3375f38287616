//! The recorder's part for threads that are off the CPU: halves of stacks become whole ones, blocks
//! are counted with them.

use wingbeat_profile_common::{
    RecordKind, Stop, USER_FRAMES_MAX,
    off_cpu::{
        BlockRecord, BlockState, CHECK, ENDED, EndRecord, NEW_THREAD, NO_PLACE, OFF_CPU, ON_CPU,
        PLACES, Place, REMOTE, Thread, UNSEEN, was_away,
    },
};

use super::{
    Recorder,
    blocks::{Ended, Exec, KernelPart, Kind, Off, RawWaker, Span, UserPart, state},
    intern::RawStackId,
    look_up_row,
    spaces::GenerationId,
};
use crate::{
    model::{BrokenReason, Completeness},
    proc,
    unwind::{ApproachEnd, Memory, Registers, Start, approach, finish},
    wire::Sample,
};

/// Stack of another thread that is read to unwind it.
const REMOTE_STACK_BYTES: usize = 256 << 10;
/// A caller's frame lies above that of its callee, and not farther than this.
const FRAME_BYTES_MAX: u64 = 1 << 20;

impl Recorder {
    /// Takes the user half of a stack.
    pub(super) fn user_stack(&mut self, sample: &Sample<'_>) {
        let (generation, completeness, frames) = if sample.cpu & REMOTE != 0 {
            self.remote_frames(sample)
        } else {
            self.near_frames(sample)
        };
        let part = UserPart { time_ns: sample.time_ns, generation, completeness, frames };
        let mut is_wrong = false;
        let blocker = self.blocks.blocker(sample.tid);
        if let Some(user) = blocker.users.get_mut(usize::from(sample.cpu & 0xff)) {
            is_wrong = user.as_ref().is_some_and(|known| known.frames != part.frames);
            *user = Some(part);
        }
        if sample.cpu & CHECK != 0 {
            self.blocks.checked += 1;
            self.blocks.wrong += u64::from(is_wrong);
        }
    }

    /// Takes the kernel half of a stack.
    pub(super) fn kernel_stack(&mut self, sample: &Sample<'_>) {
        let part = KernelPart { time_ns: sample.time_ns, frames: sample.kernel.iter().collect() };
        let mut is_wrong = false;
        let blocker = self.blocks.blocker(sample.tid);
        if let Some(kernel) = blocker.kernels.get_mut(usize::from(sample.cpu & 0xff)) {
            is_wrong = kernel.as_ref().is_some_and(|known| known.frames != part.frames);
            *kernel = Some(part);
        }
        if sample.cpu & CHECK != 0 {
            self.blocks.checked += 1;
            self.blocks.wrong += u64::from(is_wrong);
        }
    }

    /// Takes the kernel half of a stack that wakes a thread.
    pub(super) fn waker_kernel(&mut self, sample: &Sample<'_>) {
        let frames = sample.kernel.iter().collect();
        self.blocks.waker_kernel =
            Some((sample.tid, KernelPart { time_ns: sample.time_ns, frames }));
    }

    /// Takes the user half, which follows it.
    pub(super) fn waker_user(&mut self, sample: &Sample<'_>) {
        let (generation, completeness, frames) = self.near_frames(sample);
        let kernel = self.blocks.waker_kernel.take();
        let kernel = kernel
            .filter(|(tid, part)| *tid == sample.tid && part.time_ns == sample.time_ns)
            .map(|(_, part)| part.frames)
            .unwrap_or_default();
        let stack = self.stacks.intern(generation, completeness, frames, kernel.into_iter());
        let name = match sample.tid {
            0 => String::new(),
            tid => self.threads.name(sample.pid, tid),
        };
        self.blocks.add_waker(sample.tid, sample.time_ns, RawWaker { name, stack });
    }

    /// Takes a block.
    pub(super) fn block(&mut self, block: &BlockRecord) {
        self.count_block(block, false);
    }

    fn count_block(&mut self, block: &BlockRecord, is_open: bool) {
        let thread = self.threads.sampled(block.pid, block.tid);
        let stack = self.whole_stack(block);
        let waker = self.blocks.waker(block);
        let kind = Kind { thread, stack, state: state(block.state), waker };
        let since = |time_ns: u64| time_ns.saturating_sub(self.start_ns);
        let span = (since(block.start_ns), since(block.end_ns));
        self.blocks.add(block, kind, span, is_open);
    }

    /// The stack that a block names.
    fn whole_stack(&mut self, block: &BlockRecord) -> RawStackId {
        let Self { blocks, stacks, .. } = self;
        let blocker = blocks.blocker(block.tid);
        if let Some((stack, is_missing)) = blocker.known(block) {
            blocks.stacks_missing += u64::from(is_missing);
            return stack;
        }
        let user = blocker.users.get(usize::from(block.place)).and_then(Option::as_ref);
        let user = user.filter(|part| block.user_ns != 0 && part.time_ns == block.user_ns);
        let kernel = blocker.kernels.get(usize::from(block.kernel_place)).and_then(Option::as_ref);
        let kernel = kernel.filter(|part| block.kernel_ns != 0 && part.time_ns == block.kernel_ns);
        let is_missing = (user.is_none() && block.place < NO_PLACE)
            || (kernel.is_none() && block.kernel_place < NO_PLACE);
        let completeness = match user {
            Some(part) => part.completeness,
            None if matches!(block.place, NO_PLACE | NEW_THREAD) => Completeness::Complete,
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

    /// A process becomes another program at `time_ns`, by its thread with the same number.
    pub(super) fn exec(&mut self, pid: u32, time_ns: u64) {
        let (name, thread) = (self.threads.known_name(pid), self.threads.live(pid));
        self.blocks.blocker(pid).exec(Exec { time_ns, name, thread });
    }

    /// Closes the account of a thread that ended, or became another program.
    pub(super) fn thread_ended(&mut self, end: &EndRecord) {
        let span = Span {
            pid: end.pid,
            tid: end.tid,
            begun_ns: end.begun_ns,
            end_ns: end.end_ns,
            on_cpu_ns: end.on_cpu_ns,
            off: Off::default(),
            below: end.below.into(),
            below_ns: end.below_ns,
        };
        let Ended { before, last } = self.blocks.end(span, end.is_exec != 0);
        if let Some((exec, span)) = before {
            let since_start = |time_ns: u64| time_ns.saturating_sub(self.start_ns);
            let life = (since_start(span.begun_ns), since_start(span.end_ns));
            if !self.blocks.carry_on(self.start_ns, &span) {
                let add = || self.threads.add_ended((span.pid, span.tid), exec.name, life);
                let thread = exec.thread.unwrap_or_else(add);
                self.blocks.close(thread, self.start_ns, &span);
            }
        }
        if let Some(span) = last {
            let thread = self.threads.sampled(span.pid, span.tid);
            self.blocks.close(thread, self.start_ns, &span);
        }
    }

    /// Closes the account of a thread that is there when the recording ends at `end_ns`, with the
    /// block that has not ended; tells whether there is one.
    pub(crate) fn thread_left(&mut self, tid: u32, thread: &Thread, end_ns: u64) -> bool {
        let mut on_cpu_ns = thread.on_cpu_ns;
        let is_out = thread.whereabouts == OFF_CPU;
        let end_ns = if thread.whereabouts == ENDED { thread.since_ns } else { end_ns };
        if is_out {
            let time_of = |places: &[Place; PLACES], place: u8| {
                places.get(usize::from(place)).map_or(0, |place| place.time_ns)
            };
            let block = BlockRecord {
                kind: RecordKind::Block as u8,
                state: thread.state,
                place: thread.place,
                kernel_place: thread.kernel_place,
                pid: thread.pid,
                tid,
                waker_tid: 0,
                start_ns: thread.since_ns,
                end_ns,
                user_ns: time_of(&thread.users, thread.place),
                kernel_ns: time_of(&thread.kernels, thread.kernel_place),
                waker_ns: 0,
            };
            self.count_block(&block, true);
        } else {
            on_cpu_ns += end_ns.saturating_sub(thread.since_ns);
        }
        self.thread_ended(&EndRecord {
            kind: RecordKind::ThreadEnd as u8,
            is_exec: 0,
            reserved: [0; 2],
            pid: thread.pid,
            tid,
            below: thread.below,
            begun_ns: thread.begun_ns,
            end_ns,
            on_cpu_ns,
            below_ns: thread.below_ns,
        });
        is_out
    }

    /// The user frames of a thread in a system call: from the innermost function, which is one of the C
    /// library's and keeps no frame pointers, by the tables to where the frame pointers begin.
    fn near_frames(&mut self, sample: &Sample<'_>) -> (GenerationId, Completeness, Vec<u64>) {
        let generation = self.generation(sample.pid);
        let mut frames: Vec<u64> = sample.user.iter().collect();
        let Some(&pc) = frames.first() else {
            let completeness = self.finish(generation, sample, &mut frames);
            return (generation, completeness, frames);
        };
        let [sp, bp] = sample.leaf;
        let memory = Memory { start: sp, words: sample.kernel.iter().collect() };
        let Self { rows, spaces, binaries, .. } = self;
        let row = |address| look_up_row(rows, spaces, binaries, generation, address);
        let near = approach(Registers { pc, sp, bp }, &memory, row);
        let completeness = match near.end {
            ApproachEnd::FramePointers => {
                let completeness = self.finish(generation, sample, &mut frames);
                frames.splice(1..1, near.frames);
                completeness
            }
            ApproachEnd::Entry => {
                frames.splice(1.., near.frames);
                Completeness::Complete
            }
            // What the walk along the frame pointers found may be wrong, what the tables found is not.
            ApproachEnd::Lost if near.frames.len() >= frames.len() => {
                frames.splice(1.., near.frames);
                Completeness::Broken(BrokenReason::NoFramePointer)
            }
            ApproachEnd::Lost => self.finish(generation, sample, &mut frames),
        };
        (generation, completeness, frames)
    }

    /// The user frames of a thread of which only the registers are known: its memory is read from
    /// outside, which is sound as long as it sleeps.
    fn remote_frames(&mut self, sample: &Sample<'_>) -> (GenerationId, Completeness, Vec<u64>) {
        let generation = self.generation(sample.pid);
        let mut frames: Vec<u64> = sample.user.iter().collect();
        let words = proc::stack_words(sample.pid, sample.stop_sp, REMOTE_STACK_BYTES);
        let memory = Memory { start: sample.stop_sp, words };
        let mut start = Start {
            pc: frames.first().copied().unwrap_or(0),
            is_return: false,
            sp: sample.stop_sp,
            bp: sample.stop_bp,
            stop: Stop::NotAFrame,
        };
        let Self { rows, spaces, binaries, .. } = self;
        let mut row = |address| look_up_row(rows, spaces, binaries, generation, address);
        // By the tables from the start: the innermost function is one of the C library's, which keeps
        // no frame pointers. If that does not lead to the end, by frame pointers as far as they go.
        let outcome = finish(start, Some(&memory), &mut row);
        if outcome.completeness == Completeness::Complete {
            frames.extend(outcome.frames);
            return (generation, outcome.completeness, frames);
        }
        while frames.len() < USER_FRAMES_MAX {
            let Some((next_bp, return_address)) =
                memory.word(start.bp).zip(memory.word(start.bp.wrapping_add(8)))
            else {
                break;
            };
            frames.push(return_address);
            let is_above = next_bp > start.bp && next_bp - start.bp < FRAME_BYTES_MAX;
            let stop = if next_bp == 0 { Stop::Zero } else { Stop::NotAFrame };
            let sp = start.bp + 16;
            start = Start { pc: return_address, is_return: true, sp, bp: next_bp, stop };
            if !is_above {
                break;
            }
        }
        let outcome = finish(start, Some(&memory), &mut row);
        frames.extend(outcome.frames);
        (generation, outcome.completeness, frames)
    }
}

/// Corrects a thread that is thought to run, at the end of the recording: the kernel half neither saw
/// it go nor met it then. `runtime_ns` is its CPU time by the scheduler's account. True if it must have
/// gone.
pub(crate) fn reckon_left(thread: &mut Thread, runtime_ns: u64, end_ns: u64) -> bool {
    let elapsed_ns = end_ns.saturating_sub(thread.since_ns);
    let ran_ns = runtime_ns.saturating_sub(thread.runtime_ns).min(elapsed_ns);
    if thread.whereabouts != ON_CPU || !was_away(ran_ns, elapsed_ns - ran_ns) {
        return false;
    }
    thread.on_cpu_ns += ran_ns;
    thread.since_ns += ran_ns;
    thread.whereabouts = OFF_CPU;
    thread.state = BlockState::Sleeping as u8;
    thread.place = UNSEEN;
    thread.kernel_place = NO_PLACE;
    true
}

const _: () = assert!(NO_PLACE as usize == PLACES);

#[cfg(test)]
mod tests;

//! The recorder: samples and events in, by order of time; stacks, threads and open files out.
//!
//! It knows nothing of BPF and perf. Addresses are kept as they are, each with the generation of the
//! address space that it belongs to; names come later, when nobody waits.

#[doc(hidden)]
pub mod bench_api;
pub(crate) mod binaries;
pub(crate) mod blocks;
pub mod event;
pub mod intern;
pub(crate) mod off_cpu;
pub(crate) mod spaces;
mod tails;
pub(crate) mod threads;

use std::collections::HashSet;

use rustc_hash::FxHashMap;
use wingbeat_profile_common::{
    StackHeader, Stop,
    unwind::{Cfa, ReturnAddress, Rule, SP},
};

use self::{
    binaries::Binaries,
    blocks::{Block, Blocks, Span},
    event::{Event, EventKind, KernelCode, MappedFile},
    intern::{RawStackId, RawStacks},
    spaces::{GenerationId, Mapping, Spaces},
    tails::Tails,
    threads::Threads,
};
use crate::{
    model::{Completeness, ThreadId},
    proc,
    unwind::{Image, Start},
    wire::{Record, Sample, Stack},
};

/// A sample with its raw stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawSample {
    pub time_ns: u64,
    pub thread: ThreadId,
    pub stack: RawStackId,
    pub cpu: u16,
}

/// Whose events to follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    /// These processes', and their children's if `inherit`.
    Processes {
        pids: HashSet<u32>,
        inherit: bool,
    },
}

/// Collects a recording.
#[derive(Debug)]
pub(crate) struct Recorder {
    start_ns: u64,
    scope: Scope,
    pub spaces: Spaces,
    pub binaries: Binaries,
    pub threads: Threads,
    pub stacks: RawStacks,
    pub samples: Vec<RawSample>,
    pub blocks: Blocks,
    /// Code that came and went in the kernel, oldest first.
    pub kernel_code: Vec<KernelCode>,
    parents: FxHashMap<u32, u32>,
    tails: Tails,
    rules: KnownRules,
    frames: Vec<u64>,
}

impl Recorder {
    /// A recording that starts at `start_ns` (`CLOCK_MONOTONIC`).
    pub(crate) fn new(start_ns: u64, scope: Scope) -> Self {
        Self {
            start_ns,
            scope,
            spaces: Spaces::default(),
            binaries: Binaries::default(),
            threads: Threads::default(),
            stacks: RawStacks::default(),
            samples: Vec::new(),
            blocks: Blocks::default(),
            kernel_code: Vec::new(),
            parents: FxHashMap::default(),
            tails: Tails::default(),
            rules: FxHashMap::default(),
            frames: Vec::new(),
        }
    }

    /// Moves the start: set-up takes time before the clocks run.
    pub(crate) fn start_at(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
    }

    /// Follow a process; its mappings come with its events.
    pub(crate) fn follow(&mut self, pid: u32) {
        if let Scope::Processes { pids, .. } = &mut self.scope {
            pids.insert(pid);
        }
    }

    /// Time off the CPU is watched too.
    pub(crate) fn watch_blocks(&mut self) {
        self.blocks.is_watched = true;
    }

    /// Learns the names of all processes that exist.
    pub(crate) fn name_all(&mut self) {
        for pid in proc::pids() {
            self.threads.adopt(pid);
        }
    }

    /// Follow a process that exists: takes over the mappings that it has, and its names.
    pub(crate) fn adopt(&mut self, pid: u32) {
        self.follow(pid);
        self.threads.adopt(pid);
        self.spaces.clear(pid);
        for file in proc::executable_mappings(pid) {
            self.map(pid, &file);
        }
    }

    fn follows(&self, pid: u32) -> bool {
        match &self.scope {
            Scope::All => true,
            Scope::Processes { pids, .. } => pids.contains(&pid),
        }
    }

    /// Takes an event. Events and records must come in the order of their time.
    pub(crate) fn event(&mut self, event: Event) {
        let time_ns = event.time_ns.saturating_sub(self.start_ns);
        match event.kind {
            EventKind::Fork { pid, tid, parent, creator } => {
                if self.fork(pid, parent) {
                    self.threads.born(tid, creator, time_ns);
                }
            }
            EventKind::Map { pid, file } if self.follows(pid) => {
                if self.spaces.current(pid).is_none() {
                    // With --all, a process that was there before us: this is not all that it has.
                    self.adopt(pid);
                }
                self.map(pid, &file);
            }
            EventKind::Name { pid, tid, name, exec } if self.follows(pid) => {
                if exec {
                    if self.blocks.is_watched {
                        self.exec(pid, event.time_ns);
                    }
                    self.spaces.clear(pid);
                    self.threads.execed(pid, name, time_ns);
                } else {
                    self.threads.named(pid, tid, name);
                }
            }
            // Its address space is left as it is: the kernel still has to take it down, on the time
            // of the process, and such samples come after the event.
            EventKind::Exit { pid, tid } if self.follows(pid) => {
                self.threads.ended(pid, tid, time_ns);
            }
            EventKind::KernelCode(code) => self.kernel_code.push(code),
            EventKind::Map { .. } | EventKind::Name { .. } | EventKind::Exit { .. } => {}
        }
    }

    /// A thread of `pid` was born, of a thread of `parent`; is it one to follow?
    fn fork(&mut self, pid: u32, parent: u32) -> bool {
        let is_thread = pid == parent;
        match &mut self.scope {
            Scope::All => {}
            Scope::Processes { pids, inherit } => {
                if !pids.contains(&parent) || (!is_thread && !*inherit) {
                    // A PID that was followed once may be somebody else's now; but the command that
                    // we launch ourselves is followed before its birth is read.
                    if !is_thread && parent != std::process::id() {
                        pids.remove(&pid);
                    }
                    return false;
                }
                pids.insert(pid);
            }
        }
        if !is_thread {
            self.parents.insert(pid, parent);
            self.spaces.fork(parent, pid);
        }
        true
    }

    fn map(&mut self, pid: u32, file: &MappedFile) {
        let parent = self.parents.get(&pid).copied();
        let binary = self.binaries.find_or_open(pid, parent, file);
        let MappedFile { start, end, offset, .. } = *file;
        self.spaces.map(pid, Mapping { start, end, offset, binary });
    }

    /// Number of samples of each thread that has some.
    pub(crate) fn samples_by_thread(&self) -> FxHashMap<ThreadId, u64> {
        let mut counts = FxHashMap::default();
        for sample in &self.samples {
            *counts.entry(sample.thread).or_default() += 1;
        }
        counts
    }

    /// Takes a record of the kernel half.
    pub(crate) fn record(&mut self, record: Record<'_>) {
        match record {
            Record::Sample(sample) => self.sample(&sample),
            Record::Tail(tail) => self.tails.insert(&tail),
            Record::UserStack(half) => self.user_stack(&half),
            Record::KernelStack(half) => self.kernel_stack(&half),
            Record::WakerKernel(half) => self.waker_kernel(&half.stack),
            Record::WakerUser(half) => self.waker_user(&half),
            Record::Block(block) => self.block(&Block::from(&block)),
            Record::ThreadEnd(end) => self.thread_ended(Span::from(&end), end.is_exec != 0),
        }
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        let (generation, completeness, frames) = self.user_frames(sample);
        let stack = self.stacks.intern(
            generation,
            completeness,
            frames.iter().copied(),
            sample.stack.kernel.iter(),
        );
        self.frames = frames;
        let StackHeader { pid, tid, time_ns, cpu, .. } = sample.stack.header;
        let thread = self.threads.sampled(pid, tid);
        let time_ns = time_ns.saturating_sub(self.start_ns);
        self.samples.push(RawSample { time_ns, thread, stack, cpu });
    }

    /// The user frames of a sample, with those that its walk did not reach. Whoever is done with the
    /// list may put it into [`Self::frames`], so that the next one allocates nothing.
    fn user_frames(&mut self, sample: &Sample<'_>) -> (GenerationId, Completeness, Vec<u64>) {
        let user = sample.stack.user;
        let generation = self.generation(sample.stack.header.pid);
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        frames.extend(user.iter());
        let completeness = self.finish(generation, &sample.stack, &mut frames);
        // A walk that ended at once was carried on from the innermost function itself: its caller is
        // there already.
        let has_caller = user.len() == 1 && frames.len() > 1;
        if !has_caller && let Some(caller) = self.skipped_caller(generation, sample) {
            frames.insert(1, caller);
        }
        (generation, completeness, frames)
    }

    fn generation(&mut self, pid: u32) -> GenerationId {
        match self.spaces.current(pid) {
            Some(generation) => generation,
            None => {
                // With --all, a process that was there before us.
                self.adopt(pid);
                self.spaces.current(pid).unwrap_or(0)
            }
        }
    }

    /// The caller that the frame pointers miss while the innermost function has no frame: at its
    /// first and last instructions, or in a leaf function that never makes one. The return address
    /// is then one of the first two words of the stack.
    fn skipped_caller(&mut self, generation: GenerationId, sample: &Sample<'_>) -> Option<u64> {
        let ip = sample.stack.user.iter().next()?;
        let rule = self.rule(generation, ip);
        if (rule.cfa, rule.register, rule.ra) != (Cfa::Register, SP, ReturnAddress::Saved) {
            return None;
        }
        let caller = match rule.offset.wrapping_add(i32::from(rule.return_words) * 8) {
            0 => sample.leaf[0],
            8 => sample.leaf[1],
            _ => return None,
        };
        self.spaces.generation(generation)?.find(caller)?;
        Some(caller)
    }

    fn rule(&mut self, generation: GenerationId, address: u64) -> Rule {
        let Self { rules, spaces, binaries, .. } = self;
        look_up_rule(rules, spaces, binaries, generation, address)
    }

    /// Adds the callers below the last frame pointer and tells how far the stack reaches.
    fn finish(
        &mut self,
        generation: GenerationId,
        stack: &Stack<'_>,
        frames: &mut Vec<u64>,
    ) -> Completeness {
        let Some(pc) = stack.user.iter().next_back() else {
            return if stack.stop == Stop::KernelThread {
                Completeness::Complete
            } else {
                Completeness::Truncated
            };
        };
        let is_return = stack.user.len() > 1;
        let StackHeader { stop_sp: sp, stop_bp: bp, .. } = stack.header;
        let start = Start { pc, is_return, sp, bp, stop: stack.stop };
        let Self { rules, spaces, binaries, tails, .. } = self;
        let rule = |address| look_up_rule(rules, spaces, binaries, generation, address);
        tails.finish(stack, start, generation, rule, |outcome| {
            frames.extend(&outcome.frames);
            outcome.completeness
        })
    }
}

/// Rules that were looked up, by address.
type KnownRules = FxHashMap<(GenerationId, u64), Rule>;

/// The rule at an address, which is remembered. Not where nothing is mapped: a mapping may yet become
/// known.
fn look_up_rule(
    rules: &mut KnownRules,
    spaces: &Spaces,
    binaries: &Binaries,
    generation: GenerationId,
    address: u64,
) -> Rule {
    if let Some(&known) = rules.get(&(generation, address)) {
        return known;
    }
    let mapping = spaces.generation(generation).and_then(|space| space.find(address));
    let Some((mapping, binary)) =
        mapping.and_then(|mapping| Some((mapping, binaries.get(mapping.binary)?)))
    else {
        return Rule::GAP;
    };
    let of_image = |image: &Image| {
        let address = image.address_of_offset(mapping.offset_of(address))?;
        Some(image.rule(address))
    };
    let rule = binary.image().and_then(of_image).unwrap_or(Rule::GAP);
    rules.insert((generation, address), rule);
    rule
}

#[cfg(test)]
mod tests;

//! The recorder: collects stacks, threads and open files from samples and events in time order.
//!
//! It is independent of BPF and perf. Addresses are stored unchanged with the generation of their address space.
//! Symbols are resolved later, when no data can be lost meanwhile.

pub(crate) mod address_spaces;
pub(crate) mod binaries;
pub(crate) mod blocks;
pub mod event;
mod heap;
pub(crate) mod jit;
pub(crate) mod off_cpu;
pub(crate) mod owners;
pub mod raw_stacks;
pub(crate) mod threads;

use std::{collections::HashSet, os::unix::fs::FileExt as _};

use rustc_hash::{FxHashMap, FxHashSet};
use wingbeat_profiler_abi::{
    StackHeader, Stop,
    unwind::{Frame, Rule},
};

use crate::{
    jitdump::is_dump,
    model::{BrokenReason, Completeness, ThreadId},
    proc,
    recorder::{
        address_spaces::{GenerationId, Mapping, Spaces},
        binaries::{Binaries, Binary},
        blocks::{Block, Blocks, Span},
        event::{Event, EventKind, KernelCode, MappedFile},
        jit::JitRules,
        owners::Owners,
        raw_stacks::{RawStackId, RawStacks},
        threads::Threads,
    },
    unwind::{Copied, Memory, finish},
    wire::{Record, Stack},
};

/// A sample with its raw stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawSample {
    pub time_ns: u64,
    pub thread: ThreadId,
    pub stack: RawStackId,
    pub cpu: u16,
}

/// Processes whose events are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    /// These processes, and their children if `inherit`.
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
    pub owners: Owners,
    pub threads: Threads,
    pub stacks: RawStacks,
    pub samples: Vec<RawSample>,
    /// Samples of page faults.
    pub faults: Vec<RawSample>,
    pub blocks: Blocks,
    pub heap: heap::Heap,
    /// Kernel code that appeared or disappeared, oldest first.
    pub kernel_code: Vec<KernelCode>,
    /// Code without a table that the kernel half reached: process and address.
    pub wanted: Vec<(u32, u64)>,
    /// Rules of code that is in no file.
    pub jit: JitRules,
    rules: KnownRules,
    /// Processes whose first thread has exited.
    headless: FxHashSet<u32>,
    /// File code replaced by memory, by process and address.
    replaced: FxHashMap<(u32, u64), Mapping>,
    frames: Vec<u64>,
    copied: Copied,
}

impl Recorder {
    /// Creates a recording that starts at `start_ns` (`CLOCK_MONOTONIC`).
    pub(crate) fn new(start_ns: u64, scope: Scope) -> Self {
        Self {
            start_ns,
            scope,
            spaces: Spaces::default(),
            binaries: Binaries::default(),
            owners: Owners::default(),
            threads: Threads::default(),
            stacks: RawStacks::default(),
            samples: Vec::new(),
            faults: Vec::new(),
            blocks: Blocks::default(),
            heap: heap::Heap::default(),
            kernel_code: Vec::new(),
            wanted: Vec::new(),
            jit: JitRules::default(),
            rules: FxHashMap::default(),
            headless: FxHashSet::default(),
            replaced: FxHashMap::default(),
            frames: Vec::new(),
            copied: Copied::default(),
        }
    }

    /// Moves the start: set-up takes time before the clocks run.
    pub(crate) fn start_at(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
    }

    /// Follows a process whose mappings come with its events.
    pub(crate) fn follow(&mut self, pid: u32) {
        if let Scope::Processes { pids, .. } = &mut self.scope {
            pids.insert(pid);
        }
    }

    /// Enables off-CPU time.
    pub(crate) fn watch_blocks(&mut self) {
        self.blocks.is_watched = true;
    }

    /// Enables allocations, sampled every `sample_bytes` on average.
    pub(crate) fn watch_heap(&mut self, sample_bytes: u32) {
        self.heap = heap::Heap::new(sample_bytes);
    }

    /// Enables address space calls.
    pub(crate) fn watch_space(&mut self) {
        self.heap = heap::Heap::with_space();
    }

    /// Starts another window of a continuous recording: drops samples, their stacks, and the state of exited processes.
    pub(crate) fn next_window(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
        self.samples.clear();
        self.faults.clear();
        self.stacks = RawStacks::default();
        self.rules.clear();
        let gone = self.threads.next_window();
        self.spaces.forget(&gone);
        self.owners.forget(&gone);
        gone.iter().for_each(|&pid| self.jit.clear(pid));
        self.replaced.retain(|(pid, _), _| !gone.contains(pid));
        self.blocks.next_window(&gone);
        let mapped = self.spaces.all().flat_map(|generation| &generation.mappings);
        self.binaries.next_window(&mapped.map(|mapping| mapping.binary).collect());
        let first = self.kernel_code.len().saturating_sub(KERNEL_CODE_MAX);
        self.kernel_code.drain(..first);
    }

    /// Reads the names of all existing processes.
    pub(crate) fn name_all(&mut self) {
        // Twice: a process may fork and exit between the listing and the reading of its name, and its child, with
        // the same name, is not in the listing.
        for _ in 0..2 {
            for pid in proc::pids() {
                self.threads.adopt(pid);
            }
        }
    }

    /// Follows an existing process, with its current mappings and names.
    pub(crate) fn adopt(&mut self, pid: u32) {
        self.follow(pid);
        self.threads.adopt(pid);
        self.spaces.clear(pid);
        self.jit.clear(pid);
        self.heap.adopt(pid);
        for file in proc::executable_mappings(pid) {
            self.map(pid, &file);
        }
    }

    /// Drops the requests for tables, if none are given to the kernel half.
    pub(crate) fn forget_requests(&mut self) {
        self.wanted.clear();
        self.spaces.changed.clear();
        self.jit.changed.clear();
    }

    fn follows(&self, pid: u32) -> bool {
        match &self.scope {
            Scope::All => true,
            Scope::Processes { pids, .. } => pids.contains(&pid),
        }
    }

    /// Handles an event. Events and records must be in time order.
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
                    // With --all, a process that existed before: it has more mappings than this.
                    self.adopt(pid);
                }
                self.map(pid, &file);
            }
            EventKind::Name { pid, tid, name, exec } if self.follows(pid) => {
                if exec {
                    if self.blocks.is_watched {
                        self.exec(pid, event.time_ns);
                    }
                    self.heap.gone(pid, event.time_ns, true);
                    self.spaces.clear(pid);
                    self.jit.clear(pid);
                    self.threads.execed(pid, name, time_ns);
                } else {
                    // Off-CPU time has one account per thread.
                    let since_ns = (!self.blocks.is_watched).then_some(time_ns);
                    self.threads.named(pid, tid, name, since_ns);
                }
            }
            // Keeps its address space: the kernel still has to free it, on the process's time, and such samples
            // come after the event.
            EventKind::Exit { pid, tid } if self.follows(pid) => {
                if pid == tid {
                    self.jit.ended(pid);
                }
                // The first thread may exit long before others.
                if (pid == tid || self.headless.contains(&pid)) && !self.lives_on(pid) {
                    self.heap.gone(pid, event.time_ns, false);
                }
                self.threads.ended(pid, tid, time_ns);
            }
            EventKind::KernelCode(code) => self.kernel_code.push(code),
            EventKind::Map { .. } | EventKind::Name { .. } | EventKind::Exit { .. } => {}
        }
    }

    /// Whether a process continues after the exit of its first thread.
    fn lives_on(&mut self, pid: u32) -> bool {
        let lives = self.heap.is_watched && proc::living_thread(pid).is_some();
        if lives {
            self.headless.insert(pid)
        } else {
            self.headless.remove(&pid)
        };
        lives
    }

    /// Handles a new thread of `pid`, created by a thread of `parent`. Returns whether to follow it.
    fn fork(&mut self, pid: u32, parent: u32) -> bool {
        let is_thread = pid == parent;
        match &mut self.scope {
            Scope::All => {}
            Scope::Processes { pids, inherit } => {
                if !pids.contains(&parent) || (!is_thread && !*inherit) {
                    // The PID of a process followed earlier may now be of another one. But the command that we
                    // launch is followed before its fork event is read.
                    if !is_thread && parent != std::process::id() {
                        pids.remove(&pid);
                    }
                    return false;
                }
                pids.insert(pid);
            }
        }
        if !is_thread {
            self.threads.forked(pid, parent);
            self.spaces.fork(parent, pid);
            self.heap_forked(parent, pid);
            self.jit.fork(parent, pid);
        }
        true
    }

    fn map(&mut self, pid: u32, file: &MappedFile) {
        let parent = self.threads.parent(pid);
        let binary = self.binaries.find_or_open(pid, parent, file);
        let MappedFile { start, end, offset, .. } = *file;
        let mapping = Mapping { start, end, offset, binary };
        if file.is_memory() && self.is_copy(pid, &mapping) {
            return;
        }
        self.spaces.map(pid, mapping);
        self.heap.mapped(pid, binary);
        self.owners.mapped(pid, parent, self.spaces.current(pid), file);
        if is_dump(&file.path) {
            let user = self.owners.get(pid).map(|owner| owner.user);
            self.jit.shown(pid, binary, user, &self.binaries);
        }
    }

    /// Whether memory has the code of the file that it replaces. Some programs copy theirs to large pages.
    fn is_copy(&mut self, pid: u32, new: &Mapping) -> bool {
        let space = self.spaces.current(pid).and_then(|id| self.spaces.generation(id));
        let old = space.and_then(|space| space.find(new.start)).copied();
        let is_file = |old: &Mapping| {
            self.binaries.get(old.binary).is_some_and(|binary| binary.image().is_some())
        };
        // The memory may be empty at first. When it is protected, it is mapped again.
        let replaced = old.filter(is_file).or_else(|| self.replaced.remove(&(pid, new.start)));
        let Some(replaced) = replaced.filter(|old| new.end <= old.end) else { return false };
        let Some(file) = self.binaries.get(replaced.binary).and_then(Binary::file) else {
            return false;
        };
        const LOOKS: u64 = 16;
        let step = (new.end - new.start) / LOOKS;
        let is_same = (0..LOOKS).all(|look| {
            let address = new.start + look * step;
            let mut expected = [0; 64];
            let read = file.read_exact_at(&mut expected, replaced.offset_of(address));
            read.is_ok() && proc::memory(pid, address) == Some(expected)
        });
        if is_same {
            let offset = replaced.offset_of(new.start);
            self.spaces.map(pid, Mapping { offset, binary: replaced.binary, ..*new });
        } else {
            self.replaced.insert((pid, new.start), replaced);
        }
        is_same
    }

    /// Reads what compilers wrote about their code since the last call.
    pub(crate) fn read_jitdumps(&mut self) {
        self.jit.read(&self.binaries);
    }

    /// Number of samples by thread.
    pub(crate) fn samples_by_thread(&self) -> FxHashMap<ThreadId, u64> {
        let mut counts = FxHashMap::default();
        for sample in &self.samples {
            *counts.entry(sample.thread).or_default() += 1;
        }
        counts
    }

    /// Handles a record of the kernel half.
    pub(crate) fn record(&mut self, record: Record<'_>) {
        self.jit.advance(record.time_ns());
        match record {
            Record::Sample(stack) => {
                let sample = self.sample(&stack);
                self.samples.push(sample);
            }
            Record::Fault(stack) => {
                let fault = self.sample(&stack);
                self.faults.push(fault);
            }
            Record::Copy(piece) => self.copied.add(&piece),
            Record::UserStack(half) => self.user_stack(&half),
            Record::KernelStack(half) => self.kernel_stack(&half),
            Record::WakerKernel(half) => self.waker_kernel(&half.stack),
            Record::WakerUser(half) => self.waker_user(&half),
            Record::Block(block) => self.block(&Block::from(&block)),
            Record::ThreadEnd(end) => self.thread_ended(Span::from(&end), end.is_exec != 0),
            Record::AllocationStack(stack) => self.allocation_stack(&stack),
            Record::Allocation(allocation) => self.allocation(&allocation),
            Record::Free(free) => self.heap.blocks.freed(&free),
            Record::Space(call) => self.space_call(&call),
        }
    }

    fn sample(&mut self, sample: &Stack<'_>) -> RawSample {
        let (generation, completeness, frames) = self.user_frames(sample);
        let stack = self.stacks.intern(
            generation,
            completeness,
            frames.iter().copied(),
            sample.kernel.iter(),
        );
        self.frames = frames;
        let StackHeader { pid, tid, time_ns, cpu, cgroup, .. } = sample.header;
        let thread = self.threads.sampled(pid, tid);
        self.threads.lineage.cgroups.insert(pid, cgroup);
        let time_ns = time_ns.saturating_sub(self.start_ns);
        RawSample { time_ns, thread, stack, cpu }
    }

    /// The user frames of a stack, including those that its walk did not reach. Callers may put the list back into
    /// [`Self::frames`], so that the next one need not allocate.
    fn user_frames(&mut self, stack: &Stack<'_>) -> (GenerationId, Completeness, Vec<u64>) {
        let generation = self.generation(stack.header.pid);
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        frames.extend(stack.user.iter());
        let completeness = match stack.stop {
            Stop::End | Stop::NoStack => Completeness::Complete,
            Stop::Depth => Completeness::Truncated,
            Stop::Unreadable => Completeness::Broken(BrokenReason::Unreadable),
            Stop::NoRule => Completeness::Broken(BrokenReason::NoFramePointer),
            Stop::Unsupported | Stop::NotHigher => Completeness::Broken(BrokenReason::Unsupported),
            Stop::NotAReturn => Completeness::Broken(BrokenReason::BadReturnAddress),
            Stop::NoTable => {
                let memory = self.copied.take(&stack.header);
                let completeness = self.walk_on(generation, &stack.header, &memory, &mut frames);
                self.copied.give_back(memory);
                completeness
            }
        };
        (generation, completeness, frames)
    }

    /// Continues a walk at code for which the kernel half had no table.
    fn walk_on(
        &mut self,
        generation: GenerationId,
        header: &StackHeader,
        memory: &Memory,
        frames: &mut Vec<u64>,
    ) -> Completeness {
        let Some(&last) = frames.last() else {
            return Completeness::Broken(BrokenReason::NoTable);
        };
        // The first frame is the instruction pointer. For an interrupted frame, the list has one more.
        let is_call = frames.len() > 1 && header.is_interrupted == 0;
        let ip = last.wrapping_sub(u64::from(frames.len() > 1 && !is_call));
        let fp = (header.is_fp_lost == 0).then_some(header.stop_fp);
        let mut frame = Frame::new(ip, header.stop_sp, fp, is_call);
        frame.set_extra_register(header.extra_register);
        let Self { rules, spaces, binaries, wanted, jit, .. } = self;
        finish(frame, memory, frames, |address| {
            // The next sample will have the same callers.
            wanted.push((header.pid, address));
            look_up_rule(rules, spaces, binaries, generation, address)
                .map(|rule| rule.or_else(|| jit.rule(header.pid, address)).unwrap_or(Rule::GAP))
        })
    }

    fn generation(&mut self, pid: u32) -> GenerationId {
        match self.spaces.current(pid) {
            Some(generation) => generation,
            None => {
                // With --all, a process that existed before.
                self.adopt(pid);
                self.spaces.current(pid).unwrap_or(0)
            }
        }
    }
}

/// Maximum kernel code kept from one window to the next.
const KERNEL_CODE_MAX: usize = 4096;

/// Cached rules, by address.
type KnownRules = FxHashMap<(GenerationId, u64), Rule>;

/// Looks up the rule for an address, and caches it: `Some(None)` if no ELF file has it, `None` if no mapping is known.
fn look_up_rule(
    rules: &mut KnownRules,
    spaces: &Spaces,
    binaries: &Binaries,
    generation: GenerationId,
    address: u64,
) -> Option<Option<Rule>> {
    if let Some(&known) = rules.get(&(generation, address)) {
        return Some(Some(known));
    }
    let mapping = spaces.generation(generation)?.find(address)?;
    let Some(image) = binaries.get(mapping.binary)?.image() else { return Some(None) };
    let address_in_file = image.address_of_offset(mapping.offset_of(address));
    let rule = address_in_file.map_or(Rule::GAP, |address| image.rule(address));
    rules.insert((generation, address), rule);
    Some(Some(rule))
}

/// A recorder that follows all processes.
#[derive(Debug)]
pub struct BenchRecorder(Recorder);

impl Default for BenchRecorder {
    /// A recording that starts at time 0.
    fn default() -> Self {
        let mut recorder = Recorder::new(0, Scope::All);
        recorder.watch_blocks();
        recorder.watch_space();
        Self(recorder)
    }
}

impl BenchRecorder {
    /// Adds an event. Events and records must be in time order.
    pub fn event(&mut self, event: Event) {
        self.0.event(event);
    }

    /// Adds a record of the kernel half.
    pub fn record(&mut self, record: Record<'_>) {
        self.0.record(record);
    }

    /// Number of samples and of their distinct stacks.
    pub fn counts(&self) -> (usize, usize) {
        (self.0.samples.len(), self.0.stacks.len())
    }
}

/// Processes that started before the recorder, and walks that end at once.
#[cfg(test)]
mod tests {
    use wingbeat_profiler_abi::RecordKind;

    use super::*;
    use crate::wire::decode;

    #[test]
    fn with_all_a_process_is_known_whole_at_its_first_mapping() {
        let pid = std::process::id();
        let mappings = proc::executable_mappings(pid);
        let mut recorder = Recorder::new(0, Scope::All);
        let file = mappings.last().expect("a mapping").clone();
        recorder.event(Event { time_ns: 1, kind: EventKind::Map { pid, file } });
        let generation = recorder.generation(pid);
        let known = recorder.spaces.generation(generation).expect("generation");
        for mapping in &mappings {
            assert!(known.find(mapping.start).is_some(), "{mapping:?}");
        }
    }

    #[test]
    fn a_stack_that_was_copied_is_walked_to_its_end() {
        let pid = std::process::id();
        let mut recorder = Recorder::new(0, Scope::All);
        recorder.adopt(pid);
        // The first instruction of a function: the caller's address is on top of the stack, or in the link register on
        // aarch64. The caller is the same function one byte on, and the thread ends after that; on aarch64 the link
        // register is unknown by then.
        let ip = first_instruction as fn() as usize as u64;
        let (sp, caller) = (0x7ffe_0000_u64, ip + 1);
        let (extra_register, end) = match cfg!(target_arch = "aarch64") {
            true => (caller << 16, Completeness::Broken(BrokenReason::Unsupported)),
            false => (0, Completeness::Complete),
        };
        for bytes in [copy(pid, sp, [caller, 0]), sample(pid, [sp, 3, extra_register, ip])] {
            recorder.record(decode(&bytes).expect("record"));
        }
        let stacks = recorder.stacks.in_order();
        assert_eq!(stacks[0].user, [ip, caller]);
        assert_eq!(stacks[0].completeness, end);
        assert_eq!(recorder.wanted, [(pid, ip), (pid, caller - 1)]);
    }

    #[test]
    fn a_mapping_that_becomes_known_late_counts() {
        let pid = std::process::id();
        let mut recorder = Recorder::new(0, Scope::All);
        recorder.spaces.clear(pid);
        let ip = first_instruction as fn() as usize as u64;
        let generation = recorder.generation(pid);
        assert_eq!(rule(&mut recorder, generation, ip), None);
        for file in proc::executable_mappings(pid) {
            recorder.event(Event { time_ns: 1, kind: EventKind::Map { pid, file } });
        }
        assert_eq!(recorder.generation(pid), generation);
        assert!(rule(&mut recorder, generation, ip).is_some_and(|rule| rule != Rule::GAP));
    }

    fn first_instruction() {
        std::hint::black_box(1);
    }

    fn rule(recorder: &mut Recorder, generation: GenerationId, address: u64) -> Option<Rule> {
        let Recorder { rules, spaces, binaries, .. } = recorder;
        look_up_rule(rules, spaces, binaries, generation, address)
            .map(|rule| rule.unwrap_or(Rule::GAP))
    }

    /// Two words of stack.
    fn copy(pid: u32, address: u64, words: [u64; 2]) -> Vec<u8> {
        let mut bytes = vec![RecordKind::Copy as u8, 0, 2, 0];
        bytes.extend(pid.to_le_bytes());
        bytes.extend([1, address].into_iter().chain(words).flat_map(u64::to_le_bytes));
        bytes
    }

    /// A sample with one user frame without a table: its stack and frame pointer, the state of the extra register, its
    /// address.
    fn sample(pid: u32, [sp, fp, extra_register, ip]: [u64; 4]) -> Vec<u8> {
        let mut bytes = vec![RecordKind::Sample as u8, Stop::NoTable as u8, 0, 0, 1, 0, 0, 0];
        bytes.extend([pid, pid].into_iter().flat_map(u32::to_le_bytes));
        bytes.extend([1, sp, fp, extra_register, 0, ip].into_iter().flat_map(u64::to_le_bytes));
        bytes
    }
}

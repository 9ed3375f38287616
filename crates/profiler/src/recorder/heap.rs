//! Heap part of the recorder: stacks of allocations, and files with allocators.

use rustc_hash::FxHashMap;
use wingbeat_profiler_abi::{heap::AllocationRecord, space::SpaceRecord};

use super::{Recorder, binaries::BinaryId};
use crate::recorder::address_spaces::GenerationId;
use crate::{
    heap::{
        allocator::Allocator,
        blocks::{Blocks, Caller},
        mapped::MappedMemory,
        site_sums::SiteKey,
    },
    proc,
    wire::Stack,
};

/// Heap state.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    /// Allocations are recorded.
    pub is_watched: bool,
    pub blocks: Blocks,
    /// Callers of the calls in progress, by thread and time.
    callers: FxHashMap<(u32, u64), Caller>,
    /// Allocator functions of each inspected file.
    pub allocators: FxHashMap<BinaryId, Allocator>,
    /// Files mapped since the session's last update, with their process.
    pub mapped: Vec<(u32, BinaryId)>,
    /// Processes that exited since then.
    pub gone: Vec<u32>,
    /// `None` if address space calls are not recorded.
    pub space: Option<MappedMemory>,
}

impl Heap {
    pub(super) fn new(sample_bytes: u32) -> Self {
        Self { is_watched: true, blocks: Blocks::new(sample_bytes), ..Self::default() }
    }

    pub(super) fn with_space() -> Self {
        let space = MappedMemory::new(rustix::param::page_size() as u64);
        Self { space: Some(space), ..Self::default() }
    }

    /// Stacks of calls without a block.
    pub(crate) fn calls_without_block(&self) -> u64 {
        self.callers.len() as u64
    }

    /// Closes the accounts at the end of the recording.
    pub(crate) fn finish(&mut self, end_ns: u64) {
        self.blocks.finish(end_ns);
        if let Some(space) = &mut self.space {
            space.finish(end_ns);
        }
    }

    /// Starts following a process.
    pub(super) fn adopt(&mut self, pid: u32) {
        if let (Some(space), Some(end)) = (&mut self.space, proc::break_of(pid)) {
            space.set_break(pid, end);
        }
    }

    pub(super) fn mapped(&mut self, pid: u32, binary: BinaryId) {
        if self.is_watched {
            self.mapped.push((pid, binary));
        }
    }

    pub(super) fn gone(&mut self, pid: u32, time_ns: u64, is_exec: bool) {
        if let Some(space) = &mut self.space {
            space.gone(pid, time_ns, is_exec);
        }
        if self.is_watched {
            self.blocks.gone(pid, time_ns, is_exec);
            // The attached probes continue for another program of the same process.
            if !is_exec {
                self.gone.push(pid);
            }
        }
    }
}

impl Recorder {
    /// Gives a child process its parent's files.
    pub(super) fn heap_forked(&mut self, parent: u32, pid: u32) {
        if let Some(space) = &mut self.heap.space {
            space.fork(parent, pid);
        }
        if !self.heap.is_watched {
            return;
        }
        let generation = self.spaces.current(pid).and_then(|id| self.spaces.generation(id));
        let mappings = generation.map_or(&[][..], |generation| &generation.mappings);
        self.heap.mapped.extend(mappings.iter().map(|mapping| (pid, mapping.binary)));
    }

    /// Handles the stack of an allocation.
    pub(super) fn allocation_stack(&mut self, stack: &Stack<'_>) {
        let (generation, completeness, frames) = self.user_frames(stack);
        let header = stack.header;
        let caller = if frames.get(1).is_some_and(|&caller| self.is_allocator(generation, caller)) {
            Caller::Allocator
        } else {
            let frames = frames.iter().copied();
            let stack = self.stacks.intern(generation, completeness, frames, [].into_iter());
            // The process, represented by its first thread.
            let process = self.threads.sampled(header.pid, header.pid);
            Caller::Site(SiteKey { process, stack })
        };
        self.frames = frames;
        self.heap.callers.insert((header.tid, header.time_ns), caller);
    }

    /// Handles an allocation, whose stack came before.
    pub(super) fn allocation(&mut self, record: &AllocationRecord) {
        let caller = self.heap.callers.remove(&(record.tid, record.stack_ns));
        self.heap.blocks.allocated(record, caller);
    }

    /// Handles an address space call, whose stack came before.
    pub(super) fn space_call(&mut self, record: &SpaceRecord) {
        let caller = self.heap.callers.remove(&(record.tid, record.stack_ns));
        let key = caller.and_then(|caller| match caller {
            Caller::Site(key) => Some(key),
            Caller::Allocator => None,
        });
        if let Some(space) = &mut self.heap.space {
            space.called(record, key);
        }
    }

    /// Whether a return address is in an allocator function.
    fn is_allocator(&self, generation: GenerationId, caller: u64) -> bool {
        let mapping = self.spaces.generation(generation).and_then(|it| it.find(caller));
        let Some(mapping) = mapping else { return false };
        let Some(allocator) = self.heap.allocators.get(&mapping.binary) else { return false };
        let image = self.binaries.get(mapping.binary).and_then(|binary| binary.image());
        let address = image.and_then(|image| image.address_of_offset(mapping.offset_of(caller)));
        // A call may be a function's last instruction.
        address.is_some_and(|address| {
            allocator
                .functions
                .iter()
                .any(|function| (function.range.0 + 1..=function.range.1).contains(&address))
        })
    }
}

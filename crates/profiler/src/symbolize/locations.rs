//! Resolves the addresses of stacks to files and offsets.

use rustc_hash::FxHashMap;
use wingbeat_pprof::Interner;

use super::jit::Jits;
use crate::{
    model::{BrokenReason, Completeness, FrameId, Stack},
    recorder::{
        Recorder,
        address_spaces::{GenerationId, Spaces},
        binaries::{Backing, Binaries, BinaryId},
        raw_stacks::RawStack,
    },
};

/// The scope of an address, which determines the source of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Space {
    File(BinaryId),
    /// Memory of a process without a file.
    Anonymous(BinaryId, u32),
    Kernel,
    /// Unmapped.
    Unmapped,
}

/// A distinct code location; its index is that of its future frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct CodeLocation {
    pub space: Space,
    /// ELF address in a file, virtual address otherwise.
    pub address: u64,
    /// The JIT-compiled code at the address, if known.
    pub code: Option<u32>,
}

/// All distinct locations.
#[derive(Debug, Default)]
pub(super) struct Locations {
    locations: Interner<CodeLocation>,
    /// Known addresses; kernel addresses are the same in each generation.
    user: FxHashMap<(GenerationId, u64), FrameId>,
    kernel: FxHashMap<u64, FrameId>,
}

impl Locations {
    pub(super) fn iter(&self) -> impl Iterator<Item = &CodeLocation> {
        self.locations.entries.iter()
    }

    /// The frames of a stack, innermost first. All but the innermost address of each half are return addresses:
    /// the call is one byte before, and may be its function's last instruction.
    ///
    /// A return address must point to code. If it does not, the frame pointer before it was invalid, and
    /// everything after it is noise: the stack is truncated there, and marked as broken.
    ///
    /// With a time, JIT-compiled code is resolved as of then, otherwise as of the end.
    pub(super) fn stack(
        &mut self,
        stack: RawStack<'_>,
        recorder: &Recorder,
        jits: &mut Jits<'_>,
        time_ns: Option<u64>,
    ) -> Stack {
        let of_calls = |index: usize, address: u64| address.wrapping_sub(u64::from(index > 0));
        let mut frames = Vec::with_capacity(stack.kernel.len() + stack.user.len());
        for (index, &address) in stack.kernel.iter().enumerate() {
            frames.push(self.kernel_frame(of_calls(index, address)));
        }
        let mut completeness = stack.completeness;
        for (index, &address) in stack.user.iter().enumerate() {
            let address = of_calls(index, address);
            let frame = self.user_frame(stack.generation, address, recorder, jits, time_ns);
            if index > 0 && self.locations.entries[frame as usize].space == Space::Unmapped {
                completeness = Completeness::Broken(BrokenReason::BadReturnAddress);
                break;
            }
            frames.push(frame);
        }
        Stack { frames, completeness }
    }

    /// Times at which a stack with these frames changes its meaning, because a JIT compiler replaced code.
    pub(super) fn changes(&self, frames: &[FrameId], jits: &mut Jits<'_>) -> Vec<u64> {
        let mut changes = Vec::new();
        for location in frames.iter().filter_map(|&id| self.locations.entries.get(id as usize)) {
            if let (Space::Anonymous(_, pid), Some(_)) = (location.space, location.code) {
                changes.extend(jits.of(pid).changes_at(location.address));
            }
        }
        changes.sort_unstable();
        changes.dedup();
        changes
    }

    fn user_frame(
        &mut self,
        generation: GenerationId,
        address: u64,
        recorder: &Recorder,
        jits: &mut Jits<'_>,
        time_ns: Option<u64>,
    ) -> FrameId {
        if let Some(&known) = self.user.get(&(generation, address)) {
            return known;
        }
        let mut location = location(generation, address, &recorder.spaces, &recorder.binaries);
        if let Space::Anonymous(_, pid) = location.space {
            // Looked up again each time, since the code may differ.
            location.code = jits.of(pid).code_at(address, time_ns);
            return self.locations.id(location);
        }
        let id = self.locations.id(location);
        self.user.insert((generation, address), id);
        id
    }

    fn kernel_frame(&mut self, address: u64) -> FrameId {
        if let Some(&id) = self.kernel.get(&address) {
            return id;
        }
        let id = self.locations.id(CodeLocation { space: Space::Kernel, address, code: None });
        self.kernel.insert(address, id);
        id
    }
}

fn location(
    generation: GenerationId,
    address: u64,
    spaces: &Spaces,
    binaries: &Binaries,
) -> CodeLocation {
    let at = |space, address| CodeLocation { space, address, code: None };
    let unmapped = at(Space::Unmapped, address);
    let Some(generation) = spaces.generation(generation) else { return unmapped };
    let Some(mapping) = generation.find(address) else { return unmapped };
    let Some(binary) = binaries.get(mapping.binary) else { return unmapped };
    let anonymous = at(Space::Anonymous(mapping.binary, generation.pid), address);
    if binary.backing == Backing::Anonymous {
        return anonymous;
    }
    let offset = mapping.offset_of(address);
    match binary.image() {
        Some(image) => {
            at(Space::File(mapping.binary), image.address_of_offset(offset).unwrap_or(offset))
        }
        None if binary.is_memory() => anonymous,
        None => at(Space::File(mapping.binary), offset),
    }
}

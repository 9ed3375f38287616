//! Which file an address of a stack lies in, and where.

use rustc_hash::FxHashMap;

use super::jit::Jits;
use crate::{
    distinct::Distinct,
    model::{BrokenReason, Completeness, FrameId, Stack},
    recorder::{
        Recorder,
        binaries::{Backing, Binaries, BinaryId},
        intern::RawStack,
        spaces::{GenerationId, Spaces},
    },
};

/// Within what an address means something: whom to ask for its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Space {
    File(BinaryId),
    /// Memory without a file, of a process.
    Anonymous(BinaryId, u32),
    Kernel,
    /// Nothing is mapped there.
    Unmapped,
}

/// A distinct code location; its number is that of the frame that it becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct CodePlace {
    pub space: Space,
    /// ELF address in a file, virtual address otherwise.
    pub address: u64,
    /// The code that was there, of what the process tells.
    pub code: Option<u32>,
}

/// All distinct places.
#[derive(Debug, Default)]
pub(super) struct Places {
    places: Distinct<CodePlace>,
    /// Addresses met before; kernel addresses are the same in each generation.
    user: FxHashMap<(GenerationId, u64), FrameId>,
    kernel: FxHashMap<u64, FrameId>,
}

impl Places {
    pub(super) fn iter(&self) -> impl Iterator<Item = &CodePlace> {
        self.places.entries.iter()
    }

    /// The frames of a stack, innermost first. All but the innermost address of each half are return
    /// addresses: the call is one byte before, and may be the last instruction of its function.
    ///
    /// A return address leads to code. Where one does not, the frame pointer before it was something
    /// else, and all that follows is noise: the stack is cut there, and broken.
    ///
    /// At a time, code of a JIT compiler is what it was then, otherwise what it was last.
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
            if index > 0 && self.places.entries[frame as usize].space == Space::Unmapped {
                completeness = Completeness::Broken(BrokenReason::BadReturnAddress);
                break;
            }
            frames.push(frame);
        }
        Stack { frames, completeness }
    }

    /// When a stack with these frames begins to mean something else, since a JIT compiler put other code
    /// there.
    pub(super) fn changes(&self, frames: &[FrameId], jits: &mut Jits<'_>) -> Vec<u64> {
        let mut changes = Vec::new();
        for place in frames.iter().filter_map(|&id| self.places.entries.get(id as usize)) {
            if let (Space::Anonymous(_, pid), Some(_)) = (place.space, place.code) {
                changes.extend(jits.of(pid).changes_at(place.address));
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
        let mut place = place(generation, address, &recorder.spaces, &recorder.binaries);
        if let Space::Anonymous(_, pid) = place.space {
            // Looked up again each time: it may be other code.
            place.code = jits.of(pid).code_at(address, time_ns);
            return self.places.id(place);
        }
        let id = self.places.id(place);
        self.user.insert((generation, address), id);
        id
    }

    fn kernel_frame(&mut self, address: u64) -> FrameId {
        if let Some(&id) = self.kernel.get(&address) {
            return id;
        }
        let id = self.places.id(CodePlace { space: Space::Kernel, address, code: None });
        self.kernel.insert(address, id);
        id
    }
}

fn place(
    generation: GenerationId,
    address: u64,
    spaces: &Spaces,
    binaries: &Binaries,
) -> CodePlace {
    let at = |space, address| CodePlace { space, address, code: None };
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

//! Which file an address of a stack lies in, and where.

use rustc_hash::FxHashMap;

use super::tables::Distinct;
use crate::{
    model::{BrokenReason, Completeness, FrameId, Stack},
    recorder::{
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
    pub(super) fn stack(
        &mut self,
        stack: RawStack<'_>,
        spaces: &Spaces,
        binaries: &Binaries,
    ) -> Stack {
        let of_calls = |index: usize, address: u64| address.wrapping_sub(u64::from(index > 0));
        let mut frames = Vec::with_capacity(stack.kernel.len() + stack.user.len());
        for (index, &address) in stack.kernel.iter().enumerate() {
            frames.push(self.kernel_frame(of_calls(index, address)));
        }
        let mut completeness = stack.completeness;
        for (index, &address) in stack.user.iter().enumerate() {
            let address = of_calls(index, address);
            let known = self.user.get(&(stack.generation, address)).copied();
            let frame = known.unwrap_or_else(|| {
                let place = place(stack.generation, address, spaces, binaries);
                let id = self.places.id(place);
                self.user.insert((stack.generation, address), id);
                id
            });
            if index > 0 && self.places.entries[frame as usize].space == Space::Unmapped {
                completeness = Completeness::Broken(BrokenReason::BadReturnAddress);
                break;
            }
            frames.push(frame);
        }
        Stack { frames, completeness }
    }

    fn kernel_frame(&mut self, address: u64) -> FrameId {
        if let Some(&id) = self.kernel.get(&address) {
            return id;
        }
        let id = self.places.id(CodePlace { space: Space::Kernel, address });
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
    let unmapped = CodePlace { space: Space::Unmapped, address };
    let Some(generation) = spaces.generation(generation) else { return unmapped };
    let Some(mapping) = generation.find(address) else { return unmapped };
    let Some(binary) = binaries.get(mapping.binary) else { return unmapped };
    let anonymous = CodePlace { space: Space::Anonymous(mapping.binary, generation.pid), address };
    if binary.backing == Backing::Anonymous {
        return anonymous;
    }
    let offset = mapping.offset_of(address);
    match binary.image() {
        Some(image) => CodePlace {
            space: Space::File(mapping.binary),
            address: image.address_of_offset(offset).unwrap_or(offset),
        },
        // Not an ELF file, though mapped to be run: a JIT that shares its memory by a file.
        None if binary.file().is_some() => anonymous,
        None => CodePlace { space: Space::File(mapping.binary), address: offset },
    }
}

//! Copied stacks, whose pieces arrive one by one before the stack itself.

use wingbeat_profiler_abi::{
    CopyHeader, PAGE_WORDS, RED_ZONE_BYTES, StackHeader, UNREAD_PAGES_MAX,
};

use crate::{unwind::Memory, wire::Piece};

/// How far above the red zone a copy may begin, in bytes: the red zone may begin on another page.
const ABOVE_MAX: u64 = RED_ZONE_BYTES + (UNREAD_PAGES_MAX + 1) * PAGE_WORDS as u64 * 8;

/// A copy received so far.
#[derive(Debug, Default)]
pub(super) struct Copied {
    /// Thread and time of the stack.
    of: (u32, u64),
    memory: Memory,
}

impl Copied {
    /// Adds a piece. A piece that does not continue the last begins another copy.
    pub(super) fn add(&mut self, piece: &Piece<'_>) {
        let CopyHeader { tid, time_ns, address, .. } = piece.header;
        let memory = &mut self.memory;
        if self.of != (tid, time_ns) || memory.end() != address {
            self.of = (tid, time_ns);
            memory.start = address;
            memory.words.clear();
        }
        memory.words.extend(piece.words.iter());
    }

    /// The copy of a stack, empty if there is none. Must be [given back](Self::give_back), so that the next one
    /// need not allocate.
    pub(super) fn take(&mut self, stack: &StackHeader) -> Memory {
        let mut memory = std::mem::take(&mut self.memory);
        let lowest = stack.stop_sp.saturating_sub(RED_ZONE_BYTES + 7);
        let is_near = memory.start.checked_sub(lowest).is_some_and(|above| above <= ABOVE_MAX);
        if self.of != (stack.tid, stack.time_ns) || !is_near {
            memory.words.clear();
        }
        memory
    }

    pub(super) fn give_back(&mut self, memory: Memory) {
        *self = Self { of: (0, 0), memory };
    }
}

#[cfg(test)]
mod tests {
    use wingbeat_profiler_abi::RecordKind;
    use zerocopy::{FromZeros as _, IntoBytes as _};

    use super::*;
    use crate::wire::{Record, decode};

    /// Adds pieces of thread, time, address and words, and checks the stack of thread 1 at time 2 and address 0x100.
    fn check(pieces: &[(u32, u64, u64, &[u64])], expected: &[u64]) {
        let mut copied = Copied::default();
        for &(tid, time_ns, address, words) in pieces {
            let (kind, len) = (RecordKind::Copy as u8, words.len() as u16);
            let header = CopyHeader { kind, reserved: 0, words: len, tid, time_ns, address };
            let bytes = [header.as_bytes(), words.as_bytes()].concat();
            let Ok(Record::Copy(piece)) = decode(&bytes) else { panic!("not a piece") };
            copied.add(&piece);
        }
        let mut stack = StackHeader::new_zeroed();
        (stack.tid, stack.time_ns, stack.stop_sp) = (1, 2, 0x100);
        let memory = copied.take(&stack);
        assert_eq!(memory.words, expected);
        copied.give_back(memory);
        assert!(copied.take(&stack).words.is_empty());
    }

    #[test]
    fn pieces_that_follow_one_another_are_one_copy() {
        check(&[], &[]);
        check(&[(1, 2, 0x100, &[5, 6]), (1, 2, 0x110, &[7])], &[5, 6, 7]);
        check(&[(9, 2, 0x100, &[8]), (1, 2, 0x100, &[5])], &[5]);
        check(&[(1, 2, 0x100, &[5]), (1, 3, 0x108, &[6])], &[]);
    }

    /// A copy begins with the red zone, or after unreadable pages, and has no gaps.
    #[test]
    fn a_copy_begins_near_the_stack_pointer() {
        check(&[(1, 2, 0x80, &[5, 6])], &[5, 6]);
        check(&[(1, 2, 0x2000, &[5])], &[5]);
        check(&[(1, 2, 0x70, &[5])], &[]);
        check(&[(1, 2, 0x100 + ABOVE_MAX, &[5])], &[]);
        check(&[(1, 2, 0x100, &[5]), (1, 2, 0x118, &[6])], &[6]);
    }
}

//! Continues walks that the kernel half could not complete, with the same rules and a copy of the stack.

use wingbeat_profiler_abi::{
    CopyHeader, PAGE_WORDS, RED_ZONE_BYTES, StackHeader, UNREAD_PAGES_MAX, USER_FRAMES_MAX,
    unwind::{self, Frame, Problem, Rule, step},
};

use crate::{
    model::{BrokenReason, Completeness},
    wire::Piece,
};

/// Words of stack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Address of the first word.
    pub start: u64,
    pub words: Vec<u64>,
}

impl Memory {
    /// Address one past the last word.
    pub(crate) fn end(&self) -> u64 {
        self.start.wrapping_add(self.words.len() as u64 * 8)
    }
}

impl unwind::Memory for &Memory {
    fn word(&mut self, address: u64) -> Option<u64> {
        let distance = address.checked_sub(self.start)?;
        let position = usize::try_from(distance / 8).ok()?;
        self.words.get(position).filter(|_| distance.is_multiple_of(8)).copied()
    }
}

/// Appends the callers of a frame, and returns how far the stack reaches. `rule` returns the rule for an address
/// of the process; `None` if no code is mapped.
pub(crate) fn finish(
    start: Frame,
    mut memory: &Memory,
    frames: &mut Vec<u64>,
    mut rule: impl FnMut(u64) -> Option<Rule>,
) -> Completeness {
    let mut frame = start;
    while frames.len() < USER_FRAMES_MAX {
        let Some(rule) = rule(frame.address()) else {
            return Completeness::Broken(BrokenReason::NoTable);
        };
        match step(&mut frame, &rule, &mut memory) {
            Ok(true) => frames.push(frame.return_address()),
            Ok(false) => return Completeness::Complete,
            Err(problem) => return Completeness::Broken(reason(problem)),
        }
    }
    Completeness::Truncated
}

fn reason(problem: Problem) -> BrokenReason {
    match problem {
        Problem::NoRule => BrokenReason::NoFramePointer,
        Problem::Unsupported | Problem::RegisterLost | Problem::NotHigher => {
            BrokenReason::Unsupported
        }
        Problem::NotAReturn => BrokenReason::BadReturnAddress,
        // The copy is missing or too short.
        Problem::Unreadable | Problem::NoTable => BrokenReason::NoTable,
    }
}

/// [`finish`] with arbitrary rules and memory: a file may be damaged or hostile.
#[cfg(test)]
mod properties {
    use proptest::prelude::*;
    use wingbeat_profiler_abi::unwind::{FP, SP};

    use super::*;

    /// Code and stack addresses overlap, so that the words read lead to further rules.
    const START: u64 = 0x1000;
    const WORDS: u64 = 16;

    fn words() -> impl Strategy<Value = i16> {
        prop_oneof![8 => -8..16_i16, 1 => any::<i16>()]
    }

    fn rule() -> impl Strategy<Value = Rule> {
        let offset = prop_oneof![8 => (-8..16_i32).prop_map(|words| words * 8), 1 => any::<i32>()];
        let register = prop_oneof![Just(SP), Just(FP)];
        let frame = (register, offset, words(), prop::option::of(words())).prop_map(
            |(register, offset, return_words, fp_words)| {
                let rule = Rule { return_words, ..Rule::framed(register, offset) };
                fp_words.map_or(rule, |words| rule.saving_fp(words))
            },
        );
        let others = [Rule::END, Rule::UNSUPPORTED, Rule::GAP, Rule::SIGNAL];
        prop_oneof![8 => frame, 3 => prop::sample::select(others.to_vec())]
    }

    fn word() -> impl Strategy<Value = u64> {
        prop_oneof![8 => (0..WORDS).prop_map(|word| START + word * 8), 1 => Just(0), 1 => any::<u64>()]
    }

    fn start() -> impl Strategy<Value = Frame> {
        (word(), word(), prop::option::of(word()), any::<bool>())
            .prop_map(|(ip, sp, fp, is_call)| Frame::new(ip, sp, fp, is_call))
    }

    proptest! {
        #[test]
        fn ends(
            start in start(),
            words in prop::collection::vec(word(), 0..WORDS as usize),
            rules in prop::collection::vec(prop::option::of(rule()), 1..8),
        ) {
            let memory = Memory { start: START, words };
            let mut asked = 0;
            let mut frames = Vec::new();
            let completeness = finish(start, &memory, &mut frames, |address| {
                asked += 1;
                rules[(address / 8 % rules.len() as u64) as usize]
            });
            prop_assert!(asked <= USER_FRAMES_MAX);
            prop_assert!(frames.len() <= USER_FRAMES_MAX);
            if completeness == Completeness::Truncated {
                prop_assert_eq!(frames.len(), USER_FRAMES_MAX);
            }
        }
    }
}

// Copied stacks, whose pieces arrive one by one before the stack itself.

/// How far above the red zone a copy may begin, in bytes: the red zone may begin on another page.
const ABOVE_MAX: u64 = RED_ZONE_BYTES + (UNREAD_PAGES_MAX + 1) * PAGE_WORDS as u64 * 8;

/// A copy received so far.
#[derive(Debug, Default)]
pub(crate) struct Copied {
    /// Thread and time of the stack.
    of: (u32, u64),
    memory: Memory,
}

impl Copied {
    /// Adds a piece. A piece that does not continue the last begins another copy.
    pub(crate) fn add(&mut self, piece: &Piece<'_>) {
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
    pub(crate) fn take(&mut self, stack: &StackHeader) -> Memory {
        let mut memory = std::mem::take(&mut self.memory);
        let lowest = stack.stop_sp.saturating_sub(RED_ZONE_BYTES + 7);
        let is_near = memory.start.checked_sub(lowest).is_some_and(|above| above <= ABOVE_MAX);
        if self.of != (stack.tid, stack.time_ns) || !is_near {
            memory.words.clear();
        }
        memory
    }

    pub(crate) fn give_back(&mut self, memory: Memory) {
        *self = Self { of: (0, 0), memory };
    }
}

#[cfg(test)]
mod tests {

    use wingbeat_profiler_abi::{RecordKind, unwind::SP};
    use zerocopy::{FromZeros as _, IntoBytes as _};

    use crate::wire::{Record, decode};

    use super::*;

    const MAIN_CALLER: u64 = 0x2000;
    const LIBC_START: u64 = 0x3000;
    const ENTRY: u64 = 0x4000;

    /// The bottom of a C program's stack: two functions without frame pointers, then the entry point.
    fn rule(address: u64) -> Option<Rule> {
        Some(match address {
            0x1fff => Rule::framed(SP, 0x20),
            0x2fff => Rule::framed(SP, 0x10).saving_fp(-2),
            0x3fff => Rule::END,
            0x5fff => Rule::OTHER_STACK,
            0x8000.. => return None,
            _ => Rule::GAP,
        })
    }

    fn start(ip: u64, fp: Option<u64>) -> Frame {
        Frame::new(ip, 0x7000, fp, true)
    }

    fn check(start: Frame, words: &[u64], expected: &[u64], end: Result<(), BrokenReason>) {
        let memory = Memory { start: 0x7000, words: words.to_vec() };
        let mut frames = Vec::new();
        let found = finish(start, &memory, &mut frames, rule);
        let end = end.map_or_else(Completeness::Broken, |()| Completeness::Complete);
        assert_eq!((frames.as_slice(), found), (expected, end));
    }

    #[test]
    fn the_end_is_reached_or_the_reason_is_kept() {
        let words = [9, 9, 9, LIBC_START, 0, ENTRY];
        check(start(MAIN_CALLER, Some(1)), &words, &[LIBC_START, ENTRY], Ok(()));
        // A short copy gives the frames that it has.
        let no_table = Err(BrokenReason::NoTable);
        check(start(MAIN_CALLER, Some(1)), &words[..5], &[LIBC_START], no_table);
        check(start(MAIN_CALLER, Some(1)), &[], &[], no_table);
        check(start(MAIN_CALLER, Some(1)), &[9, 9, 9, 0x9000], &[0x9000], no_table);
    }

    #[test]
    fn code_without_rules_is_left_along_its_frame_pointer() {
        let words = [9, 9, 0x7020, MAIN_CALLER];
        check(start(0x5000, Some(0x7010)), &words, &[MAIN_CALLER], Err(BrokenReason::NoTable));
        check(start(0x5000, Some(0)), &words, &[], Ok(()));
        let no_frame_pointer = Err(BrokenReason::NoFramePointer);
        check(start(0x5000, Some(0x7011)), &words, &[], no_frame_pointer);
        check(start(0x5000, Some(0x6ff0)), &words, &[], no_frame_pointer);
        check(start(0x5000, None), &words, &[], no_frame_pointer);
    }

    #[test]
    fn another_stack_may_lie_below() {
        let words = [0, ENTRY, 9, 9];
        let start = |ip| Frame::new(ip, 0x7018, Some(0x7000), true);
        check(start(0x6000), &words, &[ENTRY], Ok(()));
        check(start(0x5000), &words, &[], Err(BrokenReason::NoFramePointer));
    }

    /// Adds pieces of thread, time, address and words, and checks the stack of thread 1 at time 2 and address 0x100.
    fn check_copy(pieces: &[(u32, u64, u64, &[u64])], expected: &[u64]) {
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
        check_copy(&[], &[]);
        check_copy(&[(1, 2, 0x100, &[5, 6]), (1, 2, 0x110, &[7])], &[5, 6, 7]);
        check_copy(&[(9, 2, 0x100, &[8]), (1, 2, 0x100, &[5])], &[5]);
        check_copy(&[(1, 2, 0x100, &[5]), (1, 3, 0x108, &[6])], &[]);
    }

    /// A copy begins with the red zone, or after unreadable pages, and has no gaps.
    #[test]
    fn a_copy_begins_near_the_stack_pointer() {
        check_copy(&[(1, 2, 0x80, &[5, 6])], &[5, 6]);
        check_copy(&[(1, 2, 0x2000, &[5])], &[5]);
        check_copy(&[(1, 2, 0x70, &[5])], &[]);
        check_copy(&[(1, 2, 0x100 + ABOVE_MAX, &[5])], &[]);
        check_copy(&[(1, 2, 0x100, &[5]), (1, 2, 0x118, &[6])], &[6]);
    }
}

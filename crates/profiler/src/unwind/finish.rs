//! Continues walks that the kernel half could not complete, with the same rules and a copy of the stack.

use wingbeat_profiler_abi::{
    USER_FRAMES_MAX,
    unwind::{self, Frame, Problem, Rule, step},
};

use crate::model::{BrokenReason, Completeness};

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

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests {
    use wingbeat_profiler_abi::unwind::SP;

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
}

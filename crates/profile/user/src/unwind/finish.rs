//! From the end of the frame pointers to the entry point of the thread.

use wingbeat_profile_common::{
    Stop,
    unwind::{Frame, Problem, Rule, Source, Thread, caller},
};

use crate::model::{BrokenReason, Completeness};

/// Frames added at most: below `main` and thread functions there are three or four.
const FRAMES_MAX: usize = 32;

/// Where the walk along the frame pointers ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Start {
    /// The last address found.
    pub pc: u64,
    /// It is a return address, and so may be one past the end of its function.
    pub is_return: bool,
    pub sp: u64,
    pub bp: u64,
    pub stop: Stop,
}

/// Words of stack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Address of the first word.
    pub start: u64,
    pub words: Vec<u64>,
}

impl Memory {
    /// The word at an address.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        self.position(address).and_then(|position| self.words.get(position).copied())
    }

    /// Position of the word at an address.
    fn position(&self, address: u64) -> Option<usize> {
        let distance = address.checked_sub(self.start)?;
        let position = usize::try_from(distance / 8).ok()?;
        (distance % 8 == 0 && position < self.words.len()).then_some(position)
    }
}

/// Memory of which it is noted how much was read.
struct Noting<'a> {
    memory: Option<&'a Memory>,
    words_used: usize,
}

impl Thread for Noting<'_> {
    fn word(&mut self, address: u64) -> Option<u64> {
        let memory = self.memory?;
        let position = memory.position(address)?;
        self.words_used = self.words_used.max(position + 1);
        Some(memory.words[position])
    }

    fn register(&mut self, _number: u8) -> Option<u64> {
        None
    }
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Callers that were missing, innermost first.
    pub frames: Vec<u64>,
    /// How far the stack reaches with them.
    pub completeness: Completeness,
    /// Words of memory that were looked at, from the first to the last.
    pub words_used: usize,
}

/// Unwinds on by the tables. `rule` gives the rule at an address of the process, `memory` the stack.
/// Frames are believed only if they lead all the way to the end: memory that was never a stack does
/// not.
pub(crate) fn finish(
    start: Start,
    memory: Option<&Memory>,
    rule: impl FnMut(u64) -> Rule,
) -> Outcome {
    let mut thread = Noting { memory, words_used: 0 };
    let (frames, completeness) = match start.stop {
        Stop::KernelThread => (Vec::new(), Completeness::Complete),
        Stop::Depth => (Vec::new(), Completeness::Truncated),
        stop => match walk(start, &mut thread, rule) {
            Some(frames) => (frames, Completeness::Complete),
            None => (Vec::new(), without_tables(stop)),
        },
    };
    Outcome { frames, completeness, words_used: thread.words_used }
}

/// The callers down to the end of the stack, if it is reached.
fn walk(
    start: Start,
    thread: &mut Noting<'_>,
    mut rule: impl FnMut(u64) -> Rule,
) -> Option<Vec<u64>> {
    let Start { pc: ip, is_return, sp, bp, stop } = start;
    let source = if is_return { Source::Call } else { Source::Thread };
    let mut frame = Frame { ip, sp, fp: Some(bp), source };
    let mut frames = Vec::new();
    while frames.len() < FRAMES_MAX {
        match caller(&frame, &rule(frame.address()), thread) {
            Ok(Some(next)) => frame = next,
            Ok(None) | Err(Problem::NotAReturn) => return Some(frames),
            // No table here. A zero frame pointer is then the only sign of the end that code
            // without tables (assembly, Go) can give.
            Err(Problem::NoRule) if stop == Stop::Zero && frames.is_empty() => return Some(frames),
            Err(_) => return None,
        }
        frames.push(frame.ip);
    }
    None
}

fn without_tables(stop: Stop) -> Completeness {
    Completeness::Broken(match stop {
        Stop::Unreadable => BrokenReason::Unreadable,
        Stop::NotAReturn => BrokenReason::BadReturnAddress,
        _ => BrokenReason::NoFramePointer,
    })
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests {
    use wingbeat_profile_common::unwind::SP;

    use super::*;

    const MAIN_CALLER: u64 = 0x2000;
    const LIBC_START: u64 = 0x3000;
    const ENTRY: u64 = 0x4000;

    /// The bottom of a C program: two functions without frame pointers, then the entry point.
    fn rule(address: u64) -> Rule {
        match address {
            0x1fff => Rule::framed(SP, 0x20),
            0x2fff => Rule::framed(SP, 0x10).saving_fp(-2),
            0x3fff => Rule::END,
            _ => Rule::GAP,
        }
    }

    fn start(stop: Stop) -> Start {
        Start { pc: MAIN_CALLER, is_return: true, sp: 0x7000, bp: 1, stop }
    }

    fn memory() -> Memory {
        Memory { start: 0x7000, words: vec![9, 9, 9, LIBC_START, 0, ENTRY] }
    }

    #[test]
    fn reaches_the_entry_point() {
        let outcome = finish(start(Stop::NotAFrame), Some(&memory()), rule);
        let frames = vec![LIBC_START, ENTRY];
        let completeness = Completeness::Complete;
        assert_eq!(outcome, Outcome { frames, completeness, words_used: 6 });
    }

    #[test]
    fn says_why_not() {
        let check = |stop, memory: Option<&Memory>, expected| {
            let outcome = finish(start(stop), memory, rule);
            assert_eq!((outcome.frames, outcome.completeness), (Vec::new(), expected));
        };
        let short = Memory { words: memory().words[..4].to_vec(), ..memory() };
        let wrong = Memory { words: vec![9; 6], ..memory() };
        let no_fp = Completeness::Broken(BrokenReason::NoFramePointer);
        check(Stop::NotAFrame, None, no_fp);
        check(Stop::Zero, None, no_fp);
        check(Stop::NotAFrame, Some(&short), no_fp);
        check(Stop::Unreadable, Some(&wrong), Completeness::Broken(BrokenReason::Unreadable));
        let bad_return = Completeness::Broken(BrokenReason::BadReturnAddress);
        check(Stop::NotAReturn, None, bad_return);
        check(Stop::Depth, Some(&memory()), Completeness::Truncated);
        check(Stop::KernelThread, None, Completeness::Complete);
    }

    #[test]
    fn a_zero_frame_pointer_ends_code_without_tables() {
        let outcome = finish(start(Stop::Zero), None, |_| Rule::GAP);
        assert_eq!((outcome.frames, outcome.completeness), (Vec::new(), Completeness::Complete));
        let outcome = finish(start(Stop::NotAFrame), None, |_| Rule::GAP);
        assert_ne!(outcome.completeness, Completeness::Complete);
    }

    #[test]
    fn rules_that_go_in_circles_end() {
        let circle = |_| Rule { return_words: 0, ..Rule::framed(SP, 0) };
        let outcome = finish(start(Stop::NotAFrame), Some(&memory()), circle);
        assert_ne!(outcome.completeness, Completeness::Complete);
    }
}

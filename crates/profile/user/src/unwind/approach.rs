//! From the innermost function to where the frame pointers begin.

use wingbeat_profile_common::unwind::{
    Cfa, FP, Frame, Problem, ReturnAddress, Rule, Source, Thread, caller, canonical,
};

use super::finish::Memory;

/// Frames at most: the C library is a dozen functions deep at its deepest.
const FRAMES_MAX: usize = 256;
/// A caller's frame lies above that of its callee, and not farther than this.
const FRAME_BYTES_MAX: u64 = 1 << 20;

/// Where a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Registers {
    pub pc: u64,
    pub sp: u64,
    /// Frame pointer register, which may hold something else.
    pub bp: u64,
}

/// Callers, innermost first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Approach {
    /// Those before the first that the frame pointer register leads to.
    pub frames: Vec<u64>,
    pub end: ApproachEnd,
}

/// Where it led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApproachEnd {
    /// The next caller is the first that the frame pointer register leads to.
    FramePointers,
    /// The entry point of the thread: there are no more.
    Entry,
    /// The memory ended, or there is no table.
    Lost,
}

/// A blocked thread: a piece of its stack.
struct Blocked<'a>(&'a Memory);

impl Thread for Blocked<'_> {
    fn word(&mut self, address: u64) -> Option<u64> {
        self.0.word(address)
    }

    fn register(&mut self, _number: u8) -> Option<u64> {
        None
    }
}

/// Unwinds by the tables, and by frame pointers where there is no table, until it meets the frame
/// record that the frame pointer register pointed to in the beginning.
pub(crate) fn approach(
    start: Registers,
    memory: &Memory,
    mut rule: impl FnMut(u64) -> Rule,
) -> Approach {
    let mut frames = Vec::new();
    let mut thread = Blocked(memory);
    let Registers { pc: ip, sp, bp } = start;
    let mut frame = Frame { ip, sp, fp: Some(bp), source: Source::Thread };
    // The register may hold anything; then nothing leads there.
    let meeting = bp.wrapping_add(8);
    let end = loop {
        if frames.len() == FRAMES_MAX {
            break ApproachEnd::Lost;
        }
        let mut rule = rule(frame.address());
        if matches!(rule.cfa, Cfa::Gap | Cfa::Unsupported) {
            let is_near = |fp: u64| fp >= frame.sp && fp - frame.sp <= FRAME_BYTES_MAX;
            if !frame.fp.is_some_and(is_near) {
                break ApproachEnd::Lost;
            }
            rule = Rule::framed(FP, 16).saving_fp(-2);
        }
        let place = canonical(&frame, &rule, &mut thread)
            .map(|cfa| cfa.wrapping_add_signed(i64::from(rule.return_words) * 8));
        if rule.ra == ReturnAddress::Saved && place == Ok(meeting) {
            break ApproachEnd::FramePointers;
        }
        match caller(&frame, &rule, &mut thread) {
            Ok(Some(next)) => frame = next,
            Ok(None) | Err(Problem::NotAReturn) => break ApproachEnd::Entry,
            Err(_) => break ApproachEnd::Lost,
        }
        frames.push(frame.ip);
    };
    Approach { frames, end }
}

#[cfg(test)]
mod tests {
    use wingbeat_profile_common::unwind::SP;

    use super::*;

    /// 100 to 199 is a function without a frame, 200 to 299 one that keeps 24 bytes and saves the frame
    /// pointer register, 300 to 399 one with a frame pointer, 500 to 599 the entry.
    fn rules(address: u64) -> Rule {
        match address {
            100..200 => Rule::framed(SP, 8),
            200..300 => Rule::framed(SP, 24).saving_fp(-2),
            300..400 => Rule::framed(FP, 16).saving_fp(-2),
            500..600 => Rule::END,
            _ => Rule::GAP,
        }
    }

    #[test]
    fn the_tables_lead_to_the_frame_pointers() {
        // At 0x1000 the return into the second function, then its frame: a word, the register, the
        // return into the third, whose frame record lies at 0x1030.
        let words = vec![250, 7, 0x1030, 350, 1, 2, 0x2000, 550];
        let check = |bp, words: &[u64], expected: &[u64], end| {
            let memory = Memory { start: 0x1000, words: words.to_vec() };
            let approach = approach(Registers { pc: 150, sp: 0x1000, bp }, &memory, rules);
            assert_eq!((approach.frames.as_slice(), approach.end), (expected, end), "{bp:x}");
        };
        check(0x1030, &words, &[250, 350], ApproachEnd::FramePointers);
        // The register holds something else, and the saved one leads on.
        check(77, &words, &[250, 350, 550], ApproachEnd::Entry);
        check(77, &words[..5], &[250, 350], ApproachEnd::Lost);
        check(77, &[], &[], ApproachEnd::Lost);
        // The frame record is that of the innermost function.
        check(0x1000 - 8, &words, &[], ApproachEnd::FramePointers);
    }

    #[test]
    fn code_without_tables_is_left_by_its_frame_pointer() {
        let memory = Memory { start: 0x1000, words: vec![0x1010, 150, 0x1020, 550] };
        let start = Registers { pc: 900, sp: 0x1000, bp: 0x1000 };
        let approach = approach(start, &memory, rules);
        assert_eq!((approach.frames.len(), approach.end), (0, ApproachEnd::FramePointers));
    }
}

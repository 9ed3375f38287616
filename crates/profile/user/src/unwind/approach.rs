//! From the innermost function to where the frame pointers begin.

use super::{
    cfi::{Base, UnwindRow},
    finish::Memory,
};

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

/// Unwinds by the tables, and by frame pointers where there is no table, until it meets the frame
/// record that the frame pointer register pointed to in the beginning.
pub(crate) fn approach(
    start: Registers,
    memory: &Memory,
    mut row: impl FnMut(u64) -> Option<UnwindRow>,
) -> Approach {
    let mut frames = Vec::new();
    let Registers { mut pc, mut sp, mut bp } = start;
    // The register may hold anything; then nothing leads there.
    let meeting = start.bp.wrapping_add(8);
    let end = loop {
        if frames.len() == FRAMES_MAX {
            break ApproachEnd::Lost;
        }
        let is_return = u64::from(!frames.is_empty());
        let (slot, cfa, next_bp) = match row(pc.wrapping_sub(is_return)) {
            Some(UnwindRow::End) => break ApproachEnd::Entry,
            Some(UnwindRow::Frame { base, cfa_offset, return_offset, bp_offset }) => {
                let base = if base == Base::Sp { sp } else { bp };
                let cfa = base.wrapping_add_signed(cfa_offset);
                let next_bp = match bp_offset {
                    Some(offset) => memory.word(cfa.wrapping_add_signed(offset)),
                    None => Some(bp),
                };
                (cfa.wrapping_add_signed(return_offset), cfa, next_bp)
            }
            Some(UnwindRow::Other) | None => {
                if bp < sp || bp - sp > FRAME_BYTES_MAX {
                    break ApproachEnd::Lost;
                }
                (bp.wrapping_add(8), bp.wrapping_add(16), memory.word(bp))
            }
        };
        if slot == meeting {
            break ApproachEnd::FramePointers;
        }
        let Some((return_address, next_bp)) = memory.word(slot).zip(next_bp) else {
            break ApproachEnd::Lost;
        };
        if return_address == 0 {
            break ApproachEnd::Entry;
        }
        frames.push(return_address);
        // A stack that does not grow is none.
        if cfa <= sp {
            break ApproachEnd::Lost;
        }
        (pc, sp, bp) = (return_address, cfa, next_bp);
    };
    Approach { frames, end }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 to 199 is a function without a frame, 200 to 299 one that keeps 24 bytes and saves the frame
    /// pointer register, 300 to 399 one with a frame pointer, 500 to 599 the entry.
    fn rows(address: u64) -> Option<UnwindRow> {
        let frame = |base, cfa_offset, bp_offset| {
            Some(UnwindRow::Frame { base, cfa_offset, return_offset: -8, bp_offset })
        };
        match address {
            100..200 => frame(Base::Sp, 8, None),
            200..300 => frame(Base::Sp, 24, Some(-16)),
            300..400 => frame(Base::Bp, 16, Some(-16)),
            500..600 => Some(UnwindRow::End),
            _ => None,
        }
    }

    #[test]
    fn the_tables_lead_to_the_frame_pointers() {
        // At 0x1000 the return into the second function, then its frame: a word, the register, the
        // return into the third, whose frame record lies at 0x1030.
        let words = vec![250, 7, 0x1030, 350, 1, 2, 0x2000, 550];
        let check = |bp, words: &[u64], expected: &[u64], end| {
            let memory = Memory { start: 0x1000, words: words.to_vec() };
            let approach = approach(Registers { pc: 150, sp: 0x1000, bp }, &memory, rows);
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
        let approach = approach(start, &memory, rows);
        assert_eq!((approach.frames.len(), approach.end), (0, ApproachEnd::FramePointers));
    }
}

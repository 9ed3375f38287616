//! Reads the stack of the current thread in pieces: a helper call takes longer than the copy itself, and the words
//! that a walk needs are close together.

use aya_ebpf::helpers::generated::bpf_probe_read_user;
use wingbeat_profiler_abi::unwind::Memory;

/// Words per piece.
const WORDS: usize = 32;
const BYTES: u64 = WORDS as u64 * 8;

/// The last piece read. Stored in a map value.
#[repr(C)]
pub struct Window {
    /// A multiple of [`BYTES`], so that a piece is within one page and is readable as a whole or not at all. Any
    /// other value means no piece.
    start: u64,
    words: [u64; WORDS],
}

impl Window {
    /// Discards the piece of another thread or an earlier walk.
    #[inline(always)]
    pub fn close(&mut self) {
        // No piece begins at this address.
        self.start = 8;
    }
}

impl Memory for Window {
    #[inline(always)]
    fn word(&mut self, address: u64) -> Option<u64> {
        // The low bits stay, so that an unaligned address matches no piece: it is not a word of a stack.
        let start = address & !(BYTES - 8);
        // SAFETY: this piece, which is not used elsewhere meanwhile.
        if start != self.start && !unsafe { read(self, start) } {
            return None;
        }
        Some(self.words[(address / 8) as usize % WORDS])
    }

    #[inline(always)]
    fn word_apart(&mut self, address: u64) -> Option<u64> {
        let mut word = 0_u64;
        // SAFETY: reads user memory into a word; a bad address is an error, not a fault.
        let failed = unsafe { bpf_probe_read_user((&raw mut word).cast(), 8, address as *const _) };
        (failed == 0).then_some(word)
    }
}

/// Reads the piece at `start`.
///
/// # Safety
///
/// `window` points to a window that is not used elsewhere.
#[inline(never)]
unsafe fn read(window: *mut Window, start: u64) -> bool {
    // SAFETY: guaranteed by the caller.
    let window = unsafe { &mut *window };
    window.close();
    if start & 7 != 0 {
        return false;
    }
    let words = (&raw mut window.words).cast();
    // SAFETY: reads user memory into the words; a bad address is an error, not a fault.
    if unsafe { bpf_probe_read_user(words, BYTES as u32, start as *const _) } != 0 {
        return false;
    }
    window.start = start;
    true
}

//! Reads the stack of the current thread a piece at a time: a call of the kernel takes longer than what it
//! copies, and the words that a walk needs are near one another.

use aya_ebpf::helpers::generated::bpf_probe_read_user;
use wingbeat_profile_common::unwind::Memory;

/// Words of a piece.
const WORDS: usize = 32;
const BYTES: u64 = WORDS as u64 * 8;

/// The piece that was read last. It lies in memory of a map.
#[repr(C)]
pub struct Window {
    /// A multiple of [`BYTES`], so that a piece lies in one page: all of it can be read, or nothing. Else
    /// there is none.
    start: u64,
    words: [u64; WORDS],
}

impl Window {
    /// Forgets what another thread, or an earlier walk, has read.
    #[inline(always)]
    pub fn close(&mut self) {
        // No piece of any address begins there.
        self.start = 8;
    }
}

impl Memory for Window {
    #[inline(always)]
    fn word(&mut self, address: u64) -> Option<u64> {
        // The low bits stay, and are no piece's: what is not aligned is no word of a stack.
        let start = address & !(BYTES - 8);
        // SAFETY: this piece, which nobody else uses meanwhile.
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
/// `window` points to a window that is in use here only.
#[inline(never)]
unsafe fn read(window: *mut Window, start: u64) -> bool {
    // SAFETY: the caller's.
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

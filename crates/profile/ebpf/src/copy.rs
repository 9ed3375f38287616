//! Copies of stacks whose walk met code without a table: user space walks on by them.
//!
//! Each page is a record of its own. So a copy takes as much room in the ring buffer as the stack has
//! pages, and no memory of this half holds more than one of them.

use core::{ffi::c_void, hint::black_box};

use aya_ebpf::{
    helpers::generated::{bpf_loop, bpf_probe_read_user},
    macros::map,
    maps::PerCpuArray,
};
use wingbeat_profile_common::{
    COPIED_PAGES, COPY_HEADER_BYTES, CopyHeader, PAGE_WORDS, RED_ZONE_BYTES, RecordKind,
    StackHeader, UNREAD_PAGES_MAX, counter,
};

use crate::{
    maps::{count, scratch, setting},
    record::{self, waiting_bytes},
    regs,
    stack::{END, GO_ON},
};

/// A piece under construction.
#[repr(C)]
struct Piece {
    header: CopyHeader,
    words: [u64; PAGE_WORDS],
}

/// One for each kind of program, as the scratch memory.
#[map]
static PIECES: PerCpuArray<Piece> = PerCpuArray::with_max_entries(scratch::COUNT, 0);

/// Pages copied where the kernel lacks `bpf_loop` (before 5.17): each turn of an ordinary loop is verified
/// apart.
const PLAIN_LOOP_PAGES: u32 = 8;

/// A copy under way.
#[repr(C)]
struct Copying {
    piece: *mut Piece,
    /// Where the stack must end.
    end: u64,
    /// 1 if pieces were sent. Their number would be another state for the verifier at each turn.
    is_sent: u64,
}

/// Sends the stack of the current thread from the last frame of a walk on: as much as can be read, and as
/// long as the ring buffer is not filling up. `part` is that of the scratch memory.
#[inline(always)]
pub fn send(part: u32, stack: &StackHeader) {
    let Some(piece) = PIECES.get_ptr_mut(part) else { return };
    let &StackHeader { tid, time_ns, stop_sp: sp, .. } = stack;
    let kind = RecordKind::Copy as u8;
    let address = (sp & !7).saturating_sub(RED_ZONE_BYTES);
    // SAFETY: a live element of a per-CPU array.
    unsafe {
        (*piece).header = CopyHeader { kind, reserved: 0, words: 0, tid, time_ns, address };
    }
    let mut copying = Copying { piece, end: regs::stack_end(sp), is_sent: 0 };
    if setting!(HAS_BPF_LOOP) != 0 {
        let state = (&raw mut copying).cast();
        // SAFETY: calls `turn` with the index of the turn and the state, which outlives the loop.
        unsafe { bpf_loop(COPIED_PAGES as u32, turn as *const () as *mut c_void, state, 0) };
    } else {
        for index in 0..PLAIN_LOOP_PAGES {
            // SAFETY: the state points to a piece.
            if unsafe { send_page(index, &mut copying) } != GO_ON {
                break;
            }
        }
    }
    count(counter::COPIED, copying.is_sent);
}

/// One turn of `bpf_loop`.
///
/// # Safety
///
/// `state` points to a [`Copying`].
#[inline(never)]
unsafe extern "C" fn turn(index: u32, state: *mut c_void) -> i64 {
    // SAFETY: the state that `send` gave.
    unsafe { send_page(index, &mut *state.cast::<Copying>()) }
}

/// Sends what of a page belongs to the stack. What lies behind the end of a stack cannot be read, and
/// neither can its first pages, if the thread has not come there yet: what a frame has in them is not
/// needed for its caller.
///
/// # Safety
///
/// `state` points to a piece.
#[inline(always)]
unsafe fn send_page(index: u32, state: &mut Copying) -> i64 {
    if waiting_bytes() >= u64::from(setting!(COPIES_UNTIL_BYTES)) {
        return END;
    }
    // SAFETY: the state points to a piece; the helper reads user memory into room of that size.
    unsafe {
        let piece = &mut *state.piece;
        if piece.header.address >= state.end {
            return END;
        }
        let left = (state.end - piece.header.address).div_ceil(8);
        let skipped = piece.header.address / 8 & (PAGE_WORDS as u64 - 1);
        // The verifier sees that it is no more than a page.
        let words = black_box(left.min(PAGE_WORDS as u64 - skipped)).min(PAGE_WORDS as u64);
        let (to, from) = ((&raw mut piece.words).cast(), piece.header.address as *const _);
        if bpf_probe_read_user(to, words as u32 * 8, from) != 0 {
            piece.header.address += words as u64 * 8;
            let may_go_on = state.is_sent == 0 && index < UNREAD_PAGES_MAX as u32;
            return if may_go_on { GO_ON } else { END };
        }
        piece.header.words = words as u16;
        if !record::send(state.piece.cast(), COPY_HEADER_BYTES as u64 + words as u64 * 8) {
            return END;
        }
        piece.header.address += words as u64 * 8;
    }
    state.is_sent = 1;
    GO_ON
}

//! Copies of stacks whose walk reached code without a table, so that user space can continue it.
//!
//! Each page is a record of its own, so a copy takes only as much of the ring buffer as the stack has pages, and
//! the kernel half holds one page at a time.

use core::hint::black_box;

use aya_ebpf::{helpers::generated::bpf_probe_read_user, macros::map, maps::PerCpuArray};
use wingbeat_profiler_abi::{
    COPIED_PAGES, COPY_HEADER_BYTES, CopyHeader, PAGE_WORDS, RED_ZONE_BYTES, RecordKind,
    StackHeader, UNREAD_PAGES_MAX, counter,
};

use crate::{
    maps::{count, scratch, send, setting, waiting_bytes},
    regs,
};

/// A copy in progress, with the current piece.
#[repr(C)]
struct Copying {
    header: CopyHeader,
    words: [u64; PAGE_WORDS],
    /// End of the stack.
    end: u64,
    /// 1 if any piece was sent.
    is_sent: u64,
}

/// One per kind of program, like the scratch memory.
#[map]
static COPIES: PerCpuArray<Copying> = PerCpuArray::with_max_entries(scratch::COUNT, 0);

/// Sends the current thread's stack from the last frame of a walk on, as far as it can be read and until the ring
/// buffer fills up. `part` is the part of the scratch memory.
#[inline(always)]
pub fn send_stack(part: u32, stack: &StackHeader) {
    let Some(copying) = COPIES.get_ptr_mut(part) else { return };
    let &StackHeader { tid, time_ns, stop_sp: sp, .. } = stack;
    let kind = RecordKind::Copy as u8;
    let address = (sp & !7).saturating_sub(RED_ZONE_BYTES);
    // SAFETY: a live element of a per-CPU array.
    unsafe {
        (*copying).header = CopyHeader { kind, reserved: 0, words: 0, tid, time_ns, address };
        (*copying).end = regs::stack_end(sp);
        (*copying).is_sent = 0;
    }
    send_pages(part);
    // SAFETY: as above.
    count(counter::COPIED, unsafe { (*copying).is_sent });
}

/// Sends the pages one by one. The verifier checks this function and the next once, and not for each copy and page.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn send_pages(part: u32) -> u32 {
    let mut index = 0;
    while index < COPIED_PAGES as u32 && send_page(part, index) == GO_ON {
        index += 1;
    }
    0
}

/// Return values of [`send_page`]: continue, or end of the copy.
const GO_ON: u32 = 0;
const END: u32 = 1;

/// Sends the part of a page that belongs to the stack. Memory behind the end of the stack cannot be read, nor can
/// its first pages if the thread has not touched them; the unwinding does not need what frames have in them.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn send_page(part: u32, index: u32) -> u32 {
    let Some(copying) = COPIES.get_ptr_mut(part) else { return END };
    if waiting_bytes() >= u64::from(setting!(COPIES_UNTIL_BYTES)) {
        return END;
    }
    // SAFETY: a live element of a per-CPU array, not used elsewhere meanwhile; the helper reads user memory into a
    // buffer of that size.
    unsafe {
        let Copying { header, words: page, end, is_sent } = &mut *copying;
        if header.address >= *end {
            return END;
        }
        let left = (*end - header.address).div_ceil(8);
        let skipped = header.address / 8 & (PAGE_WORDS as u64 - 1);
        // Shows the verifier that this is at most a page.
        let words = black_box(left.min(PAGE_WORDS as u64 - skipped)).min(PAGE_WORDS as u64);
        if bpf_probe_read_user(
            page.as_mut_ptr().cast(),
            words as u32 * 8,
            header.address as *const _,
        ) != 0
        {
            header.address += words as u64 * 8;
            let may_go_on = *is_sent == 0 && index < UNREAD_PAGES_MAX as u32;
            return if may_go_on { GO_ON } else { END };
        }
        header.words = words as u16;
        if !send(copying.cast(), COPY_HEADER_BYTES as u64 + words as u64 * 8) {
            return END;
        }
        header.address += words as u64 * 8;
        *is_sent = 1;
    }
    GO_ON
}

//! The raw stack above the place where a walk ended, sent once per thread and place.

use aya_ebpf::{
    bindings::BPF_RB_NO_WAKEUP,
    helpers::generated::{bpf_probe_read_user, bpf_ringbuf_output},
};
use wingbeat_profile_common::{RecordKind, TAIL_HEADER_BYTES, TAIL_WORDS_MAX, TailHeader, counter};

use crate::maps::{RECORDS, SCRATCH, TAILS, count};

/// Places remembered per thread.
const PLACES: usize = 4;
/// Tails sent per thread and program at most: a program without frame pointers ends its walks at
/// ever new places, none of which helps.
const TAILS_MAX: u32 = 16;

/// What was sent for a thread.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Tails {
    places: [u64; PLACES],
    sent: u32,
    reserved: u32,
}

/// Sends the stack above `sp` unless that was done before.
#[inline(always)]
pub fn send_once(pid: u32, tid: u32, time_ns: u64, sp: u64) {
    match TAILS.get_ptr_mut(&tid) {
        Some(tails) => {
            // SAFETY: a live element of the map; races with another CPU cannot be, a thread runs on
            // one at a time.
            let tails = unsafe { &mut *tails };
            if tails.places.contains(&sp) || tails.sent >= TAILS_MAX {
                return;
            }
            tails.places[tails.sent as usize & (PLACES - 1)] = sp;
            tails.sent += 1;
        }
        None => {
            let mut tails = Tails { places: [0; PLACES], sent: 1, reserved: 0 };
            tails.places[0] = sp;
            // A failure means that the tail is sent again next time: harmless.
            let _ = TAILS.insert(&tid, &tails, 0);
        }
    }
    send(pid, tid, time_ns, sp);
}

#[inline(always)]
fn send(pid: u32, tid: u32, time_ns: u64, sp: u64) {
    let Some(scratch) = SCRATCH.get_ptr_mut(1) else { return };
    let header: *mut TailHeader = scratch.cast();
    // SAFETY: the scratch memory is larger than the header and all words.
    let words = unsafe { header.add(1) };
    // The stack may end within the wanted range, so try less.
    let size = [TAIL_WORDS_MAX, TAIL_WORDS_MAX / 4].into_iter().map(|words| words as u32 * 8).find(
        // SAFETY: reads user memory into room of that size.
        |&size| unsafe { bpf_probe_read_user(words.cast(), size, sp as *const _) == 0 },
    );
    let Some(size) = size else { return };
    // SAFETY: as above; the record lies in the scratch memory.
    let sent = unsafe {
        *header = TailHeader {
            kind: RecordKind::Tail as u8,
            reserved: 0,
            words: (size / 8) as u16,
            pid,
            tid,
            reserved2: 0,
            time_ns,
            sp,
        };
        bpf_ringbuf_output(
            (&raw const RECORDS).cast_mut().cast(),
            scratch.cast(),
            TAIL_HEADER_BYTES as u64 + u64::from(size),
            u64::from(BPF_RB_NO_WAKEUP),
        )
    };
    if sent < 0 {
        count(counter::TAILS_LOST, 1);
    }
}

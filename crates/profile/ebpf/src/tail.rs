//! The raw stack above the place where a walk ended.
//!
//! The bottom of a thread's stack stays as it is while the thread runs, so it is sent once. But a
//! walk may end anywhere, in memory that changes: each sample therefore carries checks of the words
//! that user space would unwind from, and goes only with a tail that has the same.

use aya_ebpf::{
    bindings::BPF_RB_NO_WAKEUP,
    helpers::generated::{bpf_probe_read_user, bpf_ringbuf_output},
    macros::map,
    maps::LruHashMap,
};
use wingbeat_profile_common::{
    RecordKind, TAIL_CHECKS, TAIL_HEADER_BYTES, TAIL_WORDS, TAIL_WORDS_PER_CHECK, TailHeader,
    counter, ring_bytes,
};

use crate::maps::{RECORDS, SCRATCH, count, scratch};

/// Tails remembered per thread.
const PLACES: usize = 4;
/// Tails sent at once per thread and program. A program without frame pointers ends its walks in ever
/// new states, none of which comes again.
const TAILS_MAX: u32 = 16;
/// Beyond that, one in so many samples may send its own: a thread whose first samples were of no use
/// gets its tail all the same.
const SAMPLES_PER_TAIL: u32 = 64;

/// What was sent for a thread.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Tails {
    hashes: [u64; PLACES],
    sent: u32,
    samples: u32,
}

#[map]
pub static TAILS: LruHashMap<u32, Tails> = LruHashMap::with_max_entries(16384, 0);

/// Where a sample was taken, as the tail's header wants to know it.
#[derive(Clone, Copy)]
pub struct Origin {
    pub pid: u32,
    pub tid: u32,
    pub time_ns: u64,
    pub sp: u64,
}

/// Checks the stack above `sp`, and sends it unless that was done before. Gives the checks; zeroes if
/// the stack could not be read.
#[inline(always)]
pub fn check_and_send_once(origin: Origin) -> [u16; TAIL_CHECKS] {
    let mut checks = [0; TAIL_CHECKS];
    let Some(scratch) = SCRATCH.get_ptr_mut(scratch::WORDS) else { return checks };
    let header: *mut TailHeader = scratch.cast();
    // SAFETY: the scratch memory is larger than the header and all words; the helper reads user
    // memory into room of that size.
    let words: *mut u64 = unsafe { header.add(1) }.cast();
    let size = TAIL_WORDS as u32 * 8;
    if unsafe { bpf_probe_read_user(words.cast(), size, origin.sp as *const _) } != 0 {
        return checks;
    }
    let mut hash = origin.sp;
    for (number, check) in checks.iter_mut().enumerate() {
        for index in 0..TAIL_WORDS_PER_CHECK {
            // Volatile, or the compiler reads all words first, for which a BPF stack has no room.
            // SAFETY: as above.
            let word = unsafe { words.add(number * TAIL_WORDS_PER_CHECK + index).read_volatile() };
            hash = mix(hash, word);
        }
        *check = hash as u16;
    }
    if is_new(origin.tid, hash) {
        send(header, origin, checks);
    }
    checks
}

/// One step of a hash in the manner of FNV-1a, by words instead of bytes, with the high bits, where a
/// multiplication gathers its result, folded down.
#[inline(always)]
pub fn mix(hash: u64, word: u64) -> u64 {
    let product = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}

#[inline(always)]
fn is_new(tid: u32, hash: u64) -> bool {
    let Some(tails) = TAILS.get_ptr_mut(&tid) else {
        let mut tails = Tails { hashes: [0; PLACES], sent: 1, samples: 0 };
        tails.hashes[0] = hash;
        // A failure means that the tail is sent again next time: harmless.
        let _ = TAILS.insert(&tid, &tails, 0);
        return true;
    };
    // SAFETY: a live element of the map; a thread runs on one CPU at a time.
    let tails = unsafe { &mut *tails };
    if tails.hashes.contains(&hash) {
        return false;
    }
    tails.samples = tails.samples.wrapping_add(1);
    if tails.sent >= TAILS_MAX && tails.samples % SAMPLES_PER_TAIL != 0 {
        return false;
    }
    tails.hashes[tails.sent as usize & (PLACES - 1)] = hash;
    tails.sent = tails.sent.wrapping_add(1);
    true
}

#[inline(always)]
fn send(header: *mut TailHeader, origin: Origin, checks: [u16; TAIL_CHECKS]) {
    let Origin { pid, tid, time_ns, sp } = origin;
    let size = TAIL_HEADER_BYTES as u64 + TAIL_WORDS as u64 * 8;
    // SAFETY: header and words lie in the scratch memory.
    let sent = unsafe {
        *header = TailHeader {
            kind: RecordKind::Tail as u8,
            reserved: 0,
            words: TAIL_WORDS as u16,
            pid,
            tid,
            reserved2: 0,
            time_ns,
            sp,
            checks,
        };
        bpf_ringbuf_output(
            (&raw const RECORDS).cast_mut().cast(),
            header.cast(),
            size,
            u64::from(BPF_RB_NO_WAKEUP),
        )
    };
    if sent < 0 {
        count(counter::TAILS_LOST, 1);
        // Not sent, so not known: the next sample tries again.
        let _ = TAILS.remove(&tid);
    } else {
        count(counter::RECORD_BYTES, ring_bytes(size));
    }
}

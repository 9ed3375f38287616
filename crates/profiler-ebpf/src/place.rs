//! Stacks of threads that go off the CPU.
//!
//! Most threads block again and again in the same few places. A place is identified by the registers at kernel
//! entry and by the pointers near the stack pointer, return addresses among them. The stack is walked when a place
//! is new, and one time in 64 to verify the match. The kernel part is identified by its innermost return
//! addresses, at the positions where they were, relative to the stack pointer. The kernel stack pointer itself
//! does not identify anything, since each system call randomizes its offset.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::{
    bpf_get_task_stack, bpf_probe_read_kernel, bpf_probe_read_user,
};
use wingbeat_profiler_abi::{
    KERNEL_FRAMES_MAX, RecordKind, counter,
    off_cpu::{
        BlockState, CHECK, HalfHeader, NEW_THREAD, NO_PLACE, PLACES, REUSES_PER_CHECK, StackPlace,
        Thread,
    },
};

use crate::{
    hash::mix,
    maps::{SCRATCH, count, scratch, setting},
    record::{HalfRecord, Whose},
    regs::{self, UserRegs},
    task::{Task, Trusted},
};

/// Number of words near the stack pointer that identify a place.
const NEAR_WORDS: usize = 16;
/// Smaller words are not pointers: counters on the stack change and do not matter here.
const POINTERS_START: u64 = 1 << 32;
/// Words of the kernel stack to search for its innermost return addresses.
const KERNEL_WORDS: usize = 64;
/// Number of kernel return addresses that identify a stack.
const RETURNS: u64 = 6;

/// Initial value of the keys.
const SEED: u64 = 1;

/// Whether to walk a stack.
struct Visit {
    index: usize,
    /// It is new, or is to be verified.
    is_taken: bool,
    /// [`CHECK`] or 0.
    flags: u8,
}

/// Looks up a key among the places of a thread. A new one takes the place `next`.
#[inline(always)]
fn visit(places: &mut [StackPlace; PLACES], key: u64, next: usize) -> Visit {
    let mut index = PLACES;
    for (candidate, place) in places.iter().enumerate() {
        if place.key == key {
            index = candidate;
        }
    }
    if index == PLACES {
        let index = next & (PLACES - 1);
        places[index] = StackPlace { key, ..StackPlace::EMPTY };
        count(counter::WALKED, 1);
        return Visit { index, is_taken: true, flags: 0 };
    }
    let index = index & (PLACES - 1);
    places[index].uses += 1;
    let is_check = places[index].uses % u64::from(REUSES_PER_CHECK) == 0;
    count(counter::REUSED, 1);
    count(counter::WALKED, u64::from(is_check));
    Visit { index, is_taken: is_check, flags: if is_check { CHECK } else { 0 } }
}

/// Records whether a stack was sent. If not, a new place is cleared, and the next switch tries again. (Whether it
/// is new is read from the place: the verifier would track the flags of a visit and follow each walk many times.)
#[inline(always)]
fn settle(place: &mut StackPlace, is_sent: bool, time_ns: u64) {
    if is_sent {
        place.time_ns = time_ns;
        return;
    }
    count(counter::STACKS_LOST, 1);
    if place.time_ns == 0 {
        *place = StackPlace::EMPTY;
    }
}

/// Records where the current thread is as it goes off the CPU.
#[inline(always)]
pub fn enter(thread: &mut Thread, whose: Whose) {
    thread.kernel_place = NO_PLACE;
    let Some(user) = regs::of_current() else {
        thread.place = NO_PLACE;
        return;
    };
    let key = key_of(user);
    // A preempted thread is elsewhere each time. It uses the last place, so that it does not evict recurring ones.
    let is_preempted = thread.state == BlockState::Preempted as u8;
    let next = if is_preempted { PLACES - 1 } else { thread.next_place as usize };
    let visit = visit(&mut thread.users, key, next);
    if visit.index == next && !is_preempted {
        thread.next_place = if next + 1 >= PLACES - 1 { 0 } else { next as u8 + 1 };
    }
    thread.place = visit.index as u8;
    if !visit.is_taken {
        return;
    }
    let Some(record) = HalfRecord::half(RecordKind::UserStack, whose) else { return };
    record.walk_user(user, None);
    record.set_place(visit.index as u8, visit.flags);
    record.send_copy();
    let place = &mut thread.users[visit.index & (PLACES - 1)];
    settle(place, record.send(), whose.time_ns);
    if record.has_no_table() {
        // The next walk may be complete.
        place.key = 0;
    }
}

#[inline(always)]
fn key_of(user: UserRegs) -> u64 {
    let mut key = mix(mix(mix(SEED, user.ip), user.sp), user.bp);
    let Some(scratch) = SCRATCH.get_ptr_mut(scratch::WORDS) else { return key };
    let words: *mut u64 = scratch.cast();
    let size = NEAR_WORDS as u32 * 8;
    // SAFETY: the scratch memory is larger; the helper reads user memory, and zeroes the buffer on failure.
    let _ = unsafe { bpf_probe_read_user(words.cast(), size, user.sp as *const _) };
    for index in 0..NEAR_WORDS {
        // Volatile, or the compiler reads all words first, for which a BPF stack is too small. SAFETY: as above.
        let word = unsafe { words.add(index).read_volatile() };
        if word >= POINTERS_START {
            key = mix(key, word);
        }
    }
    // 0 marks an empty place.
    key | 1 << 63
}

/// Walks the kernel stack of a thread that is off the CPU, unless it is cached.
#[inline(always)]
pub fn take_kernel(thread: &mut Thread, task: Trusted, whose: Whose) {
    if thread.place == NEW_THREAD {
        return;
    }
    let Some(words) = KernelWords::read(task) else { return };
    let mut index = PLACES;
    for (candidate, place) in thread.kernels.iter().enumerate() {
        if place.key != 0 && words.key_at(place.offsets) == place.key {
            index = candidate;
        }
    }
    let mut flags = 0;
    if index < PLACES {
        let place = &mut thread.kernels[index & (PLACES - 1)];
        place.uses += 1;
        thread.kernel_place = index as u8;
        count(counter::REUSED, 1);
        if place.uses % u64::from(REUSES_PER_CHECK) != 0 {
            return;
        }
        flags = CHECK;
    } else {
        index = thread.next_kernel_place as usize & (PLACES - 1);
        thread.next_kernel_place = (index as u8 + 1) & (PLACES as u8 - 1);
        thread.kernel_place = index as u8;
        thread.kernels[index] = StackPlace::EMPTY;
    }
    count(counter::WALKED, 1);
    let Some(record) = HalfRecord::half(RecordKind::KernelStack, whose) else { return };
    let taken = record.append_kernel(|buffer| {
        // SAFETY: the verifier knows the task, and the buffer is in the scratch memory and has that size.
        unsafe { bpf_get_task_stack(task.0 as *mut _, buffer, KERNEL_FRAMES_MAX as u32 * 8, 0) }
    });
    record.set_place(index as u8, flags);
    let is_sent = taken.is_ok() && record.send();
    let place = &mut thread.kernels[index & (PLACES - 1)];
    if is_sent && let Some(offsets) = words.find() {
        place.offsets = offsets;
        place.key = words.key_at(offsets);
    }
    settle(place, is_sent, whose.time_ns);
}

/// The kernel stack of a thread that is off the CPU, from its stack pointer on.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct KernelWords(*mut u64);

impl KernelWords {
    #[inline(always)]
    fn read(task: Trusted) -> Option<Self> {
        let words: *mut u64 = SCRATCH.get_ptr_mut(scratch::WORDS)?.cast();
        if setting!(TASK_KERNEL_SP) != 0 {
            let sp: u64 = task.field(setting!(TASK_KERNEL_SP));
            let size = KERNEL_WORDS as u32 * 8;
            // SAFETY: the scratch memory is larger; the helper reads kernel memory, and zeroes the buffer on failure.
            let _ = unsafe { bpf_probe_read_kernel(words.cast(), size, sp as *const _) };
        }
        Some(Self(words))
    }

    /// Finds the positions of a stack's first return addresses, a byte each, the last in the lowest. If there are
    /// fewer, the first ones repeat. `None` if there are none. The stack is in the record under construction.
    #[inline(always)]
    fn find(self) -> Option<u64> {
        let found = find_returns(scratch::RECORD);
        // SAFETY: the scratch memory is larger.
        (found != 0).then(|| unsafe { self.0.add(KERNEL_WORDS).read_volatile() })
    }

    /// Hashes the words at the positions.
    #[inline(always)]
    fn key_at(self, offsets: u64) -> u64 {
        let mut key = 0;
        for number in 0..RETURNS {
            let offset = (offsets >> (8 * number)) as usize & (KERNEL_WORDS - 1);
            // SAFETY: the scratch memory is larger.
            key = mix(key, unsafe { self.0.add(offset).read_volatile() });
        }
        key | 1
    }
}

/// Finds the return addresses of the record in a part of the scratch memory among the words of the kernel stack, and
/// returns their number. Stores their positions behind the words. A global function, which the verifier checks once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn find_returns(part: u32) -> u64 {
    let (Some(words), Some(record)) =
        (SCRATCH.get_ptr_mut(scratch::WORDS), SCRATCH.get_ptr_mut(part))
    else {
        return 0;
    };
    let words: *mut u64 = words.cast();
    // SAFETY: the scratch memory is larger than a header and some frames, and than the words.
    unsafe {
        let frames: *const u64 = record.cast::<HalfHeader>().add(1).cast();
        // In memory, whose values the verifier does not track: it would follow each combination of hits.
        let (offsets, found) = (words.add(KERNEL_WORDS), words.add(KERNEL_WORDS + 1));
        offsets.write_volatile(0);
        found.write_volatile(0);
        for index in 0..KERNEL_WORDS {
            let before = found.read_volatile();
            let word = words.add(index).read_volatile();
            if before < RETURNS && word == frames.add(before as usize & 7).read_volatile() {
                let index = index as u64;
                offsets.write_volatile(match before {
                    0 => index * 0x0101_0101_0101_0101,
                    _ => offsets.read_volatile() << 8 | index,
                });
                found.write_volatile(before + 1);
            }
        }
        found.read_volatile()
    }
}

/// Walks the kernel stack of the current thread as it goes off the CPU, unless it is cached.
#[inline(always)]
pub fn take_kernel_now(thread: &mut Thread, ctx: *mut c_void, whose: Whose) {
    let Some(record) = HalfRecord::half(RecordKind::KernelStack, whose) else { return };
    if record.take_kernel(ctx).is_err() {
        return;
    }
    let key = record.hash_of_first_frames(SEED);
    let Some(visit) = visit_kernel(thread, key) else { return };
    record.set_place(visit.index as u8, visit.flags);
    let place = &mut thread.kernels[visit.index & (PLACES - 1)];
    settle(place, record.send(), whose.time_ns);
}

/// Looks up a kernel stack. `None` if it need not be walked.
#[inline(always)]
fn visit_kernel(thread: &mut Thread, key: u64) -> Option<Visit> {
    let next = thread.next_kernel_place as usize & (PLACES - 1);
    let visit = visit(&mut thread.kernels, key, next);
    if visit.flags & CHECK == 0 && visit.is_taken {
        thread.next_kernel_place = (next as u8 + 1) & (PLACES as u8 - 1);
    }
    thread.kernel_place = visit.index as u8;
    visit.is_taken.then_some(visit)
}

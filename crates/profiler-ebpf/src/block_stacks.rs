//! Stacks of threads that go off the CPU.
//!
//! Most threads block again and again with the same few stacks, so the last ones of each thread are cached in slots
//! by a key: a hash of the registers at kernel entry and of the pointers near the stack pointer, return addresses
//! among them. A stack is walked when its key is new, and one time in 64 to verify the match. The key of the kernel
//! part is a hash of its innermost return addresses, at the positions where they were, relative to the stack pointer.
//! The kernel stack pointer itself is no part of it, since each system call randomizes its offset.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::{
    bpf_get_task_stack, bpf_probe_read_kernel, bpf_probe_read_user,
};
use wingbeat_profiler_abi::{
    KERNEL_FRAMES_MAX, RecordKind, counter,
    off_cpu::{
        BlockState, CHECK, CachedStack, HalfHeader, NEW_THREAD, NO_SLOT, REUSES_PER_CHECK, SLOTS,
        Thread,
    },
};

use crate::{
    maps::{SCRATCH, count, scratch, setting},
    record::{HalfRecord, Origin, mix},
    regs::{self, UserRegs},
    task::{Task, Trusted},
};

/// Number of words near the stack pointer that are part of the key.
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
struct Lookup {
    index: usize,
    /// It is new, or is to be verified.
    must_walk: bool,
    /// [`CHECK`] or 0.
    flags: u8,
}

/// Looks up a key in the slots of a thread. A new one takes the slot `next`.
#[inline(always)]
fn look_up(slots: &mut [CachedStack; SLOTS], key: u64, next: usize) -> Lookup {
    let mut index = SLOTS;
    for (candidate, slot) in slots.iter().enumerate() {
        if slot.key == key {
            index = candidate;
        }
    }
    if index == SLOTS {
        let index = next & (SLOTS - 1);
        slots[index] = CachedStack { key, ..CachedStack::EMPTY };
        count(counter::WALKED, 1);
        return Lookup { index, must_walk: true, flags: 0 };
    }
    let index = index & (SLOTS - 1);
    slots[index].uses += 1;
    let is_check = slots[index].uses % u64::from(REUSES_PER_CHECK) == 0;
    count(counter::REUSED, 1);
    count(counter::WALKED, u64::from(is_check));
    Lookup { index, must_walk: is_check, flags: if is_check { CHECK } else { 0 } }
}

/// Records whether a stack was sent. If not, a new slot is cleared, and the next switch tries again. (Whether it is
/// new is read from the slot: the verifier would track the flags of a lookup and follow each walk many times.)
#[inline(always)]
fn note_outcome(slot: &mut CachedStack, is_sent: bool, time_ns: u64) {
    if is_sent {
        slot.time_ns = time_ns;
        return;
    }
    count(counter::STACKS_LOST, 1);
    if slot.time_ns == 0 {
        *slot = CachedStack::EMPTY;
    }
}

/// Walks the user stack of the current thread as it goes off the CPU, unless it is cached.
#[inline(always)]
pub fn walk_user(thread: &mut Thread, origin: Origin) {
    thread.kernel_slot = NO_SLOT;
    let Some(user) = regs::of_current() else {
        thread.slot = NO_SLOT;
        return;
    };
    let key = key_of(user);
    // A preempted thread is elsewhere each time. It uses the last slot, so that it does not evict recurring ones.
    let is_preempted = thread.state == BlockState::Preempted as u8;
    let next = if is_preempted { SLOTS - 1 } else { thread.next_slot as usize };
    let lookup = look_up(&mut thread.users, key, next);
    if lookup.index == next && !is_preempted {
        thread.next_slot = if next + 1 >= SLOTS - 1 { 0 } else { next as u8 + 1 };
    }
    thread.slot = lookup.index as u8;
    if !lookup.must_walk {
        return;
    }
    let Some(record) = HalfRecord::half(RecordKind::UserStack, origin) else { return };
    record.walk_user(user, None);
    record.set_slot(lookup.index as u8, lookup.flags);
    record.send_copy();
    let slot = &mut thread.users[lookup.index & (SLOTS - 1)];
    note_outcome(slot, record.send(), origin.time_ns);
    if record.has_no_table() {
        // The next walk may be complete.
        slot.key = 0;
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
    // 0 marks an empty slot.
    key | 1 << 63
}

/// Walks the kernel stack of a thread that is off the CPU, unless it is cached.
#[inline(always)]
pub fn walk_kernel(thread: &mut Thread, task: Trusted, origin: Origin) {
    if thread.slot == NEW_THREAD {
        return;
    }
    let Some(words) = KernelWords::read(task) else { return };
    let mut index = SLOTS;
    for (candidate, slot) in thread.kernels.iter().enumerate() {
        if slot.key != 0 && words.key_at(slot.offsets) == slot.key {
            index = candidate;
        }
    }
    let mut flags = 0;
    if index < SLOTS {
        let slot = &mut thread.kernels[index & (SLOTS - 1)];
        slot.uses += 1;
        thread.kernel_slot = index as u8;
        count(counter::REUSED, 1);
        if slot.uses % u64::from(REUSES_PER_CHECK) != 0 {
            return;
        }
        flags = CHECK;
    } else {
        index = thread.next_kernel_slot as usize & (SLOTS - 1);
        thread.next_kernel_slot = (index as u8 + 1) & (SLOTS as u8 - 1);
        thread.kernel_slot = index as u8;
        thread.kernels[index] = CachedStack::EMPTY;
    }
    count(counter::WALKED, 1);
    let Some(record) = HalfRecord::half(RecordKind::KernelStack, origin) else { return };
    let taken = record.append_kernel(|buffer| {
        // SAFETY: the verifier knows the task, and the buffer is in the scratch memory and has that size.
        unsafe { bpf_get_task_stack(task.0 as *mut _, buffer, KERNEL_FRAMES_MAX as u32 * 8, 0) }
    });
    record.set_slot(index as u8, flags);
    let is_sent = taken.is_ok() && record.send();
    let slot = &mut thread.kernels[index & (SLOTS - 1)];
    if is_sent && let Some(offsets) = words.find() {
        slot.offsets = offsets;
        slot.key = words.key_at(offsets);
    }
    note_outcome(slot, is_sent, origin.time_ns);
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
pub fn walk_own_kernel(thread: &mut Thread, ctx: *mut c_void, origin: Origin) {
    let Some(record) = HalfRecord::half(RecordKind::KernelStack, origin) else { return };
    if record.take_kernel(ctx).is_err() {
        return;
    }
    let key = record.hash_of_first_frames(SEED);
    let Some(lookup) = look_up_kernel(thread, key) else { return };
    record.set_slot(lookup.index as u8, lookup.flags);
    let slot = &mut thread.kernels[lookup.index & (SLOTS - 1)];
    note_outcome(slot, record.send(), origin.time_ns);
}

/// Looks up a kernel stack. `None` if it need not be walked.
#[inline(always)]
fn look_up_kernel(thread: &mut Thread, key: u64) -> Option<Lookup> {
    let next = thread.next_kernel_slot as usize & (SLOTS - 1);
    let lookup = look_up(&mut thread.kernels, key, next);
    if lookup.flags & CHECK == 0 && lookup.must_walk {
        thread.next_kernel_slot = (next as u8 + 1) & (SLOTS as u8 - 1);
    }
    thread.kernel_slot = lookup.index as u8;
    lookup.must_walk.then_some(lookup)
}

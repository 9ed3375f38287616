//! The stacks that a thread goes off the CPU with.
//!
//! Most threads block in the same few places, again and again. A place is told by the registers that
//! the thread entered the kernel with and by the pointers near its stack pointer, return addresses
//! among them; the stack is walked when a place is new, and one time in 64 to see whether the rule
//! holds. The kernel's part is told by the place, the depth of the kernel's stack and the return
//! addresses on it.

use aya_ebpf::helpers::generated::{bpf_get_task_stack, bpf_probe_read_kernel, bpf_probe_read_user};
use wingbeat_profile_common::{
    KERNEL_FRAMES_MAX, RecordKind, counter,
    off_cpu::{BlockState, CHECK, NO_PLACE, PLACES, Place, REUSES_PER_CHECK, Thread},
};

use crate::{
    maps::{SCRATCH, count, scratch, setting},
    record::{StackRecord, Whose},
    regs::{self, UserRegs},
    tail::mix,
    task::{Task, Trusted},
};

/// Words near the stack pointer that tell a place from others.
const NEAR_WORDS: usize = 16;
/// Smaller words are no pointers: counters on the stack change, and mean nothing here.
const POINTERS_START: u64 = 1 << 32;
/// Words of the kernel's stack that are looked at for return addresses.
const KERNEL_WORDS: usize = 64;
/// Where the kernel's code lies, modules included.
#[cfg(bpf_target_arch = "x86_64")]
const KERNEL_TEXT: u64 = 0xffff_ffff_8000_0000;
/// Where modules, and the kernel's code, lie at the earliest (Documentation/arch/arm64/memory.rst).
#[cfg(not(bpf_target_arch = "x86_64"))]
const KERNEL_TEXT: u64 = 0xffff_8000_0000_0000;

/// The place of threads that have no user stack.
const KERNEL_THREAD: u64 = 1;

/// Notes where the current thread is as it goes off the CPU. Gives whether its kernel stack is to be
/// checked, too.
#[inline(always)]
pub fn enter(thread: &mut Thread, whose: Whose) {
    let user = regs::of_current();
    let key = user.map_or(KERNEL_THREAD, key_of);
    let mut index = PLACES;
    for (candidate, place) in thread.places.iter().enumerate() {
        if place.user_key == key {
            index = candidate;
        }
    }
    let mut flags = 0;
    if index == PLACES {
        index = new_place(thread);
        let place = &mut thread.places[index & (PLACES - 1)];
        *place = Place { user_key: key, user_ns: 0, kernel_key: 0, kernel_ns: 0, uses: 0 };
    } else {
        let place = &mut thread.places[index & (PLACES - 1)];
        place.uses += 1;
        if place.uses % u64::from(REUSES_PER_CHECK) != 0 {
            thread.place = index as u8;
            count(counter::REUSED, 1);
            return;
        }
        flags = CHECK;
    }
    thread.place = index as u8;
    count(counter::WALKED, 1);
    let Some(user) = user else { return };
    let Some(record) = StackRecord::new(RecordKind::UserStack, whose) else { return };
    record.walk_user(user);
    record.set_cpu(index as u16 | flags);
    record.send_tail();
    record.add_near_words(user);
    let place = &mut thread.places[index & (PLACES - 1)];
    if record.send() {
        place.user_ns = whose.time_ns;
    } else {
        count(counter::STACKS_LOST, 1);
        // Not sent, so not known: the next time tries again.
        place.user_key = 0;
        place.user_ns = 0;
    }
}

/// The place that gives way to a new one. What is preempted is somewhere else each time, and shares
/// the last place, so that it leaves alone those that a thread comes back to.
#[inline(always)]
fn new_place(thread: &mut Thread) -> usize {
    if thread.state == BlockState::Preempted as u8 {
        return PLACES - 1;
    }
    let index = thread.next_place as usize;
    thread.next_place = if index + 1 >= PLACES - 1 { 0 } else { index as u8 + 1 };
    index
}

#[inline(always)]
fn key_of(user: UserRegs) -> u64 {
    let mut key = mix(mix(mix(KERNEL_THREAD, user.ip), user.sp), user.bp);
    let Some(scratch) = SCRATCH.get_ptr_mut(scratch::WORDS) else { return key };
    let words: *mut u64 = scratch.cast();
    let size = NEAR_WORDS as u32 * 8;
    // SAFETY: the scratch memory is larger; the helper reads user memory, and leaves zeroes when it
    // cannot.
    let _ = unsafe { bpf_probe_read_user(words.cast(), size, user.sp as *const _) };
    for index in 0..NEAR_WORDS {
        // Volatile, or the compiler reads all words first, for which a BPF stack has no room.
        // SAFETY: as above.
        let word = unsafe { words.add(index).read_volatile() };
        if word >= POINTERS_START {
            key = mix(key, word);
        }
    }
    // 0 is an empty place.
    key | 1 << 63
}

/// Takes the kernel stack of a thread that is off the CPU, unless the place had the same before.
#[inline(always)]
pub fn take_kernel(thread: &mut Thread, task: Trusted, whose: Whose) {
    if thread.place >= NO_PLACE {
        return;
    }
    let key = kernel_key(task);
    let index = thread.place;
    let place = &mut thread.places[index as usize & (PLACES - 1)];
    let is_check = place.uses != 0 && place.uses % u64::from(REUSES_PER_CHECK) == 0;
    let is_known = key != 0 && place.kernel_key == key;
    if is_known && !is_check {
        return;
    }
    let Some(record) = StackRecord::new(RecordKind::KernelStack, whose) else { return };
    let taken = record.append_kernel(|buffer| {
        // SAFETY: the task is one that the verifier knows, the buffer is in the scratch memory and has
        // that size.
        unsafe {
            bpf_get_task_stack(task.0 as *mut _, buffer, KERNEL_FRAMES_MAX as u32 * 8, 0)
        }
    });
    let flags = if is_known && is_check { CHECK } else { 0 };
    record.set_cpu(u16::from(index) | flags);
    keep_kernel(place, record, whose, taken.map(|()| key));
}

/// Takes the kernel stack of the current thread as it goes off the CPU, unless the place has the same.
#[inline(always)]
pub fn take_kernel_now(thread: &mut Thread, ctx: *mut core::ffi::c_void, whose: Whose) {
    if thread.place >= NO_PLACE {
        return;
    }
    let index = thread.place;
    let place = &mut thread.places[index as usize & (PLACES - 1)];
    let Some(record) = StackRecord::new(RecordKind::KernelStack, whose) else { return };
    let taken = record.take_kernel(ctx);
    let key = record.hash_of_first_frames(KERNEL_THREAD);
    if taken.is_ok() && place.kernel_key == key {
        return;
    }
    record.set_cpu(u16::from(index));
    keep_kernel(place, record, whose, taken.map(|()| key));
}

#[inline(always)]
fn keep_kernel(place: &mut Place, record: StackRecord, whose: Whose, key: Result<u64, u32>) {
    place.kernel_key = 0;
    place.kernel_ns = 0;
    let Ok(key) = key else { return };
    if record.send() {
        place.kernel_key = key;
        place.kernel_ns = whose.time_ns;
    } else {
        count(counter::STACKS_LOST, 1);
    }
}

/// A hash of the kernel stack of a thread that is off the CPU; 0 if it cannot be read.
#[inline(always)]
fn kernel_key(task: Trusted) -> u64 {
    if setting!(TASK_KERNEL_SP) == 0 {
        return 0;
    }
    let sp: u64 = task.field(setting!(TASK_KERNEL_SP));
    let Some(scratch) = SCRATCH.get_ptr_mut(scratch::WORDS) else { return 0 };
    let words: *mut u64 = scratch.cast();
    let size = KERNEL_WORDS as u32 * 8;
    // SAFETY: the scratch memory is larger; the helper reads kernel memory.
    if unsafe { bpf_probe_read_kernel(words.cast(), size, sp as *const _) } != 0 {
        return 0;
    }
    let mut key = mix(KERNEL_THREAD, sp);
    for index in 0..KERNEL_WORDS {
        // Volatile, or the compiler reads all words first, for which a BPF stack has no room.
        // SAFETY: as above.
        let word = unsafe { words.add(index).read_volatile() };
        if word >= KERNEL_TEXT {
            key = mix(key, word);
        }
    }
    key | 1
}

//! Walks user stacks along their frame pointers.
//!
//! The kernel's own walker (`bpf_get_stack`) gives addresses only, at most 127 of them, and does not
//! tell why it stopped. This one says where and why, so that user space can carry on from there by
//! the unwind tables: the functions of the C library below `main` keep no frame pointers.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::{bpf_loop, bpf_probe_read_user};
use wingbeat_profile_common::{StackHeader, Stop, USER_FRAMES_MAX};

use crate::{maps::setting, regs::UserRegs};

/// One past the highest address of user space: 2^47 on x86-64 with four-level page tables; with
/// five levels and on aarch64 stacks still lie below 2^52 unless a program asks for more.
const USER_END: u64 = 1 << 52;
/// The first page is never mapped.
const USER_START: u64 = 4096;
/// Callers lie above their callees; a pointer that leads down by less than this stays on the same
/// stack and is wrong. Further down may be another stack: that of a signal handler or a coroutine.
const SAME_STACK_BYTES: u64 = 1 << 20;

/// Frames taken where the kernel lacks `bpf_loop` (before 5.17): each turn of an ordinary loop is
/// verified apart, so they must be few.
const PLAIN_LOOP_FRAMES_MAX: usize = 127;

/// State of a walk.
#[repr(C)]
struct Walk {
    header: *mut StackHeader,
    frames: *mut u64,
    fp: u64,
}

/// Walks a stack and writes into `header` how many user frames there are, where and why it ended.
///
/// # Safety
///
/// `frames` points to room for [`USER_FRAMES_MAX`] words.
#[inline(always)]
pub unsafe fn walk(header: *mut StackHeader, frames: *mut u64, user: UserRegs) {
    // SAFETY: the caller's.
    unsafe {
        *frames = user.ip;
        (*header).user_frames = 1;
        (*header).stop_sp = user.sp;
        (*header).stop_bp = user.bp;
        (*header).stop = Stop::Depth as u8;
    }
    let mut walk = Walk { header, frames, fp: user.bp };
    if setting!(HAS_BPF_LOOP) != 0 {
        let turns = USER_FRAMES_MAX as u32 - 1;
        // SAFETY: calls `turn` with the index of the turn and the state, which outlives the loop.
        unsafe {
            bpf_loop(turns, turn as *const () as *mut c_void, (&raw mut walk).cast(), 0);
        }
    } else {
        for index in 0..PLAIN_LOOP_FRAMES_MAX as u32 - 1 {
            // SAFETY: as above.
            if unsafe { step(index, &mut walk) } != GO_ON {
                break;
            }
        }
    }
}

/// What a turn gives to go on, and to end the loop.
const GO_ON: i64 = 0;
const END: i64 = 1;

/// One turn of `bpf_loop`.
///
/// # Safety
///
/// `walk` points to a [`Walk`].
#[inline(never)]
unsafe extern "C" fn turn(index: u32, walk: *mut c_void) -> i64 {
    // SAFETY: the state that `walk` gave.
    unsafe { step(index, &mut *walk.cast::<Walk>()) }
}

/// Takes the caller of the frame found in the turn before. Results go to the header at once: what
/// lies in memory of a map is unknown to the verifier, which then need not tell apart the ways that
/// lead out of the loop.
///
/// # Safety
///
/// The pointers of `walk` are those that [`walk`] was given.
#[inline(always)]
unsafe fn step(index: u32, walk: &mut Walk) -> i64 {
    let depth = index as usize + 1;
    if depth >= USER_FRAMES_MAX {
        return END;
    }
    match caller(walk.fp) {
        Ok(Caller { return_address, next_fp }) => {
            // SAFETY: the state points to a header and to room for USER_FRAMES_MAX words.
            unsafe {
                *walk.frames.add(depth) = return_address;
                (*walk.header).user_frames = depth as u16 + 1;
                (*walk.header).stop_sp = walk.fp + 16;
                (*walk.header).stop_bp = next_fp;
            }
            walk.fp = next_fp;
            GO_ON
        }
        Err(stop) => {
            // SAFETY: as above.
            unsafe { (*walk.header).stop = stop as u8 };
            END
        }
    }
}

struct Caller {
    return_address: u64,
    next_fp: u64,
}

/// Reads the frame record at `fp`: the caller's frame pointer, then the return address. The layout
/// is the same on x86-64 and aarch64.
#[inline(always)]
fn caller(fp: u64) -> Result<Caller, Stop> {
    if fp == 0 {
        return Err(Stop::Zero);
    }
    if fp & 7 != 0 || fp < USER_START || fp >= USER_END {
        return Err(Stop::NotAFrame);
    }
    let mut record = [0u64; 2];
    // SAFETY: reads user memory into an array of that size; a bad address is an error, not a fault.
    if unsafe { bpf_probe_read_user(record.as_mut_ptr().cast(), 16, fp as *const _) } != 0 {
        return Err(Stop::Unreadable);
    }
    let [next_fp, return_address] = record;
    if return_address < USER_START || return_address >= USER_END {
        return Err(Stop::NotAReturn);
    }
    if next_fp <= fp && next_fp != 0 && fp - next_fp < SAME_STACK_BYTES {
        return Err(Stop::NotAFrame);
    }
    Ok(Caller { return_address, next_fp })
}

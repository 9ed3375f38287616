//! Walks user stacks along their frame pointers.
//!
//! The kernel's own walker (`bpf_get_stack`) gives addresses only, at most 127 of them, and does not
//! tell why it stopped. This one says where and why, so that user space can carry on from there by
//! the unwind tables: the functions of the C library below `main` keep no frame pointers.

use aya_ebpf::helpers::generated::bpf_probe_read_user;
use wingbeat_profile_common::{SampleHeader, Stop, USER_FRAMES_MAX};

use crate::regs::UserRegs;

/// One past the highest address of user space: 2^47 on x86-64 with four-level page tables; with
/// five levels and on aarch64 stacks still lie below 2^52 unless a program asks for more.
const USER_END: u64 = 1 << 52;
/// The first page is never mapped.
const USER_START: u64 = 4096;
/// Callers lie above their callees; a pointer that leads down by less than this stays on the same
/// stack and is wrong. Further down may be another stack: that of a signal handler or a coroutine.
const SAME_STACK_BYTES: u64 = 1 << 20;

/// Walks a stack and writes into `header` how many user frames there are, where and why it ended.
///
/// The results go through memory on purpose: a value in memory of a map is unknown to the verifier,
/// so each way out of the loop leads to the same state and the rest of the program is checked once,
/// not once per iteration.
///
/// # Safety
///
/// `frames` points to room for [`USER_FRAMES_MAX`] words.
#[inline(always)]
pub unsafe fn walk(header: *mut SampleHeader, frames: *mut u64, user: UserRegs) {
    // SAFETY: the caller's.
    unsafe {
        *frames = user.ip;
        (*header).user_frames = 1;
        (*header).stop_sp = user.sp;
        (*header).stop_bp = user.bp;
        (*header).stop = Stop::Depth as u8;
    }
    let mut fp = user.bp;
    for depth in 1..USER_FRAMES_MAX {
        match unsafe { caller(fp) } {
            Ok(Caller { return_address, next_fp }) => {
                // SAFETY: `depth` is below the size that the caller promised.
                unsafe {
                    *frames.add(depth) = return_address;
                    (*header).user_frames = depth as u16 + 1;
                    (*header).stop_sp = fp + 16;
                    (*header).stop_bp = next_fp;
                }
                fp = next_fp;
            }
            Err(stop) => {
                // SAFETY: the caller's.
                unsafe { (*header).stop = stop as u8 };
                return;
            }
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
unsafe fn caller(fp: u64) -> Result<Caller, Stop> {
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

//! Walks user stacks by unwind tables, with frame pointers for code without tables.
//!
//! The kernel's own walker (`bpf_get_stack`) uses frame pointers only, returns at most 127 addresses and gives no
//! reason for stopping. This one records where and why it stopped, so that user space can continue.

use aya_ebpf::{bindings::pt_regs, macros::map, maps::PerCpuArray};
use wingbeat_profiler_abi::{
    StackHeader, Stop, USER_FRAMES_MAX,
    off_cpu::HALF_HEADER_BYTES,
    unwind::{Frame, Problem, along_frame_pointer, caller, layout::CodeMapping, step},
    walk,
};

use crate::{
    maps::{SCRATCH, scratch, setting},
    regs::{self, UserRegs},
    table,
    window::Window,
};

/// A walk in progress. In a map value, as [`step`] requires.
#[repr(C)]
pub struct Walk {
    frame: Frame,
    /// The process's list of mappings: first index and count.
    pub first: u32,
    pub count: u32,
    /// The mapping found last.
    pub mapping: CodeMapping,
    window: Window,
    /// A [`Stop`]: why it stopped.
    stop: u32,
}

/// One per kind of program: a tick may interrupt another.
#[map]
static WALKS: PerCpuArray<Walk> = PerCpuArray::with_max_entries(scratch::COUNT, 0);

/// Walks a stack of a process into the record in this part of the scratch memory, behind its header of type
/// `Header`. Records the number of user frames, and where and why the walk stopped.
#[inline(always)]
pub fn walk<Header>(part: u32, user: UserRegs, registers: Option<&pt_regs>) {
    let (Some(walk), Some(record)) = (WALKS.get_ptr_mut(part), SCRATCH.get_ptr_mut(part)) else {
        return;
    };
    let header: *mut StackHeader = record.cast();
    let by_tables = setting!(WALK) != walk::FRAME_POINTERS;
    // SAFETY: live elements of per-CPU arrays, not used elsewhere meanwhile; the scratch memory holds the largest
    // record.
    unsafe {
        *record.cast::<Header>().add(1).cast() = user.ip;
        (*header).user_frames = 1;
        (*walk).stop = Stop::Depth as u32;
        (*walk).frame.begin(user.ip, user.sp, user.bp);
        (*walk).window.close();
        // At a system call the other registers are unchanged: `vfork` keeps its return address in one of them.
        let all = match registers {
            Some(registers) => regs::by_number(registers),
            None => regs::by_number(regs::saved()),
        };
        (*walk).frame.set_all(all);
        if by_tables {
            table::enter(walk, (*header).pid);
        }
    }
    climb(part, size_of::<Header>() as u32 / 8);
    // SAFETY: as above.
    unsafe {
        (*header).stop = (*walk).stop as u8;
        if (*header).stop != Stop::End as u8 && registers.is_none() && regs::is_memory_gone(user) {
            (*header).user_frames = 0;
            (*header).stop = Stop::NoStack as u8;
            return;
        }
        let frame = &(*walk).frame;
        (*header).stop_sp = frame.sp();
        (*header).stop_fp = frame.fp().unwrap_or(0);
        (*header).is_fp_lost = u8::from(frame.fp().is_none());
        (*header).is_interrupted = (frame.is_call ^ 1) as u8;
        (*header).beside = frame.beside();
    }
}

/// Headers are not longer than this.
const HEADER_WORDS_MASK: usize = 15;
const _: () = assert!(HALF_HEADER_BYTES / 8 <= HEADER_WORDS_MASK);

/// Walks from caller to caller, and appends each to the record in this part of the scratch memory, behind a header
/// of `header_words`.
///
/// A global function, like the next: the verifier checks them once, for any arguments, and not for each walk and
/// frame. (`bpf_loop`, since Linux 5.17, would do the same for frames.)
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn climb(part: u32, header_words: u32) -> u32 {
    let (Some(walk), Some(record)) = (WALKS.get_ptr_mut(part), SCRATCH.get_ptr_mut(part)) else {
        return 0;
    };
    let header: *mut StackHeader = record.cast();
    // Shows the verifier that this is small.
    let frames = header_words as usize & HEADER_WORDS_MASK;
    let mut depth = 1;
    while depth < USER_FRAMES_MAX && go_up(part) == FOUND {
        // SAFETY: live elements of per-CPU arrays, not used elsewhere meanwhile; a record holds USER_FRAMES_MAX
        // words behind each header.
        unsafe {
            *record.cast::<u64>().add(frames + depth) = (*walk).frame.return_address();
            depth += 1;
            (*header).user_frames = depth as u16;
        }
    }
    0
}

/// Return values of [`go_up`]: a caller was found, or the walk ended.
const FOUND: u32 = 0;
const NONE: u32 = 1;

/// Steps from the frame of a walk to its caller.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn go_up(part: u32) -> u32 {
    let Some(walk) = WALKS.get_ptr_mut(part) else { return NONE };
    // SAFETY: a live element of a per-CPU array, not used elsewhere meanwhile.
    let walk = unsafe { &mut *walk };
    let stop = match go_to_caller(walk) {
        Ok(true) => return FOUND,
        Ok(false) => Stop::End,
        Err(problem) => Stop::from(problem),
    };
    walk.stop = stop as u32;
    NONE
}

#[inline(always)]
fn go_to_caller(walk: &mut Walk) -> Result<bool, Problem> {
    if setting!(WALK) == walk::FRAME_POINTERS {
        return along_frame_pointer(&mut walk.frame, &mut walk.window);
    }
    let address = walk.frame.address();
    let rule = table::rule_at(walk, address)?;
    if setting!(WALK) == walk::AUTO {
        step(&mut walk.frame, rule, &mut walk.window)
    } else {
        caller(&mut walk.frame, rule, &mut walk.window)
    }
}

//! Walks user stacks: by unwind tables, and along frame pointers where code has none.
//!
//! The kernel's own walker (`bpf_get_stack`) knows frame pointers only, gives at most 127 addresses, and
//! does not tell why it stopped. This one says where and why, so that user space can carry on from there.

use core::ffi::c_void;

use aya_ebpf::{bindings::pt_regs, helpers::generated::bpf_loop, macros::map, maps::PerCpuArray};
use wingbeat_profile_common::{
    StackHeader, Stop, USER_FRAMES_MAX,
    unwind::{Frame, Problem, along_frame_pointer, caller, layout::CodeMapping, step},
    walk,
};

use crate::{
    maps::setting,
    regs::{self, UserRegs},
    table,
    window::Window,
};

/// Frames taken where the kernel lacks `bpf_loop` (before 5.17): each turn of an ordinary loop is
/// verified apart, so they must be few.
const PLAIN_LOOP_FRAMES_MAX: usize = 127;

/// A walk under way. It lies in memory of a map, as [`step`] wants it.
#[repr(C)]
pub struct Walk {
    frame: Frame,
    /// The list of mappings of the process: the first, and how many.
    pub first: u32,
    pub count: u32,
    /// The mapping that was found last.
    pub mapping: CodeMapping,
    window: Window,
}

/// One for each kind of program: a tick may come upon another.
#[map]
static WALKS: PerCpuArray<Walk> = PerCpuArray::with_max_entries(crate::maps::scratch::COUNT, 0);

/// What a turn works on.
#[repr(C)]
struct Turn {
    header: *mut StackHeader,
    frames: *mut u64,
    walk: *mut Walk,
}

/// Walks a stack of a process and writes into `header` how many user frames there are, where and why it
/// ended. `part` is that of the scratch memory.
///
/// # Safety
///
/// `frames` points to room for [`USER_FRAMES_MAX`] words.
#[inline(always)]
pub unsafe fn walk(
    part: u32,
    header: *mut StackHeader,
    frames: *mut u64,
    user: UserRegs,
    registers: Option<&pt_regs>,
) {
    let Some(walk) = WALKS.get_ptr_mut(part) else { return };
    let by_tables = setting!(WALK) != walk::FRAME_POINTERS;
    // SAFETY: a live element of a per-CPU array, and the caller's.
    unsafe {
        *frames = user.ip;
        (*header).user_frames = 1;
        (*header).stop = Stop::Depth as u8;
        (*walk).frame.begin(user.ip, user.sp, user.bp);
        (*walk).window.close();
        // What entered the kernel by a system call has not changed the others before: `vfork` keeps its
        // return address in one of them.
        let all = match registers {
            Some(registers) => regs::by_number(registers),
            None => regs::by_number(regs::saved()),
        };
        (*walk).frame.set_all(all);
        if by_tables {
            table::enter(walk, (*header).pid);
        }
    }
    let mut state = Turn { header, frames, walk };
    if setting!(HAS_BPF_LOOP) != 0 {
        let turns = USER_FRAMES_MAX as u32 - 1;
        // SAFETY: calls `turn` with the index of the turn and the state, which outlives the loop.
        unsafe {
            bpf_loop(turns, turn as *const () as *mut c_void, (&raw mut state).cast(), 0);
        }
    } else if !by_tables {
        for index in 0..PLAIN_LOOP_FRAMES_MAX as u32 - 1 {
            // SAFETY: as above.
            if unsafe { advance(index, &mut state) } != GO_ON {
                break;
            }
        }
    } else {
        // SAFETY: as above.
        unsafe { (*header).stop = Stop::NoTable as u8 };
    }
    // SAFETY: as above.
    unsafe {
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

/// What a turn of `bpf_loop` gives to go on, and to end the loop.
pub const GO_ON: i64 = 0;
pub const END: i64 = 1;

/// One turn of `bpf_loop`.
///
/// # Safety
///
/// `state` points to a [`Turn`].
#[inline(never)]
unsafe extern "C" fn turn(index: u32, state: *mut c_void) -> i64 {
    // SAFETY: the state that `walk` gave.
    unsafe { advance(index, &mut *state.cast::<Turn>()) }
}

/// Takes the caller of the frame found in the turn before.
///
/// # Safety
///
/// The pointers of `state` are those that [`walk`] was given.
#[inline(always)]
unsafe fn advance(index: u32, state: &mut Turn) -> i64 {
    let depth = index as usize + 1;
    if depth >= USER_FRAMES_MAX {
        return END;
    }
    // SAFETY: the state points to a header, a walk, and room for USER_FRAMES_MAX words.
    let (header, walk) = unsafe { (&mut *state.header, &mut *state.walk) };
    match go_to_caller(walk) {
        Ok(true) => {
            // SAFETY: as above.
            unsafe { *state.frames.add(depth) = walk.frame.return_address() };
            header.user_frames = depth as u16 + 1;
            GO_ON
        }
        Ok(false) => {
            header.stop = Stop::End as u8;
            END
        }
        Err(problem) => {
            header.stop = Stop::from(problem) as u8;
            END
        }
    }
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

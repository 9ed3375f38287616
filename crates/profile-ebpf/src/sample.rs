//! One tick: decide, walk, send, count.

use aya_ebpf::{
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP},
    helpers::{
        bpf_get_current_pid_tgid, bpf_get_smp_processor_id, bpf_ktime_get_ns,
        generated::{bpf_get_stack, bpf_probe_read_user, bpf_ringbuf_output},
    },
    macros::perf_event,
    programs::PerfEventContext,
};
use wingbeat_profile_common::{
    KERNEL_FRAMES_MAX, RECORD_BYTES_MAX, RecordKind, SAMPLE_HEADER_BYTES, SampleHeader, Stop,
    TAIL_CHECKS, USER_FRAMES_MAX, counter, ring_bytes, target,
};

use crate::{
    maps::{RECORDS, SCRATCH, Scratch, TARGETS, count, setting},
    regs::{Interrupted, UserRegs, interrupted},
    stack,
    tail::{self, Origin},
};

/// `ENOMEM`: the scratch memory is missing, which cannot be.
const ENOMEM: u32 = 12;

/// A tick of the cpu-clock.
#[perf_event]
pub fn sample(ctx: PerfEventContext) -> u32 {
    let id = bpf_get_current_pid_tgid();
    let (pid, tid) = ((id >> 32) as u32, id as u32);
    if pid == 0 {
        count(counter::IDLE, 1);
    } else if !is_target(pid) {
        count(counter::OTHER, 1);
    } else if let Some(scratch) = SCRATCH.get_ptr_mut(0) {
        take(&ctx, scratch, pid, tid);
    } else {
        count(counter::FAILED + ENOMEM, 1);
    }
    0
}

#[inline(always)]
fn is_target(pid: u32) -> bool {
    // SAFETY: a live element of the map.
    setting!(ALL) != 0 || matches!(unsafe { TARGETS.get(&pid) }, Some(&target::ACTIVE))
}

#[inline(always)]
fn take(ctx: &PerfEventContext, scratch: *mut Scratch, pid: u32, tid: u32) {
    let header: *mut SampleHeader = scratch.cast();
    // SAFETY: all pointers stay within the scratch memory, which holds the largest record.
    let frames: *mut u64 = unsafe { header.add(1) }.cast();
    // SAFETY: a helper without arguments.
    let time_ns = unsafe { bpf_ktime_get_ns() };
    unsafe {
        *header = SampleHeader {
            kind: RecordKind::Sample as u8,
            stop: Stop::KernelThread as u8,
            // SAFETY: a helper without arguments.
            cpu: bpf_get_smp_processor_id() as u16,
            user_frames: 0,
            kernel_frames: 0,
            pid,
            tid,
            time_ns,
            stop_sp: 0,
            stop_bp: 0,
            leaf: [0; 2],
            tail_checks: [0; TAIL_CHECKS],
        };
    }
    let in_kernel = match interrupted(ctx) {
        Interrupted::User(user) => {
            user_stack(header, frames, user);
            false
        }
        Interrupted::Kernel(user) => {
            user_stack(header, frames, user);
            true
        }
        Interrupted::KernelThread => true,
    };
    if in_kernel && let Err(errno) = kernel_stack(ctx, header, frames) {
        count(counter::FAILED + errno.min(counter::ERRNOS - 1), 1);
        return;
    }
    // SAFETY: as above.
    let (stop, sp) = unsafe { ((*header).stop, (*header).stop_sp) };
    if stop != Stop::Depth as u8 && stop != Stop::KernelThread as u8 {
        // Before the sample: whoever reads that one has its tail already.
        let checks = tail::check_and_send_once(Origin { pid, tid, time_ns, sp });
        // SAFETY: as above.
        unsafe { (*header).tail_checks = checks };
    }
    send(header);
}

#[inline(always)]
fn user_stack(header: *mut SampleHeader, frames: *mut u64, user: UserRegs) {
    // SAFETY: header and frames lie in the scratch memory; the helper reads user memory into an
    // array of that size, and leaves zeroes when it cannot.
    unsafe {
        let leaf = &raw mut (*header).leaf;
        let _ = bpf_probe_read_user(leaf.cast(), 16, user.sp as *const _);
        stack::walk(header, frames, user);
    }
}

/// Appends the kernel stack to the user frames.
#[inline(always)]
fn kernel_stack(
    ctx: &PerfEventContext,
    header: *mut SampleHeader,
    frames: *mut u64,
) -> Result<(), u32> {
    // SAFETY: the user frames are at most USER_FRAMES_MAX, and room for the kernel's follows.
    let got = unsafe {
        let user_frames = usize::from((*header).user_frames);
        if user_frames > USER_FRAMES_MAX {
            return Ok(());
        }
        bpf_get_stack(
            ctx.ctx.cast(),
            frames.add(user_frames).cast(),
            KERNEL_FRAMES_MAX as u32 * 8,
            0,
        )
    };
    if got < 0 {
        return Err(-got as u32);
    }
    // SAFETY: as above.
    unsafe { (*header).kernel_frames = (got as u64 / 8) as u16 };
    Ok(())
}

#[inline(always)]
fn send(header: *mut SampleHeader) {
    // SAFETY: the header lies in the scratch memory.
    let frames = unsafe { u64::from((*header).user_frames) + u64::from((*header).kernel_frames) };
    let size = SAMPLE_HEADER_BYTES as u64 + frames * 8;
    if size > RECORD_BYTES_MAX as u64 {
        return;
    }
    let flags = if RECORDS.query(u64::from(BPF_RB_AVAIL_DATA)) >= u64::from(setting!(WAKEUP_BYTES))
    {
        BPF_RB_FORCE_WAKEUP
    } else {
        BPF_RB_NO_WAKEUP
    };
    // SAFETY: the record lies in the scratch memory and has that size.
    let sent = unsafe {
        bpf_ringbuf_output(
            (&raw const RECORDS).cast_mut().cast(),
            header.cast(),
            size,
            u64::from(flags),
        )
    };
    if sent < 0 {
        count(counter::LOST, 1);
    } else {
        count(counter::SAMPLED, 1);
        count(counter::RECORD_BYTES, ring_bytes(size));
    }
}

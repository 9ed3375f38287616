//! Timer ticks and page faults.

use aya_ebpf::{
    EbpfContext as _,
    helpers::{bpf_get_current_pid_tgid, bpf_ktime_get_ns},
    macros::perf_event,
    programs::PerfEventContext,
};
use wingbeat_profiler_abi::{RecordKind, counter};

use crate::{
    maps::count,
    record::{Origin, SampleRecord},
    regs::{Interrupted, interrupted},
    task::{self, is_target},
};

/// `ENOMEM`: the scratch memory is missing, which cannot happen.
const ENOMEM: u32 = 12;

/// A tick of the cpu-clock.
#[perf_event]
pub fn sample(ctx: PerfEventContext) -> u32 {
    at(&ctx, RecordKind::Sample)
}

/// A sampled page fault.
#[perf_event]
pub fn fault(ctx: PerfEventContext) -> u32 {
    at(&ctx, RecordKind::Fault)
}

#[inline(always)]
fn at(ctx: &PerfEventContext, kind: RecordKind) -> u32 {
    let is_idle = bpf_get_current_pid_tgid() >> 32 == 0;
    let (pid, tid) = task::current_ids();
    if is_idle {
        count(counter::IDLE, 1);
    } else if !is_target(pid) {
        count(counter::OTHER, 1);
    } else if let Err(errno) = take(ctx, kind, pid, tid) {
        count(counter::FAILED + errno.min(counter::ERRNOS - 1), 1);
    }
    0
}

#[inline(always)]
fn take(ctx: &PerfEventContext, kind: RecordKind, pid: u32, tid: u32) -> Result<(), u32> {
    // SAFETY: a helper without arguments.
    let time_ns = unsafe { bpf_ktime_get_ns() };
    let record = SampleRecord::sample(kind, Origin { pid, tid, time_ns }).ok_or(ENOMEM)?;
    let in_kernel = match interrupted(ctx) {
        Interrupted::User(user, registers) => {
            record.walk_user(user, Some(registers));
            false
        }
        Interrupted::Kernel(user) => {
            record.walk_user(user, None);
            true
        }
        Interrupted::KernelThread => true,
    };
    if in_kernel {
        record.take_kernel(ctx.as_ptr())?;
    }
    record.send_copy();
    count(if record.send() { counter::SAMPLED } else { counter::LOST }, 1);
    Ok(())
}

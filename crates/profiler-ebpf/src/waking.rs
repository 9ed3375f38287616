//! Wakers of threads.

use aya_ebpf::{
    EbpfContext as _,
    helpers::{bpf_get_current_pid_tgid, bpf_ktime_get_ns},
    macros::raw_tracepoint,
    programs::RawTracePointContext,
};
use wingbeat_profiler_abi::{
    RecordKind, counter,
    off_cpu::{BlockState, OFF_CPU, OUTSIDE},
};

use crate::{
    hash::mix,
    maps::count,
    namespace,
    record::{HalfRecord, Whose},
    regs::{self, UserRegs},
    switch::known,
    task::{Probed, Task as _},
};

/// `sched_waking(task)`, in the context of the waker: a thread, or an interrupt on top of one.
#[raw_tracepoint(tracepoint = "sched_waking")]
pub fn on_waking(ctx: RawTracePointContext) -> i32 {
    let Some(thread) = known(Probed(ctx.arg(0)).tid()) else { return 0 };
    // A thread preempted on its way to sleep may be woken. It waits for a CPU and for no other thread.
    if thread.whereabouts != OFF_CPU || thread.state == BlockState::Preempted as u8 {
        return 0;
    }
    let (mut pid, mut tid) = namespace::current();
    let is_outside = namespace::is_nobody(tid) && bpf_get_current_pid_tgid() as u32 != 0;
    if is_outside {
        (pid, tid) = (OUTSIDE, OUTSIDE);
    }
    // SAFETY: a helper without arguments.
    let whose = Whose { pid, tid, time_ns: unsafe { bpf_ktime_get_ns() } };
    let Some(record) = HalfRecord::half(RecordKind::WakerKernel, whose) else { return 0 };
    // The memory layout of a process outside the namespace is unknown.
    let user = if is_outside { None } else { regs::of_current() };
    let mut key = mix(u64::from(tid) + 1, user.map_or(0, |user| user.ip));
    key = mix(key, user.map_or(0, |user| user.sp));
    if record.take_kernel(ctx.as_ptr()).is_ok() {
        key = record.hash_of_first_frames(key);
    }
    // The idle task has the number 0, which means no waker.
    thread.waker.tid = if tid == 0 { u32::MAX } else { tid };
    if thread.waker.key == key && thread.waker.stack_ns != 0 {
        return 0;
    }
    if record.send() && send_user(whose, user) {
        thread.waker.key = key;
        thread.waker.stack_ns = whose.time_ns;
    } else {
        count(counter::STACKS_LOST, 1);
        thread.waker.key = 0;
        thread.waker.stack_ns = 0;
    }
    0
}

/// Sends the user half of the current thread's stack. Returns false if the ring buffer is full.
#[inline(always)]
fn send_user(whose: Whose, user: Option<UserRegs>) -> bool {
    let Some(record) = HalfRecord::half(RecordKind::WakerUser, whose) else { return true };
    if let Some(user) = user {
        record.walk_user(user, None);
        record.send_copy();
    }
    record.send()
}

//! Switches that the kernel does not report.
//!
//! Some threads are followed by unreported switches: neither their leaving nor their successor is reported. The
//! gap is reconstructed from the scheduler's CPU time of each thread, which grows only while the thread runs.
//! These programs run before those of `switch`, which are large enough for the verifier without them.

use aya_ebpf::{
    helpers::bpf_ktime_get_ns,
    macros::{btf_tracepoint, raw_tracepoint},
    programs::{BtfTracePointContext, RawTracePointContext},
};
use wingbeat_profiler_abi::{
    counter,
    off_cpu::{BlockState, NO_SLOT, OFF_CPU, ON_CPU, Thread, UNSEEN, was_kept_away},
};

use crate::{
    maps::{LAST, count, is_watching, setting},
    switch::{come_back, known},
    task::{Probed, Task, Trusted},
};

/// `sched_switch(preempt, prev, next, prev_state)`, before `on_switch`.
#[btf_tracepoint(function = "sched_switch")]
pub fn on_missed(ctx: BtfTracePointContext) -> i32 {
    if is_watching() {
        correct(Trusted(ctx.arg(1)), Trusted(ctx.arg(2)));
    }
    0
}

/// Raw tracepoint variant, before `on_switch_raw`.
#[raw_tracepoint(tracepoint = "sched_switch")]
pub fn on_missed_raw(ctx: RawTracePointContext) -> i32 {
    if is_watching() {
        correct(Probed(ctx.arg(1)), Probed(ctx.arg(2)));
    }
    0
}

/// Brings the state of the two threads of a switch up to date.
#[inline(always)]
fn correct(prev: impl Task, next: impl Task) {
    let (prev_tid, next_tid) = (prev.tid(), next.tid());
    let is_expected = is_expected(prev_tid, next_tid);
    // SAFETY: a helper without arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    if prev_tid != 0
        && let Some(thread) = known(prev_tid)
    {
        let runtime_ns: u64 = prev.field(setting!(TASK_RUNTIME));
        let since_ns = thread.since_ns;
        if thread.whereabouts == ON_CPU && since_ns < now_ns {
            let ran_ns = ran_ns(thread, runtime_ns, now_ns);
            if !is_expected {
                // It came in just now but was on the CPU before, so it was away in between.
                went_unseen(thread, since_ns, BlockState::Sleeping);
            } else if was_kept_away(ran_ns, now_ns - since_ns - ran_ns) {
                // No other thread was seen on this CPU, yet this one did not run all the time.
                went_unseen(thread, since_ns, BlockState::Preempted);
            }
        }
        if thread.whereabouts == OFF_CPU {
            return_unseen(thread, prev_tid, runtime_ns, now_ns);
        }
    }
    if next_tid != 0
        && let Some(thread) = known(next_tid)
    {
        let runtime_ns: u64 = next.field(setting!(TASK_RUNTIME));
        let ran_ns = ran_ns(thread, runtime_ns, now_ns);
        if thread.whereabouts == ON_CPU {
            count(counter::RECONSTRUCTED, 1);
            thread.on_cpu_ns += ran_ns;
            thread.runtime_ns = runtime_ns;
            let left_ns = thread.since_ns + ran_ns;
            went_unseen(thread, left_ns, BlockState::Sleeping);
        } else if ran_ns > 0 {
            // It ran and left, both unseen.
            return_unseen(thread, next_tid, runtime_ns, now_ns);
        }
    }
}

/// Whether the previous thread is the one that came in last on this CPU. If not, a switch was not reported.
#[inline(always)]
fn is_expected(prev: u32, next: u32) -> bool {
    let Some(last) = LAST.get_ptr_mut(0) else { return true };
    // SAFETY: a live element of a per-CPU array, not used elsewhere during a switch.
    unsafe {
        let is_expected = *last == 0 || *last == u64::from(prev) + 1;
        *last = u64::from(next) + 1;
        is_expected
    }
}

/// Marks that a thread came back before now, since it has run since it left.
#[inline(always)]
pub fn return_unseen(thread: &mut Thread, tid: u32, runtime_ns: u64, now_ns: u64) {
    count(counter::RECONSTRUCTED, 1);
    let ran_ns = ran_ns(thread, runtime_ns, now_ns);
    come_back(thread, tid, now_ns - ran_ns, |_, _| {});
}

/// Time that a thread ran since it came in or left. At least the scheduler's runtime, which is exact for threads
/// that are not running and otherwise up to a tick behind.
#[inline(always)]
pub fn ran_ns(thread: &Thread, runtime_ns: u64, now_ns: u64) -> u64 {
    let elapsed_ns = now_ns.saturating_sub(thread.since_ns);
    runtime_ns.saturating_sub(thread.runtime_ns).min(elapsed_ns)
}

/// Records an unseen switch off the CPU. The state is a guess: most often, threads sleep.
#[inline(always)]
pub fn went_unseen(thread: &mut Thread, since_ns: u64, state: BlockState) {
    count(counter::SWITCHED_OUT, 1);
    thread.whereabouts = OFF_CPU;
    thread.since_ns = since_ns;
    thread.state = state as u8;
    thread.slot = UNSEEN;
    thread.kernel_slot = NO_SLOT;
    thread.waker.tid = 0;
}

/// Adds the time that a running thread ran since it came in.
#[inline(always)]
pub fn add_run(thread: &mut Thread, tid: u32, runtime_ns: u64, now_ns: u64) {
    if thread.whereabouts != ON_CPU {
        return_unseen(thread, tid, runtime_ns, now_ns);
    }
    thread.on_cpu_ns += now_ns.saturating_sub(thread.since_ns);
    thread.since_ns = now_ns;
    thread.runtime_ns = runtime_ns;
}

//! Switches that the kernel did not tell of.
//!
//! There are threads after which it tells of none: neither that they go, nor who comes in. What is
//! missing is reckoned from the CPU time that the scheduler counts for each thread, which grows while
//! the thread runs and at no other time. These programs run before those of `switch`, which are large
//! enough for the verifier without them.

use aya_ebpf::{
    helpers::bpf_ktime_get_ns,
    macros::{btf_tracepoint, raw_tracepoint},
    programs::{BtfTracePointContext, RawTracePointContext},
};
use wingbeat_profile_common::{
    counter,
    off_cpu::{BlockState, NO_PLACE, OFF_CPU, ON_CPU, Thread, UNSEEN, was_kept_away},
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

/// The same, before `on_switch_raw`.
#[raw_tracepoint(tracepoint = "sched_switch")]
pub fn on_missed_raw(ctx: RawTracePointContext) -> i32 {
    if is_watching() {
        correct(Probed(ctx.arg(1)), Probed(ctx.arg(2)));
    }
    0
}

/// Brings what is known of two threads up to the moment at which one goes and the other comes.
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
                // It came in just now and was on the CPU before: between the two it was away.
                went_unseen(thread, since_ns, BlockState::Sleeping);
            } else if was_kept_away(ran_ns, now_ns - since_ns - ran_ns) {
                // Nobody else was seen on this CPU, and yet it did not run all the time.
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
            count(counter::RECKONED, 1);
            thread.on_cpu_ns += ran_ns;
            thread.runtime_ns = runtime_ns;
            let left_ns = thread.since_ns + ran_ns;
            went_unseen(thread, left_ns, BlockState::Sleeping);
        } else if ran_ns > 0 {
            // It was here and went again, unseen both times.
            return_unseen(thread, next_tid, runtime_ns, now_ns);
        }
    }
}

/// Is the thread that goes the one that came in last on this CPU? If not, a switch was not told.
#[inline(always)]
fn is_expected(prev: u32, next: u32) -> bool {
    let Some(last) = LAST.get_ptr_mut(0) else { return true };
    // SAFETY: a live element of a per-CPU array, which nobody else uses during a switch.
    unsafe {
        let is_expected = *last == 0 || *last == u64::from(prev) + 1;
        *last = u64::from(next) + 1;
        is_expected
    }
}

/// A thread must have come back before now, for it has run since it went.
#[inline(always)]
pub fn return_unseen(thread: &mut Thread, tid: u32, runtime_ns: u64, now_ns: u64) {
    count(counter::RECKONED, 1);
    let ran_ns = ran_ns(thread, runtime_ns, now_ns);
    come_back(thread, tid, now_ns - ran_ns, |_, _| {});
}

/// What a thread has run since it came in, or went: at least by the scheduler's account, which is
/// exact for threads that do not run, and else up to a tick behind.
#[inline(always)]
pub fn ran_ns(thread: &Thread, runtime_ns: u64, now_ns: u64) -> u64 {
    let elapsed_ns = now_ns.saturating_sub(thread.since_ns);
    runtime_ns.saturating_sub(thread.runtime_ns).min(elapsed_ns)
}

/// Notes that a thread went off the CPU at some time, and that nobody saw it. The state is a guess:
/// sleeping is what threads do most.
#[inline(always)]
pub fn went_unseen(thread: &mut Thread, since_ns: u64, state: BlockState) {
    count(counter::SWITCHED_OUT, 1);
    thread.whereabouts = OFF_CPU;
    thread.since_ns = since_ns;
    thread.state = state as u8;
    thread.place = UNSEEN;
    thread.kernel_place = NO_PLACE;
    thread.waker.tid = 0;
}

/// Adds the time that a thread, which is running now, has run since it came in.
#[inline(always)]
pub fn add_run(thread: &mut Thread, tid: u32, runtime_ns: u64, now_ns: u64) {
    if thread.whereabouts != ON_CPU {
        return_unseen(thread, tid, runtime_ns, now_ns);
    }
    thread.on_cpu_ns += now_ns.saturating_sub(thread.since_ns);
    thread.since_ns = now_ns;
    thread.runtime_ns = runtime_ns;
}

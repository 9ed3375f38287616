//! Keeps the table of targets.

use aya_ebpf::{helpers::bpf_ktime_get_ns, macros::raw_tracepoint, programs::RawTracePointContext};
use wingbeat_profile_common::{
    counter,
    off_cpu::{BlockState, ENDED, OFF_CPU},
    target,
};

use crate::{
    maps::{EXITS, TAILS, TARGETS, THREADS, count, setting},
    switch,
    task::{Probed, Task as _},
};

/// Is a process to be looked at?
#[inline(always)]
pub fn is_target(pid: u32) -> bool {
    // SAFETY: a live element of the map.
    setting!(ALL) != 0 || matches!(unsafe { TARGETS.get(&pid) }, Some(&target::ACTIVE))
}

/// Is a process a target, or about to become one?
#[inline(always)]
fn is_in_table(pid: u32) -> bool {
    // SAFETY: a live element of the map.
    unsafe { TARGETS.get(&pid) }.is_some()
}

/// `sched_process_fork(parent, child)`: a new process or thread.
#[raw_tracepoint]
pub fn on_fork(ctx: RawTracePointContext) -> i32 {
    let (parent, child) = (Probed(ctx.arg(0)), Probed(ctx.arg(1)));
    if child.pid() != parent.pid() {
        follow(parent.pid(), child.pid());
    }
    if setting!(BLOCKS) != 0 && is_target(child.pid()) {
        // It waits for its first CPU.
        // SAFETY: a helper without arguments.
        let now_ns = unsafe { bpf_ktime_get_ns() };
        let state = Some(BlockState::Preempted);
        let is_in = switch::insert(child, now_ns, state);
        count(if is_in { counter::BORN } else { counter::UNTRACKED }, 1);
    }
    0
}

/// A child joins its parent.
#[inline(always)]
fn follow(parent_pid: u32, child_pid: u32) {
    let launched = setting!(LAUNCHER) != 0 && parent_pid == setting!(LAUNCHER);
    let state = if launched {
        target::BEFORE_EXEC
    } else if setting!(INHERIT) != 0 {
        // SAFETY: a live element of the map.
        match unsafe { TARGETS.get(&parent_pid) } {
            Some(&state) => state,
            None => return,
        }
    } else {
        return;
    };
    if TARGETS.insert(&child_pid, &state, 0).is_err() {
        count(counter::CHILDREN_LOST, 1);
    }
}

/// `sched_process_exec(task, old_pid, bprm)`: a launched command becomes itself.
#[raw_tracepoint]
pub fn on_exec(ctx: RawTracePointContext) -> i32 {
    let task = Probed(ctx.arg(0));
    let (tid, pid) = (task.tid(), task.pid());
    // Another program, another stack.
    let _ = TAILS.remove(&tid);
    if let Some(target) = TARGETS.get_ptr_mut(&pid) {
        // SAFETY: a live element of the map.
        unsafe { *target = target::ACTIVE };
    }
    if setting!(BLOCKS) != 0 && is_target(pid) {
        // Another program, another account.
        // SAFETY: a helper without arguments.
        let now_ns = unsafe { bpf_ktime_get_ns() };
        if let Some(thread) = switch::known(tid) {
            switch::add_run(thread, tid, task.field(setting!(TASK_RUNTIME)), now_ns);
            switch::end(thread, tid, now_ns);
        }
        if !switch::insert(task, now_ns, None) {
            count(counter::UNTRACKED, 1);
        }
    }
    0
}

/// `sched_process_exit(task)`: a thread begins to end.
#[raw_tracepoint]
pub fn on_exit(ctx: RawTracePointContext) -> i32 {
    let task = Probed(ctx.arg(0));
    if is_in_table(task.pid()) {
        let cpu_ns: u64 = task.field(setting!(TASK_RUNTIME));
        count(counter::EXITED_CPU_NS, cpu_ns);
        // A failure means that the time of its end is not counted.
        let _ = EXITS.insert(&task.tid(), &cpu_ns, 0);
    }
    0
}

/// `sched_process_free(task)`: a task was reaped, its number may be used again. What it used since
/// it began to end, taking down its memory above all, is known by now.
#[raw_tracepoint]
pub fn on_free(ctx: RawTracePointContext) -> i32 {
    let task = Probed(ctx.arg(0));
    let (tid, pid) = (task.tid(), task.pid());
    // SAFETY: a live element of the map.
    if let Some(&before_ns) = unsafe { EXITS.get(&tid) } {
        let cpu_ns: u64 = task.field(setting!(TASK_RUNTIME));
        count(counter::EXITED_CPU_NS, cpu_ns.saturating_sub(before_ns));
        let _ = EXITS.remove(&tid);
    }
    let _ = TAILS.remove(&tid);
    if setting!(BLOCKS) != 0
        && let Some(thread) = switch::known(tid)
        && thread.whereabouts != ENDED
    {
        // Its last switch was not seen.
        if thread.whereabouts == OFF_CPU {
            count(counter::GONE, 1);
        }
        let _ = THREADS.remove(&tid);
    }
    if tid == pid {
        let _ = TARGETS.remove(&pid);
    }
    0
}

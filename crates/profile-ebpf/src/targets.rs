//! Keeps the table of targets.

use aya_ebpf::{
    helpers::bpf_probe_read_kernel, macros::raw_tracepoint, programs::RawTracePointContext,
};
use wingbeat_profile_common::{counter, target};

use crate::maps::{EXITS, TAILS, TARGETS, count, setting};

/// Thread and process of a `task_struct`.
struct Task {
    tid: u32,
    pid: u32,
}

/// Reads a field of a task; 0 if that fails, which no live task has in the fields read here.
#[inline(always)]
fn field<T: Default>(task: *const u8, offset: u32) -> T {
    // SAFETY: a read by helper: a bad address is an error, not a fault.
    unsafe { bpf_probe_read_kernel(task.add(offset as usize).cast()) }.unwrap_or_default()
}

#[inline(always)]
fn task(task: *const u8) -> Task {
    Task { tid: field(task, setting!(TASK_PID)), pid: field(task, setting!(TASK_TGID)) }
}

#[inline(always)]
fn is_target(pid: u32) -> bool {
    // SAFETY: a live element of the map.
    unsafe { TARGETS.get(&pid) }.is_some()
}

/// `sched_process_fork(parent, child)`: a new process or thread.
#[raw_tracepoint]
pub fn on_fork(ctx: RawTracePointContext) -> i32 {
    let parent = task(ctx.arg(0));
    let child = task(ctx.arg(1));
    if child.pid == parent.pid {
        return 0;
    }
    let launched = setting!(LAUNCHER) != 0 && parent.pid == setting!(LAUNCHER);
    let state = if launched {
        target::BEFORE_EXEC
    } else if setting!(INHERIT) != 0 {
        // SAFETY: a live element of the map.
        match unsafe { TARGETS.get(&parent.pid) } {
            Some(&state) => state,
            None => return 0,
        }
    } else {
        return 0;
    };
    if TARGETS.insert(&child.pid, &state, 0).is_err() {
        count(counter::CHILDREN_LOST, 1);
    }
    0
}

/// `sched_process_exec(task, old_pid, bprm)`: a launched command becomes itself.
#[raw_tracepoint]
pub fn on_exec(ctx: RawTracePointContext) -> i32 {
    let task = task(ctx.arg(0));
    // Another program, another stack.
    let _ = TAILS.remove(&task.tid);
    if let Some(target) = TARGETS.get_ptr_mut(&task.pid) {
        // SAFETY: a live element of the map.
        unsafe { *target = target::ACTIVE };
    }
    0
}

/// `sched_process_exit(task)`: a thread begins to end.
#[raw_tracepoint]
pub fn on_exit(ctx: RawTracePointContext) -> i32 {
    let pointer: *const u8 = ctx.arg(0);
    let task = task(pointer);
    if is_target(task.pid) {
        let cpu_ns: u64 = field(pointer, setting!(TASK_RUNTIME));
        count(counter::EXITED_CPU_NS, cpu_ns);
        // A failure means that the time of its end is not counted.
        let _ = EXITS.insert(&task.tid, &cpu_ns, 0);
    }
    0
}

/// `sched_process_free(task)`: a task was reaped, its number may be used again. What it used since
/// it began to end, taking down its memory above all, is known by now.
#[raw_tracepoint]
pub fn on_free(ctx: RawTracePointContext) -> i32 {
    let pointer: *const u8 = ctx.arg(0);
    let task = task(pointer);
    // SAFETY: a live element of the map.
    if let Some(&before_ns) = unsafe { EXITS.get(&task.tid) } {
        let cpu_ns: u64 = field(pointer, setting!(TASK_RUNTIME));
        count(counter::EXITED_CPU_NS, cpu_ns.saturating_sub(before_ns));
        let _ = EXITS.remove(&task.tid);
    }
    let _ = TAILS.remove(&task.tid);
    if task.tid == task.pid {
        let _ = TARGETS.remove(&task.pid);
    }
    0
}

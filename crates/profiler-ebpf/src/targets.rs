//! Maintains the table of targets.

use aya_ebpf::{
    bindings::{BPF_ANY, BPF_NOEXIST},
    helpers::bpf_ktime_get_ns,
    macros::raw_tracepoint,
    programs::RawTracePointContext,
};
use wingbeat_profiler_abi::{
    counter,
    off_cpu::{BlockState, CachedStack, ENDED, OFF_CPU, ON_CPU, SLOTS, Thread},
    target,
};

use crate::{
    maps::{EXITS, TARGETS, count, is_watching, setting},
    stack, switch, synthesized_switches,
    task::{self, Probed, Task as _, is_target, without_preemption},
};

/// Whether a process is a target or about to become one.
#[inline(always)]
fn is_in_table(pid: u32) -> bool {
    // With `--all`, separates the CPU time of the PID namespace from that of the machine.
    if setting!(NAMESPACED) != 0 && setting!(ALL) != 0 {
        return !task::is_nobody(pid);
    }
    // SAFETY: a live element of the map.
    unsafe { TARGETS.get(&pid) }.is_some()
}

/// `sched_process_fork(parent, child)`: a new process or thread.
#[raw_tracepoint]
pub fn on_fork(ctx: RawTracePointContext) -> i32 {
    without_preemption(|| {
        let (parent, child) = (Probed(ctx.arg(0)), Probed(ctx.arg(1)));
        if child.pid() != parent.pid() {
            follow(parent.pid(), child.pid());
            stack::process_forked(parent.pid(), child.pid());
        }
        if is_watching() && is_target(child.pid()) {
            let tid = child.tid();
            if let Some(earlier) = switch::known(tid) {
                // A thread with the same number has exited, and the ring buffer was too full to report it.
                let ended_ns = earlier.since_ns;
                switch::end(earlier, tid, ended_ns, false);
            }
            // It waits for its first CPU.
            // SAFETY: a helper without arguments.
            let now_ns = unsafe { bpf_ktime_get_ns() };
            let state = Some(BlockState::Preempted);
            let is_in = switch::insert(child, now_ns, state, BPF_ANY);
            count(if is_in { counter::BORN } else { counter::UNTRACKED }, 1);
        }
    });
    0
}

/// Makes a child a target like its parent.
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

/// `sched_process_exec(task, old_pid, bprm)`: a launched command starts its own program.
#[raw_tracepoint]
pub fn on_exec(ctx: RawTracePointContext) -> i32 {
    without_preemption(|| {
        let task = Probed(ctx.arg(0));
        let (tid, pid) = (task.tid(), task.pid());
        stack::process_execed(pid);
        if let Some(target) = TARGETS.get_ptr_mut(&pid) {
            // SAFETY: a live element of the map.
            unsafe { *target = target::ACTIVE };
        }
        if is_watching() && is_target(pid) {
            begin_anew(task, tid, task::noted_number(ctx.arg(1), tid));
        }
    });
    0
}

/// Starts a new account for a new program. A thread that is not the first of its process takes over the number of
/// the first, which has ended. Its own was `old_tid`.
#[inline(always)]
fn begin_anew(task: Probed, tid: u32, old_tid: u32) {
    // SAFETY: a helper without arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let runtime_ns: u64 = task.field(setting!(TASK_RUNTIME));
    if old_tid != tid
        && let Some(thread) = switch::known(old_tid)
    {
        // If it switched under its new number, that switch began the account.
        let until_ns = switch::known(tid).map_or(now_ns, |thread| thread.begun_ns);
        synthesized_switches::add_run(thread, old_tid, runtime_ns, until_ns);
        switch::end(thread, old_tid, until_ns, false);
    }
    if let Some(thread) = switch::known(tid) {
        synthesized_switches::add_run(thread, tid, runtime_ns, now_ns);
        if !switch::end(thread, tid, now_ns, true) {
            // The ring buffer was full: one account for both programs is better than none.
            thread.whereabouts = ON_CPU;
            thread.users = [CachedStack::EMPTY; SLOTS];
            thread.kernels = [CachedStack::EMPTY; SLOTS];
            return;
        }
    }
    if !switch::insert(task, now_ns, None, BPF_NOEXIST) {
        count(counter::UNTRACKED, 1);
    }
}

/// `sched_process_exit(task)`: a thread begins to exit.
#[raw_tracepoint]
pub fn on_exit(ctx: RawTracePointContext) -> i32 {
    without_preemption(|| {
        let task = Probed(ctx.arg(0));
        let tid = task.tid();
        task::note_number(task, tid);
        if is_watching()
            && let Some(thread) = switch::known(tid)
            && thread.whereabouts == OFF_CPU
        {
            // It is running, and its return was not seen.
            // SAFETY: a helper without arguments.
            let now_ns = unsafe { bpf_ktime_get_ns() };
            synthesized_switches::add_run(thread, tid, task.field(setting!(TASK_RUNTIME)), now_ns);
        }
        if is_in_table(task.pid()) {
            let cpu_ns: u64 = task.field(setting!(TASK_RUNTIME));
            count(counter::EXITED_CPU_NS, cpu_ns);
            // On failure, the CPU time of its exit is not counted.
            let _ = EXITS.insert(&tid, &cpu_ns, 0);
        }
    });
    0
}

/// `sched_process_free(task)`: a task was reaped, and its number may be reused. By now, the CPU time since it
/// began to exit is known, most of it for freeing its memory.
#[raw_tracepoint]
pub fn on_free(ctx: RawTracePointContext) -> i32 {
    without_preemption(|| {
        let task = Probed(ctx.arg(0));
        let (tid, pid) = (task.tid(), task.pid());
        task::forget_number(task);
        if task::is_nobody(tid) {
            return;
        }
        // SAFETY: a live element of the map.
        if let Some(&before_ns) = unsafe { EXITS.get(&tid) } {
            let cpu_ns: u64 = task.field(setting!(TASK_RUNTIME));
            count(counter::EXITED_CPU_NS, cpu_ns.saturating_sub(before_ns));
            let _ = EXITS.remove(&tid);
        }
        if is_watching()
            && let Some(thread) = switch::known(tid)
            && thread.whereabouts != ENDED
        {
            end_unseen(thread, tid, task.field(setting!(TASK_RUNTIME)));
        }
        if tid == pid {
            stack::process_gone(pid);
            let _ = TARGETS.remove(&pid);
        }
    });
    0
}

/// Closes the account of a thread whose last switch was not seen.
#[inline(always)]
fn end_unseen(thread: &mut Thread, tid: u32, runtime_ns: u64) {
    if thread.whereabouts == OFF_CPU {
        count(counter::GONE, 1);
    } else {
        count(counter::RECONSTRUCTED, 1);
        count(counter::SWITCHED_OUT, 1);
        count(counter::ENDED, 1);
    }
    // SAFETY: a helper without arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let ran_ns = synthesized_switches::ran_ns(thread, runtime_ns, now_ns);
    thread.on_cpu_ns += ran_ns;
    let end_ns = thread.since_ns + ran_ns;
    switch::end(thread, tid, end_ns, false);
}

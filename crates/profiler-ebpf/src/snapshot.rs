//! Threads that are off the CPU when a recording begins and ends. Those that stay off the CPU in between cause no
//! switch.

use aya_ebpf::{bindings::BPF_NOEXIST, helpers::bpf_ktime_get_ns};
use wingbeat_profiler_abi::{
    RecordKind, counter,
    off_cpu::{BlockState, ENDED, NO_SLOT, OFF_CPU, ON_CPU, REMOTE, Thread, UNSEEN, was_away},
};

use crate::{
    block_stacks,
    maps::{count, scratch, setting},
    record::{HalfRecord, Origin},
    regs, switch, synthesized_switches,
    task::{TASK_DEAD, TASK_NEW, Task as _, Trusted, is_target},
};

/// `struct bpf_iter__task` of kernel/bpf/task_iter.c.
#[repr(C)]
pub struct TaskIter {
    meta: *const u8,
    task: *const u8,
}

/// Adds the existing threads of targets.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
pub extern "C" fn on_begin(ctx: *const TaskIter) -> i32 {
    // SAFETY: the context of a task iterator; the task is null at the end.
    let pointer = unsafe { (*ctx).task };
    if pointer.is_null() {
        return 0;
    }
    let task = Trusted(pointer);
    let (tid, pid) = (task.tid(), task.pid());
    if tid == 0 || !is_target(pid) || switch::known(tid).is_some() {
        return 0;
    }
    // SAFETY: a helper without arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let on_cpu = task.number(setting!(TASK_ON_CPU));
    let state = task.number(setting!(TASK_STATE));
    // Dead threads are gone. New ones are added by `on_fork` or at their first switch.
    if on_cpu == 0 && state & (TASK_DEAD | TASK_NEW) != 0 {
        return 0;
    }
    let out = (on_cpu == 0).then(|| task.block_state(state));
    if !switch::insert_by(scratch::WALK, task, now_ns, out, BPF_NOEXIST) {
        // A switch may have added it first.
        if switch::known(tid).is_none() {
            count(counter::UNTRACKED, 1);
        }
        return 0;
    }
    if out.is_none() {
        return 0;
    }
    count(counter::BEGUN_BEFORE, 1);
    let Some(thread) = switch::known(tid) else { return 0 };
    note_registers(thread, task, Origin { pid, tid, time_ns: now_ns });
    0
}

/// Stores the registers of a thread that is off the CPU and whose stack was not walked.
#[inline(always)]
fn note_registers(thread: &mut Thread, task: Trusted, origin: Origin) {
    // SAFETY: a task that the verifier knows.
    let Some(user) = (unsafe { regs::of_task(task.0 as *mut _) }) else {
        thread.slot = NO_SLOT;
        return;
    };
    thread.slot = 0;
    thread.users[0].key = 0;
    thread.users[0].time_ns = 0;
    let Some(record) = HalfRecord::half_in(scratch::WALK, RecordKind::UserStack, origin) else {
        return;
    };
    record.note_user(user);
    record.set_slot(0, REMOTE);
    if record.send() {
        thread.users[0].time_ns = origin.time_ns;
    } else {
        count(counter::STACKS_LOST, 1);
    }
}

/// Closes the accounts of all threads: walks the kernel stacks of those off the CPU, and reconstructs unseen switches.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
pub extern "C" fn on_finish(ctx: *const TaskIter) -> i32 {
    // SAFETY: the context of a task iterator; the task is null at the end.
    let pointer = unsafe { (*ctx).task };
    if pointer.is_null() {
        return 0;
    }
    let task = Trusted(pointer);
    let tid = task.tid();
    let Some(thread) = switch::known(tid) else { return 0 };
    if thread.whereabouts == ENDED {
        return 0;
    }
    thread.is_final = 1;
    // SAFETY: a helper without arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let origin = Origin { pid: thread.pid, tid, time_ns: now_ns };
    let on_cpu = task.number(setting!(TASK_ON_CPU));
    correct(thread, task, tid, on_cpu != 0, now_ns);
    if thread.whereabouts == OFF_CPU {
        if thread.slot == UNSEEN {
            note_registers(thread, task, origin);
        }
        block_stacks::walk_kernel(thread, task, origin);
    }
    0
}

/// Corrects whether a thread is on a CPU.
#[inline(always)]
fn correct(thread: &mut Thread, task: Trusted, tid: u32, is_running: bool, now_ns: u64) {
    let runtime_ns: u64 = task.field(setting!(TASK_RUNTIME));
    let ran_ns = synthesized_switches::ran_ns(thread, runtime_ns, now_ns);
    let gap_ns = now_ns.saturating_sub(thread.since_ns) - ran_ns;
    let is_on = thread.whereabouts == ON_CPU;
    if is_on && is_running && !was_away(ran_ns, gap_ns) {
        return;
    }
    if !is_on && !is_running && ran_ns == 0 {
        return;
    }
    count(counter::RECONSTRUCTED, 1);
    if is_running {
        if is_on {
            // It was away in between.
            let since_ns = thread.since_ns;
            synthesized_switches::went_unseen(thread, since_ns, BlockState::Sleeping);
        }
        switch::come_back(thread, tid, now_ns - ran_ns, |_, _| {});
        return;
    }
    if !is_on {
        // It ran in between.
        let since_ns = thread.since_ns;
        switch::come_back(thread, tid, since_ns, |_, _| {});
    }
    thread.on_cpu_ns += ran_ns;
    thread.runtime_ns = runtime_ns;
    let left_ns = thread.since_ns + ran_ns;
    synthesized_switches::went_unseen(thread, left_ns, BlockState::Sleeping);
    let state = task.number(setting!(TASK_STATE));
    if state & TASK_DEAD != 0 {
        count(counter::ENDED, 1);
        thread.whereabouts = ENDED;
        return;
    }
    thread.state = task.block_state(state) as u8;
}

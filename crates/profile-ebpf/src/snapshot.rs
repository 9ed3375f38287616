//! The threads that are off the CPU when a recording begins, and when it ends: of those that do not
//! move in between no switch tells.

use aya_ebpf::helpers::bpf_ktime_get_ns;
use wingbeat_profile_common::{
    RecordKind, counter,
    off_cpu::{NO_PLACE, OFF_CPU, REMOTE},
};

use crate::{
    maps::{count, setting},
    place,
    record::{StackRecord, Whose},
    regs, switch,
    targets::is_target,
    task::{Task as _, Trusted},
};

/// `struct bpf_iter__task` of kernel/bpf/task_iter.c.
#[repr(C)]
pub struct TaskIter {
    meta: *const u8,
    task: *const u8,
}

/// Takes on the threads of targets that are there already.
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
    let on_cpu: u32 = task.field(setting!(TASK_ON_CPU));
    let state: u32 = task.field(setting!(TASK_STATE));
    let out = (on_cpu == 0).then(|| task.block_state(state));
    if !switch::insert(task, now_ns, out) {
        count(counter::UNTRACKED, 1);
        return 0;
    }
    if out.is_none() {
        return 0;
    }
    count(counter::BEGUN_BEFORE, 1);
    let Some(thread) = switch::known(tid) else { return 0 };
    thread.place = 0;
    // SAFETY: a task that the verifier knows.
    let Some(user) = (unsafe { regs::of_task(pointer as *mut _) }) else { return 0 };
    let whose = Whose { pid, tid, time_ns: now_ns };
    let Some(record) = StackRecord::new(RecordKind::UserStack, whose) else { return 0 };
    record.note_user(user);
    record.set_cpu(REMOTE);
    if record.send() {
        thread.users[0].time_ns = now_ns;
    } else {
        count(counter::STACKS_LOST, 1);
    }
    0
}

/// Takes the kernel stacks of the threads that are still off the CPU.
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
    if thread.whereabouts != OFF_CPU || thread.place >= NO_PLACE {
        return 0;
    }
    // SAFETY: a helper without arguments.
    let time_ns = unsafe { bpf_ktime_get_ns() };
    place::take_kernel(thread, task, Whose { pid: thread.pid, tid, time_ns });
    0
}

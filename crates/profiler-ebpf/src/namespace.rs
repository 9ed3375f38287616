//! PIDs and TIDs as user space sees them.
//!
//! Each PID namespace has its own numbers, and the kernel gives BPF programs those of the initial one. If wingbeat
//! runs in another, `/proc`, perf's records and `--pid` use the numbers of that one. So the kernel half
//! translates: everything that it stores and sends has the numbers of user space. A thread outside the namespace
//! has the number 0, like the idle task, and is never a target.
//!
//! In the initial namespace the setting `NAMESPACED` is 0, and the verifier removes all of this.

use aya_ebpf::{
    helpers::{bpf_get_current_pid_tgid, bpf_get_current_task},
    macros::{map, raw_tracepoint},
    maps::{Array, HashMap},
    programs::RawTracePointContext,
};
use wingbeat_profiler_abi::Namespace;

use crate::{
    maps::setting,
    task::{Probed, Task},
};

/// The namespace of user space, once `on_namespace` has run.
#[map]
static NAMESPACE: Array<Namespace> = Array::with_max_entries(1, 0);

/// Threads by their numbers in the initial namespace: a reaped thread has lost its other numbers, yet switches
/// once more. The size is set at load. Preallocated, since the scheduler holds locks that an allocator may need.
#[map]
static NUMBERS: HashMap<u32, u32> = HashMap::with_max_entries(1, 0);

/// Size of `struct upid`: a number and a pointer to its namespace.
const UPID_BYTES: usize = 16;

/// Run once by user space: stores its namespace.
#[raw_tracepoint]
pub fn on_namespace(_ctx: RawTracePointContext) -> i32 {
    // SAFETY: a helper without arguments.
    let task = Probed(unsafe { bpf_get_current_task() } as *const u8);
    let pid: u64 = task.field(setting!(TASK_THREAD_PID));
    let level: u32 = Probed(pid as *const u8).field(setting!(PID_LEVEL));
    let pointer = upid(pid, level).field(setting!(UPID_NS));
    if let Some(namespace) = NAMESPACE.get_ptr_mut(0) {
        // SAFETY: a live element of the map.
        unsafe { *namespace = Namespace { pointer, level, reserved: 0 } };
    }
    0
}

/// Returns the `struct upid` of a `struct pid` at the namespace level.
#[inline(always)]
fn upid(pid: u64, level: u32) -> Probed {
    let offset = setting!(PID_NUMBERS) as usize + level as usize * UPID_BYTES;
    Probed((pid as *const u8).wrapping_add(offset))
}

/// Number of a `struct pid` in user space's namespace; 0 if it is outside.
#[inline(never)]
fn number(pid: u64) -> u32 {
    let Some(&Namespace { pointer, level, .. }) = NAMESPACE.get(0) else { return 0 };
    let levels: u32 = Probed(pid as *const u8).field(setting!(PID_LEVEL));
    if levels < level {
        return 0;
    }
    let upid = upid(pid, level);
    let of: u64 = upid.field(setting!(UPID_NS));
    if of == pointer { upid.field(0) } else { 0 }
}

/// Number of a `struct pid`; if that was reaped, the noted number for its number in the initial namespace.
#[inline(always)]
fn number_or_known(pid: u64, first: u32) -> u32 {
    // SAFETY: a live element of the map.
    if pid != 0 { number(pid) } else { unsafe { NUMBERS.get(&first) }.copied().unwrap_or(0) }
}

// The functions below are out of line and test the setting first. If the compiler were free to reorder, it would
// test other conditions first, and the verifier would follow their branches.

#[inline(never)]
fn tid_inside(task: *const u8, first: u32) -> u32 {
    if first == 0 {
        return 0;
    }
    number_or_known(Probed(task).field(setting!(TASK_THREAD_PID)), first)
}

#[inline(never)]
fn pid_inside(task: *const u8, first: u32) -> u32 {
    if first == 0 {
        return 0;
    }
    let signal: u64 = Probed(task).field(setting!(TASK_SIGNAL));
    let pid: u64 = Probed(signal as *const u8).field(setting!(SIGNAL_TGID));
    number_or_known(pid, first)
}

#[inline(never)]
fn keep(first: u32, tid: u32) -> bool {
    tid != 0 && NUMBERS.insert(&first, &tid, 0).is_ok()
}

#[inline(never)]
fn is_zero(number: u32) -> bool {
    number == 0
}

/// Passes the number through memory. In a register it is a copy of `first`, and the verifier, which tracks copies,
/// would treat equal states as different: it explored twice as many.
#[inline(always)]
fn settled(number: u32) -> u32 {
    // SAFETY: a local variable.
    unsafe { core::ptr::read_volatile(&raw const number) }
}

/// TID of a task with the number `first` in the initial namespace.
#[inline(always)]
pub fn tid(task: Probed, first: u32) -> u32 {
    settled(if setting!(NAMESPACED) == 0 { first } else { tid_inside(task.0, first) })
}

/// PID of a task whose process has the number `first` in the initial namespace.
#[inline(always)]
pub fn pid(task: Probed, first: u32) -> u32 {
    settled(if setting!(NAMESPACED) == 0 { first } else { pid_inside(task.0, first) })
}

/// Whether this is the number of a task outside the namespace, or of the idle task.
#[inline(always)]
pub fn is_nobody(number: u32) -> bool {
    setting!(NAMESPACED) != 0 && is_zero(number)
}

/// PID and TID of the current thread.
#[inline(always)]
pub fn current() -> (u32, u32) {
    let id = bpf_get_current_pid_tgid();
    let (first_pid, first_tid) = ((id >> 32) as u32, id as u32);
    if setting!(NAMESPACED) == 0 {
        return (first_pid, first_tid);
    }
    // SAFETY: a helper without arguments.
    let task = Probed(unsafe { bpf_get_current_task() } as *const u8);
    (pid(task, first_pid), tid(task, first_tid))
}

/// Keeps a thread's number beyond its exit. If the map is full, its last switch is not seen.
#[inline(always)]
pub fn note(task: impl Task, tid: u32) {
    if setting!(NAMESPACED) != 0 {
        let _ = keep(task.field(setting!(TASK_PID)), tid);
    }
}

/// Number of a thread known only by its number in the initial namespace; `otherwise` if it was not noted.
#[inline(always)]
pub fn noted(first: u32, otherwise: u32) -> u32 {
    if setting!(NAMESPACED) == 0 {
        return first;
    }
    // SAFETY: a live element of the map.
    unsafe { NUMBERS.get(&first) }.copied().unwrap_or(otherwise)
}

/// Removes a freed task, whose number may be reused.
#[inline(always)]
pub fn forget(task: impl Task) {
    if setting!(NAMESPACED) != 0 {
        let first: u32 = task.field(setting!(TASK_PID));
        let _ = NUMBERS.remove(&first);
    }
}

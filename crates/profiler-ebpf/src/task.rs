//! Tasks: the fields of a `task_struct`, at offsets that user space got from the kernel's type information, and PIDs
//! and TIDs as user space sees them.

use core::mem::transmute;

use aya_ebpf::{
    helpers::{bpf_get_current_pid_tgid, bpf_get_current_task, bpf_probe_read_kernel},
    macros::{map, raw_tracepoint},
    maps::{Array, HashMap},
    programs::RawTracePointContext,
};
use wingbeat_profiler_abi::{
    Namespace,
    off_cpu::BlockState,
    offset_and_size,
    placeholder::{PREEMPT_DISABLE, PREEMPT_ENABLE},
    target,
};

use crate::maps::{TARGETS, setting};

/// Ways to read a task.
pub trait Task: Copy {
    /// Reads the field at an offset.
    fn field<T: Default + Copy>(self, offset: u32) -> T;

    /// The same task, read by a helper.
    fn probed(self) -> Probed;

    /// Reads a number at a [`sized_field`](wingbeat_profiler_abi::sized_field). The verifier sees which of the
    /// reads applies, and rejects reads beyond the field's end.
    #[inline(always)]
    fn number(self, field: u32) -> u32 {
        match offset_and_size(field) {
            (offset, 1) => u32::from(self.field::<u8>(offset)),
            (offset, 2) => u32::from(self.field::<u16>(offset)),
            (offset, _) => self.field(offset),
        }
    }

    /// TID as user space sees it.
    #[inline(always)]
    fn tid(self) -> u32 {
        visible_tid(self.probed(), self.field(setting!(TASK_PID)))
    }

    /// PID as user space sees it.
    #[inline(always)]
    fn pid(self) -> u32 {
        visible_pid(self.probed(), self.field(setting!(TASK_TGID)))
    }

    /// Converts the kernel's `state` of a thread (`__state` of include/linux/sched.h, the same bits from Linux
    /// 5.14 to 7.2).
    #[inline(always)]
    fn block_state(self, state: u32) -> BlockState {
        if state == 0 {
            return BlockState::Preempted;
        }
        if state & (TASK_STOPPED | TASK_TRACED | TASK_FROZEN) != 0 {
            return BlockState::Stopped;
        }
        let iowait: u8 = self.field(setting!(TASK_IOWAIT));
        if u32::from(iowait) & setting!(TASK_IOWAIT_MASK) != 0 {
            return BlockState::Io;
        }
        if state & TASK_RTLOCK_WAIT != 0 {
            return BlockState::Lock;
        }
        if setting!(TASK_BLOCKED_ON) != 0 {
            let lock: u64 = self.field(setting!(TASK_BLOCKED_ON));
            if lock != 0 {
                return BlockState::Lock;
            }
        }
        // An idle kernel thread does not count as load: `TASK_IDLE`.
        if state & TASK_UNINTERRUPTIBLE != 0 && state & TASK_NOLOAD == 0 {
            BlockState::Uninterruptible
        } else {
            BlockState::Sleeping
        }
    }
}

const TASK_UNINTERRUPTIBLE: u32 = 0x2;
const TASK_STOPPED: u32 = 0x4;
const TASK_TRACED: u32 = 0x8;
/// A thread that leaves the CPU in this state never comes back.
pub const TASK_DEAD: u32 = 0x80;
const TASK_NOLOAD: u32 = 0x400;
/// A thread that may not run yet: already in the list of threads, but before its fork tracepoint.
pub const TASK_NEW: u32 = 0x800;
const TASK_RTLOCK_WAIT: u32 = 0x1000;
const TASK_FROZEN: u32 = 0x8000;

/// A task that the verifier knows: fields are read like ordinary memory.
#[derive(Clone, Copy)]
pub struct Trusted(pub *const u8);

impl Task for Trusted {
    #[inline(always)]
    fn field<T: Default + Copy>(self, offset: u32) -> T {
        // SAFETY: the verifier checks that the field lies in the task; a bad address reads as zero.
        unsafe { self.0.add(offset as usize).cast::<T>().read_volatile() }
    }

    #[inline(always)]
    fn probed(self) -> Probed {
        Probed(self.0)
    }
}

/// Any other task: fields are read by a helper.
#[derive(Clone, Copy)]
pub struct Probed(pub *const u8);

impl Task for Probed {
    /// Reads the field; zero on failure, a value that no field read here has in a live task.
    #[inline(always)]
    fn field<T: Default + Copy>(self, offset: u32) -> T {
        // SAFETY: a read by a helper: a bad address is an error, not a fault.
        unsafe { bpf_probe_read_kernel(self.0.add(offset as usize).cast()) }.unwrap_or_default()
    }

    #[inline(always)]
    fn probed(self) -> Probed {
        self
    }
}

// PIDs and TIDs as user space sees them.
//
// Each PID namespace has its own numbers, and the kernel gives BPF programs those of the initial one. If wingbeat
// runs in another, `/proc`, perf's records and `--pid` use the numbers of that one. So the kernel half
// translates: everything that it stores and sends has the numbers of user space. A thread outside the namespace
// has the number 0, like the idle task, and is never a target.
//
// In the initial namespace the setting `NAMESPACED` is 0, and the verifier removes all of this.

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
fn keep_number(first: u32, tid: u32) -> bool {
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
fn visible_tid(task: Probed, first: u32) -> u32 {
    settled(if setting!(NAMESPACED) == 0 { first } else { tid_inside(task.0, first) })
}

/// PID of a task whose process has the number `first` in the initial namespace.
#[inline(always)]
fn visible_pid(task: Probed, first: u32) -> u32 {
    settled(if setting!(NAMESPACED) == 0 { first } else { pid_inside(task.0, first) })
}

/// Whether this is the number of a task outside the namespace, or of the idle task.
#[inline(always)]
pub fn is_nobody(number: u32) -> bool {
    setting!(NAMESPACED) != 0 && is_zero(number)
}

/// PID and TID of the current thread.
#[inline(always)]
pub fn current_ids() -> (u32, u32) {
    let id = bpf_get_current_pid_tgid();
    let (first_pid, first_tid) = ((id >> 32) as u32, id as u32);
    if setting!(NAMESPACED) == 0 {
        return (first_pid, first_tid);
    }
    // SAFETY: a helper without arguments.
    let task = Probed(unsafe { bpf_get_current_task() } as *const u8);
    (visible_pid(task, first_pid), visible_tid(task, first_tid))
}

/// Keeps a thread's number beyond its exit. If the map is full, its last switch is not seen.
#[inline(always)]
pub fn note_number(task: impl Task, tid: u32) {
    if setting!(NAMESPACED) != 0 {
        let _ = keep_number(task.field(setting!(TASK_PID)), tid);
    }
}

/// Number of a thread known only by its number in the initial namespace; `otherwise` if it was not noted.
#[inline(always)]
pub fn noted_number(first: u32, otherwise: u32) -> u32 {
    if setting!(NAMESPACED) == 0 {
        return first;
    }
    // SAFETY: a live element of the map.
    unsafe { NUMBERS.get(&first) }.copied().unwrap_or(otherwise)
}

/// Removes a freed task, whose number may be reused.
#[inline(always)]
pub fn forget_number(task: impl Task) {
    if setting!(NAMESPACED) != 0 {
        let first: u32 = task.field(setting!(TASK_PID));
        let _ = NUMBERS.remove(&first);
    }
}

/// Whether a process is a target. Processes outside user space's PID namespace have the number 0.
#[inline(always)]
pub fn is_target(pid: u32) -> bool {
    if setting!(ALL) != 0 {
        return !is_nobody(pid);
    }
    // SAFETY: a live element of the map.
    matches!(unsafe { TARGETS.get(&pid) }, Some(&target::ACTIVE))
}

/// Calls `act` with preemption disabled, where the kernel has functions for that (Linux 6.10).
///
/// For programs that run in the context of a task which may be preempted: those of fork, exec and exit since Linux
/// 7.0, those of uprobes and of system calls on any kernel that is built for preemption. A switch would see an account
/// that is half written. And the programs of two threads would overwrite each other's variables: since Linux 6.13 a
/// program for x86-64 with more than 64 bytes of stack has them in memory of the CPU (`bpf_enable_priv_stack` in
/// kernel/bpf/verifier.c), and nothing keeps a uprobe's program from running twice on one.
#[inline(always)]
pub fn without_preemption(act: impl FnOnce()) {
    // SAFETY: no kernel has helpers with these numbers. User space replaces the calls by calls of functions without
    // arguments, or removes them.
    let [disable, enable] = unsafe {
        [PREEMPT_DISABLE, PREEMPT_ENABLE].map(|number| transmute::<usize, extern "C" fn()>(number))
    };
    disable();
    act();
    enable();
}

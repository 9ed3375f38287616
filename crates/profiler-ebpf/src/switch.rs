//! Scheduler switches: one thread goes off a CPU, another comes in.
//!
//! `missed` has already ensured that the leaving thread is marked on the CPU and the arriving one off it.

use aya_ebpf::{
    EbpfContext as _,
    bindings::BPF_NOEXIST,
    helpers::{bpf_get_current_pid_tgid, bpf_ktime_get_ns},
    macros::{btf_tracepoint, raw_tracepoint},
    programs::{BtfTracePointContext, RawTracePointContext},
};
use wingbeat_profiler_abi::{
    RecordKind, counter,
    off_cpu::{
        BLOCK_RECORD_BYTES, BlockRecord, BlockState, CachedStack, END_RECORD_BYTES, ENDED,
        EndRecord, NEW_THREAD, NO_SLOT, OFF_CPU, ON_CPU, OUTSIDE, SLOTS, Thread, Waker,
    },
};

use crate::{
    block_stacks,
    maps::{SCRATCH, THREADS, count, is_watching, min_block_ns, scratch, send, setting},
    record::{HalfRecord, Origin, mix},
    regs::{self, UserRegs},
    task::{self, Probed, TASK_DEAD, Task, Trusted, is_target},
};

/// `sched_switch(preempt, prev, next, prev_state)`.
#[btf_tracepoint(function = "sched_switch")]
pub fn on_switch(ctx: BtfTracePointContext) -> i32 {
    if !is_watching() {
        return 0;
    }
    let (prev, next) = (Trusted(ctx.arg(1)), Trusted(ctx.arg(2)));
    let is_preempted = ctx.arg::<u64>(0) & 1 != 0;
    let state: u32 = if setting!(SWITCH_HAS_STATE) != 0 {
        ctx.arg(3)
    } else {
        prev.number(setting!(TASK_STATE))
    };
    // SAFETY: a helper without arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    leave(prev, if is_preempted { 0 } else { state }, now_ns, |_, _| {});
    arrive(next, now_ns, |thread, origin| block_stacks::walk_kernel(thread, next, origin));
    0
}

/// Variant for kernels that refuse `on_switch`: fields are read by helpers, and the kernel stack is walked at each
/// switch off the CPU.
#[raw_tracepoint(tracepoint = "sched_switch")]
pub fn on_switch_raw(ctx: RawTracePointContext) -> i32 {
    if !is_watching() {
        return 0;
    }
    let (prev, next) = (Probed(ctx.arg(1)), Probed(ctx.arg(2)));
    let is_preempted = ctx.arg::<u64>(0) & 1 != 0;
    let state: u32 = if setting!(SWITCH_HAS_STATE) != 0 {
        ctx.arg(3)
    } else {
        prev.number(setting!(TASK_STATE))
    };
    // SAFETY: a helper without arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    leave(prev, if is_preempted { 0 } else { state }, now_ns, |thread, origin| {
        block_stacks::walk_own_kernel(thread, ctx.as_ptr(), origin);
    });
    arrive(next, now_ns, |_, _| {});
    0
}

/// A thread goes off the CPU.
#[inline(always)]
fn leave(task: impl Task, state: u32, now_ns: u64, take_kernel: impl FnOnce(&mut Thread, Origin)) {
    let tid = task.tid();
    if tid == 0 {
        return;
    }
    let Some(thread) = known(tid).or_else(|| meet(task, tid, now_ns)) else { return };
    if thread.whereabouts == OFF_CPU {
        // The iteration over all threads has just added it, with its state at that time.
        return;
    }
    thread.on_cpu_ns += now_ns.saturating_sub(thread.since_ns);
    thread.runtime_ns = task.field(setting!(TASK_RUNTIME));
    count(counter::SWITCHED_OUT, 1);
    if state & TASK_DEAD != 0 {
        end(thread, tid, now_ns, false);
        count(counter::ENDED, 1);
        return;
    }
    thread.whereabouts = OFF_CPU;
    thread.since_ns = now_ns;
    thread.state = task.block_state(state) as u8;
    thread.waker.tid = 0;
    let origin = Origin { pid: thread.pid, tid, time_ns: now_ns };
    block_stacks::walk_user(thread, origin);
    take_kernel(thread, origin);
}

/// A thread comes in.
#[inline(always)]
fn arrive(task: impl Task, now_ns: u64, take_kernel: impl FnOnce(&mut Thread, Origin)) {
    let tid = task.tid();
    if tid == 0 {
        return;
    }
    let Some(thread) = known(tid) else {
        if meet(task, tid, now_ns).is_some() {
            count(counter::UNMATCHED, 1);
        }
        return;
    };
    if thread.whereabouts != ON_CPU {
        come_back(thread, tid, now_ns, take_kernel);
    }
}

/// Marks that a thread is back on the CPU.
#[inline(always)]
pub fn come_back(
    thread: &mut Thread,
    tid: u32,
    now_ns: u64,
    take_kernel: impl FnOnce(&mut Thread, Origin),
) {
    let duration_ns = now_ns.saturating_sub(thread.since_ns);
    if duration_ns < min_block_ns() {
        thread.below += 1;
        thread.below_ns += duration_ns;
        count(counter::BELOW, 1);
        count(counter::BELOW_NS, duration_ns);
    } else {
        take_kernel(thread, Origin { pid: thread.pid, tid, time_ns: now_ns });
        report(thread, tid, now_ns);
    }
    thread.whereabouts = ON_CPU;
    thread.since_ns = now_ns;
}

/// Sends a finished block.
#[inline(always)]
fn report(thread: &Thread, tid: u32, now_ns: u64) {
    let waker_tid = thread.waker.tid;
    let mut block = BlockRecord {
        kind: RecordKind::Block as u8,
        state: thread.state,
        slot: thread.slot,
        kernel_slot: thread.kernel_slot,
        pid: thread.pid,
        tid,
        waker_tid,
        start_ns: thread.since_ns,
        end_ns: now_ns,
        user_ns: time_of(&thread.users, thread.slot),
        kernel_ns: time_of(&thread.kernels, thread.kernel_slot),
        waker_ns: if waker_tid == 0 { 0 } else { thread.waker.stack_ns },
    };
    // SAFETY: a record of that size.
    let sent = unsafe { send((&raw mut block).cast(), BLOCK_RECORD_BYTES as u64) };
    count(if sent { counter::REPORTED } else { counter::BLOCKS_LOST }, 1);
}

/// When a slot's stack was walked; 0 without one.
#[inline(always)]
fn time_of(slots: &[CachedStack; SLOTS], slot: u8) -> u64 {
    if slot < NO_SLOT { slots[slot as usize & (SLOTS - 1)].time_ns } else { 0 }
}

/// Sends the account of a thread and removes it. Returns false if the ring buffer is full. `is_exec` if the thread
/// continues as another program.
#[inline(always)]
pub fn end(thread: &mut Thread, tid: u32, now_ns: u64, is_exec: bool) -> bool {
    let mut record = EndRecord {
        kind: RecordKind::ThreadEnd as u8,
        is_exec: u8::from(is_exec),
        reserved: [0; 2],
        pid: thread.pid,
        tid,
        below: thread.below,
        begun_ns: thread.begun_ns,
        end_ns: now_ns,
        on_cpu_ns: thread.on_cpu_ns,
        below_ns: thread.below_ns,
    };
    // SAFETY: a record of that size.
    let is_sent = unsafe { send((&raw mut record).cast(), END_RECORD_BYTES as u64) };
    if is_sent {
        let _ = THREADS.remove(&tid);
    } else {
        // User space reads the account from the table.
        thread.whereabouts = ENDED;
        thread.since_ns = now_ns;
    }
    is_sent
}

/// State of a thread, if known.
#[inline(always)]
pub fn known(tid: u32) -> Option<&'static mut Thread> {
    // SAFETY: a live element of the map. A thread is on one CPU at a time, and its waker writes only its own field.
    THREADS.get_ptr_mut(&tid).map(|thread| unsafe { &mut *thread })
}

/// Adds a running thread if it belongs to a target.
#[inline(always)]
fn meet(task: impl Task, tid: u32, now_ns: u64) -> Option<&'static mut Thread> {
    let pid = task.pid();
    if !is_target(pid) {
        return None;
    }
    // If it is there, the walk over all threads was faster.
    insert(task, now_ns, None, BPF_NOEXIST);
    let thread = known(tid);
    if thread.is_none() {
        count(counter::UNTRACKED, 1);
    }
    thread
}

/// Adds a thread to the table: off the CPU in some state, or running. False if there is no room, or
/// with [`BPF_NOEXIST`] if it is there.
#[inline(always)]
pub fn insert(task: impl Task, now_ns: u64, out: Option<BlockState>, flags: u32) -> bool {
    insert_by(scratch::THREAD, task, now_ns, out, flags)
}

/// The same, by way of some part of the scratch memory.
#[inline(always)]
pub fn insert_by(
    part: u32,
    task: impl Task,
    now_ns: u64,
    out: Option<BlockState>,
    flags: u32,
) -> bool {
    let (tid, pid) = (task.tid(), task.pid());
    task::note_number(task, tid);
    let runtime_ns = task.field(setting!(TASK_RUNTIME));
    let Some(scratch) = SCRATCH.get_ptr_mut(part) else { return false };
    let thread: *mut Thread = scratch.cast();
    // SAFETY: the scratch memory is larger than a thread.
    unsafe {
        *thread = Thread {
            pid,
            whereabouts: if out.is_some() { OFF_CPU } else { ON_CPU },
            state: out.map_or(0, |state| state as u8),
            slot: NEW_THREAD,
            next_slot: 0,
            since_ns: now_ns,
            begun_ns: now_ns,
            on_cpu_ns: 0,
            below_ns: 0,
            below: 0,
            kernel_slot: NO_SLOT,
            next_kernel_slot: 0,
            is_final: 0,
            reserved: 0,
            waker: Waker { tid: 0, reserved: 0, key: 0, stack_ns: 0 },
            runtime_ns,
            users: [CachedStack::EMPTY; SLOTS],
            kernels: [CachedStack::EMPTY; SLOTS],
        };
        THREADS.insert(&tid, &*thread, u64::from(flags)).is_ok()
    }
}

/// `sched_waking(task)`, in the context of the waker: a thread, or an interrupt on top of one.
#[raw_tracepoint(tracepoint = "sched_waking")]
pub fn on_waking(ctx: RawTracePointContext) -> i32 {
    let Some(thread) = known(Probed(ctx.arg(0)).tid()) else { return 0 };
    // A thread preempted on its way to sleep may be woken. It waits for a CPU and for no other thread.
    if thread.whereabouts != OFF_CPU || thread.state == BlockState::Preempted as u8 {
        return 0;
    }
    let (mut pid, mut tid) = task::current_ids();
    let is_outside = task::is_nobody(tid) && bpf_get_current_pid_tgid() as u32 != 0;
    if is_outside {
        (pid, tid) = (OUTSIDE, OUTSIDE);
    }
    // SAFETY: a helper without arguments.
    let origin = Origin { pid, tid, time_ns: unsafe { bpf_ktime_get_ns() } };
    let Some(record) = HalfRecord::half(RecordKind::WakerKernel, origin) else { return 0 };
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
    if record.send() && send_user(origin, user) {
        thread.waker.key = key;
        thread.waker.stack_ns = origin.time_ns;
    } else {
        count(counter::STACKS_LOST, 1);
        thread.waker.key = 0;
        thread.waker.stack_ns = 0;
    }
    0
}

/// Sends the user half of the current thread's stack. Returns false if the ring buffer is full.
#[inline(always)]
fn send_user(origin: Origin, user: Option<UserRegs>) -> bool {
    let Some(record) = HalfRecord::half(RecordKind::WakerUser, origin) else { return true };
    if let Some(user) = user {
        record.walk_user(user, None);
        record.send_copy();
    }
    record.send()
}

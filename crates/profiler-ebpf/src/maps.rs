//! Maps, settings and counters, and the sending of records.

use core::ffi::c_void;

use aya_ebpf::{
    bindings::{BPF_F_NO_PREALLOC, BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP},
    helpers::generated::bpf_ringbuf_output,
    macros::map,
    maps::{Array, HashMap, PerCpuArray, RingBuf},
};
use wingbeat_profiler_abi::{RECORD_BYTES_MAX, counter, off_cpu::Thread, ring_bytes};

/// Buffer to assemble one record: too large for the 512 bytes of a BPF stack.
pub type Scratch = [u64; RECORD_BYTES_MAX / 8];

/// Records for user space; the size is set at load.
#[map]
pub static RECORDS: RingBuf = RingBuf::with_byte_size(1 << 20, 0);

#[map]
pub static COUNTERS: PerCpuArray<u64> = PerCpuArray::with_max_entries(counter::COUNT, 0);

#[map]
pub static TARGETS: HashMap<u32, u32> = HashMap::with_max_entries(65536, BPF_F_NO_PREALLOC);

/// CPU time of a thread when it began to exit, until its task is freed.
#[map]
pub static EXITS: HashMap<u32, u64> = HashMap::with_max_entries(65536, BPF_F_NO_PREALLOC);

/// Threads of targets, while time off the CPU is recorded; the size is set at load. Preallocated: the scheduler
/// holds locks that an allocator may need.
#[map]
pub static THREADS: HashMap<u32, Thread> = HashMap::with_max_entries(1, 0);

/// 1 while switches are recorded. All programs start and stop with it at the same moment: they are attached and
/// detached one by one, and an event counted by only some of them would give wrong results.
#[map]
pub static WATCHING: Array<u32> = Array::with_max_entries(1, 0);

/// Blocks shorter than this, in nanoseconds, are only summed up per thread. May change while switches are recorded.
#[map]
pub static MIN_BLOCK: Array<u64> = Array::with_max_entries(1, 0);

/// The thread that came in last on this CPU, according to the reported switches, plus one.
#[map]
pub static LAST: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);

/// Elements of the scratch memory.
pub mod scratch {
    /// Stacks of the programs that watch the scheduler.
    pub const RECORD: u32 = 0;
    /// Words to compare.
    pub const WORDS: u32 = 1;
    /// A new thread.
    pub const THREAD: u32 = 2;
    /// A thread or record of an iteration over all threads, which a switch may preempt on a preemptible kernel.
    pub const WALK: u32 = 3;
    /// Samples: a tick may interrupt any of the others.
    pub const SAMPLE: u32 = 4;
    /// Allocations: a CPU may have [`HEAP_PARTS`] in progress, since one thread may preempt another.
    pub const HEAP: u32 = 5;
    pub const HEAP_PARTS: u32 = 4;
    /// How many there are.
    pub const COUNT: u32 = HEAP + HEAP_PARTS;
}

#[map]
pub static SCRATCH: PerCpuArray<Scratch> = PerCpuArray::with_max_entries(scratch::COUNT, 0);

/// Settings are written into `.rodata` before loading. The verifier knows their values and removes dead branches.
macro_rules! settings {
    ($($name:ident),*) => {
        $(#[unsafe(no_mangle)] pub static $name: u32 = 0;)*
    };
}
settings!(ALL, INHERIT, LAUNCHER, WAKEUP_BYTES, BLOCKS, WAKERS, SWITCH_HAS_STATE);
settings!(TASK_PID, TASK_TGID, TASK_RUNTIME, TASK_STATE, TASK_ON_CPU, TASK_IOWAIT);
settings!(WALK, COPIES_UNTIL_BYTES, TASK_IOWAIT_MASK, TASK_BLOCKED_ON, TASK_KERNEL_SP, TASK_MM);
settings!(TASK_TLS, MM_START_STACK, SAMPLE_BYTES);
settings!(NAMESPACED, TASK_THREAD_PID, TASK_SIGNAL, SIGNAL_TGID, PID_LEVEL, PID_NUMBERS, UPID_NS);

/// Reads a setting.
macro_rules! setting {
    ($name:ident) => {
        // SAFETY: a static of this program. Volatile, because the value that the compiler sees is
        // replaced at load.
        unsafe { core::ptr::read_volatile(&raw const crate::maps::$name) }
    };
}
pub(crate) use setting;

/// Whether switches are recorded now.
#[inline(always)]
pub fn is_watching() -> bool {
    setting!(BLOCKS) != 0 && WATCHING.get(0) == Some(&1)
}

/// Shortest block to report.
#[inline(always)]
pub fn min_block_ns() -> u64 {
    MIN_BLOCK.get(0).copied().unwrap_or(0)
}

/// Adds to a counter of this CPU. Not atomic: a tick does not interrupt a tick on the same CPU, and
/// the tracepoint programs use other counters than the sampler, and run with interrupts off where they
/// could meet one another.
#[inline(always)]
pub fn count(index: u32, amount: u64) {
    if let Some(slot) = COUNTERS.get_ptr_mut(index) {
        // SAFETY: a live element of a per-CPU array.
        unsafe { *slot += amount };
    }
}

/// Sends bytes, and wakes user space when the ring buffer is filling up. Returns false if it is full.
///
/// # Safety
///
/// `record` points to `size` bytes that the verifier knows to be readable.
#[inline(always)]
pub unsafe fn send(record: *mut c_void, size: u64) -> bool {
    // SAFETY: the caller's.
    unsafe { send_by(record, size, false) }
}

/// Bytes that user space has not read yet.
#[inline(always)]
pub fn waiting_bytes() -> u64 {
    RECORDS.query(u64::from(BPF_RB_AVAIL_DATA))
}

/// Same as [`send`]. Urgent records wake user space at once.
///
/// # Safety
///
/// As for [`send`].
#[inline(always)]
pub unsafe fn send_by(record: *mut c_void, size: u64, is_urgent: bool) -> bool {
    let flags = if is_urgent || waiting_bytes() >= u64::from(setting!(WAKEUP_BYTES)) {
        BPF_RB_FORCE_WAKEUP
    } else {
        BPF_RB_NO_WAKEUP
    };
    // SAFETY: the caller's.
    let sent = unsafe {
        bpf_ringbuf_output((&raw const RECORDS).cast_mut().cast(), record, size, u64::from(flags))
    };
    if sent == 0 {
        count(counter::RECORD_BYTES, ring_bytes(size));
    }
    sent == 0
}

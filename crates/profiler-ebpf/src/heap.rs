//! Probes of allocator functions.
//!
//! Allocations are sampled by requested bytes: the distance to the next sample is exponentially distributed, so
//! that each byte has the same chance regardless of sizes. A sampled call sends its stack at the entry and the
//! block at the exit. Frees are looked up only among sampled blocks.

use aya_ebpf::{
    EbpfContext as _,
    bindings::{BPF_F_NO_PREALLOC, BPF_NOEXIST, pt_regs},
    helpers::{
        bpf_get_prandom_u32, bpf_get_smp_processor_id, bpf_ktime_get_ns,
        generated::{bpf_get_attach_cookie, bpf_get_func_ip, bpf_probe_read_user},
    },
    macros::map,
    maps::{Array, HashMap, PerCpuArray},
    programs::ProbeContext,
};
use wingbeat_profiler_abi::{
    counter,
    heap::{
        ALLOCATION_RECORD_BYTES, AllocationRecord, BlockKey, EXIT_FILLS, EXIT_REGISTER_SHIFT,
        FREE_RECORD_BYTES, FreeRecord, LiveBlock, PendingCall, bytes_until_sample, call, state,
    },
};

use crate::{
    maps::{count, scratch, send, setting},
    record::{Origin, SampleRecord},
    regs::{self, UserRegs},
    task::{self, without_preemption},
};

/// Sampled blocks that are live; the size is set at load.
#[map]
static BLOCKS_LIVE: HashMap<BlockKey, LiveBlock> = HashMap::with_max_entries(1, BPF_F_NO_PREALLOC);

/// Calls in progress, by thread and stack pointer; the size is set at load.
#[map]
static CALLS: HashMap<u64, PendingCall> = HashMap::with_max_entries(1, BPF_F_NO_PREALLOC);

/// See [`state`].
#[map]
static HEAP_STATE: Array<u32> = Array::with_max_entries(1, 0);

/// Bytes until the next sample.
#[map]
static LEFT: PerCpuArray<i64> = PerCpuArray::with_max_entries(1, 0);

/// The last call that jumped to another allocator function.
#[map]
static HANDED_ON: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);

/// Bytes that a program can address: upper bound of allocation sizes.
const ADDRESSES: u64 = 1 << 47;

/// Entry of an allocating function.
#[unsafe(no_mangle)]
#[unsafe(link_section = "uprobe.multi")]
pub fn heap_entry(ctx: *mut core::ffi::c_void) -> u32 {
    let ctx = ProbeContext::new(ctx);
    without_preemption(|| enter(&ctx, registers(&ctx)));
    0
}

/// Exit of an allocating function, where the block is known. The cookie has the stack depth in bytes relative to
/// the entry.
#[unsafe(no_mangle)]
#[unsafe(link_section = "uprobe.multi")]
pub fn heap_exit(ctx: *mut core::ffi::c_void) -> u32 {
    let ctx = ProbeContext::new(ctx);
    without_preemption(|| {
        // SAFETY: the helper only reads the context.
        let cookie = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) };
        let registers = registers(&ctx);
        let sp = regs::sp(registers) + u64::from(cookie as u32);
        if cookie & EXIT_FILLS == 0 {
            leave(regs::numbered(registers, cookie >> EXIT_REGISTER_SHIFT), sp);
        } else if regs::argument(registers, 1) as u32 == 0 {
            // The block is being zeroed.
            leave(regs::argument(registers, 0), sp);
        }
    });
    0
}

/// Function that frees a block, probed while its first argument is intact.
#[unsafe(no_mangle)]
#[unsafe(link_section = "uprobe.multi")]
pub fn heap_free(ctx: *mut core::ffi::c_void) -> u32 {
    let ctx = ProbeContext::new(ctx);
    without_preemption(|| {
        let address = regs::argument(registers(&ctx), 0);
        if address == 0 {
            return;
        }
        count(counter::FREES, 1);
        if is_recording() {
            let pid = task::current_ids().0;
            if let Some(since_ns) = take_block(pid, address) {
                send_free(pid, address, since_ns, now_ns());
            }
        }
    });
    0
}

#[inline(always)]
fn registers<'a>(ctx: &'a ProbeContext) -> &'a pt_regs {
    // SAFETY: the context of these programs is the registers.
    unsafe { &*ctx.regs }
}

#[inline(always)]
fn is_recording() -> bool {
    HEAP_STATE.get(0) == Some(&state::RECORDING)
}

#[inline(always)]
fn now_ns() -> u64 {
    // SAFETY: a helper without arguments.
    unsafe { bpf_ktime_get_ns() }
}

/// Identifies a call by thread and stack pointer at its entry.
#[inline(always)]
fn key(tid: u32, sp: u64) -> u64 {
    (u64::from(tid) << 32) | (sp & 0xffff_ffff)
}

#[inline(always)]
fn enter(ctx: &ProbeContext, registers: &pt_regs) {
    // SAFETY: the helpers only read the context.
    let (cookie, entry_ip) =
        unsafe { (bpf_get_attach_cookie(ctx.as_ptr()), bpf_get_func_ip(ctx.as_ptr())) };
    let argument = |index| regs::argument(registers, index);
    let kind = cookie & !call::NEW_IS_OTHERS;
    // An overflowing product is rejected.
    let size = match kind {
        call::CALLOC => argument(0).wrapping_mul(argument(1)),
        call::ALIGNED | call::REALLOC => argument(1),
        call::POSIX_MEMALIGN => argument(2),
        call::REALLOCARRAY => argument(1).wrapping_mul(argument(2)),
        _ => argument(0),
    };
    let (pid, tid) = task::current_ids();
    let key = key(tid, regs::sp(registers));
    if is_handed_on(key) {
        return;
    }
    count(counter::ALLOCATIONS, 1);
    if size < ADDRESSES {
        count(counter::ALLOCATED_BYTES, size);
    }
    if !is_recording() {
        return;
    }
    let mut pending = PendingCall {
        stack_ns: 0,
        entry_ip,
        size,
        to: if kind == call::POSIX_MEMALIGN { argument(0) } else { 0 },
        old_address: 0,
        old_since_ns: 0,
    };
    if (kind == call::REALLOC || kind == call::REALLOCARRAY) && argument(0) != 0 {
        // Before the free: afterwards another thread may get a block there.
        if let Some(since_ns) = take_block(pid, argument(0)) {
            (pending.old_address, pending.old_since_ns) = (argument(0), since_ns);
        }
    }
    let has_jumped = has_jumped(key, entry_ip, size);
    // Counted already.
    if is_sampled(size) && !has_jumped {
        let origin = Origin { pid, tid, time_ns: now_ns() };
        if send_stack(origin, regs::user(registers), registers) {
            pending.stack_ns = origin.time_ns;
        } else {
            count(counter::ALLOCATIONS_LOST, 1);
        }
    }
    if pending.stack_ns == 0 && pending.old_address == 0 {
        if cookie & call::NEW_IS_OTHERS != 0 && argument(0) == 0 {
            hand_on(key);
        }
        return;
    }
    if CALLS.insert(&key, &pending, 0).is_err() {
        count(counter::CALLS_LOST, 1);
        if pending.old_address != 0 {
            send_free(pid, pending.old_address, pending.old_since_ns, now_ns());
        }
    }
}

/// Notes that an unsampled call now jumps to another function, which must not sample it again. It may, if the
/// thread migrates to another CPU just then.
#[inline(always)]
fn hand_on(key: u64) {
    if let Some(note) = HANDED_ON.get_ptr_mut(0) {
        // SAFETY: a live element of a per-CPU array.
        unsafe { *note = key };
    }
}

/// Whether a call was handed on. Clears the note.
#[inline(always)]
fn is_handed_on(key: u64) -> bool {
    let Some(note) = HANDED_ON.get_ptr_mut(0) else { return false };
    // SAFETY: as above.
    unsafe {
        let is_it = *note == key;
        if is_it {
            *note = 0;
        }
        is_it
    }
}

/// Maximum time from one allocator function to the next by a jump.
const JUMP_MAX_NS: u64 = 100_000_000;

/// Whether this call began in another function that jumped here. Removes a call with the same frame that reached
/// no exit because of an exception or because the thread left it.
#[inline(always)]
fn has_jumped(key: u64, entry_ip: u64, size: u64) -> bool {
    // SAFETY: a live element of the map, used only by this thread.
    let Some(call) = (unsafe { CALLS.get(&key) }) else { return false };
    let is_same = call.entry_ip != entry_ip && call.size == size;
    if is_same && now_ns() < call.stack_ns + JUMP_MAX_NS {
        return true;
    }
    let _ = CALLS.remove(&key);
    false
}

/// Ends the call that had this stack pointer at its entry, with its result.
#[inline(always)]
fn leave(given: u64, sp: u64) {
    let (pid, tid) = task::current_ids();
    let key = key(tid, sp);
    // SAFETY: a live element of the map, used only by this thread.
    let Some(&pending) = (unsafe { CALLS.get(&key) }) else { return };
    let _ = CALLS.remove(&key);
    let address = match pending.to {
        0 => given,
        to if given as u32 == 0 => read_word(to),
        _ => 0,
    };
    let time_ns = now_ns();
    let is_freed = address != 0 || pending.size == 0;
    if pending.old_address != 0 {
        if is_freed {
            send_free(pid, pending.old_address, pending.old_since_ns, time_ns);
        } else {
            let block = LiveBlock { since_ns: pending.old_since_ns };
            let _ = BLOCKS_LIVE.insert(&block_key(pid, pending.old_address), &block, 0);
        }
    }
    if pending.stack_ns == 0 {
        return;
    }
    if address == 0 {
        count(counter::ALLOCATIONS_FAILED, 1);
        return;
    }
    let block = LiveBlock { since_ns: time_ns };
    let is_tracked = BLOCKS_LIVE.insert(&block_key(pid, address), &block, 0).is_ok();
    if !is_tracked {
        count(counter::BLOCKS_UNTRACKED, 1);
    }
    let mut record = AllocationRecord {
        is_untracked: u8::from(!is_tracked),
        pid,
        tid,
        address,
        size: pending.size,
        stack_ns: pending.stack_ns,
        time_ns,
        ..AllocationRecord::EMPTY
    };
    // SAFETY: a record of that size.
    if !unsafe { send((&raw mut record).cast(), ALLOCATION_RECORD_BYTES as u64) } {
        count(counter::ALLOCATIONS_LOST, 1);
        let _ = BLOCKS_LIVE.remove(&block_key(pid, address));
    }
}

/// Whether a call for `size` bytes is the next sample.
#[inline(always)]
fn is_sampled(size: u64) -> bool {
    if setting!(SAMPLE_BYTES) == 0 {
        return true;
    }
    let Some(left) = LEFT.get_ptr_mut(0) else { return false };
    // SAFETY: a live element of a per-CPU array. If another thread preempts this one, a few bytes are lost.
    let left = unsafe { &mut *left };
    if *left == 0 {
        // The first call on this CPU, or one in half a million others, which does no harm.
        *left = distance();
    }
    *left -= size.min(ADDRESSES) as i64;
    if *left > 0 {
        return false;
    }
    *left = distance();
    true
}

/// Draws the bytes until the next sample.
#[inline(always)]
fn distance() -> i64 {
    // SAFETY: a helper without arguments.
    let random = unsafe { bpf_get_prandom_u32() };
    bytes_until_sample(random, setting!(SAMPLE_BYTES)) as i64
}

#[inline(always)]
fn block_key(pid: u32, address: u64) -> BlockKey {
    BlockKey { address, pid, reserved: 0 }
}

/// Removes a block from the table of live ones. Returns its allocation time.
#[inline(always)]
fn take_block(pid: u32, address: u64) -> Option<u64> {
    let key = block_key(pid, address);
    // SAFETY: a live element of the map.
    let since_ns = unsafe { BLOCKS_LIVE.get(&key) }?.since_ns;
    // If two threads free the same block, only the one that removes it continues.
    BLOCKS_LIVE.remove(&key).is_ok().then_some(since_ns)
}

#[inline(always)]
fn send_free(pid: u32, address: u64, since_ns: u64, time_ns: u64) {
    let mut record = FreeRecord { pid, address, since_ns, time_ns, ..FreeRecord::EMPTY };
    // SAFETY: a record of that size.
    if !unsafe { send((&raw mut record).cast(), FREE_RECORD_BYTES as u64) } {
        count(counter::FREES_LOST, 1);
    }
}

#[inline(always)]
fn read_word(address: u64) -> u64 {
    let mut word = 0_u64;
    // SAFETY: reads user memory into a word; a bad address is an error, not a fault.
    match unsafe { bpf_probe_read_user((&raw mut word).cast(), 8, address as *const _) } {
        0 => word,
        _ => 0,
    }
}

/// Parts of the scratch memory in use, by CPU: a thread may be preempted while it holds one. Inserting a missing
/// element is atomic, also on kernels whose verifier knows no other atomic operation.
#[map]
static PARTS: HashMap<u32, u8> = HashMap::with_max_entries(4096, BPF_F_NO_PREALLOC);

/// Walks the stack and sends it. Returns false on failure.
#[inline(always)]
pub fn send_stack(origin: Origin, user: UserRegs, registers: &pt_regs) -> bool {
    let Some(part) = take_part() else { return false };
    let mut is_sent = false;
    if let Some(record) = SampleRecord::allocation(part, origin) {
        record.walk_user(user, Some(registers));
        record.send_copy();
        is_sent = record.send();
    }
    give_back(part);
    is_sent
}

/// Reserves a part of the scratch memory for this thread.
#[inline(always)]
fn take_part() -> Option<u32> {
    for part in 0..scratch::HEAP_PARTS {
        if PARTS.insert(&part_key(part), &1, u64::from(BPF_NOEXIST)).is_ok() {
            return Some(scratch::HEAP + part);
        }
    }
    None
}

#[inline(always)]
fn part_key(part: u32) -> u32 {
    // SAFETY: a helper without arguments.
    unsafe { bpf_get_smp_processor_id() * scratch::HEAP_PARTS + part }
}

#[inline(always)]
fn give_back(part: u32) {
    let _ = PARTS.remove(&part_key(part - scratch::HEAP));
}

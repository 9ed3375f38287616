//! Probes at the functions of allocators.
//!
//! A call that allocates is sampled by the bytes that it asks for: the distance to the next sample is exponentially
//! distributed, so that each byte has the same chance, whatever the sizes are. Of a sampled call the stack is sent at
//! its entry, and the block where it ends. Only blocks that were sampled are looked for when they are freed.

use aya_ebpf::{
    EbpfContext as _,
    bindings::{BPF_F_NO_PREALLOC, pt_regs},
    helpers::{
        bpf_get_prandom_u32, bpf_ktime_get_ns,
        generated::{bpf_get_attach_cookie, bpf_get_func_ip, bpf_probe_read_user},
    },
    macros::map,
    maps::{Array, HashMap, PerCpuArray},
    programs::ProbeContext,
};
use wingbeat_profile_common::{
    counter,
    heap::{
        ALLOCATION_RECORD_BYTES, AllocationRecord, BlockKey, EXIT_FILLS, EXIT_REGISTER_SHIFT,
        FREE_RECORD_BYTES, FreeRecord, LiveBlock, PendingCall, bytes_until_sample, call, state,
    },
};

use crate::{
    allocation,
    maps::{count, setting},
    namespace,
    record::{Whose, send},
    regs,
};

/// Sampled blocks that are live; the size is set at load.
#[map]
static BLOCKS_LIVE: HashMap<BlockKey, LiveBlock> = HashMap::with_max_entries(1, BPF_F_NO_PREALLOC);

/// Calls that have not ended, by thread and stack pointer; the size is set at load.
#[map]
static CALLS: HashMap<u64, PendingCall> = HashMap::with_max_entries(1, BPF_F_NO_PREALLOC);

/// See [`state`].
#[map]
static HEAP_STATE: Array<u32> = Array::with_max_entries(1, 0);

/// Bytes until the next sample.
#[map]
static LEFT: PerCpuArray<i64> = PerCpuArray::with_max_entries(1, 0);

/// The call that jumps to another function of the allocator.
#[map]
static HANDED_ON: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);

/// Bytes that a program can address: no allocation is larger.
const ADDRESSES: u64 = 1 << 47;

/// Entry of a function that allocates.
#[unsafe(no_mangle)]
#[unsafe(link_section = "uprobe.multi")]
pub fn heap_entry(ctx: *mut core::ffi::c_void) -> u32 {
    let ctx = ProbeContext::new(ctx);
    enter(&ctx, registers(&ctx));
    0
}

/// A way out of it, where the block is known. The cookie is by how many bytes the stack is deeper than at the entry.
#[unsafe(no_mangle)]
#[unsafe(link_section = "uprobe.multi")]
pub fn heap_exit(ctx: *mut core::ffi::c_void) -> u32 {
    let ctx = ProbeContext::new(ctx);
    // SAFETY: the helper only reads the context.
    let cookie = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) };
    let registers = registers(&ctx);
    let sp = regs::sp(registers) + u64::from(cookie as u32);
    if cookie & EXIT_FILLS == 0 {
        leave(regs::numbered(registers, cookie >> EXIT_REGISTER_SHIFT), sp);
    } else if regs::argument(registers, 1) as u32 == 0 {
        // A block is filled with zeros.
        leave(regs::argument(registers, 0), sp);
    }
    0
}

/// A function that frees a block: where its first argument is still there.
#[unsafe(no_mangle)]
#[unsafe(link_section = "uprobe.multi")]
pub fn heap_free(ctx: *mut core::ffi::c_void) -> u32 {
    let ctx = ProbeContext::new(ctx);
    let address = regs::argument(registers(&ctx), 0);
    if address == 0 {
        return 0;
    }
    count(counter::FREES, 1);
    if is_recording() {
        let pid = namespace::current().0;
        if let Some(since_ns) = take_block(pid, address) {
            send_free(pid, address, since_ns, now_ns());
        }
    }
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

/// A call by its thread and its stack pointer at the entry.
#[inline(always)]
fn key(tid: u32, sp: u64) -> u64 {
    (u64::from(tid) << 32) | (sp & 0xffff_ffff)
}

#[inline(always)]
fn enter(ctx: &ProbeContext, registers: &pt_regs) {
    // SAFETY: the helpers only read the context.
    let (cookie, place) =
        unsafe { (bpf_get_attach_cookie(ctx.as_ptr()), bpf_get_func_ip(ctx.as_ptr())) };
    let argument = |index| regs::argument(registers, index);
    let kind = cookie & !call::NEW_IS_OTHERS;
    // A product that is too large is refused.
    let size = match kind {
        call::CALLOC => argument(0).wrapping_mul(argument(1)),
        call::ALIGNED | call::REALLOC => argument(1),
        call::POSIX_MEMALIGN => argument(2),
        call::REALLOCARRAY => argument(1).wrapping_mul(argument(2)),
        _ => argument(0),
    };
    let (pid, tid) = namespace::current();
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
        place,
        size,
        to: if kind == call::POSIX_MEMALIGN { argument(0) } else { 0 },
        old_address: 0,
        old_since_ns: 0,
    };
    if (kind == call::REALLOC || kind == call::REALLOCARRAY) && argument(0) != 0 {
        // Before it is freed: afterwards another thread may have a block there.
        if let Some(since_ns) = take_block(pid, argument(0)) {
            (pending.old_address, pending.old_since_ns) = (argument(0), since_ns);
        }
    }
    let has_jumped = has_jumped(key, place, size);
    // It counts already.
    if is_sampled(size) && !has_jumped {
        let whose = Whose { pid, tid, time_ns: now_ns() };
        if allocation::send_stack(whose, regs::user(registers), registers) {
            pending.stack_ns = whose.time_ns;
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

/// Notes that a call was looked at and not taken, which jumps to another function now: it must not have a second chance
/// there. If the thread comes to another CPU just then, it has.
#[inline(always)]
fn hand_on(key: u64) {
    if let Some(place) = HANDED_ON.get_ptr_mut(0) {
        // SAFETY: a live element of a per-CPU array.
        unsafe { *place = key };
    }
}

/// Is this such a call? It is then no more.
#[inline(always)]
fn is_handed_on(key: u64) -> bool {
    let Some(place) = HANDED_ON.get_ptr_mut(0) else { return false };
    // SAFETY: as above.
    unsafe {
        let is_it = *place == key;
        if is_it {
            *place = 0;
        }
        is_it
    }
}

/// How long a jump to another function may take.
const JUMP_MAX_NS: u64 = 100_000_000;

/// Has this call begun in another function, which jumped here? Forgets one with the same frame that came to no exit,
/// because an exception or the thread left it.
#[inline(always)]
fn has_jumped(key: u64, place: u64, size: u64) -> bool {
    // SAFETY: a live element of the map; only this thread has it.
    let Some(call) = (unsafe { CALLS.get(&key) }) else { return false };
    let is_same = call.place != place && call.size == size;
    if is_same && now_ns() < call.stack_ns + JUMP_MAX_NS {
        return true;
    }
    let _ = CALLS.remove(&key);
    false
}

/// A call ends with a result, which had this stack pointer at its entry.
#[inline(always)]
fn leave(given: u64, sp: u64) {
    let (pid, tid) = namespace::current();
    let key = key(tid, sp);
    // SAFETY: a live element of the map; nobody but this thread has it.
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

/// Is a call of so many bytes the next sample?
#[inline(always)]
fn is_sampled(size: u64) -> bool {
    if setting!(SAMPLE_BYTES) == 0 {
        return true;
    }
    let Some(left) = LEFT.get_ptr_mut(0) else { return false };
    // SAFETY: a live element of a per-CPU array. If another thread comes in between, a few bytes are forgotten.
    let left = unsafe { &mut *left };
    if *left == 0 {
        // The first of this CPU, or one in half a million others, which it does not harm.
        *left = distance();
    }
    *left -= size.min(ADDRESSES) as i64;
    if *left > 0 {
        return false;
    }
    *left = distance();
    true
}

/// Bytes until the next sample.
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

/// Takes a block out of the table of live ones: since when it was there.
#[inline(always)]
fn take_block(pid: u32, address: u64) -> Option<u64> {
    let key = block_key(pid, address);
    // SAFETY: a live element of the map.
    let since_ns = unsafe { BLOCKS_LIVE.get(&key) }?.since_ns;
    // Whoever removes it, if two threads free the same block.
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

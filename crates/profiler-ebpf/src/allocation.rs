//! Stacks of allocating calls, shared by the programs that see them.

use aya_ebpf::{
    bindings::{BPF_F_NO_PREALLOC, BPF_NOEXIST, pt_regs},
    helpers::bpf_get_smp_processor_id,
    macros::map,
    maps::HashMap,
};

use crate::{
    maps::scratch,
    record::{SampleRecord, Whose},
    regs::UserRegs,
};

/// Parts of the scratch memory in use, by CPU: a thread may be preempted while it holds one. Inserting a missing
/// element is atomic, also on kernels whose verifier knows no other atomic operation.
#[map]
static PARTS: HashMap<u32, u8> = HashMap::with_max_entries(4096, BPF_F_NO_PREALLOC);

/// Walks the stack and sends it. Returns false on failure.
#[inline(always)]
pub fn send_stack(whose: Whose, user: UserRegs, registers: &pt_regs) -> bool {
    let Some(part) = take_part() else { return false };
    let mut is_sent = false;
    if let Some(record) = SampleRecord::allocation(part, whose) {
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

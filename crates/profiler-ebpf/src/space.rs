//! System calls that change the address space: `mmap`, `munmap`, `mremap` and `brk`, at their return.

use aya_ebpf::{helpers::bpf_ktime_get_ns, macros::raw_tracepoint, programs::RawTracePointContext};
use wingbeat_profiler_abi::{
    counter,
    space::{SPACE_RECORD_BYTES, SpaceRecord, call},
};

use crate::{
    heap,
    maps::{count, send},
    record::Origin,
    regs::{self, SystemCall},
    task::{self, is_target, without_preemption},
};

/// Flags of `mmap` (include/uapi/asm-generic/mman-common.h).
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;

/// Results from here on are errors (include/linux/err.h).
const ERRORS_BEGIN: u64 = -4095_i64 as u64;

/// `sys_exit(registers, result)`: runs for every call of every process, so it returns early for most.
#[raw_tracepoint(tracepoint = "sys_exit")]
pub fn on_sys_exit(ctx: RawTracePointContext) -> i32 {
    without_preemption(|| changed(&ctx));
    0
}

#[inline(always)]
fn changed(ctx: &RawTracePointContext) {
    let registers = regs::saved();
    let Some(system_call) = regs::system_call(registers) else { return };
    let (pid, tid) = task::current_ids();
    if !is_target(pid) {
        return;
    }
    let result: u64 = ctx.arg(1);
    let argument = |index| regs::system_call_argument(registers, index);
    let mut record = SpaceRecord { pid, tid, address: result, ..SpaceRecord::EMPTY };
    let mut has_stack = false;
    match system_call {
        SystemCall::Mmap => {
            record.bytes = argument(1);
            let flags = argument(3);
            if flags & MAP_ANONYMOUS != 0 {
                record.call = call::MAP;
                has_stack = true;
            } else if flags & MAP_FIXED != 0 {
                record.call = call::COVER;
            } else {
                return;
            }
        }
        SystemCall::Munmap => {
            record.call = call::UNMAP;
            record.address = argument(0);
            record.bytes = argument(1);
        }
        SystemCall::Brk => {
            record.call = call::BREAK;
            // A result other than the request is the old break.
            has_stack = argument(0) == result;
        }
        SystemCall::Mremap => {
            record.call = call::REMAP;
            record.old_address = argument(0);
            record.old_bytes = argument(1);
            record.bytes = argument(2);
            has_stack = true;
        }
    }
    if result >= ERRORS_BEGIN {
        return;
    }
    // SAFETY: a helper without arguments.
    record.time_ns = unsafe { bpf_ktime_get_ns() };
    if has_stack {
        let origin = Origin { pid, tid, time_ns: record.time_ns };
        if !heap::send_stack(origin, regs::entry(registers), registers) {
            count(counter::SPACES_LOST, 1);
            return;
        }
        record.stack_ns = record.time_ns;
    }
    // SAFETY: a record of that size.
    if !unsafe { send((&raw mut record).cast(), SPACE_RECORD_BYTES as u64) } {
        count(counter::SPACES_LOST, 1);
    }
}

//! Kernel half of the example profiler: one program, which runs at each tick of the target's clock.
//!
//! It runs in the context of the interrupted thread, so everything that it asks for (PID, stack)
//! is that thread's.
#![no_std]
#![no_main]

use core::mem::offset_of;

use aya_ebpf::{
    EbpfContext, Global,
    bindings::{BPF_F_USER_STACK, BPF_RB_NO_WAKEUP},
    helpers::{bpf_get_stack, bpf_ktime_get_ns},
    macros::{map, perf_event},
    maps::RingBuf,
    programs::PerfEventContext,
};
use aya_log_ebpf::error;
use profiler_common::{STACK_BYTES_MAX, Sample, SampleHeader};

/// The target, set by user space before loading. For messages: what is sampled is decided by what
/// the program is attached to, and that includes children, whose PIDs are others.
#[unsafe(no_mangle)]
static PID: Global<u32> = Global::new(0);

/// Samples on their way to user space: room for about 16,000, or 160 CPU seconds at 100 Hz.
#[map]
static SAMPLES: RingBuf = RingBuf::with_byte_size(4096 * 4096, 0);

/// A tick of the clock.
#[perf_event]
pub fn perf_profiler(ctx: PerfEventContext) -> u32 {
    take_sample(&ctx);
    0
}

fn take_sample(ctx: &PerfEventContext) {
    let Some(mut sample) = SAMPLES.reserve::<Sample>(0) else {
        error!(ctx, "sample of process {} lost: the ring buffer is full", PID.load());
        return;
    };
    let start = sample.as_mut_ptr();
    // SAFETY: the stack lies within the reservation, right after the header, and has the given
    // size. Uses only raw pointers: the reserved memory holds stale bytes, so no reference to it is
    // created.
    let stack_len = unsafe {
        bpf_get_stack(
            ctx.as_ptr(),
            start.byte_add(offset_of!(Sample, stack)).cast(),
            STACK_BYTES_MAX as u32,
            u64::from(BPF_F_USER_STACK),
        )
    };
    // Negative values are errors; the verifier only knows that the result may be negative.
    let Ok(stack_len) = u64::try_from(stack_len) else {
        error!(ctx, "sample of process {} failed: bpf_get_stack says {}", PID.load(), stack_len);
        // Discarded, or the reservation would block all that come after it. There is nothing to
        // read, hence nobody to wake.
        sample.discard(u64::from(BPF_RB_NO_WAKEUP));
        return;
    };
    let header = SampleHeader {
        // SAFETY: a helper without arguments.
        ktime: unsafe { bpf_ktime_get_ns() },
        pid: ctx.tgid(),
        // The kernel's "pid" is the thread id of user space.
        tid: ctx.pid(),
        stack_len,
    };
    // SAFETY: the header lies within the reservation, with the required alignment.
    unsafe { (&raw mut (*start).header).write(header) };
    sample.submit(0);
}

/// Unreachable, as the verifier proves; but the compiler requires it.
#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}

/// `bpf_get_stack` is for GPL-compatible programs only.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

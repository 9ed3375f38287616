//! Kernel half of the profiler: one program per event.
//!
//! `sample` runs at each tick of the cpu-clock event on each CPU, in the context that it interrupts, and `fault`
//! at page faults. `on_switch` runs when the scheduler switches threads, after `on_missed`; `on_waking` when a
//! thread is woken. The programs of `heap` run when allocator functions are called, `on_sys_exit` when a system
//! call returns. The four programs of `targets` maintain the table of targets: children join at `fork`, a launched
//! command at its first `exec`, and all leave when their task is freed, so that a reused PID is not a target.
#![no_std]
#![no_main]

mod block_stacks;
mod copy;
mod heap;
mod maps;
mod record;
mod regs;
mod sample;
mod snapshot;
mod space;
mod stack;
mod switch;
mod synthesized_switches;
mod targets;
mod task;

/// The verifier proves this unreachable, but the compiler requires it.
#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}

/// `bpf_get_stack` is available to GPL-compatible programs only.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

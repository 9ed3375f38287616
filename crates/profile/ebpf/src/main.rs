//! Kernel half of the profiler: one program per event.
//!
//! `sample` runs at each tick of a cpu-clock event on each CPU, in the context of whatever the tick
//! interrupted, `fault` at page faults. `on_switch` runs when a thread goes off a CPU and another comes in, after
//! `on_missed`; `on_waking` when one is woken. The programs of `heap` run when
//! functions of an allocator are called, `on_sys_exit` when a system call returns. The four programs of `targets` keep the table of targets: children join by `fork`, a
//! launched command at its first `exec`, and all leave when their task is freed, so that a PID that
//! is used again does not inherit the interest.
#![no_std]
#![no_main]

mod allocation;
mod copy;
mod hash;
mod heap;
mod maps;
mod missed;
mod namespace;
mod place;
mod preempt;
mod record;
mod regs;
mod sample;
mod snapshot;
mod space;
mod stack;
mod switch;
mod table;
mod targets;
mod task;
mod waking;
mod window;

/// The verifier proves that this is never reached; the compiler wants it all the same.
#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}

/// `bpf_get_stack` is for GPL-compatible programs only.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

//! Programs that run in the context of a task which may be preempted: those of fork, exec and exit since Linux 7.0,
//! those of uprobes and of system calls on any kernel that is built for preemption.
//!
//! A switch would see an account that is half written. And the programs of two threads would overwrite each other's
//! variables: since Linux 6.13 a program for x86-64 with more than 64 bytes of stack has them in memory of the CPU
//! (`bpf_enable_priv_stack` in kernel/bpf/verifier.c), and nothing keeps a uprobe's program from running twice on one.

use core::mem::transmute;

use wingbeat_profiler_abi::placeholder::{PREEMPT_DISABLE, PREEMPT_ENABLE};

/// Calls `act` with preemption disabled, where the kernel has functions for that (Linux 6.10).
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

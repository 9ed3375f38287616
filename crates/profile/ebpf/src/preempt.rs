//! Tracepoint programs of fork, exec, exit and free run in the context of a task. Since Linux 7.0 that task may be
//! preempted meanwhile, and a switch would see an account that is half written.

use core::mem::transmute;

use wingbeat_profile_common::placeholder::{PREEMPT_DISABLE, PREEMPT_ENABLE};

/// Calls `act` with preemption disabled, where the kernel has functions for that (Linux 6.10).
#[inline(always)]
pub fn without_preemption(act: impl FnOnce()) {
    // SAFETY: no kernel has helpers of these numbers: user space replaces their calls by those of functions without
    // arguments, or by nothing.
    let [disable, enable] = unsafe {
        [PREEMPT_DISABLE, PREEMPT_ENABLE].map(|number| transmute::<usize, extern "C" fn()>(number))
    };
    disable();
    act();
    enable();
}

//! The registers that unwinding starts from, of user code that was interrupted.

use aya_ebpf::{
    bindings::{pt_regs, task_struct},
    helpers::generated::{bpf_get_current_task_btf, bpf_task_pt_regs},
    programs::PerfEventContext,
};

/// Instruction, stack and frame pointer of user code.
#[derive(Clone, Copy)]
pub struct UserRegs {
    pub ip: u64,
    pub sp: u64,
    pub bp: u64,
}

/// Where a tick fell.
pub enum Interrupted {
    User(UserRegs),
    /// In the kernel, working for user code.
    Kernel(UserRegs),
    /// In a kernel thread, which has no user code.
    KernelThread,
}

/// Finds out where a tick fell.
#[inline(always)]
pub fn interrupted(ctx: &PerfEventContext) -> Interrupted {
    // SAFETY: the context of a perf_event program begins with the interrupted registers.
    let regs = unsafe { &(*ctx.ctx).regs };
    if arch::is_user(regs) {
        return Interrupted::User(arch::user_regs(regs));
    }
    // In a kernel thread the place where user registers would be holds something else, which `is_user`
    // refuses: its code segment is never that of user code.
    match of_current() {
        Some(user) => Interrupted::Kernel(user),
        None => Interrupted::KernelThread,
    }
}

/// Where the current thread entered the kernel; `None` for a kernel thread.
#[inline(always)]
pub fn of_current() -> Option<UserRegs> {
    // SAFETY: the helper gives the current task, which exists.
    unsafe { of_task(bpf_get_current_task_btf()) }
}

/// Where a thread entered the kernel; `None` for a kernel thread.
///
/// # Safety
///
/// `task` is a pointer that the verifier knows as that of a task.
#[inline(always)]
pub unsafe fn of_task(task: *mut task_struct) -> Option<UserRegs> {
    // The verifier knows what the helper gives, so that members are read like any memory; a copy of
    // all of them would take a third of a BPF stack.
    // SAFETY: the helper only reads; the verifier checks what is read.
    let saved = unsafe { &*(bpf_task_pt_regs(task) as *const pt_regs) };
    arch::is_user(saved).then(|| arch::entry_regs(saved))
}

#[cfg(bpf_target_arch = "x86_64")]
mod arch {
    use super::{UserRegs, pt_regs};

    /// The two low bits of the code segment are the privilege level: 3 is user code.
    #[inline(always)]
    pub fn is_user(regs: &pt_regs) -> bool {
        regs.cs & 3 == 3
    }

    #[inline(always)]
    pub fn user_regs(regs: &pt_regs) -> UserRegs {
        UserRegs { ip: regs.rip, sp: regs.rsp, bp: regs.rbp }
    }

    /// The same of code that entered the kernel: a system call (whose number is not negative) has its
    /// line before the address that it returns to, as any call has.
    #[inline(always)]
    pub fn entry_regs(regs: &pt_regs) -> UserRegs {
        let is_call = u64::from((regs.orig_rax as i64) >= 0);
        UserRegs { ip: regs.rip - is_call, sp: regs.rsp, bp: regs.rbp }
    }
}

/// Written after the architecture manual; not run yet on such a machine.
#[cfg(bpf_target_arch = "aarch64")]
mod arch {
    use super::{UserRegs, pt_regs};

    /// The low bits of the saved state are the exception level: 0 is user code.
    #[inline(always)]
    pub fn is_user(regs: &pt_regs) -> bool {
        regs.pstate & 0xf == 0
    }

    #[inline(always)]
    pub fn user_regs(regs: &pt_regs) -> UserRegs {
        UserRegs { ip: regs.pc, sp: regs.sp, bp: regs.regs[29] }
    }

    /// The same of code that entered the kernel.
    #[inline(always)]
    pub fn entry_regs(regs: &pt_regs) -> UserRegs {
        user_regs(regs)
    }
}

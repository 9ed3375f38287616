//! User registers at the start of unwinding.

use wingbeat_profiler_abi::unwind::{ExtraRegister, REGISTERS};

use aya_ebpf::{
    bindings::{pt_regs, task_struct},
    helpers::generated::{bpf_get_current_task_btf, bpf_probe_read_user, bpf_task_pt_regs},
    programs::PerfEventContext,
};

use crate::{
    maps::setting,
    task::{Probed, Task as _, Trusted},
};

/// Instruction, stack and frame pointer of user code, and one more register by architecture.
#[derive(Clone, Copy)]
pub struct UserRegs {
    pub ip: u64,
    pub sp: u64,
    pub bp: u64,
    /// State that user space needs to continue a walk, see [`ExtraRegister`].
    pub extra_register: ExtraRegister,
}

/// Context that a tick interrupted.
pub enum Interrupted<'a> {
    User(UserRegs, &'a pt_regs),
    /// The kernel, on behalf of user code.
    Kernel(UserRegs),
    /// A kernel thread, which has no user code.
    KernelThread,
}

/// Determines the context that a tick interrupted.
#[inline(always)]
pub fn interrupted(ctx: &PerfEventContext) -> Interrupted<'_> {
    // SAFETY: the context of a perf_event program begins with the interrupted registers.
    let regs = unsafe { &(*ctx.ctx).regs };
    if arch::is_user(regs) {
        return Interrupted::User(arch::user_regs(regs), regs);
    }
    // A kernel thread has other data where user registers would be. `is_user` rejects it: its code segment is
    // never that of user code.
    match of_current() {
        Some(user) => Interrupted::Kernel(user),
        None => Interrupted::KernelThread,
    }
}

/// Registers at the current thread's kernel entry; `None` for a kernel thread.
#[inline(always)]
pub fn of_current() -> Option<UserRegs> {
    // SAFETY: the helper returns the current task, which exists.
    unsafe { of_task(bpf_get_current_task_btf()) }
}

/// All registers at the current thread's kernel entry; meaningless in a kernel thread.
#[inline(always)]
pub fn saved<'a>() -> &'a pt_regs {
    // SAFETY: the helpers return the current task, which exists, and only read; the verifier checks the reads.
    unsafe { &*(bpf_task_pt_regs(bpf_get_current_task_btf()) as *const pt_regs) }
}

/// Registers at a thread's kernel entry; `None` for a kernel thread.
///
/// # Safety
///
/// The verifier knows `task` as a pointer to a task.
#[inline(always)]
pub unsafe fn of_task(task: *mut task_struct) -> Option<UserRegs> {
    // The verifier knows the type that the helper returns, so members are read like ordinary memory. A copy of all
    // of them would take a third of a BPF stack. SAFETY: the helper only reads; the verifier checks the reads.
    let saved = unsafe { &*(bpf_task_pt_regs(task) as *const pt_regs) };
    arch::is_user(saved).then(|| arch::entry_regs(saved))
}

/// Whether the current thread has released the memory that it had at this kernel entry. An exiting process has no
/// memory while the kernel frees it. During `execve`, a thread has the new program's memory and the old one's
/// registers until it leaves the kernel.
#[inline(always)]
pub fn is_memory_gone(user: UserRegs) -> bool {
    // SAFETY: the helper returns the current task, which exists.
    let task = unsafe { bpf_get_current_task_btf() };
    let memory: u64 = Trusted(task.cast_const().cast()).field(setting!(TASK_MM));
    memory == 0 || (arch::is_exec(saved()) && !(is_readable(user.sp) && is_readable(user.ip)))
}

/// Upper end of the current thread's stack. The stack of a process's first thread begins below what the kernel put
/// there for the program, arguments and environment, which may be longer than the stack. The C library puts the
/// local storage of other threads on top of their stacks.
///
/// Neither is near stacks that a program allocates itself, such as coroutines. Those are between other memory, and
/// small.
#[inline(always)]
pub fn stack_end(sp: u64) -> u64 {
    // SAFETY: the helper returns the current task, which exists.
    let task = Trusted(unsafe { bpf_get_current_task_btf() }.cast_const().cast());
    let memory: u64 = task.field(setting!(TASK_MM));
    let start: u64 = Probed(memory as *const u8).field(setting!(MM_START_STACK));
    let is_near = |end: u64| end > sp && end - sp <= STACK_BYTES_MAX;
    if is_near(start) {
        // The argument count is there, in the position of a return address.
        return start + 8;
    }
    if setting!(TASK_TLS) != 0 {
        let tls: u64 = task.field(setting!(TASK_TLS));
        if is_near(tls) {
            return tls;
        }
    }
    sp + OTHER_STACK_BYTES
}

/// Stacks made by the kernel and the C library are rarely larger.
const STACK_BYTES_MAX: u64 = 8 << 20;
/// Bytes copied of a stack that the program allocated itself.
const OTHER_STACK_BYTES: u64 = 32 << 10;

#[inline(always)]
fn is_readable(address: u64) -> bool {
    let mut byte = 0_u8;
    // SAFETY: reads user memory into a byte; a bad address is an error, not a fault.
    unsafe { bpf_probe_read_user((&raw mut byte).cast(), 1, address as *const _) == 0 }
}

/// A system call that changes the address space.
#[derive(Clone, Copy)]
pub enum SystemCall {
    Mmap,
    Munmap,
    Brk,
    Mremap,
}

pub use arch::{
    argument, by_number, entry_regs as entry, numbered, sp, system_call, system_call_argument,
    user_regs as user,
};

#[cfg(machine = "x86_64")]
mod arch {
    use super::{ExtraRegister, REGISTERS, SystemCall, UserRegs, pt_regs};

    /// The two low bits of the code segment are the privilege level: 3 is user code.
    #[inline(always)]
    pub fn is_user(regs: &pt_regs) -> bool {
        regs.cs & 3 == 3
    }

    #[inline(always)]
    pub fn user_regs(regs: &pt_regs) -> UserRegs {
        UserRegs {
            ip: regs.rip,
            sp: regs.rsp,
            bp: regs.rbp,
            extra_register: ExtraRegister::UNKNOWN,
        }
    }

    #[inline(always)]
    pub fn sp(regs: &pt_regs) -> u64 {
        regs.rsp
    }

    /// One of the first three arguments of a function (psABI of x86-64, 3.2.3).
    #[inline(always)]
    pub fn argument(regs: &pt_regs, index: u32) -> u64 {
        match index {
            0 => regs.rdi,
            1 => regs.rsi,
            _ => regs.rdx,
        }
    }

    /// A register by its number in instruction encodings (Intel SDM, volume 2, table 2-4).
    #[inline(always)]
    pub fn numbered(regs: &pt_regs, number: u64) -> u64 {
        // Volatile: otherwise the compiler selects among addresses, which the verifier does not allow for a context.
        macro_rules! all {
            ($($register:ident)*) => {
                // SAFETY: members of a reference that the caller has.
                unsafe { [$((&raw const regs.$register).read_volatile()),*] }
            };
        }
        let all: [u64; 16] = all!(rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15);
        all[number as usize & 15]
    }

    /// Whether the registers are of an `execve` or `execveat` (arch/x86/entry/syscalls/syscall_64.tbl).
    #[inline(always)]
    pub fn is_exec(regs: &pt_regs) -> bool {
        regs.orig_rax == 59 || regs.orig_rax == 322
    }

    /// The address space call that the registers are of (arch/x86/entry/syscalls/syscall_64.tbl). `None` for
    /// 32-bit code, which has another segment (arch/x86/include/asm/segment.h) and other numbers.
    #[inline(always)]
    pub fn system_call(regs: &pt_regs) -> Option<SystemCall> {
        const USER_CS: u64 = 0x33;
        let call = match regs.orig_rax {
            9 => SystemCall::Mmap,
            11 => SystemCall::Munmap,
            12 => SystemCall::Brk,
            25 => SystemCall::Mremap,
            _ => return None,
        };
        (regs.cs & 0xffff == USER_CS).then_some(call)
    }

    /// One of the first four arguments of a system call (psABI of x86-64, A.2.1).
    #[inline(always)]
    pub fn system_call_argument(regs: &pt_regs, index: u32) -> u64 {
        match index {
            0 => regs.rdi,
            1 => regs.rsi,
            2 => regs.rdx,
            _ => regs.r10,
        }
    }

    /// All registers by their DWARF numbers (psABI of x86-64, figure 3.36).
    #[inline(always)]
    pub fn by_number(regs: &pt_regs) -> [u64; REGISTERS] {
        let mut by_number = [0; REGISTERS];
        let known = [
            regs.rax, regs.rdx, regs.rcx, regs.rbx, regs.rsi, regs.rdi, regs.rbp, regs.rsp,
            regs.r8, regs.r9, regs.r10, regs.r11, regs.r12, regs.r13, regs.r14, regs.r15,
        ];
        by_number[..known.len()].copy_from_slice(&known);
        by_number
    }

    /// Registers at kernel entry. For a system call (non-negative number), the line is before the return address,
    /// as for any call.
    #[inline(always)]
    pub fn entry_regs(regs: &pt_regs) -> UserRegs {
        let is_call = u64::from((regs.orig_rax as i64) >= 0);
        UserRegs {
            ip: regs.rip - is_call,
            sp: regs.rsp,
            bp: regs.rbp,
            extra_register: ExtraRegister::UNKNOWN,
        }
    }
}

#[cfg(machine = "aarch64")]
mod arch {
    use super::{ExtraRegister, REGISTERS, SystemCall, UserRegs, pt_regs};

    /// The low bits of the saved state are the exception level: 0 is user code.
    #[inline(always)]
    pub fn is_user(regs: &pt_regs) -> bool {
        regs.pstate & 0xf == 0
    }

    #[inline(always)]
    pub fn user_regs(regs: &pt_regs) -> UserRegs {
        UserRegs {
            ip: regs.pc,
            sp: regs.sp,
            bp: regs.regs[29],
            extra_register: ExtraRegister::link(regs.regs[30]),
        }
    }

    #[inline(always)]
    pub fn sp(regs: &pt_regs) -> u64 {
        regs.sp
    }

    /// One of the first three arguments of a function (AAPCS64, 6.8).
    #[inline(always)]
    pub fn argument(regs: &pt_regs, index: u32) -> u64 {
        match index {
            0 => regs.regs[0],
            1 => regs.regs[1],
            _ => regs.regs[2],
        }
    }

    /// The register in which functions return their result: the only one needed here.
    #[inline(always)]
    pub fn numbered(regs: &pt_regs, _number: u64) -> u64 {
        regs.regs[0]
    }

    /// Whether the registers are of an `execve` or `execveat` (include/uapi/asm-generic/unistd.h).
    #[inline(always)]
    pub fn is_exec(regs: &pt_regs) -> bool {
        regs.regs[8] == 221 || regs.regs[8] == 281
    }

    /// The address space call that the registers are of (include/uapi/asm-generic/unistd.h). `None` for 32-bit
    /// code (`PSR_MODE32_BIT`), which has other numbers.
    #[inline(always)]
    pub fn system_call(regs: &pt_regs) -> Option<SystemCall> {
        let call = match regs.regs[8] {
            222 => SystemCall::Mmap,
            215 => SystemCall::Munmap,
            214 => SystemCall::Brk,
            216 => SystemCall::Mremap,
            _ => return None,
        };
        (regs.pstate & 0x10 == 0).then_some(call)
    }

    /// One of the first four arguments of a system call, at its return: the result has replaced the first
    /// (arch/arm64/include/asm/syscall.h).
    #[inline(always)]
    pub fn system_call_argument(regs: &pt_regs, index: u32) -> u64 {
        match index {
            // SAFETY: `orig_x0` follows `pstate` in the kernel's `struct pt_regs`, and the caller has a complete
            // one (arch/arm64/include/asm/ptrace.h).
            0 => unsafe { (&raw const regs.pstate).add(1).read_volatile() },
            1 => regs.regs[1],
            2 => regs.regs[2],
            _ => regs.regs[3],
        }
    }

    /// All registers by their DWARF numbers (DWARF for the Arm 64-bit Architecture, 4.1).
    #[inline(always)]
    pub fn by_number(regs: &pt_regs) -> [u64; REGISTERS] {
        // Volatile and with constant indices: otherwise they are copied by a generic function, and the verifier
        // does not allow one instruction to read both a program's context and other memory.
        macro_rules! each {
            ($($number:literal)*) => {
                [$(
                    // SAFETY: a member of a reference that the caller has.
                    unsafe { (&raw const regs.regs[$number]).read_volatile() },
                )* regs.sp]
            };
        }
        each!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30)
    }

    /// Registers at kernel entry.
    #[inline(always)]
    pub fn entry_regs(regs: &pt_regs) -> UserRegs {
        user_regs(regs)
    }
}

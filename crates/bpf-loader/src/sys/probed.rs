//! Two functions of this program for attaching probes, whose first instructions the kernel handles differently.

/// Begins with an instruction that the kernel emulates (arch/x86/kernel/uprobes.c, Linux 6.18).
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(crate) extern "C" fn emulated(_argument: usize) {
    core::arch::naked_asm!("push rbp", "xor edi, edi", "pop rbp", "ret")
}

/// Begins with an instruction that the kernel single-steps.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(crate) extern "C" fn stepped(_argument: usize) {
    core::arch::naked_asm!("xor edi, edi", "ret")
}

/// Begins with an instruction that the kernel simulates (arch/arm64/kernel/probes/decode-insn.c, Linux 6.18).
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(crate) extern "C" fn emulated(_argument: usize) {
    core::arch::naked_asm!("nop", "mov x0, xzr", "ret")
}

/// Begins with an instruction that the kernel single-steps.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(crate) extern "C" fn stepped(_argument: usize) {
    core::arch::naked_asm!("mov x0, xzr", "ret")
}

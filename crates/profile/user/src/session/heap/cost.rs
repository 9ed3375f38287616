//! What a probe costs on this machine: measured at two functions of this process.

use std::time::{Duration, Instant};

use wingbeat_bpf::loader::{UprobeKind, Uprobes};
use wingbeat_profile_common::{heap::call, program};

use super::{KernelHalf, Path};
use crate::proc;

/// Calls of each function, once without a probe and once with it. One that is stepped over takes 10 µs.
const CALLS: u32 = 500;

/// Nanoseconds for a probe.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProbeCosts {
    /// At an instruction that the kernel carries out by itself.
    emulated_ns: f64,
    /// At any other.
    stepped_ns: f64,
}

/// What was measured on one virtual machine, for where it cannot be measured.
impl Default for ProbeCosts {
    fn default() -> Self {
        Self { emulated_ns: 400.0, stepped_ns: 8_000.0 }
    }
}

impl ProbeCosts {
    pub(super) fn of(&self, is_emulated: bool) -> f64 {
        if is_emulated { self.emulated_ns } else { self.stepped_ns }
    }

    pub(super) fn measure(kernel_half: &KernelHalf) -> Self {
        let standard = Self::default();
        Self {
            emulated_ns: cost(kernel_half, functions::emulated).unwrap_or(standard.emulated_ns),
            stepped_ns: cost(kernel_half, functions::stepped).unwrap_or(standard.stepped_ns),
        }
    }
}

/// Nanoseconds that a probe at the entry of a function adds to a call; `None` if it cannot be attached.
fn cost(kernel_half: &KernelHalf, function: extern "C" fn()) -> Option<f64> {
    let address = function as usize as u64;
    let pid = std::process::id();
    let mapping = proc::executable_mappings(pid)
        .into_iter()
        .find(|mapping| (mapping.start..mapping.end).contains(&address))?;
    let without = time(function);
    let uprobes = Uprobes {
        kind: UprobeKind::Entry,
        path: Path::new("/proc/self/exe"),
        offsets: &[address - mapping.start + mapping.offset],
        // Its argument is 0: nothing is freed, and nothing counted.
        cookies: &[call::FREE],
        pid,
    };
    let attached = kernel_half.program(program::HEAP_FREE).ok()?.attach_uprobes(&uprobes).ok()?;
    let with = time(function);
    drop(attached);
    Some(with.saturating_sub(without).as_nanos() as f64 / f64::from(CALLS))
}

fn time(function: extern "C" fn()) -> Duration {
    let begun = Instant::now();
    for _ in 0..CALLS {
        function();
    }
    begun.elapsed()
}

#[cfg(target_arch = "x86_64")]
mod functions {
    /// Begins with an instruction that is emulated.
    #[unsafe(naked)]
    pub(super) extern "C" fn emulated() {
        core::arch::naked_asm!("push rbp", "xor edi, edi", "pop rbp", "ret")
    }

    /// Begins with one that is not.
    #[unsafe(naked)]
    pub(super) extern "C" fn stepped() {
        core::arch::naked_asm!("xor edi, edi", "ret")
    }
}

#[cfg(target_arch = "aarch64")]
mod functions {
    /// Begins with an instruction that is simulated (arch/arm64/kernel/probes/decode-insn.c, Linux 6.18).
    #[unsafe(naked)]
    pub(super) extern "C" fn emulated() {
        core::arch::naked_asm!("nop", "mov x0, xzr", "ret")
    }

    /// Begins with one that is not.
    #[unsafe(naked)]
    pub(super) extern "C" fn stepped() {
        core::arch::naked_asm!("mov x0, xzr", "ret")
    }
}

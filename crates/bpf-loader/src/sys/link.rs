//! `bpf(2)` for attaching programs.

use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use super::{address, bpf_fd, number};

const BPF_RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_ITER_CREATE: libc::c_long = 33;

/// Attaches a raw tracepoint program to tracepoint `name`, or a tracing program to its target,
/// until the descriptor is closed.
pub(crate) fn open_raw_tracepoint(
    name: Option<&CStr>,
    program: BorrowedFd<'_>,
) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct RawTracepointOpen {
        name: u64,
        prog_fd: u32,
        padding: u32,
    }
    let name = name.map_or(0, |name| address(name.to_bytes_with_nul()));
    let attr = RawTracepointOpen { name, prog_fd: number(program), padding: 0 };
    // SAFETY: the structure has the command's layout; its pointer is null or to a terminated string
    // that outlives the call.
    unsafe { bpf_fd(BPF_RAW_TRACEPOINT_OPEN, attr) }
}

/// Attaches a perf_event program to an open event, until the descriptor is closed.
pub(crate) fn link_perf_event(program: BorrowedFd<'_>, event: impl AsFd) -> io::Result<OwnedFd> {
    const BPF_PERF_EVENT: u32 = 41;
    link(program, number(event.as_fd()), BPF_PERF_EVENT)
}

/// Creates an iterator from an iterator program.
pub(crate) fn link_iterator(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    const BPF_TRACE_ITER: u32 = 28;
    link(program, 0, BPF_TRACE_ITER)
}

fn link(program: BorrowedFd<'_>, target_fd: u32, attach_type: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct LinkCreate {
        prog_fd: u32,
        target_fd: u32,
        attach_type: u32,
        flags: u32,
    }
    let attr = LinkCreate { prog_fd: number(program), target_fd, attach_type, flags: 0 };
    // SAFETY: the structure has the command's layout and holds no pointers.
    unsafe { bpf_fd(BPF_LINK_CREATE, attr) }
}

/// `BPF_TRACE_UPROBE_MULTI` of `enum bpf_attach_type` (include/uapi/linux/bpf.h, Linux 6.6).
pub(crate) const UPROBE_MULTI: u32 = 48;

/// Attaches a program to locations in the code of a file, until the descriptor is closed. There is
/// a cookie for each offset.
pub(crate) fn link_uprobes(
    program: BorrowedFd<'_>,
    path: &CStr,
    places: (&[u64], &[u64]),
    pid: u32,
) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct LinkUprobes {
        prog_fd: u32,
        target_fd: u32,
        attach_type: u32,
        flags: u32,
        path: u64,
        offsets: u64,
        ref_ctr_offsets: u64,
        cookies: u64,
        cnt: u32,
        uprobe_flags: u32,
        pid: u32,
        padding: u32,
    }
    let (offsets, cookies) = places;
    if offsets.len() != cookies.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let attr = LinkUprobes {
        prog_fd: number(program),
        target_fd: 0,
        attach_type: UPROBE_MULTI,
        flags: 0,
        path: address(path.to_bytes_with_nul()),
        offsets: offsets.as_ptr().addr() as u64,
        ref_ctr_offsets: 0,
        cookies: cookies.as_ptr().addr() as u64,
        cnt: u32::try_from(offsets.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        uprobe_flags: 0,
        pid,
        padding: 0,
    };
    // SAFETY: the structure has the command's layout; its pointers are to a terminated string and
    // to lists with the declared length, which outlive the call.
    unsafe { bpf_fd(BPF_LINK_CREATE, attr) }
}

/// A file that runs the iterator when read.
pub(crate) fn open_iterator(link: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct IterCreate {
        link_fd: u32,
        flags: u32,
    }
    // SAFETY: as above.
    unsafe { bpf_fd(BPF_ITER_CREATE, IterCreate { link_fd: number(link), flags: 0 }) }
}

// Two functions of this program for attaching probes, whose first instructions the kernel handles differently.

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

//! `perf_event_open(2)`.

use std::{io, os::fd::OwnedFd};

use super::{PerfEventAttr, owned};

/// Opens an event on `cpu` for all processes.
pub(super) fn open(attr: &PerfEventAttr, cpu: libc::c_int) -> io::Result<OwnedFd> {
    const FLAG_FD_CLOEXEC: libc::c_ulong = 8;
    let (all_processes, no_group): (libc::pid_t, libc::c_int) = (-1, -1);
    // SAFETY: the structure has the length that it names and outlives the call, which only reads it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attr),
            all_processes,
            cpu,
            no_group,
            FLAG_FD_CLOEXEC,
        )
    };
    // SAFETY: perf_event_open returns a new descriptor or -1.
    unsafe { owned(result) }
}

/// Opens an event on `cpu` for all processes, which counts from now on and never fires.
pub(crate) fn open_counter(r#type: u32, config: u64, cpu: libc::c_int) -> io::Result<OwnedFd> {
    let attr = PerfEventAttr {
        r#type,
        size: size_of::<PerfEventAttr>() as u32,
        config,
        ..Default::default()
    };
    open(&attr, cpu)
}

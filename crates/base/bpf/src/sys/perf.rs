//! `perf_event_open(2)`.

use std::{io, os::fd::OwnedFd};

use super::owned;

/// An event for `perf_event_open(2)`, on one CPU and for all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// `PERF_TYPE_SOFTWARE`, `PERF_COUNT_SW_CPU_CLOCK`.
    CpuClock,
    /// `PERF_TYPE_HARDWARE`, `PERF_COUNT_HW_CPU_CYCLES`.
    Cycles,
}

/// The first published form of `struct perf_event_attr` (`PERF_ATTR_SIZE_VER0`, 64 bytes).
#[repr(C)]
#[derive(Debug, Default)]
struct PerfEventAttr {
    r#type: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

/// Opens an event on `cpu` for all processes. It is disabled: it counts nothing and never fires.
pub(crate) fn open_perf_event(event: Event, cpu: libc::c_int) -> io::Result<OwnedFd> {
    const DISABLED: u64 = 1;
    let (r#type, config) = match event {
        Event::CpuClock => (1, 0),
        Event::Cycles => (0, 0),
    };
    open(PerfEventAttr { r#type, config, flags: DISABLED, ..Default::default() }, cpu)
}

/// Opens an event on `cpu` for all processes, which counts from now on and never fires.
pub(crate) fn open_counter(r#type: u32, config: u64, cpu: libc::c_int) -> io::Result<OwnedFd> {
    open(PerfEventAttr { r#type, config, ..Default::default() }, cpu)
}

fn open(attr: PerfEventAttr, cpu: libc::c_int) -> io::Result<OwnedFd> {
    const FLAG_FD_CLOEXEC: libc::c_ulong = 8;
    let (all_processes, no_group): (libc::pid_t, libc::c_int) = (-1, -1);
    let attr = PerfEventAttr { size: size_of::<PerfEventAttr>() as u32, ..attr };
    // SAFETY: the structure has the length that it names and outlives the call, which only reads it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            all_processes,
            cpu,
            no_group,
            FLAG_FD_CLOEXEC,
        )
    };
    // SAFETY: perf_event_open returns a new descriptor or -1.
    unsafe { owned(result) }
}

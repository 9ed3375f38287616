//! `perf_event_open(2)`, and operations on events.

use std::{
    io,
    os::fd::{AsRawFd as _, BorrowedFd, OwnedFd},
};

use super::owned;

/// `struct perf_event_attr` up to its third extension (`PERF_ATTR_SIZE_VER3`, 96 bytes), which contains `clockid`.
#[repr(C)]
#[derive(Debug, Default)]
struct PerfEventAttr {
    r#type: u32,
    size: u32,
    config: u64,
    /// A frequency in Hz, with [`FREQUENCY`].
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    /// Bytes, with [`WATERMARK`].
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
}

const _: () = assert!(size_of::<PerfEventAttr>() == 96);

/// The bits of `flags` (include/uapi/linux/perf_event.h, Linux 6.18).
const DISABLED: u64 = 1 << 0;
const EXCLUDE_IDLE: u64 = 1 << 7;
const MMAP: u64 = 1 << 8;
const COMM: u64 = 1 << 9;
const FREQUENCY: u64 = 1 << 10;
const TASK: u64 = 1 << 13;
const WATERMARK: u64 = 1 << 14;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const MMAP2: u64 = 1 << 23;
const COMM_EXEC: u64 = 1 << 24;
const USE_CLOCKID: u64 = 1 << 25;
const KSYMBOL: u64 = 1 << 29;
const BPF_EVENT: u64 = 1 << 30;

/// `PERF_TYPE_SOFTWARE` with `PERF_COUNT_SW_CPU_CLOCK`, `PERF_COUNT_SW_PAGE_FAULTS` or `PERF_COUNT_SW_DUMMY`.
const SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;
const PAGE_FAULTS: u64 = 2;
const DUMMY: u64 = 9;

/// Opens a counter of a type and number on `cpu` for all processes, which never triggers. It starts
/// disabled unless `is_on`.
pub(crate) fn open_counter(
    (r#type, config): (u32, u64),
    cpu: libc::c_int,
    is_on: bool,
) -> io::Result<OwnedFd> {
    let flags = if is_on { 0 } else { DISABLED };
    open(PerfEventAttr { r#type, config, flags, ..Default::default() }, cpu)
}

/// Opens the clock of `cpu`, disabled, which triggers with this frequency while the CPU is not idle.
pub(crate) fn open_clock(cpu: libc::c_int, frequency_hz: u64) -> io::Result<OwnedFd> {
    let attr = PerfEventAttr {
        r#type: SOFTWARE,
        config: CPU_CLOCK,
        sample_period: frequency_hz,
        flags: DISABLED | EXCLUDE_IDLE | FREQUENCY,
        ..Default::default()
    };
    open(attr, cpu)
}

/// Opens a counter of page faults on `cpu`, disabled, which triggers every `period` faults.
pub(crate) fn open_page_faults(cpu: libc::c_int, period: u64) -> io::Result<OwnedFd> {
    let attr = PerfEventAttr {
        r#type: SOFTWARE,
        config: PAGE_FAULTS,
        sample_period: period,
        flags: DISABLED,
        ..Default::default()
    };
    open(attr, cpu)
}

/// Opens an event on `cpu` that does not count, but records each executable mapping, name, `fork`
/// and exit, and code that the kernel adds or removes. Each record ends with its time
/// (`CLOCK_MONOTONIC`), and wakes up readers at once. With `counts_lost`, a read returns the count,
/// which is 0, and then the number of lost records; kernels before 6.0 reject that as invalid.
pub(crate) fn open_process_records(cpu: libc::c_int, counts_lost: bool) -> io::Result<OwnedFd> {
    const PERF_SAMPLE_TIME: u64 = 1 << 2;
    const PERF_FORMAT_LOST: u64 = 1 << 4;
    const PROCESSES: u64 = MMAP | MMAP2 | COMM | COMM_EXEC | TASK;
    const KERNEL_CODE: u64 = KSYMBOL | BPF_EVENT;
    let attr = PerfEventAttr {
        r#type: SOFTWARE,
        config: DUMMY,
        sample_type: PERF_SAMPLE_TIME,
        read_format: if counts_lost { PERF_FORMAT_LOST } else { 0 },
        flags: PROCESSES | KERNEL_CODE | SAMPLE_ID_ALL | WATERMARK | USE_CLOCKID,
        wakeup_events: 1,
        clockid: libc::CLOCK_MONOTONIC,
        ..Default::default()
    };
    open(attr, cpu)
}

fn open(attr: PerfEventAttr, cpu: libc::c_int) -> io::Result<OwnedFd> {
    const FLAG_FD_CLOEXEC: libc::c_ulong = 8;
    let (all_processes, no_group): (libc::pid_t, libc::c_int) = (-1, -1);
    let attr = PerfEventAttr { size: size_of::<PerfEventAttr>() as u32, ..attr };
    // SAFETY: the structure has the declared length and outlives the call, which only reads it.
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

/// Runs a program whenever an event triggers, as long as the event is open.
pub(crate) fn set_program(event: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    /// `PERF_EVENT_IOC_SET_BPF`.
    const SET_BPF: libc::Ioctl = 0x4004_2408;
    control(event, SET_BPF, program.as_raw_fd())
}

/// Enables or disables an event.
pub(crate) fn switch(event: BorrowedFd<'_>, is_on: bool) -> io::Result<()> {
    /// `PERF_EVENT_IOC_ENABLE` and `PERF_EVENT_IOC_DISABLE`.
    const ENABLE: libc::Ioctl = 0x2400;
    const DISABLE: libc::Ioctl = 0x2401;
    control(event, if is_on { ENABLE } else { DISABLE }, 0)
}

fn control(event: BorrowedFd<'_>, command: libc::Ioctl, argument: libc::c_int) -> io::Result<()> {
    // SAFETY: these commands take a number, not a pointer.
    let result = unsafe { libc::ioctl(event.as_raw_fd(), command, argument) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

//! The system calls that no safe crate offers, and all `unsafe` of this crate.
//!
//! Each `bpf(2)` command gets a structure of its own with just the fields that are used, in the order
//! of `union bpf_attr` (include/uapi/linux/bpf.h, Linux 6.18); the kernel takes a shorter one and reads
//! the rest as zero. Padding is spelled out, because the kernel insists that it is zero.

mod child;
mod info;
mod link;
mod map;
mod perf;
mod program;
mod signals;
mod types;

use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
};

pub(crate) use child::{Child, Shared};
pub(crate) use info::{
    enable_statistics, next_program_id, open_pinned, program_info, program_maps,
};
pub(crate) use link::{link_info, next_link_id, open_link};
pub(crate) use map::{
    MapSpecification, create_map, delete_element, freeze_map, kernel_name, lookup_and_delete,
    lookup_element, map_info, next_key, next_map_id, open_map, update_element,
};
pub(crate) use perf::open_counter;
pub(crate) use program::{LoadRequest, TestRun, load_btf, load_verified, test_run};
pub(crate) use signals::{accept_alarm_only, ring};
pub(crate) use types::{btf_bytes, open_btf, program_function};

const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_GET_FD_BY_ID: libc::c_long = 13;
const BPF_RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const BPF_LINK_CREATE: libc::c_long = 28;

const BPF_MAP_TYPE_RINGBUF: u32 = 27;
const BPF_PERF_EVENT: u32 = 41;

/// `r0 = 0; exit`: the least that the verifier takes, of every type that is probed here.
const RETURN_ZERO: [u64; 2] = [0xb7, 0x95];
const LICENSE: &CStr = c"Dual MIT/GPL";

/// A type of program, as `BPF_PROG_LOAD` wants to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgramKind {
    PerfEvent,
    RawTracepoint,
    /// A tracepoint with typed arguments; the type id of its `btf_trace_…` typedef.
    BtfTracepoint(u32),
    /// The entry of a kernel function; its type id.
    Fentry(u32),
}

impl ProgramKind {
    /// Program type, expected attach type, BTF id to attach to.
    fn codes(self) -> (u32, u32, u32) {
        match self {
            Self::PerfEvent => (7, 0, 0),
            Self::RawTracepoint => (17, 0, 0),
            Self::BtfTracepoint(btf_id) => (26, 23, btf_id),
            Self::Fentry(btf_id) => (26, 24, btf_id),
        }
    }
}

/// An event for `perf_event_open(2)`, on one CPU and for all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// `PERF_TYPE_SOFTWARE`, `PERF_COUNT_SW_CPU_CLOCK`.
    CpuClock,
    /// `PERF_TYPE_HARDWARE`, `PERF_COUNT_HW_CPU_CYCLES`.
    Cycles,
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_cnt: u32,
    attach_btf_id: u32,
}

#[repr(C)]
#[derive(Default)]
struct RawTracepointOpen {
    name: u64,
    prog_fd: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
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

/// Creates a ring buffer of `len_bytes` (a power of two and a multiple of the page size).
pub(crate) fn create_ring_buffer(len_bytes: u32) -> io::Result<OwnedFd> {
    let attr =
        MapCreate { map_type: BPF_MAP_TYPE_RINGBUF, max_entries: len_bytes, ..Default::default() };
    // SAFETY: the structure is laid out as the command wants it and holds no pointers.
    unsafe { bpf(BPF_MAP_CREATE, &attr) }
}

/// Loads a program that does nothing.
pub(crate) fn load_program(kind: ProgramKind) -> io::Result<OwnedFd> {
    let (prog_type, expected_attach_type, attach_btf_id) = kind.codes();
    let attr = ProgLoad {
        prog_type,
        insn_cnt: RETURN_ZERO.len() as u32,
        insns: RETURN_ZERO.as_ptr().addr() as u64,
        license: LICENSE.as_ptr().addr() as u64,
        prog_name: *b"wingbeat_probe\0\0",
        expected_attach_type,
        attach_btf_id,
        ..Default::default()
    };
    // SAFETY: the structure is laid out as the command wants it; its two pointers are to constants, the
    // first to `insn_cnt` instructions, the second to a string with a terminator.
    unsafe { bpf(BPF_PROG_LOAD, &attr) }
}

/// A descriptor of a program that is loaded, by its id.
pub(crate) fn open_program(id: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct GetFdById {
        prog_id: u32,
        next_id: u32,
        open_flags: u32,
    }
    // SAFETY: the structure holds no pointers, and the command answers with a descriptor.
    unsafe { bpf(BPF_PROG_GET_FD_BY_ID, &GetFdById { prog_id: id, next_id: 0, open_flags: 0 }) }
}

/// Attaches a raw tracepoint program to tracepoint `name`, or a tracing program to what it was loaded
/// for. It stays attached until the descriptor is closed.
pub(crate) fn open_raw_tracepoint(
    name: Option<&CStr>,
    program: BorrowedFd<'_>,
) -> io::Result<OwnedFd> {
    let attr = RawTracepointOpen {
        name: name.map_or(0, |name| name.as_ptr().addr() as u64),
        prog_fd: number(program),
        ..Default::default()
    };
    // SAFETY: the structure is laid out as the command wants it; its pointer is null or to a string with
    // a terminator that outlives the call.
    unsafe { bpf(BPF_RAW_TRACEPOINT_OPEN, &attr) }
}

/// Attaches a perf_event program to an open event, until the descriptor is closed.
pub(crate) fn link_perf_event(program: BorrowedFd<'_>, event: impl AsFd) -> io::Result<OwnedFd> {
    let attr = LinkCreate {
        prog_fd: number(program),
        target_fd: number(event.as_fd()),
        attach_type: BPF_PERF_EVENT,
        flags: 0,
    };
    // SAFETY: the structure is laid out as the command wants it and holds no pointers.
    unsafe { bpf(BPF_LINK_CREATE, &attr) }
}

/// Opens an event on `cpu` for all processes. It is disabled: it counts nothing and never fires.
pub(crate) fn open_perf_event(event: Event, cpu: libc::c_int) -> io::Result<OwnedFd> {
    const DISABLED: u64 = 1;
    let (r#type, config) = match event {
        Event::CpuClock => (1, 0),
        Event::Cycles => (0, 0),
    };
    let attr = PerfEventAttr {
        r#type,
        size: size_of::<PerfEventAttr>() as u32,
        config,
        flags: DISABLED,
        ..Default::default()
    };
    perf::open(&attr, cpu)
}

/// Calls `bpf(2)`.
///
/// # Safety
///
/// `attr` is a prefix of `union bpf_attr` as `command` reads it, its pointers are valid for what the
/// command does with them, and the command returns a new descriptor.
unsafe fn bpf<T>(command: libc::c_long, attr: &T) -> io::Result<OwnedFd> {
    // SAFETY: as promised by the caller; the kernel reads no more than the size given.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attr), size_of::<T>()) };
    // SAFETY: as promised by the caller.
    unsafe { owned(result) }
}

/// Calls `bpf(2)` for a command that answers by a number, or in `attr`.
///
/// # Safety
///
/// `attr` is a prefix of `union bpf_attr` as `command` reads and writes it, and its pointers are valid
/// for what the command does with them.
unsafe fn bpf_in_place<T>(command: libc::c_long, attr: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: as promised by the caller; the kernel reads and writes no more than the size given.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Takes over the result of a system call.
///
/// # Safety
///
/// `result` is a descriptor that nothing else owns, or negative with the reason in `errno`.
unsafe fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    match RawFd::try_from(result) {
        // SAFETY: a descriptor that nothing else owns, as promised by the caller.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A descriptor in the type that `bpf(2)` uses; an open one is never negative.
fn number(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

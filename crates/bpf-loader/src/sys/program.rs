//! `bpf(2)` for programs: loading with the verifier log, and running.

use std::{
    ffi::CStr,
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

use super::{address, address_mut, bpf, bpf_fd, length, number};

const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_TEST_RUN: libc::c_long = 10;

/// Size of a `struct bpf_func_info` and of a `struct bpf_line_info`, in bytes.
const FUNC_INFO_SIZE: u32 = 8;
const LINE_INFO_SIZE: u32 = 16;

/// Type of an empty program, in the form of `BPF_PROG_LOAD`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgramKind {
    PerfEvent,
    RawTracepoint,
    /// A tracepoint with typed arguments; the type id of its `btf_trace_…` typedef.
    BtfTracepoint(u32),
    /// The entry of a kernel function; its type id.
    Fentry(u32),
    /// Locations in files, with one link.
    Uprobes,
}

/// An empty program: `r0 = 0; exit`.
pub(crate) const RETURN_ZERO: [u8; 16] = [0xb7, 0, 0, 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];

/// Loads an empty program.
pub(crate) fn load_program(kind: ProgramKind) -> io::Result<OwnedFd> {
    let (prog_type, expected_attach_type, attach_btf_id) = match kind {
        ProgramKind::PerfEvent => (7, 0, 0),
        ProgramKind::RawTracepoint => (17, 0, 0),
        ProgramKind::BtfTracepoint(btf_id) => (26, 23, btf_id),
        ProgramKind::Fentry(btf_id) => (26, 24, btf_id),
        ProgramKind::Uprobes => (2, super::link::UPROBE_MULTI, 0),
    };
    let request = LoadRequest {
        prog_type,
        expected_attach_type,
        attach_btf_id,
        name: *b"wingbeat_probe\0\0",
        license: c"Dual MIT/GPL",
        insns: &RETURN_ZERO,
        ..Default::default()
    };
    load_verified(request, &mut [])
}

/// Parameters of `BPF_PROG_LOAD`. The byte slices hold the kernel's own records.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct LoadRequest<'a> {
    pub(crate) prog_type: u32,
    pub(crate) expected_attach_type: u32,
    pub(crate) flags: u32,
    pub(crate) name: [u8; 16],
    pub(crate) license: &'a CStr,
    pub(crate) insns: &'a [u8],
    pub(crate) btf: Option<BorrowedFd<'a>>,
    pub(crate) func_info: &'a [u8],
    pub(crate) line_info: &'a [u8],
    /// BTF id to attach to: of the kernel, or of `attach_program`.
    pub(crate) attach_btf_id: u32,
    /// The program to attach to, instead of the kernel.
    pub(crate) attach_program: Option<BorrowedFd<'a>>,
    pub(crate) log_level: u32,
    pub(crate) kern_version: u32,
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
    attach_prog_fd: u32,
    core_relo_cnt: u32,
}

const _: () = assert!(size_of::<ProgLoad>() == 120);

/// Loads a program. The verifier's output goes to `log`, even on success; fails with `ENOSPC` if `log` is too short.
pub(crate) fn load_verified(request: LoadRequest<'_>, log: &mut [u8]) -> io::Result<OwnedFd> {
    let log = if request.log_level == 0 { &mut [] } else { log };
    let has_functions = request.btf.is_some() && !request.func_info.is_empty();
    let functions = if has_functions { request.func_info } else { &[] };
    let lines = if has_functions { request.line_info } else { &[] };
    let record_len = |records: &[u8], len: u32| if records.is_empty() { 0 } else { len };
    let attr = ProgLoad {
        prog_type: request.prog_type,
        insn_cnt: length(request.insns)? / 8,
        insns: address(request.insns),
        license: address(request.license.to_bytes_with_nul()),
        log_level: if log.is_empty() { 0 } else { request.log_level },
        log_size: length(log).unwrap_or(u32::MAX),
        log_buf: address_mut(log),
        kern_version: request.kern_version,
        prog_flags: request.flags,
        prog_name: request.name,
        expected_attach_type: request.expected_attach_type,
        prog_btf_fd: request.btf.map_or(0, number),
        func_info_rec_size: record_len(functions, FUNC_INFO_SIZE),
        func_info: address(functions),
        func_info_cnt: length(functions)? / FUNC_INFO_SIZE,
        line_info_rec_size: record_len(lines, LINE_INFO_SIZE),
        line_info: address(lines),
        line_info_cnt: length(lines)? / LINE_INFO_SIZE,
        attach_btf_id: request.attach_btf_id,
        attach_prog_fd: request.attach_program.map_or(0, number),
        ..Default::default()
    };
    // SAFETY: the structure has the command's layout; its pointers are to slices and a string that
    // outlive the call, with their lengths. Only the log is written to.
    unsafe { bpf_fd(BPF_PROG_LOAD, attr) }
}

/// One call of `BPF_PROG_TEST_RUN`.
#[derive(Debug, Default)]
pub(crate) struct TestRun<'a> {
    pub(crate) data_in: &'a [u8],
    pub(crate) data_out: &'a mut [u8],
    /// Programs of type syscall write to it.
    pub(crate) context_in: &'a mut [u8],
    pub(crate) repeat: u32,
}

/// Result of `BPF_PROG_TEST_RUN`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TestRunOutcome {
    pub(crate) return_value: u32,
    /// Mean of the runs in whole nanoseconds, truncated; 0 for types that are not timed.
    pub(crate) duration_ns: u32,
    /// Length of the resulting packet; exceeds the available room if that was too small.
    pub(crate) data_out_len: u32,
}

/// Runs a program in the kernel. A packet that outgrows the buffer is not an error: its beginning is returned.
pub(crate) fn test_run(program: BorrowedFd<'_>, run: TestRun<'_>) -> io::Result<TestRunOutcome> {
    #[repr(C)]
    #[derive(Default)]
    struct Attr {
        prog_fd: u32,
        retval: u32,
        data_size_in: u32,
        data_size_out: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
        ctx_size_in: u32,
        ctx_size_out: u32,
        ctx_in: u64,
        ctx_out: u64,
        flags: u32,
        cpu: u32,
        batch_size: u32,
        padding: u32,
    }
    let mut attr = Attr {
        prog_fd: number(program),
        data_size_in: length(run.data_in)?,
        data_size_out: length(run.data_out)?,
        data_in: address(run.data_in),
        data_out: address_mut(run.data_out),
        repeat: run.repeat,
        ctx_size_in: length(run.context_in)?,
        ctx_in: address_mut(run.context_in),
        ..Default::default()
    };
    let room = attr.data_size_out;
    // SAFETY: the structure has the command's layout; its pointers are null or to slices that
    // outlive the call, with their lengths, and only those that are mutable here are written to.
    let done = unsafe { bpf(BPF_PROG_TEST_RUN, &mut attr) };
    // After the runs the kernel writes its whole result, then returns ENOSPC if the packet did not
    // fit (`bpf_test_finish` in net/bpf/test_run.c, Linux 6.18).
    let has_answer = attr.data_size_out > room;
    let is_whole = |error: &io::Error| has_answer && error.raw_os_error() == Some(libc::ENOSPC);
    if let Err(error) = done
        && !is_whole(&error)
    {
        return Err(error);
    }
    Ok(TestRunOutcome {
        return_value: attr.retval,
        duration_ns: attr.duration,
        data_out_len: attr.data_size_out,
    })
}

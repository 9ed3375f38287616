//! `bpf(2)` on programs: loading with the verifier's log, running, BTF.

use std::{
    ffi::CStr,
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

use super::{BPF_PROG_LOAD, bpf, bpf_in_place, map::address, number};

const BPF_PROG_TEST_RUN: libc::c_long = 10;
const BPF_BTF_LOAD: libc::c_long = 18;

/// Size of a `struct bpf_func_info` and of a `struct bpf_line_info`, in bytes.
const FUNC_INFO_SIZE: u32 = 8;
const LINE_INFO_SIZE: u32 = 16;

/// What `BPF_PROG_LOAD` is asked for. The byte slices hold the kernel's own records.
#[derive(Debug, Clone, Copy)]
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

/// Loads a program. What the verifier says goes to `log`, whether it accepts or not; `ENOSPC` when
/// `log` is too short for it.
pub(crate) fn load_verified(request: LoadRequest<'_>, log: &mut [u8]) -> io::Result<OwnedFd> {
    let is_logged = request.log_level != 0 && !log.is_empty();
    let has_functions = request.btf.is_some() && !request.func_info.is_empty();
    let has_lines = has_functions && !request.line_info.is_empty();
    let count = |bytes: &[u8], size: u32| {
        u32::try_from(bytes.len()).map(|len| len / size).map_err(|_| io::ErrorKind::InvalidInput)
    };
    let attr = ProgLoad {
        prog_type: request.prog_type,
        insn_cnt: count(request.insns, 8)?,
        insns: request.insns.as_ptr().addr() as u64,
        license: address(request.license),
        log_level: if is_logged { request.log_level } else { 0 },
        log_size: if is_logged { u32::try_from(log.len()).unwrap_or(u32::MAX) } else { 0 },
        log_buf: if is_logged { log.as_mut_ptr().addr() as u64 } else { 0 },
        kern_version: request.kern_version,
        prog_flags: request.flags,
        prog_name: request.name,
        expected_attach_type: request.expected_attach_type,
        prog_btf_fd: request.btf.map_or(0, number),
        func_info_rec_size: if has_functions { FUNC_INFO_SIZE } else { 0 },
        func_info: if has_functions { request.func_info.as_ptr().addr() as u64 } else { 0 },
        func_info_cnt: if has_functions { count(request.func_info, FUNC_INFO_SIZE)? } else { 0 },
        line_info_rec_size: if has_lines { LINE_INFO_SIZE } else { 0 },
        line_info: if has_lines { request.line_info.as_ptr().addr() as u64 } else { 0 },
        line_info_cnt: if has_lines { count(request.line_info, LINE_INFO_SIZE)? } else { 0 },
        attach_btf_id: request.attach_btf_id,
        attach_prog_fd: request.attach_program.map_or(0, number),
        ..Default::default()
    };
    // SAFETY: the structure is laid out as the command wants it; its pointers are to slices and a
    // string that outlive the call, with their lengths beside them. Only the log is written to.
    unsafe { bpf(BPF_PROG_LOAD, &attr) }
}

/// Loads type information.
pub(crate) fn load_btf(bytes: &[u8], log: &mut [u8]) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct BtfLoad {
        btf: u64,
        btf_log_buf: u64,
        btf_size: u32,
        btf_log_size: u32,
        btf_log_level: u32,
        padding: u32,
    }
    let size = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let attr = BtfLoad {
        btf: bytes.as_ptr().addr() as u64,
        btf_log_buf: if log.is_empty() { 0 } else { log.as_mut_ptr().addr() as u64 },
        btf_size: size,
        btf_log_size: u32::try_from(log.len()).unwrap_or(u32::MAX),
        btf_log_level: u32::from(!log.is_empty()),
        padding: 0,
    };
    // SAFETY: as above.
    unsafe { bpf(BPF_BTF_LOAD, &attr) }
}

/// One call of `BPF_PROG_TEST_RUN`.
#[derive(Debug, Default)]
pub(crate) struct TestRun<'a> {
    pub(crate) data_in: &'a [u8],
    pub(crate) data_out: &'a mut [u8],
    /// Programs of type syscall write to it.
    pub(crate) context_in: &'a mut [u8],
    pub(crate) context_out: &'a mut [u8],
    pub(crate) repeat: u32,
    pub(crate) flags: u32,
    pub(crate) cpu: u32,
}

/// What `BPF_PROG_TEST_RUN` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TestRunOutcome {
    pub(crate) return_value: u32,
    /// Mean of the runs in whole nanoseconds, truncated; 0 for types that are not timed.
    pub(crate) duration_ns: u32,
    pub(crate) data_out_len: u32,
}

/// Runs a program in the kernel.
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
    let size =
        |len: usize| u32::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let pointer = |bytes: &[u8]| if bytes.is_empty() { 0 } else { bytes.as_ptr().addr() as u64 };
    let mut attr = Attr {
        prog_fd: number(program),
        data_size_in: size(run.data_in.len())?,
        data_size_out: size(run.data_out.len())?,
        data_in: pointer(run.data_in),
        data_out: if run.data_out.is_empty() { 0 } else { run.data_out.as_mut_ptr().addr() as u64 },
        repeat: run.repeat,
        ctx_size_in: size(run.context_in.len())?,
        ctx_size_out: size(run.context_out.len())?,
        ctx_in: if run.context_in.is_empty() {
            0
        } else {
            run.context_in.as_mut_ptr().addr() as u64
        },
        ctx_out: if run.context_out.is_empty() {
            0
        } else {
            run.context_out.as_mut_ptr().addr() as u64
        },
        flags: run.flags,
        cpu: run.cpu,
        ..Default::default()
    };
    // SAFETY: the structure is laid out as the command wants it; its pointers are null or to slices
    // that outlive the call, with their lengths beside them, and only those that are mutable here are
    // written to.
    unsafe { bpf_in_place(BPF_PROG_TEST_RUN, &mut attr) }?;
    Ok(TestRunOutcome {
        return_value: attr.retval,
        duration_ns: attr.duration,
        data_out_len: attr.data_size_out,
    })
}

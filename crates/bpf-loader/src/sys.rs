//! System calls without a safe crate, and all `unsafe` of this crate.
//!
//! Each `bpf(2)` command has its own structure with the fields in use, in the order of `union
//! bpf_attr` (include/uapi/linux/bpf.h, Linux 6.18); the kernel accepts a shorter one and treats
//! the rest as zero. Padding is explicit, because the kernel requires it to be zero.

mod info;
mod link;
mod map;
mod mapping;
mod perf;
mod process;
mod program;

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
};

use info::{ProgramInfo, info_by_fd};

pub(crate) use info::{
    LoadedObject, enable_statistics, ids, link_info, map_info, open_id, open_pinned, program_info,
    program_maps,
};
pub(crate) use link::{
    emulated, link_iterator, link_perf_event, link_uprobes, open_iterator, open_raw_tracepoint,
    stepped,
};
pub(crate) use map::{
    MapCreate, create_map, delete_element, freeze_map, kernel_name, lookup_and_delete,
    lookup_element, next_key, take_entries, update_element, update_elements,
};
pub(crate) use mapping::Mapping;
pub(crate) use perf::{
    open_clock, open_counter, open_page_faults, open_process_records, set_program, switch,
};
pub(crate) use process::{Child, Shared, run_as};
pub(crate) use process::{accept_alarm_only, let_go, ring, stop_at_exec, wait_for_stop};
pub(crate) use program::{
    LoadRequest, ProgramKind, RETURN_ZERO, TestRun, TestRunOutcome, load_program, load_verified,
    test_run,
};

/// `ENOTSUPP`, which has neither name nor message in user space (include/linux/errno.h).
pub(crate) const ENOTSUPP: i32 = 524;

/// Calls `bpf(2)` for a command that returns a new descriptor.
///
/// # Safety
///
/// As for [`bpf`], and the command returns a new descriptor.
unsafe fn bpf_fd<T>(command: libc::c_long, mut attr: T) -> io::Result<OwnedFd> {
    // SAFETY: as promised by the caller; the answer is a descriptor that nothing else owns.
    unsafe { bpf(command, &mut attr).and_then(|result| owned(result)) }
}

/// Calls `bpf(2)` for a command that returns a number, or a result in `attr`.
///
/// # Safety
///
/// `attr` is a prefix of `union bpf_attr` as `command` reads and writes it, and its pointers are valid for the command.
unsafe fn bpf<T>(command: libc::c_long, attr: &mut T) -> io::Result<libc::c_long> {
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

/// A descriptor in the type of `bpf(2)`; an open one is never negative.
fn number(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

/// Address of bytes that the kernel reads; null if empty.
fn address(bytes: &[u8]) -> u64 {
    if bytes.is_empty() { 0 } else { bytes.as_ptr().addr() as u64 }
}

/// Address of bytes that the kernel writes; null if empty.
fn address_mut(bytes: &mut [u8]) -> u64 {
    if bytes.is_empty() { 0 } else { bytes.as_mut_ptr().addr() as u64 }
}

/// A length in the kernel's type.
fn length(bytes: &[u8]) -> io::Result<u32> {
    u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

// `bpf(2)` for type information: loading it, and reading that of a loaded program.

const BPF_BTF_LOAD: libc::c_long = 18;

/// Maximum size of type information that is read; that of a whole kernel has some 5 MB.
const BTF_LEN_MAX: u32 = 64 << 20;

/// `struct bpf_btf_info` (include/uapi/linux/bpf.h, Linux 6.18).
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
struct BtfInfo {
    btf: u64,
    btf_size: u32,
    id: u32,
    name: u64,
    name_len: u32,
    kernel_btf: u32,
}

const _: () = assert!(size_of::<BtfInfo>() == 32);

/// Id of the program's type information and type id of its entry function; `None` for a program without.
pub(crate) fn program_function(program: BorrowedFd<'_>) -> io::Result<Option<(u32, u32)>> {
    let found = program_info(program)?;
    if found.btf_id == 0 || found.nr_func_info == 0 {
        return Ok(None);
    }
    // Instruction and type.
    let mut first = [0_u32; 2];
    let mut info = ProgramInfo {
        nr_func_info: 1,
        func_info_rec_size: size_of_val(&first) as u32,
        func_info: first.as_mut_ptr().addr() as u64,
        ..Default::default()
    };
    // SAFETY: the one requested list has room for as many records of that size as it says.
    unsafe { info_by_fd(program, &mut info) }?;
    let [_, type_id] = first;
    Ok((type_id != 0).then_some((found.btf_id, type_id)))
}

/// Loads type information.
pub(crate) fn load_btf(bytes: &[u8]) -> io::Result<OwnedFd> {
    #[repr(C)]
    #[derive(Default)]
    struct BtfLoad {
        btf: u64,
        btf_log_buf: u64,
        btf_size: u32,
        btf_log_size: u32,
        btf_log_level: u32,
        padding: u32,
    }
    let attr = BtfLoad { btf: address(bytes), btf_size: length(bytes)?, ..Default::default() };
    // SAFETY: the structure has the command's layout; its pointers are null or to a slice that
    // outlives the call, with its length.
    unsafe { bpf_fd(BPF_BTF_LOAD, attr) }
}

/// Type information by id, as loaded.
pub(crate) fn btf_bytes(id: u32) -> io::Result<Vec<u8>> {
    let btf = open_id(LoadedObject::TYPES, id)?;
    let btf = btf.as_fd();
    let mut size = BtfInfo::default();
    // SAFETY: the structure holds plain numbers, its lists are null with a length of 0.
    unsafe { info_by_fd(btf, &mut size) }?;
    if size.btf_size > BTF_LEN_MAX {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "the type information is too large",
        ));
    }
    let mut bytes = vec![0_u8; size.btf_size as usize];
    let mut info =
        BtfInfo { btf: address_mut(&mut bytes), btf_size: size.btf_size, ..Default::default() };
    // SAFETY: the one requested list has room for as many bytes as it says.
    unsafe { info_by_fd(btf, &mut info) }?;
    Ok(bytes)
}

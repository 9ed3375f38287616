//! System calls without a safe crate, and all `unsafe` of this crate.
//!
//! Each `bpf(2)` command has its own structure with the fields in use, in the order of `union
//! bpf_attr` (include/uapi/linux/bpf.h, Linux 6.18); the kernel accepts a shorter one and treats
//! the rest as zero. Padding is explicit, because the kernel requires it to be zero.

mod child;
mod info;
mod link;
mod map;
mod mapping;
mod perf;
mod probed;
mod program;
mod signals;
mod stop;
mod types;
mod user;

use std::{
    io,
    os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
};

pub(crate) use child::{Child, Shared};
pub(crate) use info::{
    LoadedObject, enable_statistics, ids, link_info, map_info, open_id, open_pinned, program_info,
    program_maps,
};
pub(crate) use link::{
    link_iterator, link_perf_event, link_uprobes, open_iterator, open_raw_tracepoint,
};
pub(crate) use map::{
    MapCreate, create_map, delete_element, freeze_map, kernel_name, lookup_and_delete,
    lookup_element, next_key, take_entries, update_element, update_elements,
};
pub(crate) use mapping::Mapping;
pub(crate) use perf::{
    open_clock, open_counter, open_page_faults, open_process_records, set_program, switch,
};
pub(crate) use probed::{emulated, stepped};
pub(crate) use program::{
    LoadRequest, ProgramKind, RETURN_ZERO, TestRun, TestRunOutcome, load_program, load_verified,
    test_run,
};
pub(crate) use signals::{accept_alarm_only, ring};
pub(crate) use stop::{let_go, stop_at_exec, wait_for_stop};
pub(crate) use types::{btf_bytes, load_btf, program_function};
pub(crate) use user::run_as;

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

//! `bpf(2)` about programs and maps that are loaded, and the switch for run-time statistics.

use std::{
    ffi::CStr,
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

use super::{bpf, bpf_in_place, map::address, number};

const BPF_OBJ_GET: libc::c_long = 7;
const BPF_PROG_GET_NEXT_ID: libc::c_long = 11;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const BPF_ENABLE_STATS: libc::c_long = 32;

/// `struct bpf_prog_info` (include/uapi/linux/bpf.h, Linux 6.18). Older kernels fill a part of it.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct ProgramInfo {
    pub(crate) r#type: u32,
    pub(crate) id: u32,
    pub(crate) tag: [u8; 8],
    pub(crate) jited_prog_len: u32,
    pub(crate) xlated_prog_len: u32,
    pub(crate) jited_prog_insns: u64,
    pub(crate) xlated_prog_insns: u64,
    pub(crate) load_time: u64,
    pub(crate) created_by_uid: u32,
    pub(crate) nr_map_ids: u32,
    pub(crate) map_ids: u64,
    pub(crate) name: [u8; 16],
    pub(crate) ifindex: u32,
    pub(crate) gpl_compatible: u32,
    pub(crate) netns_dev: u64,
    pub(crate) netns_ino: u64,
    pub(crate) nr_jited_ksyms: u32,
    pub(crate) nr_jited_func_lens: u32,
    pub(crate) jited_ksyms: u64,
    pub(crate) jited_func_lens: u64,
    pub(crate) btf_id: u32,
    pub(crate) func_info_rec_size: u32,
    pub(crate) func_info: u64,
    pub(crate) nr_func_info: u32,
    pub(crate) nr_line_info: u32,
    pub(crate) line_info: u64,
    pub(crate) jited_line_info: u64,
    pub(crate) nr_jited_line_info: u32,
    pub(crate) line_info_rec_size: u32,
    pub(crate) jited_line_info_rec_size: u32,
    pub(crate) nr_prog_tags: u32,
    pub(crate) prog_tags: u64,
    pub(crate) run_time_ns: u64,
    pub(crate) run_cnt: u64,
    pub(crate) recursion_misses: u64,
    pub(crate) verified_insns: u32,
    pub(crate) attach_btf_obj_id: u32,
    pub(crate) attach_btf_id: u32,
    pub(crate) padding: u32,
}

const _: () = assert!(size_of::<ProgramInfo>() == 232);

/// Asks for what the kernel knows of a program, without its lists.
pub(crate) fn program_info(program: BorrowedFd<'_>) -> io::Result<ProgramInfo> {
    let mut info = ProgramInfo::default();
    // SAFETY: the structure holds plain numbers, its lists are null with a length of 0.
    unsafe { info_by_fd(program, &mut info) }?;
    Ok(info)
}

/// The ids of the maps that the program uses.
pub(crate) fn program_maps(program: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let count = program_info(program)?.nr_map_ids;
    let mut ids = vec![0_u32; count as usize];
    let mut info = ProgramInfo {
        nr_map_ids: count,
        map_ids: ids.as_mut_ptr().addr() as u64,
        ..Default::default()
    };
    // SAFETY: the one list that is asked for has room for as many numbers as it says.
    unsafe { info_by_fd(program, &mut info) }?;
    ids.truncate(info.nr_map_ids as usize);
    Ok(ids)
}

/// # Safety
///
/// `info` is the structure that describes what `fd` is, and its lists have room for what they say.
pub(super) unsafe fn info_by_fd<T>(fd: BorrowedFd<'_>, info: &mut T) -> io::Result<()> {
    #[repr(C)]
    struct GetInfo {
        bpf_fd: u32,
        info_len: u32,
        info: u64,
    }
    let info_len = u32::try_from(size_of::<T>()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut attr =
        GetInfo { bpf_fd: number(fd), info_len, info: std::ptr::from_mut(info).addr() as u64 };
    // SAFETY: as promised by the caller; the kernel writes no more than the length given.
    unsafe { bpf_in_place(BPF_OBJ_GET_INFO_BY_FD, &mut attr) }.map(drop)
}

/// The smallest id of a loaded program above `id`; `None` at the end.
pub(crate) fn next_program_id(id: u32) -> io::Result<Option<u32>> {
    next_id(BPF_PROG_GET_NEXT_ID, id)
}

/// The smallest id above `id` of what `command` lists; `None` at the end.
pub(super) fn next_id(command: libc::c_long, id: u32) -> io::Result<Option<u32>> {
    #[repr(C)]
    struct NextId {
        start_id: u32,
        next_id: u32,
        open_flags: u32,
    }
    let mut attr = NextId { start_id: id, next_id: 0, open_flags: 0 };
    // SAFETY: the structure is laid out as these commands want it and holds no pointers.
    match unsafe { bpf_in_place(command, &mut attr) } {
        Ok(_) => Ok(Some(attr.next_id)),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens what is pinned at `path` of a bpffs: a program, a map or a link.
pub(crate) fn open_pinned(path: &CStr) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct ObjGet {
        pathname: u64,
        bpf_fd: u32,
        file_flags: u32,
    }
    let attr = ObjGet { pathname: address(path), bpf_fd: 0, file_flags: 0 };
    // SAFETY: the structure is laid out as the command wants it; the string outlives the call.
    unsafe { bpf(BPF_OBJ_GET, &attr) }
}

/// Switches run-time statistics on for all programs, until the descriptor is closed.
pub(crate) fn enable_statistics() -> io::Result<OwnedFd> {
    const BPF_STATS_RUN_TIME: u32 = 0;
    #[repr(C)]
    struct EnableStats {
        kind: u32,
    }
    // SAFETY: the structure is laid out as the command wants it and holds no pointers.
    unsafe { bpf(BPF_ENABLE_STATS, &EnableStats { kind: BPF_STATS_RUN_TIME }) }
}

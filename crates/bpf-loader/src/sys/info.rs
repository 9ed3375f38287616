//! `bpf(2)` for loaded programs, maps and links, and for enabling run-time statistics.

use std::{
    ffi::CStr,
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

use super::{address, bpf, bpf_fd, number};

const BPF_OBJ_GET: libc::c_long = 7;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const BPF_ENABLE_STATS: libc::c_long = 32;

/// Kinds of kernel objects with an id: the commands for the next id, and for a descriptor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadedObject {
    get_next_id: libc::c_long,
    get_fd_by_id: libc::c_long,
}

impl LoadedObject {
    pub(crate) const PROGRAM: Self = Self { get_next_id: 11, get_fd_by_id: 13 };
    pub(crate) const MAP: Self = Self { get_next_id: 12, get_fd_by_id: 14 };
    pub(crate) const TYPES: Self = Self { get_next_id: 23, get_fd_by_id: 19 };
    pub(crate) const LINK: Self = Self { get_next_id: 31, get_fd_by_id: 30 };
}

/// The start id or the id to open, and the result.
#[repr(C)]
struct Id {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

/// Ids of all objects of a kind, ascending. May miss those that come and go meanwhile.
pub(crate) fn ids(of: LoadedObject) -> impl Iterator<Item = io::Result<u32>> {
    let mut last = 0;
    std::iter::from_fn(move || {
        let found = next_id(of, last).transpose()?;
        last = *found.as_ref().unwrap_or(&u32::MAX);
        Some(found)
    })
}

/// Smallest id of an object above `id`; `None` at the end.
fn next_id(of: LoadedObject, id: u32) -> io::Result<Option<u32>> {
    let mut attr = Id { id, next_id: 0, open_flags: 0 };
    // SAFETY: the structure has the layout of these commands and holds no pointers.
    match unsafe { bpf(of.get_next_id, &mut attr) } {
        Ok(_) => Ok(Some(attr.next_id)),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens an object by its id.
pub(crate) fn open_id(of: LoadedObject, id: u32) -> io::Result<OwnedFd> {
    // SAFETY: the structure holds no pointers, and these commands return a descriptor.
    unsafe { bpf_fd(of.get_fd_by_id, Id { id, next_id: 0, open_flags: 0 }) }
}

/// `struct bpf_prog_info` (include/uapi/linux/bpf.h, Linux 6.18). Older kernels fill only a part.
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

/// Queries the kernel's info about a program, without its lists.
pub(crate) fn program_info(program: BorrowedFd<'_>) -> io::Result<ProgramInfo> {
    let mut info = ProgramInfo::default();
    // SAFETY: the structure holds plain numbers, its lists are null with a length of 0.
    unsafe { info_by_fd(program, &mut info) }?;
    Ok(info)
}

/// Ids of the maps that the program uses.
pub(crate) fn program_maps(program: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let count = program_info(program)?.nr_map_ids;
    let mut ids = vec![0_u32; count as usize];
    let mut info = ProgramInfo {
        nr_map_ids: count,
        map_ids: ids.as_mut_ptr().addr() as u64,
        ..Default::default()
    };
    // SAFETY: the one requested list has room for as many numbers as it says.
    unsafe { info_by_fd(program, &mut info) }?;
    ids.truncate(info.nr_map_ids as usize);
    Ok(ids)
}

/// Queries the kernel's info about a descriptor.
///
/// # Safety
///
/// `info` is the info structure for the kind of `fd`, and its lists have the room that they declare.
pub(super) unsafe fn info_by_fd<T>(fd: BorrowedFd<'_>, info: &mut T) -> io::Result<()> {
    #[repr(C)]
    struct GetInfo {
        bpf_fd: u32,
        info_len: u32,
        info: u64,
    }
    let info_len = size_of::<T>() as u32;
    let mut attr =
        GetInfo { bpf_fd: number(fd), info_len, info: std::ptr::from_mut(info).addr() as u64 };
    // SAFETY: as promised by the caller; the kernel writes no more than the length given.
    unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attr) }.map(drop)
}

/// `struct bpf_link_info` (include/uapi/linux/bpf.h, Linux 6.18), with the union in it as numbers.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct LinkInfo {
    pub(crate) r#type: u32,
    pub(crate) id: u32,
    pub(crate) prog_id: u32,
    padding: u32,
    /// Type-specific; for interfaces the first is the interface's number.
    pub(crate) details: [u32; 12],
}

const _: () = assert!(size_of::<LinkInfo>() == 64);

/// Queries the kernel's info about a link, without its lists and names.
pub(crate) fn link_info(link: BorrowedFd<'_>) -> io::Result<LinkInfo> {
    let mut info = LinkInfo::default();
    // SAFETY: the structure holds plain numbers; names and lists, in the union, are null with a length
    // of 0.
    unsafe { info_by_fd(link, &mut info) }?;
    Ok(info)
}

/// Type and maximum entries of a map.
pub(crate) fn map_info(map: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    /// The beginning of `struct bpf_map_info` (include/uapi/linux/bpf.h, Linux 6.18).
    #[repr(C)]
    #[derive(Default)]
    struct MapInfo {
        r#type: u32,
        id: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
        map_flags: u32,
    }
    let mut info = MapInfo::default();
    // SAFETY: the structure holds plain numbers.
    unsafe { info_by_fd(map, &mut info) }?;
    Ok((info.r#type, info.max_entries))
}

/// Opens the object pinned at `path` of a bpffs: a program, a map or a link.
pub(crate) fn open_pinned(path: &CStr) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct ObjGet {
        pathname: u64,
        bpf_fd: u32,
        file_flags: u32,
    }
    let attr = ObjGet { pathname: address(path.to_bytes_with_nul()), bpf_fd: 0, file_flags: 0 };
    // SAFETY: the structure has the command's layout; the string outlives the call.
    unsafe { bpf_fd(BPF_OBJ_GET, attr) }
}

/// Enables run-time statistics of all programs until the descriptor is closed.
pub(crate) fn enable_statistics() -> io::Result<OwnedFd> {
    const BPF_STATS_RUN_TIME: u32 = 0;
    #[repr(C)]
    struct EnableStats {
        kind: u32,
    }
    // SAFETY: the structure has the command's layout and holds no pointers.
    unsafe { bpf_fd(BPF_ENABLE_STATS, EnableStats { kind: BPF_STATS_RUN_TIME }) }
}

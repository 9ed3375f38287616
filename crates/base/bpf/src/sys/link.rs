//! `bpf(2)` about links.

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

use super::{
    bpf,
    info::{info_by_fd, next_id},
};

const BPF_LINK_GET_FD_BY_ID: libc::c_long = 30;
const BPF_LINK_GET_NEXT_ID: libc::c_long = 31;

/// `struct bpf_link_info` (include/uapi/linux/bpf.h, Linux 6.18), with the union in it as numbers.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct LinkInfo {
    pub(crate) r#type: u32,
    pub(crate) id: u32,
    pub(crate) prog_id: u32,
    padding: u32,
    /// As the type has it; for interfaces the first is the interface's number.
    pub(crate) details: [u32; 12],
}

const _: () = assert!(size_of::<LinkInfo>() == 64);

/// The smallest id of a link above `id`; `None` at the end.
pub(crate) fn next_link_id(id: u32) -> io::Result<Option<u32>> {
    next_id(BPF_LINK_GET_NEXT_ID, id)
}

/// A descriptor of a link, by its id.
pub(crate) fn open_link(id: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct GetFdById {
        link_id: u32,
        next_id: u32,
        open_flags: u32,
    }
    // SAFETY: the structure holds no pointers, and the command answers with a descriptor.
    unsafe { bpf(BPF_LINK_GET_FD_BY_ID, &GetFdById { link_id: id, next_id: 0, open_flags: 0 }) }
}

/// Asks for what the kernel knows of a link, without its lists and names.
pub(crate) fn link_info(link: BorrowedFd<'_>) -> io::Result<LinkInfo> {
    let mut info = LinkInfo::default();
    // SAFETY: the structure holds plain numbers; names and lists, in the union, are null with a length
    // of 0.
    unsafe { info_by_fd(link, &mut info) }?;
    Ok(info)
}

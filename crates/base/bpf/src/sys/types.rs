//! `bpf(2)` about the types of a loaded program.

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

use super::{
    bpf,
    info::{ProgramInfo, info_by_fd, program_info},
};

const BPF_BTF_GET_FD_BY_ID: libc::c_long = 19;

/// Type information larger than this is not asked for; that of a whole kernel has some 5 MB.
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

/// The id of the program's type information and, in it, that of the function that it begins with;
/// `None` for a program without.
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
    // SAFETY: the one list that is asked for has room for as many records of that size as it says.
    unsafe { info_by_fd(program, &mut info) }?;
    let [_, type_id] = first;
    Ok((type_id != 0).then_some((found.btf_id, type_id)))
}

/// A descriptor of loaded type information.
pub(crate) fn open_btf(id: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct GetFdById {
        btf_id: u32,
        next_id: u32,
        open_flags: u32,
    }
    // SAFETY: the structure holds no pointers, and the command answers with a descriptor.
    unsafe { bpf(BPF_BTF_GET_FD_BY_ID, &GetFdById { btf_id: id, next_id: 0, open_flags: 0 }) }
}

/// Type information as it was loaded.
pub(crate) fn btf_bytes(btf: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
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
    let mut info = BtfInfo {
        btf: bytes.as_mut_ptr().addr() as u64,
        btf_size: size.btf_size,
        ..Default::default()
    };
    // SAFETY: the one list that is asked for has room for as many bytes as it says.
    unsafe { info_by_fd(btf, &mut info) }?;
    Ok(bytes)
}

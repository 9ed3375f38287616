//! `bpf(2)` for type information: loading it, and reading that of a loaded program.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use super::{
    address, address_mut, bpf_fd,
    info::{LoadedObject, ProgramInfo, info_by_fd, open_id, program_info},
    length,
};

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

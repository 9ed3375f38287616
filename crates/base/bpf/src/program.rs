//! Programs that are loaded already, by whomever.

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use crate::{
    btf::KernelTypes,
    program_type::ProgramType,
    sys::{self, LoadedObject},
};

/// A descriptor of a loaded program. While it is open the program stays in the kernel, with its
/// name, its code and its line information, even when everybody else has let go of it. Fails with
/// `NotFound` when no program has this id (any more); `PermissionDenied` without `CAP_SYS_ADMIN`,
/// which the kernel asks for to look at the programs of others (kernel/bpf/syscall.c,
/// `bpf_prog_get_fd_by_id`, Linux 6.18).
pub fn open(id: u32) -> io::Result<OwnedFd> {
    sys::open_id(LoadedObject::PROGRAM, id)
}

/// A descriptor of what is pinned at `path` of a bpffs. That it is a program shows when it is asked
/// for its [`ProgramInfo`]. Fails with `NotFound`, `PermissionDenied`, or `InvalidInput` when
/// `path` lies in no bpffs.
pub fn open_pinned(path: &Path) -> io::Result<OwnedFd> {
    sys::open_pinned(&CString::new(path.as_os_str().as_bytes())?)
}

/// The ids of all loaded programs, ascending. Programs that come and go meanwhile may be missed.
/// Fails with `PermissionDenied` without `CAP_SYS_ADMIN`.
pub fn ids() -> io::Result<Vec<u32>> {
    sys::ids(LoadedObject::PROGRAM).collect()
}

/// What the kernel tells about a loaded program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramInfo {
    /// Number, unique among the programs that are loaded.
    pub id: u32,
    /// Type.
    pub r#type: ProgramType,
    /// Name of at most 15 bytes; may be empty.
    pub name: String,
    /// Hash of the bytecode, by which the same program is recognised when it is loaded again.
    pub tag: [u8; 8],
    pub user_id: u32,
    /// When it was loaded, in nanoseconds since boot.
    pub loaded_at_ns: u64,
    /// Bytes of bytecode after the verifier has rewritten it.
    pub xlated_bytes: u32,
    /// Bytes of machine code; 0 without JIT, or without the right to see it.
    pub jited_bytes: u32,
    /// Instructions that the verifier processed; 0 before Linux 5.16.
    pub verified_instructions: u32,
    pub map_count: u32,
    /// Time in the program while statistics were on, in nanoseconds, since it was loaded.
    pub run_time_ns: u64,
    /// Runs while statistics were on, since it was loaded.
    pub run_count: u64,
    /// Runs that were left out because the program was running already on that CPU.
    pub recursion_misses: u64,
}

impl ProgramInfo {
    /// Asks the kernel about `program`. Fails with `InvalidInput` when the descriptor is not that
    /// of a program.
    pub fn of(program: impl AsFd) -> io::Result<Self> {
        require_program(program.as_fd())?;
        let info = sys::program_info(program.as_fd())?;
        let name: Vec<u8> = info.name.iter().copied().take_while(|&byte| byte != 0).collect();
        Ok(Self {
            id: info.id,
            r#type: ProgramType(info.r#type),
            name: String::from_utf8_lossy(&name).into_owned(),
            tag: info.tag,
            user_id: info.created_by_uid,
            loaded_at_ns: info.load_time,
            xlated_bytes: info.xlated_prog_len,
            jited_bytes: info.jited_prog_len,
            verified_instructions: info.verified_insns,
            map_count: info.nr_map_ids,
            run_time_ns: info.run_time_ns,
            run_count: info.run_cnt,
            recursion_misses: info.recursion_misses,
        })
    }

    /// The tag as hexadecimal text, as bpftool prints it.
    pub fn tag_text(&self) -> String {
        self.tag.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The name of the function that `program` begins with, whole: the kernel's own name of it, in
/// [`ProgramInfo`], ends after 15 bytes. `None` when the program was loaded without type information.
///
/// It costs reading all of the program's types, so ask once. Fails with `InvalidInput` when the
/// descriptor is not that of a program; `PermissionDenied` without `CAP_SYS_ADMIN`.
pub fn full_name(program: impl AsFd) -> io::Result<Option<String>> {
    require_program(program.as_fd())?;
    let Some((btf_id, function)) = sys::program_function(program.as_fd())? else {
        return Ok(None);
    };
    let bytes = sys::btf_bytes(btf_id)?;
    let types = KernelTypes::parse(&bytes).map_err(io::Error::other)?;
    let name = types.function_name(function).filter(|name| !name.is_empty());
    Ok(name.map(str::to_owned))
}

/// The kernel answers for maps and links too, in another structure.
fn require_program(fd: BorrowedFd<'_>) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
    match link.as_os_str().as_bytes() == b"anon_inode:bpf-prog" {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "this is not a BPF program")),
    }
}

/// Run-time statistics of all programs are on while this lives; dropped, also by the death of the
/// process, they are as they were (`BPF_ENABLE_STATS`, Linux 5.8).
#[derive(Debug)]
pub struct StatisticsOn {
    _switch: OwnedFd,
}

impl StatisticsOn {
    /// Switches them on. Fails with `PermissionDenied` without `CAP_SYS_ADMIN`.
    pub fn new() -> io::Result<Self> {
        sys::enable_statistics().map(|switch| Self { _switch: switch })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_not_given() {
        let error = open(u32::MAX).expect_err("there are no four billion programs");
        let kind = error.kind();
        assert!(
            matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied),
            "{error}"
        );
    }

    #[test]
    fn what_is_no_program_is_told() {
        let file = std::fs::File::open("/proc/self/status").expect("proc");
        assert_eq!(ProgramInfo::of(&file).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}

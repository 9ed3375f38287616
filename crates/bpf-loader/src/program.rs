//! Loaded programs, of any process.

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
    spec::MapType,
    sys::{self, LoadedObject},
};

/// Opens a loaded program. While the descriptor is open the program stays in the kernel, with its
/// name, code and line information, even if nothing else holds it. Fails with `NotFound` if no
/// program has this id (any more); `PermissionDenied` without `CAP_SYS_ADMIN`, which the kernel
/// requires for access by id (kernel/bpf/syscall.c, `bpf_prog_get_fd_by_id`, Linux 6.18).
pub fn open(id: u32) -> io::Result<OwnedFd> {
    sys::open_id(LoadedObject::PROGRAM, id)
}

/// Opens the object pinned at `path` in a bpffs. Use [`ProgramInfo`] to check that it is a program.
/// Fails with `NotFound`, `PermissionDenied`, or `InvalidInput` if `path` is not in a bpffs.
pub fn open_pinned(path: &Path) -> io::Result<OwnedFd> {
    sys::open_pinned(&CString::new(path.as_os_str().as_bytes())?)
}

/// Ids of all loaded programs, ascending. May miss programs that come and go meanwhile. Fails with
/// `PermissionDenied` without `CAP_SYS_ADMIN`.
pub fn ids() -> io::Result<Vec<u32>> {
    sys::ids(LoadedObject::PROGRAM).collect()
}

/// The kernel's info about a loaded program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramInfo {
    /// Id, unique among the loaded programs.
    pub id: u32,
    /// Type.
    pub r#type: ProgramType,
    /// Name of at most 15 bytes; may be empty.
    pub name: String,
    /// Hash of the bytecode, which identifies the same program when it is loaded again.
    pub tag: [u8; 8],
    pub user_id: u32,
    /// Load time, in nanoseconds since boot.
    pub loaded_at_ns: u64,
    /// Size of the bytecode after rewriting by the verifier.
    pub xlated_bytes: u32,
    /// Size of the machine code; 0 without JIT, or without the privilege to see it.
    pub jited_bytes: u32,
    /// Instructions processed by the verifier; 0 before Linux 5.16.
    pub verified_instructions: u32,
    pub map_count: u32,
    /// Total run time with statistics enabled since it was loaded, in nanoseconds.
    pub run_time_ns: u64,
    /// Runs with statistics enabled since it was loaded.
    pub run_count: u64,
    /// Runs skipped by the kernel because the program was already running on that CPU.
    pub recursion_misses: u64,
}

impl ProgramInfo {
    /// Queries `program`. Fails with `InvalidInput` if the descriptor is not a program.
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

    /// The tag in hexadecimal, in bpftool's format.
    pub fn tag_text(&self) -> String {
        self.tag.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Full name of the entry function of `program`: the kernel's own name, in [`ProgramInfo`], is
/// truncated to 15 bytes. `None` if the program was loaded without type information.
///
/// Reads all of the program's types, so cache the result. Fails with `InvalidInput` if the
/// descriptor is not a program; `PermissionDenied` without `CAP_SYS_ADMIN`.
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

/// The kernel also answers for maps and links, with another structure.
fn require_program(fd: BorrowedFd<'_>) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
    match link.as_os_str().as_bytes() == b"anon_inode:bpf-prog" {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "this is not a BPF program")),
    }
}

/// Enables run-time statistics of all programs while this lives; on drop, or the death of the
/// process, restores the previous state (`BPF_ENABLE_STATS`, Linux 5.8).
#[derive(Debug)]
pub struct StatisticsOn {
    _switch: OwnedFd,
}

impl StatisticsOn {
    /// Enables them. Fails with `PermissionDenied` without `CAP_SYS_ADMIN`.
    pub fn new() -> io::Result<Self> {
        sys::enable_statistics().map(|switch| Self { _switch: switch })
    }
}

// Tail calls between programs: program tables (`BPF_MAP_TYPE_PROG_ARRAY`) and their contents.
//
// A tail call bypasses run counts and times: the target has no run of its own, and its time is
// included in that of the calling program.

/// Maximum number of table entries that are read.
const ENTRIES_MAX: u32 = 1 << 16;

/// How a program takes part in tail calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TailCalls {
    /// It uses a program table, so it may jump to others.
    pub has_table: bool,
    /// It is in a table, so others may jump to it.
    pub is_in_table: bool,
}

impl TailCalls {
    /// Reads all current program tables. Fails with `PermissionDenied` without `CAP_SYS_ADMIN`.
    pub fn of(program: BorrowedFd<'_>) -> io::Result<Self> {
        let id = sys::program_info(program)?.id;
        let used = sys::program_maps(program)?;
        let mut found = Self::default();
        for map in sys::ids(LoadedObject::MAP) {
            let map = map?;
            // It may already be gone.
            let Ok(table) = sys::open_id(LoadedObject::MAP, map) else { continue };
            let Ok((kind, entries)) = sys::map_info(table.as_fd()) else { continue };
            if MapType(kind) != MapType::PROG_ARRAY {
                continue;
            }
            found.has_table |= used.contains(&map);
            found.is_in_table |= (0..entries.min(ENTRIES_MAX)).any(|index| {
                let mut value = [0; 4];
                sys::lookup_element(table.as_fd(), &index.to_ne_bytes(), &mut value).is_ok()
                    && u32::from_ne_bytes(value) == id
            });
        }
        Ok(found)
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

//! Tail calls between programs: program tables (`BPF_MAP_TYPE_PROG_ARRAY`) and their contents.
//!
//! A tail call bypasses run counts and times: the target has no run of its own, and its time is
//! included in that of the calling program.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd},
};

use crate::{
    spec::MapType,
    sys::{self, LoadedObject},
};

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

//! Which programs jump to which: tables of programs (`BPF_MAP_TYPE_PROG_ARRAY`) and what stands in them.
//!
//! A tail call goes past what counts and times runs: the program that is jumped to has no run of its own,
//! and its time is in that of the program that jumped.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd},
};

use crate::{
    spec::MapType,
    sys::{self, LoadedObject},
};

/// Entries of a table that are looked at.
const ENTRIES_MAX: u32 = 1 << 16;

/// How a program takes part in tail calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TailCalls {
    /// It uses a table of programs, so it may jump into others.
    pub has_table: bool,
    /// It stands in a table, so others may jump into it.
    pub is_in_table: bool,
}

impl TailCalls {
    /// Looks at all tables of programs that are there now. Fails with `PermissionDenied` without
    /// `CAP_SYS_ADMIN`.
    pub fn of(program: BorrowedFd<'_>) -> io::Result<Self> {
        let id = sys::program_info(program)?.id;
        let used = sys::program_maps(program)?;
        let mut found = Self::default();
        for map in sys::ids(LoadedObject::MAP) {
            let map = map?;
            // It may be gone already.
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

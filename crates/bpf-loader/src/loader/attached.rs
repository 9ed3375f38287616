//! Attaches loaded programs.

use std::{
    ffi::CString,
    fs::File,
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use super::Loaded;
use crate::sys;

/// Locations in the code of a file.
#[derive(Debug, Clone, Copy)]
pub struct Uprobes<'a> {
    /// The file; a path below `/proc/self/fd` names an open one.
    pub path: &'a Path,
    /// File offsets in bytes.
    pub offsets: &'a [u64],
    /// Cookie passed to the program at each location.
    pub cookies: &'a [u64],
    /// Process in which it runs.
    pub pid: u32,
}

/// A program attached while this lives.
#[derive(Debug)]
pub struct Attached {
    _link: OwnedFd,
}

impl Loaded {
    /// Attaches a raw tracepoint program to a tracepoint. Fails with `NotFound` if the kernel has no such tracepoint.
    pub fn attach_raw(&self, tracepoint: &str) -> io::Result<Attached> {
        let tracepoint = CString::new(tracepoint)?;
        let link = sys::open_raw_tracepoint(Some(&tracepoint), self.as_fd())?;
        Ok(Attached { _link: link })
    }

    /// Attaches a tracing program to its target. Fails with `InvalidInput` for other types.
    pub fn attach(&self) -> io::Result<Attached> {
        Ok(Attached { _link: sys::open_raw_tracepoint(None, self.as_fd())? })
    }

    /// Attaches a program that was loaded for `uprobe.multi` (Linux 6.6). Fails with `InvalidInput`
    /// if the file has no code at a location, and with `NotFound` if the process has ended.
    pub fn attach_uprobes(&self, uprobes: &Uprobes<'_>) -> io::Result<Attached> {
        let Uprobes { path, offsets, cookies, pid } = *uprobes;
        let path = CString::new(path.as_os_str().as_bytes())?;
        let link = sys::link_uprobes(self.as_fd(), &path, (offsets, cookies), pid)?;
        Ok(Attached { _link: link })
    }

    /// Runs an iterator once over all objects and discards its text. Fails with `InvalidInput` for other types.
    pub fn iterate(&self) -> io::Result<()> {
        let link = sys::link_iterator(self.as_fd())?;
        let mut file = File::from(sys::open_iterator(link.as_fd())?);
        // Reading runs it.
        io::copy(&mut file, &mut io::sink()).map(drop)
    }
}

//! Loaded programs, attached to what calls them.

use std::{
    ffi::CString,
    fs::File,
    io,
    os::fd::{AsFd as _, OwnedFd},
};

use super::Loaded;
use crate::sys;

/// A program that is attached for as long as this lives.
#[derive(Debug)]
pub struct Attached {
    _link: OwnedFd,
}

impl Loaded {
    /// Attaches a raw tracepoint program to a tracepoint. Fails with `NotFound` when the kernel has
    /// no such tracepoint.
    pub fn attach_raw(&self, tracepoint: &str) -> io::Result<Attached> {
        let tracepoint = CString::new(tracepoint)?;
        let link = sys::open_raw_tracepoint(Some(&tracepoint), self.as_fd())?;
        Ok(Attached { _link: link })
    }

    /// Attaches a tracing program to what it was loaded for. Fails with `InvalidInput` when it is
    /// of another type.
    pub fn attach(&self) -> io::Result<Attached> {
        Ok(Attached { _link: sys::open_raw_tracepoint(None, self.as_fd())? })
    }

    /// Runs an iterator once over all that there is; its text is dropped. Fails with `InvalidInput`
    /// when it is of another type.
    pub fn iterate(&self) -> io::Result<()> {
        let link = sys::link_iterator(self.as_fd())?;
        let mut file = File::from(sys::open_iterator(link.as_fd())?);
        // Reading is what runs it.
        io::copy(&mut file, &mut io::sink()).map(drop)
    }
}

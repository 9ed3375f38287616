//! Tables of programs, slot by slot.

use std::os::fd::{AsRawFd as _, BorrowedFd};

use super::{LoadedMap, MapError};

impl LoadedMap {
    /// An empty map of the same kind: a table for other forms of the same programs.
    pub fn twin(&self) -> Result<Self, MapError> {
        Self::create(&self.spec, None)
    }

    /// Puts a program into a slot of a table of programs. Fails when there is no such slot, or the
    /// kernel does not take the program: one of another type than those that use the table.
    pub fn put_program(&self, slot: u32, program: BorrowedFd<'_>) -> Result<(), MapError> {
        self.update(&slot.to_ne_bytes(), &program.as_raw_fd().to_ne_bytes())
    }
}

//! A loaded program whose functions are targets of other programs: to be replaced (freplace), or
//! traced (fentry, fexit).

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use crate::{btf::KernelTypes, sys};

/// A program with the names of its functions.
#[derive(Debug)]
pub struct Extended {
    program: OwnedFd,
    types: KernelTypes,
}

/// Why a program cannot be extended.
#[derive(Debug, thiserror::Error)]
pub enum ExtendedError {
    /// Its functions have no names.
    #[error(
        "it was loaded without type information (BTF), by which the kernel finds a function; build its object with it (clang -g, or bpf-linker --btf), and load it with a loader that passes it on"
    )]
    NoTypes,
    #[error("the kernel gives no information about it: {0}")]
    Unknown(#[source] io::Error),
}

impl Extended {
    /// Reads the functions of `program`, and keeps it loaded. Fails if it has no type information,
    /// or the kernel does not return it.
    pub fn new(program: impl AsFd) -> Result<Self, ExtendedError> {
        let program = program.as_fd();
        let found = sys::program_function(program).map_err(ExtendedError::Unknown)?;
        let (types, _) = found.ok_or(ExtendedError::NoTypes)?;
        let types = sys::btf_bytes(types).map_err(ExtendedError::Unknown)?;
        let types = KernelTypes::parse(&types);
        Ok(Self {
            program: program.try_clone_to_owned().map_err(ExtendedError::Unknown)?,
            types: types.map_err(|error| ExtendedError::Unknown(io::Error::other(error)))?,
        })
    }

    /// Type id of the function `name` in the program's own types.
    pub(super) fn function_id(&self, name: &str) -> Option<u32> {
        self.types.function_id(name)
    }
}

impl AsFd for Extended {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

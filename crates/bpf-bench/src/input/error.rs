//! Errors in input files.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

use super::{capture::CaptureError, hex::HexError, map_contents::MapError};

/// A file without usable inputs, and why.
#[derive(Debug, Error)]
#[error("cannot take input from {}: {problem}", .path.display())]
pub struct InputError {
    pub path: PathBuf,
    #[source]
    pub problem: Problem,
}

impl InputError {
    pub(super) fn new(path: &Path, problem: Problem) -> Self {
        Self { path: path.to_owned(), problem }
    }
}

/// The problem with a file.
#[derive(Debug, Error)]
pub enum Problem {
    #[error("{0}")]
    Read(io::Error),
    #[error("it is a folder; pass the files in it")]
    Folder,
    #[error("it is a device or a socket; pass a file or a pipe")]
    Device,
    #[error("it is empty")]
    Empty,
    #[error("it is larger than 1 GiB; cut a capture with `editcap -r FILE OUT 1-1000`")]
    TooLarge,
    #[error("it is compressed; unpack it with `{tool}` first")]
    Compressed { tool: &'static str },
    #[error("it is a program (ELF), not a packet; were the files given in the wrong order?")]
    Object,
    #[error(transparent)]
    Hex(#[from] HexError),
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error(transparent)]
    Map(#[from] MapError),
    #[error(
        "its input {name} has the same name as one from {}; name one of the two, for example \
         other={}", .other.display(), .other.display()
    )]
    SameName { name: String, other: PathBuf },
}

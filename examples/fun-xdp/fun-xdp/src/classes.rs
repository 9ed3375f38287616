//! The queue of classes, read from user space.

use aya::maps::{MapData, MapError, Queue};
use fun_xdp_common::SourceAddr;

/// The classes that the kernel half has found, the oldest first. Iterating takes them out, and ends
/// when there are none left for now.
///
/// A queue cannot wake who waits for it: look again after a while.
pub struct Classes(Queue<MapData, u32>);

/// Why a class cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ClassesError {
    #[error("cannot read the queue of classes")]
    Read(#[source] MapError),
    /// Something that the kernel half does not write.
    #[error("the queue holds {0}, which is no class: other programs write to it")]
    NoClass(u32),
}

impl Classes {
    pub(crate) fn new(queue: Queue<MapData, u32>) -> Self {
        Self(queue)
    }

    /// How many classes fit. Further ones are lost until some are taken out.
    pub fn capacity(&self) -> u32 {
        self.0.capacity()
    }
}

impl Iterator for Classes {
    type Item = Result<SourceAddr, ClassesError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.0.pop(0) {
            Ok(raw) => Some(SourceAddr::from_raw(raw).ok_or(ClassesError::NoClass(raw))),
            Err(MapError::ElementNotFound) => None,
            Err(error) => Some(Err(ClassesError::Read(error))),
        }
    }
}

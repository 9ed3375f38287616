//! Reads the queue of classes from user space.

use aya::maps::{MapData, MapError, Queue};
use fun_xdp_common::SourceAddr;

/// Classes found by the kernel half, oldest first. Iterating removes them, and ends when the queue is empty for now.
///
/// A queue cannot wake up its reader: poll it.
pub struct Classes(Queue<MapData, u32>);

/// Why a class cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ClassesError {
    #[error("cannot read the queue of classes")]
    Read(#[source] MapError),
    /// A value that the kernel half does not write.
    #[error("the queue holds {0}, which is not a class: other programs write to it")]
    NoClass(u32),
}

impl Classes {
    pub(crate) fn new(queue: Queue<MapData, u32>) -> Self {
        Self(queue)
    }

    /// Capacity of the queue. Further classes are lost until some are removed.
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

//! Files with names that were there and are not believed.

use serde::Serialize;

use crate::foreign::Distrust;

/// A file whose names were not used, though code of its process has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    pub pid: u32,
    /// As the process sees it.
    pub path: String,
    pub reason: String,
}

impl Refused {
    pub(super) fn new(pid: u32, path: String, why: Distrust) -> Self {
        Self { pid, path, reason: why.to_string() }
    }
}

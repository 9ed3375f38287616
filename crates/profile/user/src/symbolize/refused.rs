//! Files with names that were there and are not believed, or could not be read.

use serde::Serialize;

use crate::foreign::Distrust;

/// What could have given more names.
#[derive(Debug, Default)]
pub(super) struct Untold {
    pub refused: Vec<Refused>,
    pub unusable: Vec<Unusable>,
}

impl Untold {
    /// Notes why a file was not used: once for each file.
    pub(super) fn add(&mut self, path: &str, why: String, is_replaced: bool) {
        match self.unusable.iter_mut().find(|known| known.path == path) {
            Some(known) => known.reason = format!("{}; {why}", known.reason),
            None => {
                let path = path.to_owned();
                self.unusable.push(Unusable { path, reason: why, is_replaced });
            }
        }
    }
}

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

/// A file whose debug information, or a part of it, was not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unusable {
    /// The file with the code, as its process sees it.
    pub path: String,
    pub reason: String,
    /// The file is another one than that which ran, so that it names nothing.
    pub is_replaced: bool,
}

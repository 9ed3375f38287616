//! Symbol files that exist but are not trusted or not readable.

use serde::Serialize;

use crate::foreign::Distrust;

/// Files that could have provided more names.
#[derive(Debug, Default)]
pub(super) struct Untold {
    pub refused: Vec<Refused>,
    pub unusable: Vec<Unusable>,
}

impl Untold {
    /// Records why a file was not used, once per file.
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

/// A symbol file that was not used, though code of its process is unnamed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    pub pid: u32,
    /// As seen by the process.
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
    /// The code file, as seen by its process.
    pub path: String,
    pub reason: String,
    /// The file has been replaced since it ran, so it provides no names.
    pub is_replaced: bool,
}

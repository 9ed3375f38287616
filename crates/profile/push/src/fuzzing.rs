//! Doors for the fuzz targets (`fuzz/` at the root), which see only what is public. Behind the feature `fuzzing`, and no
//! part of the interface.

use std::path::Path;

use crate::{ring, spool};

/// A file of a spool, whole and as what its sum is right for: what comes of it is written the same way.
pub fn spool_file(bytes: &[u8]) {
    spool::fuzz(bytes);
}

/// The name of a window's folder, a line, and its `labels.json`.
pub fn ring(bytes: &[u8]) {
    let at = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (name, labels) = bytes.split_at(at);
    let name = String::from_utf8_lossy(name);
    ring::fuzz(Path::new(&*name), labels.get(1..).unwrap_or_default());
}

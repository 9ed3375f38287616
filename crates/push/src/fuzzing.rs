//! Entry points for the fuzz targets (`fuzz/` at the root), which see only public items. Behind the feature
//! `fuzzing`, and not part of the API.

use std::path::Path;

use crate::{ring, spool};

/// A spool file, as is and with a corrected checksum: the result must serialize to the same bytes.
pub fn spool_file(bytes: &[u8]) {
    spool::fuzz(bytes);
}

/// The name of a window's folder on one line, and its `labels.json`.
pub fn ring(bytes: &[u8]) {
    let at = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (name, labels) = bytes.split_at(at);
    let name = String::from_utf8_lossy(name);
    ring::fuzz(Path::new(&*name), labels.get(1..).unwrap_or_default());
}

//! Shared debug files: `dwz` moves what the debug files of a package have in common into a separate file, which
//! `.gnu_debugaltlink` references by build id.

use std::{
    fs, io,
    os::{fd::AsRawFd as _, unix::fs::symlink},
};

use tempfile::TempDir;

use super::{Asked, BuildId, DebugFiles, Wanted};
use crate::symbolize::debug_info::{DebugInfo, FOLDERS, place_of_build};

/// Shared files that are referenced but missing. debuginfod serves them by build id, too.
pub(super) fn shared_by(found: &DebugFiles) -> Vec<Wanted> {
    let mut shared: Vec<Wanted> = Vec::new();
    for Asked { path, build_id, .. } in &found.account.files {
        let file = found.get(build_id.bytes());
        let id = file.and_then(DebugInfo::read).and_then(|info| BuildId::new(&info.shared?.1));
        let Some(id) = id else { continue };
        let is_known = found.files.contains_key(id.bytes());
        if !is_installed(&id) && !is_known && shared.iter().all(|known| known.build_id != id) {
            shared.push(Wanted { path: path.clone(), build_id: id });
        }
    }
    shared
}

fn is_installed(id: &BuildId) -> bool {
    FOLDERS
        .iter()
        .filter_map(|folder| place_of_build(folder.as_ref(), id.bytes()))
        .any(|place| place.exists())
}

/// Creates a folder with links to these files by build id, in the layout of `/usr/lib/debug`.
pub(super) fn link_shared(shared: &[Wanted], found: &DebugFiles) -> io::Result<TempDir> {
    let folder = tempfile::tempdir()?;
    for Wanted { build_id, .. } in shared {
        let file = found.get(build_id.bytes());
        let Some((file, place)) = file.zip(place_of_build(folder.path(), build_id.bytes())) else {
            continue;
        };
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        symlink(format!("/proc/self/fd/{}", file.as_raw_fd()), place)?;
    }
    Ok(folder)
}

//! Lists, removes and creates folders.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

/// Entries of a folder, sorted.
pub fn sorted(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let paths = || {
        let entries = fs::read_dir(folder)?;
        entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()
    };
    let mut paths = paths().with_context(|| format!("cannot read {}", folder.display()))?;
    paths.sort();
    Ok(paths)
}

/// All regular files below a folder, sorted. Does not follow links.
pub fn below(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in sorted(folder)? {
        let meta = path.symlink_metadata();
        let meta = meta.with_context(|| format!("cannot read {}", path.display()))?;
        if meta.is_dir() {
            files.extend(below(&path)?);
        } else if meta.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}

/// Removes a folder recursively, if it exists.
pub fn remove(folder: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome.with_context(|| format!("cannot remove {}", folder.display())),
    }
}

/// Creates an empty folder, replacing an existing one.
pub fn fresh(folder: &Path) -> anyhow::Result<()> {
    remove(folder)?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

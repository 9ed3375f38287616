//! Reads small files of `/proc` and `/sys` whole, below a root that tests replace.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

use wingbeat_bpf_loader::cpus;

/// Maximum bytes read. `/proc/cpuinfo` has 1.5 KB per CPU.
const BYTES_MAX: u64 = 4 << 20;

/// A tree of files.
#[derive(Debug, Clone, Copy)]
pub(super) struct Files<'a> {
    root: &'a Path,
}

impl<'a> Files<'a> {
    pub(super) fn new(root: &'a Path) -> Self {
        Self { root }
    }

    /// Trimmed text of a file.
    pub(super) fn text(self, path: &str) -> Option<String> {
        read(&self.root.join(path))
    }

    /// Parses a list of CPUs such as `0-3,8`.
    pub(super) fn cpus(self, path: &str) -> Option<Vec<u32>> {
        cpus::listed(&self.text(path)?)
    }

    /// Numeric entries of a folder.
    pub(super) fn numbers(self, path: &str) -> Vec<u32> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    /// Files of a folder with their contents.
    pub(super) fn folder(self, path: &str, files_max: usize) -> BTreeMap<String, String> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten();
        let paths = entries.take(files_max).filter_map(|entry| Some(entry.ok()?.path()));
        let named = |path: PathBuf| {
            let name = path.file_name()?.to_string_lossy().into_owned();
            Some((name, read(&path)?))
        };
        paths.filter_map(named).collect()
    }
}

fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

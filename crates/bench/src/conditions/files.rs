//! Small files of `/proc` and `/sys`, read whole, below a root that tests put elsewhere.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

/// More is not read. `/proc/cpuinfo` takes 1.5 KB per CPU.
const BYTES_MAX: u64 = 4 << 20;

/// Numbers of CPUs, at most (`NR_CPUS` is 8,192 at most on x86).
const CPUS_MAX: usize = 8192;

/// A tree of files.
#[derive(Debug, Clone, Copy)]
pub(super) struct Files<'a> {
    root: &'a Path,
}

impl<'a> Files<'a> {
    pub(super) fn new(root: &'a Path) -> Self {
        Self { root }
    }

    /// The text of a file, without blanks around it.
    pub(super) fn text(self, path: &str) -> Option<String> {
        read(&self.root.join(path))
    }

    /// A list of CPUs such as `0-3,8`.
    pub(super) fn cpus(self, path: &str) -> Option<Vec<u32>> {
        parse_cpus(&self.text(path)?)
    }

    /// The entries of a folder whose names are numbers.
    pub(super) fn numbers(self, path: &str) -> Vec<u32> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    /// The files of a folder, with their texts.
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

fn parse_cpus(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in text.split(',').map(str::trim).filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        cpus.extend((first..=last).take(CPUS_MAX.saturating_sub(cpus.len())));
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lists_of_cpus() {
        let check = |text, expected: Option<&[u32]>| {
            assert_eq!(parse_cpus(text).as_deref(), expected, "{text:?}");
        };
        check("0", Some(&[0]));
        check("0-2,5,7-8", Some(&[0, 1, 2, 5, 7, 8]));
        check("", Some(&[]));
        check("2-1", Some(&[]));
        check("a", None);
        check("1-", None);
        assert_eq!(parse_cpus("0-4294967295,0-9").map(|cpus| cpus.len()), Some(CPUS_MAX));
    }
}

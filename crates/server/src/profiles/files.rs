//! Profile files: written atomically, with readable names.

use std::{
    collections::HashSet,
    fs,
    io::{self, Write as _},
    path::Path,
};

use time::{OffsetDateTime, format_description::StaticFormatDescription};

/// Name of the index among the files.
pub(super) const INDEX: &str = "index.db";

const START: StaticFormatDescription =
    time::macros::format_description!("[year][month][day]T[hour][minute][second]Z");

/// Maximum characters of a name within a file name.
const NAME_CHARS_MAX: usize = 60;

/// Suffix of incomplete files.
const PART: &str = ".part";

/// Minimum disk usage of a file.
const DISK_BLOCK: u64 = 4096;

/// Path of a block: `PROJECT/SERVICE/process_cpu-20261128T020000Z-600s-7.pb.gz`.
pub(super) fn path(
    (project, service, name): (&str, &str, &str),
    (start_ns, end_ns): (i64, i64),
    id: i64,
) -> String {
    let start = OffsetDateTime::from_unix_timestamp_nanos(start_ns.into())
        .unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let start = start.format(START).unwrap_or_default();
    let seconds = end_ns.saturating_sub(start_ns) / 1_000_000_000;
    format!("{}/{}/{}-{start}-{seconds}s-{id}.pb.gz", plain(project), plain(service), plain(name))
}

/// Sanitizes a text as a file name that cannot escape the folder.
fn plain(text: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || "._".contains(c) { c } else { '-' };
    let name: String = text.chars().take(NAME_CHARS_MAX).map(fit).collect();
    match name.starts_with('.') || name.is_empty() {
        true => format!("_{name}"),
        false => name,
    }
}

/// Writes a file; returns its disk usage.
pub(super) fn write(folder: &Path, path: &str, bytes: &[u8]) -> io::Result<u64> {
    let path = folder.join(path);
    let parent = path.parent().unwrap_or(folder);
    fs::create_dir_all(parent)?;
    let part = path.with_extension("part");
    let written = fs::File::create(&part).and_then(|mut file| file.write_all(bytes));
    if let Err(error) = written.and_then(|()| fs::rename(&part, &path)) {
        remove(&part);
        return Err(error);
    }
    Ok((bytes.len() as u64).next_multiple_of(DISK_BLOCK))
}

/// Deletes a file. If that fails, the next start deletes it.
pub(super) fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!("cannot remove {}: {error}", path.display());
    }
}

/// Deletes leftovers of a crash: files missing in the index, and empty folders.
pub(super) fn remove_unnamed(folder: &Path, named: &HashSet<String>) -> io::Result<()> {
    let mut open = vec![folder.to_owned()];
    let mut folders = Vec::new();
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                folders.push(path.clone());
                open.push(path);
            } else if is_ours(&path) && !is_named(folder, &path, named) {
                remove(&path);
            }
        }
    }
    // Inner folders first; non-empty ones stay.
    folders.iter().rev().for_each(|path| drop(fs::remove_dir(path)));
    Ok(())
}

fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    !name.starts_with(INDEX) && (name.ends_with(".pb.gz") || name.ends_with(PART))
}

fn is_named(folder: &Path, path: &Path, named: &HashSet<String>) -> bool {
    let relative = path.strip_prefix(folder).ok().and_then(Path::to_str);
    relative.is_some_and(|path| named.contains(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_readable_and_stay_in_the_folder() {
        let check = |service: &str, expected: &str| {
            let start = 1_795_820_400_000_000_000;
            let found = path(("p", service, "process_cpu"), (start, start + 600_000_000_000), 7);
            assert_eq!(found, format!("p/{expected}/process_cpu-20261127T230000Z-600s-7.pb.gz"));
        };
        check("nginx", "nginx");
        check("..", "_..");
        check("../../etc/ä b", "_..-..-etc---b");
        check("", "_");
        check(&"x".repeat(500), &"x".repeat(60));
    }

    #[test]
    fn unnamed_files_are_removed_and_others_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        for path in ["a/b/one.pb.gz", "a/b/two.pb.gz", "c/d/three.pb.gz", "a/b/four.pb.part"] {
            write(root, path, b"x").expect("written");
        }
        fs::write(root.join(INDEX), "x").expect("written");
        fs::write(root.join("a/notes.txt"), "x").expect("written");
        remove_unnamed(root, &HashSet::from(["a/b/one.pb.gz".to_owned()])).expect("removed");
        let exists = |path: &str| root.join(path).exists();
        assert!(exists("a/b/one.pb.gz") && exists(INDEX) && exists("a/notes.txt"));
        assert!(!exists("a/b/two.pb.gz") && !exists("c") && !exists("a/b/four.pb.part"));
    }
}

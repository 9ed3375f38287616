//! Paths: worktrees below the temporary folder, build output below `.wingbeat/compare`.
//!
//! The worktrees are outside of the user's working tree, because tools that search parent folders (Cargo's settings and
//! workspaces, `node_modules`) would mix the two. Both sides have paths of the same length, identical in each run, so
//! that neither the environment's size nor the names in debug information differ, and build output can be reused.

use std::{
    fs::{self, File, TryLockError},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{
    CompareError,
    git::{Git, Snapshot, file},
};

const CACHES_MAX: usize = 4;

/// Prefix of the folder that holds the worktrees.
pub(super) const PREFIX: &str = "wingbeat-compare-";

/// Slot name of a working tree with changes. As long as a shortened hash.
const WORKING_TREE: &str = "working-tree";

#[derive(Debug)]
pub(super) struct Places {
    pub(super) trees: PathBuf,
    pub(super) caches: PathBuf,
}

impl Places {
    pub(super) fn new(git: &Git) -> Result<Self, CompareError> {
        let ours = std::env::temp_dir().join(format!("{PREFIX}{}", own_user()));
        create_private(&ours)?;
        let repository = hash(git.root.as_os_str().as_encoded_bytes());
        let trees = ours.join(format!("{repository:016x}"));
        let wingbeat = git.root.join(".wingbeat");
        let caches = wingbeat.join("compare");
        for folder in [&trees, &caches] {
            fs::create_dir_all(folder).map_err(|source| file("make the folder", folder, source))?;
        }
        let ignore = wingbeat.join(".gitignore");
        if !ignore.exists() {
            fs::write(&ignore, "*\n").map_err(|source| file("write", &ignore, source))?;
        }
        Ok(Self { trees, caches })
    }

    pub(super) fn cache(&self, slot: &str) -> Result<PathBuf, CompareError> {
        let cache = self.caches.join(slot);
        let target = cache.join("target");
        fs::create_dir_all(&target).map_err(|source| file("make the folder", &target, source))?;
        // Its modification time is the time of last use.
        let used = cache.join("used");
        fs::write(&used, "").map_err(|source| file("write", &used, source))?;
        Ok(target)
    }

    /// Removes the least recently used caches. Ignores those that cannot be removed.
    pub(super) fn forget_old_caches(&self) {
        let Ok(entries) = fs::read_dir(&self.caches) else { return };
        let used = |cache: &Path| {
            let modified = fs::metadata(cache.join("used")).and_then(|found| found.modified());
            modified.unwrap_or(SystemTime::UNIX_EPOCH)
        };
        let caches = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
        let mut caches: Vec<(SystemTime, PathBuf)> =
            caches.map(|path| (used(&path), path)).collect();
        caches.sort();
        let surplus = caches.len().saturating_sub(CACHES_MAX);
        for (_, path) in caches.into_iter().take(surplus) {
            let _ = fs::remove_dir_all(path);
        }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        // Fails unless empty, that is, if a worktree could not be removed.
        let _ = fs::remove_dir(&self.trees);
    }
}

/// Names for the worktrees and caches of both sides: of equal length, and never the same.
pub(super) fn slots(base: &Snapshot, head: &Snapshot) -> [String; 2] {
    let name = |side: &Snapshot| {
        let commit = side.revision.commit.get(..WORKING_TREE.len());
        match side.revision.has_uncommitted_changes {
            true => WORKING_TREE.to_owned(),
            false => commit.unwrap_or(&side.revision.commit).to_owned(),
        }
    };
    let (base, head) = (name(base), name(head));
    let number = u8::from(base == head);
    [format!("{base}-0"), format!("{head}-{number}")]
}

/// Allows one comparison at a time in a repository, until dropped. The kernel releases the lock when the process exits.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "closing it unlocks")] File);

impl Lock {
    pub(super) fn take(places: &Places) -> Result<Self, CompareError> {
        let path = places.caches.join("lock");
        let opened = File::options().create(true).truncate(false).write(true).open(&path);
        let lock = opened.map_err(|source| file("open", &path, source))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self(lock)),
            Err(TryLockError::WouldBlock) => Err(CompareError::Failed(
                "another `wingbeat compare` is running in this repository, and two would disturb each other; wait \
                 until it ends"
                    .to_owned(),
            )),
            Err(TryLockError::Error(source)) => Err(file("lock", &path, source)),
        }
    }
}

/// Creates a folder that nobody else can write to, even below `/tmp`.
fn create_private(path: &Path) -> Result<(), CompareError> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(file("make the folder", path, error));
        }
        _ => {}
    }
    let found = fs::symlink_metadata(path).map_err(|source| file("read", path, source))?;
    let is_ours = found.is_dir() && found.uid() == own_user() && found.mode() & 0o022 == 0;
    let refused = || {
        CompareError::Failed(format!(
            "{} belongs to another user or is not a folder, so nothing is built there; set TMPDIR to a folder of your \
             own",
            path.display()
        ))
    };
    is_ours.then_some(()).ok_or_else(refused)
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// FNV-1a: stable for the same path across versions.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Revision;

    fn snapshot(commit: &str, has_uncommitted_changes: bool) -> Snapshot {
        let (asked, commit) = (String::new(), commit.repeat(40));
        let revision = Revision { asked, commit, has_uncommitted_changes };
        Snapshot { revision, tree: String::new() }
    }

    #[test]
    fn slots_differ_and_are_of_one_length() {
        let check = |base: Snapshot, head: Snapshot, expected: [&str; 2]| {
            let slots = slots(&base, &head);
            assert_eq!(slots, expected);
            assert!(slots[0] != slots[1] && slots[0].len() == slots[1].len());
        };
        let (a, b) = ("aaaaaaaaaaaa-0", "bbbbbbbbbbbb-0");
        check(snapshot("a", false), snapshot("b", false), [a, b]);
        check(snapshot("a", false), snapshot("a", false), [a, "aaaaaaaaaaaa-1"]);
        check(snapshot("a", false), snapshot("a", true), [a, "working-tree-0"]);
    }

    #[test]
    fn the_caches_used_last_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let caches = folder.path().to_owned();
        let places = Places { trees: caches.join("trees"), caches };
        for age in 0..6 {
            places.cache(&format!("slot-{age}")).expect("a cache");
            let used = File::open(places.caches.join(format!("slot-{age}/used")));
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000 - age);
            used.expect("a file").set_modified(time).expect("set");
        }
        places.forget_old_caches();
        let is_kept = |age| places.caches.join(format!("slot-{age}")).exists();
        assert_eq!([0, 1, 2, 3, 4, 5].map(is_kept), [true, true, true, true, false, false]);
    }

    #[test]
    fn what_others_may_write_into_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        create_private(&path).expect("made");
        create_private(&path).expect("there");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        let is_refused = |path| {
            let error = create_private(path).expect_err("refused").to_string();
            assert!(error.contains("belongs to another user or is not a folder"), "{error}");
        };
        is_refused(&link);
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(&path, open).expect("set");
        is_refused(&path);
    }
}

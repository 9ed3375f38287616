//! Roots of processes that see other files than we do: in their own mount namespace, or below another folder. They
//! are kept open, since debug files are searched there when the process may have exited.

use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use rustc_hash::FxHashMap;
use rustix::fs::{CWD, Mode, OFlags, openat};

/// Identity of a root: mount namespace, device and inode.
type Key = (PathBuf, u64, u64);

/// An open root.
#[derive(Debug)]
pub(super) struct Root {
    pub folder: File,
    /// Keeps the mounts below the root, which exist as long as their namespace is referenced.
    _namespace: Option<File>,
}

/// Roots by identity.
#[derive(Debug, Default)]
pub(super) struct Roots {
    known: FxHashMap<Key, Arc<Root>>,
}

impl Roots {
    /// The root of a process, if it is not ours.
    pub(super) fn of(&mut self, pid: u32) -> Option<Arc<Root>> {
        static OURS: OnceLock<Option<Key>> = OnceLock::new();
        let key = key(&pid.to_string())?;
        if OURS.get_or_init(|| self::key("self")).as_ref() == Some(&key) {
            return None;
        }
        if let Some(known) = self.known.get(&key) {
            return Some(Arc::clone(known));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, format!("/proc/{pid}/root"), flags, Mode::empty()).ok()?;
        let namespace = File::open(format!("/proc/{pid}/ns/mnt")).ok();
        let root = Arc::new(Root { folder: File::from(root), _namespace: namespace });
        self.known.insert(key, Arc::clone(&root));
        Some(root)
    }

    /// Closes roots that no file needs any more.
    pub(super) fn forget_unused(&mut self) {
        self.known.retain(|_, root| Arc::strong_count(root) > 1);
    }
}

fn key(pid: &str) -> Option<Key> {
    let namespace = fs::read_link(format!("/proc/{pid}/ns/mnt")).ok()?;
    let root = fs::metadata(format!("/proc/{pid}/root")).ok()?;
    Some((namespace, root.dev(), root.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_root_is_none_of_others() {
        let mut roots = Roots::default();
        assert!(roots.of(std::process::id()).is_none());
        assert!(roots.of(5_000_000).is_none());
    }
}

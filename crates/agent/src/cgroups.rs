//! Maps cgroup ids, which the kernel reports with samples, to paths. A folder may be removed before it is looked up.
//!
//! In cgroup v2 the id is the inode number of the folder (`cgroup_id` of include/linux/cgroup.h).

use std::{
    fs, mem,
    os::unix::fs::{DirEntryExt as _, MetadataExt as _},
    path::PathBuf,
};

use rustc_hash::FxHashMap;

/// Windows after which an unused folder is removed.
const REMEMBERED: u64 = 40;

/// Maximum number of folders per scan.
const FOLDERS_MAX: usize = 50_000;

/// Paths by id.
#[derive(Debug)]
pub(crate) struct Cgroups {
    root: PathBuf,
    known: FxHashMap<u64, Known>,
    window: u64,
    /// Scanned in this window.
    is_scanned: bool,
}

#[derive(Debug)]
struct Known {
    path: String,
    /// Last window in which it existed or was used.
    window: u64,
}

impl Cgroups {
    /// The cgroups below a folder.
    pub(crate) fn below(root: PathBuf) -> Self {
        Self { root, known: FxHashMap::default(), window: 0, is_scanned: false }
    }

    /// The cgroups of this machine, from `/proc/self/mounts`; `None` without cgroup v2.
    pub(crate) fn mounted(mounts: &str) -> Option<Self> {
        let path = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let path = words.next()?;
            (words.next()? == "cgroup2").then_some(path)
        })?;
        Some(Self::below(path.into()))
    }

    /// Starts another window.
    pub(crate) fn next_window(&mut self) {
        self.window += 1;
        self.is_scanned = false;
        let window = self.window;
        self.known.retain(|_, known| window - known.window < REMEMBERED);
    }

    /// The path of a cgroup, as in `/proc/PID/cgroup`. Scans all folders for an unknown id, at most once per window.
    pub(crate) fn path(&mut self, id: u64) -> Option<&str> {
        if !self.known.contains_key(&id) && !mem::replace(&mut self.is_scanned, true) {
            self.scan();
        }
        let known = self.known.get_mut(&id)?;
        known.window = self.window;
        Some(&known.path)
    }

    /// Records a sampled process's current path if it belongs to the id, since it may be removed later.
    pub(crate) fn record(&mut self, id: u64, path: &str) {
        let is_it = || {
            let found = fs::metadata(self.root.join(path.trim_start_matches('/')));
            found.is_ok_and(|found| found.ino() == id)
        };
        if self.known.contains_key(&id) || is_it() {
            let known = self.known.entry(id);
            let known = known.or_insert_with(|| Known { path: path.to_owned(), window: 0 });
            known.window = self.window;
        }
    }

    fn scan(&mut self) {
        if let Ok(root) = fs::metadata(&self.root) {
            let known = Known { path: "/".to_owned(), window: self.window };
            self.known.insert(root.ino(), known);
        }
        let mut folders = vec![(self.root.clone(), String::new())];
        let mut left = FOLDERS_MAX;
        while let Some((folder, path)) = folders.pop() {
            // A folder that disappears meanwhile has no children.
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                if left == 0 || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    continue;
                }
                left -= 1;
                let path = format!("{path}/{}", entry.file_name().to_string_lossy());
                let known = Known { path: path.clone(), window: self.window };
                self.known.insert(entry.ino(), known);
                folders.push((entry.path(), path));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_found_and_remembered() {
        let root = tempfile::tempdir().expect("a folder");
        let make = |path: &str| {
            fs::create_dir_all(root.path().join(path)).expect("a folder");
            fs::metadata(root.path().join(path)).expect("a folder").ino()
        };
        let mut cgroups = Cgroups::below(root.path().to_owned());
        let inner = make("system.slice/docker-1.scope");
        assert_eq!(cgroups.path(inner), Some("/system.slice/docker-1.scope"));
        // No second scan in this window.
        let late = make("late");
        assert_eq!(cgroups.path(late), None);
        // Unless a process provides it.
        cgroups.record(late, "/system.slice");
        assert_eq!(cgroups.path(late), None);
        cgroups.record(late, "/late");
        assert_eq!(cgroups.path(late), Some("/late"));
        fs::remove_dir(root.path().join("late")).expect("it is empty");
        for _ in 1..REMEMBERED {
            cgroups.next_window();
        }
        assert_eq!(cgroups.path(late), Some("/late"));
        for _ in 0..REMEMBERED {
            cgroups.next_window();
        }
        assert_eq!(cgroups.path(late), None);
        assert_eq!(cgroups.path(inner), Some("/system.slice/docker-1.scope"));
    }

    #[test]
    fn where_they_are_mounted() {
        let check = |mounts: &str, expected: Option<&str>| {
            let found = Cgroups::mounted(mounts).map(|it| it.root);
            assert_eq!(found, expected.map(PathBuf::from), "{mounts}");
        };
        check("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0", Some("/sys/fs/cgroup"));
        let hybrid = "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0";
        check(hybrid, Some("/sys/fs/cgroup/unified"));
        check("cgroup /sys/fs/cgroup/cpu cgroup rw 0 0", None);
        check("", None);
    }
}

//! Git worktrees of both sides, removed on drop.

use std::{
    ffi::OsStr,
    fs,
    path::{Component, Path, PathBuf},
    time::{Duration, SystemTime},
};

use super::{
    CompareError,
    git::{Git, Snapshot, file, run_in},
    place::{PREFIX, Places},
};

#[derive(Debug)]
pub(super) struct Worktree {
    git: Git,
    path: PathBuf,
}

impl Worktree {
    pub(super) fn create(
        git: &Git,
        places: &Places,
        slot: &str,
        snapshot: &Snapshot,
    ) -> Result<Self, CompareError> {
        let revision = &snapshot.revision;
        let what = format!("check out {}", revision.asked);
        // Created first, so that a partial worktree is removed as well.
        let worktree = Self { git: git.clone(), path: places.trees.join(slot) };
        let path = worktree.path.as_os_str();
        let words = ["worktree", "add", "--quiet", "--force", "--detach", "--no-checkout"];
        let arguments: Vec<&OsStr> =
            words.iter().map(OsStr::new).chain([path, OsStr::new(&revision.commit)]).collect();
        git.run(&what, &arguments)?;
        let read = ["read-tree", "--reset", "-u", &snapshot.tree];
        run_in(&worktree.path, &what, &read)?;
        worktree.update_submodules(git)?;
        if !revision.has_uncommitted_changes {
            worktree.set_times(&revision.commit)?;
        }
        Ok(worktree)
    }

    /// The folder that corresponds to one of the user's working tree.
    pub(super) fn directory(&self, prefix: &str) -> PathBuf {
        self.path.join(prefix)
    }

    /// Checks out the submodules of the user's working tree from their local repositories. Fetches only missing
    /// commits.
    fn update_submodules(&self, git: &Git) -> Result<(), CompareError> {
        if !self.path.join(".gitmodules").exists() {
            return Ok(());
        }
        let what = "check out the submodules";
        let common = run_in(&git.root, what, &["rev-parse", "--git-common-dir"])?;
        let modules = git.root.join(common).join("modules");
        let urls = ["config", "--get-regexp", "--name-only", r"^submodule\..*\.url$"];
        // Fails if there are none.
        let initialised = git.run(what, &urls).unwrap_or_default();
        let mut local: Vec<String> = vec!["-c".to_owned(), "protocol.file.allow=always".to_owned()];
        for key in initialised.lines() {
            let name = key.trim_start_matches("submodule.").trim_end_matches(".url");
            let clone = modules.join(name);
            if clone.is_dir() {
                local.extend(["-c".to_owned(), format!("{key}={}", clone.display())]);
            }
        }
        let update = ["submodule", "--quiet", "update", "--recursive"].map(str::to_owned);
        local.extend(update.clone());
        if run_in(&self.path, what, &local).is_ok() {
            return Ok(());
        }
        run_in(&self.path, what, &update).map(drop)
    }

    /// Sets the times of all files to that of the commit. Earlier builds of it then count as up to date, which is
    /// correct: the same commit has the same files.
    fn set_times(&self, commit: &str) -> Result<(), CompareError> {
        let what = "find the time and the files of a commit";
        let seconds = self.git.run(what, &["show", "--no-patch", "--format=%ct", commit])?;
        let seconds = seconds.lines().last().and_then(|line| line.trim().parse().ok()).unwrap_or(0);
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let files = run_in(&self.path, what, &["ls-files", "-z", "--recurse-submodules"])?;
        for name in files.split('\0').filter(|name| !name.is_empty()) {
            let path = self.path.join(name);
            // Symbolic links have no relevant time. Names that are not UTF-8 are skipped and look new.
            if fs::symlink_metadata(&path).is_ok_and(|found| found.is_file()) {
                let opened = fs::File::open(&path);
                opened
                    .and_then(|opened| opened.set_modified(time))
                    .map_err(|source| file("set the time of", &path, source))?;
            }
        }
        // Otherwise git considers every file changed until it has read it.
        run_in(&self.path, what, &["update-index", "-q", "--refresh"]).map(drop)
    }
}

impl Drop for Worktree {
    fn drop(&mut self) {
        remove(&self.git, &self.path);
    }
}

/// Removes what a killed comparison of this repository left behind. Only our own worktrees are touched. The lock is
/// held, so they are unused.
pub(super) fn remove_stale(git: &Git, places: &Places) {
    let list = ["worktree", "list", "--porcelain"];
    let listed = git.run("list the worktrees", &list).unwrap_or_default();
    let paths = listed.lines().filter_map(|line| line.strip_prefix("worktree ")).map(PathBuf::from);
    for path in paths.filter(|path| is_ours(path, &places.trees)) {
        remove(git, &path);
    }
    let left = fs::read_dir(&places.trees).into_iter().flatten().flatten();
    for entry in left {
        let _ = fs::remove_dir_all(entry.path());
    }
}

/// Whether compare created this worktree for this working tree, in any temporary folder.
fn is_ours(path: &Path, trees: &Path) -> bool {
    let mut names = path.components().rev().skip(1).filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let has_hash = names.next() == trees.file_name();
    let is_named = |name: &OsStr| name.as_encoded_bytes().starts_with(PREFIX.as_bytes());
    has_hash && names.next().is_some_and(is_named)
}

/// The next comparison removes the rest.
fn remove(git: &Git, path: &Path) {
    let arguments = ["worktree", "remove", "--force", "--force"].map(OsStr::new);
    let arguments: Vec<&OsStr> = arguments.into_iter().chain([path.as_os_str()]).collect();
    let _ = git.run("remove a worktree", &arguments);
    if path.exists() {
        let _ = fs::remove_dir_all(path);
        // Git would not remove it, so git has to prune it.
        let _ = git.run("forget a worktree", &arguments);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_worktrees_of_our_own_are_removed() {
        let trees = Path::new("/tmp/wingbeat-compare-0/0123456789abcdef");
        let check = |path: &str, expected| assert_eq!(is_ours(Path::new(path), trees), expected);
        check("/tmp/wingbeat-compare-0/0123456789abcdef/working-tree-0", true);
        check("/var/tmp/wingbeat-compare-7/0123456789abcdef/aaaaaaaaaaaa-1", true);
        check("/tmp/wingbeat-compare-0/fedcba9876543210/working-tree-0", false);
        check("/home/me/0123456789abcdef/working-tree-0", false);
        check("/tmp/wingbeat-compare-0/0123456789abcdef", false);
        check("/home/me/project", false);
    }
}

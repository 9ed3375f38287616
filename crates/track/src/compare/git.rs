//! Both sides in git: the working tree, and commits.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{CompareError, result::Revision};
use crate::git;

#[derive(Debug, Clone)]
pub(super) struct Git {
    pub(super) root: PathBuf,
    /// The user's folder relative to the root. Ends with `/` unless empty.
    pub(super) prefix: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) revision: Revision,
    /// Hash of the tree. Differs from the commit's if there are uncommitted changes.
    pub(super) tree: String,
}

impl Git {
    pub(super) fn find(directory: &Path) -> Result<Self, CompareError> {
        let ask = |flag: &str| {
            let found = output(git(directory).args(["rev-parse", flag]))?;
            found.map_err(|said| {
                CompareError::Failed(format!(
                    "{directory:?} is not in a git working tree, so there are no revisions to compare; change to \
                     one ({said})"
                ))
            })
        };
        let root = PathBuf::from(ask("--show-toplevel")?);
        Ok(Self { root, prefix: ask("--show-prefix")? })
    }

    pub(super) fn revision(&self, asked: &str) -> Result<Snapshot, CompareError> {
        let unknown = || {
            CompareError::Failed(format!(
                "there is no commit {asked:?} in this repository; is it spelt right, and was it fetched (a shallow \
                 clone lacks older ones: git fetch --unshallow)?"
            ))
        };
        let commit = format!("{asked}^{{commit}}");
        let arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", &commit];
        let commit = output(git(&self.root).args(arguments))?.map_err(|_| unknown())?;
        // Older versions of git repeat the option.
        let commit = commit.lines().last().unwrap_or_default().to_owned();
        let of_commit = ["rev-parse", &format!("{commit}^{{tree}}")];
        let tree = self.run("find the files of a commit", &of_commit)?;
        let asked = asked.to_owned();
        Ok(Snapshot { revision: Revision { asked, commit, has_uncommitted_changes: false }, tree })
    }

    /// The working tree including untracked files, without ignored ones. The index is not changed.
    pub(super) fn working_tree(&self) -> Result<Snapshot, CompareError> {
        let head = self.revision("HEAD")?;
        let what = "take the working tree as it is";
        let scratch = tempfile::tempdir()
            .map_err(|source| file("make a folder in", &std::env::temp_dir(), source))?;
        let index = scratch.path().join("index");
        let own = PathBuf::from(self.run(what, &["rev-parse", "--git-path", "index"])?);
        // The user's own index knows which files are unchanged. It may not exist yet.
        let own = self.root.join(own);
        if own.exists() {
            copy_with_time(&own, &index).map_err(|source| file("copy", &own, source))?;
        }
        let with_index = |arguments: &[&str]| {
            let found = output(git(&self.root).env("GIT_INDEX_FILE", &index).args(arguments))?;
            found.map_err(|said| refused(what, &said))
        };
        with_index(&["add", "--all"])?;
        let tree = with_index(&["write-tree"])?;
        let asked = "working tree".to_owned();
        let has_uncommitted_changes = tree != head.tree;
        Ok(Snapshot {
            revision: Revision { asked, has_uncommitted_changes, ..head.revision },
            tree,
        })
    }

    /// Runs git at the root. Returns its output without the trailing line break.
    pub(super) fn run<T: AsRef<OsStr>>(
        &self,
        what: &str,
        arguments: &[T],
    ) -> Result<String, CompareError> {
        run_in(&self.root, what, arguments)
    }
}

pub(super) fn run_in<T: AsRef<OsStr>>(
    directory: &Path,
    what: &str,
    arguments: &[T],
) -> Result<String, CompareError> {
    let found = output(git(directory).args(arguments))?;
    found.map_err(|said| refused(what, &said))
}

fn refused(what: &str, said: &str) -> CompareError {
    CompareError::Failed(format!("git could not {what}: {said}"))
}

#[expect(clippy::needless_pass_by_value, reason = "it comes from map_err")]
pub(super) fn file(what: &str, path: &Path, source: io::Error) -> CompareError {
    CompareError::Failed(format!("cannot {what} {}: {source}", path.display()))
}

/// Git in a folder, ignoring the repository of a running hook.
fn git(directory: &Path) -> Command {
    let mut command = git::command(directory);
    git::forget_hook(&mut command)
        // The user's hooks expect the original working tree. Prompts could not be answered.
        .args(["-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false"])
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null())
        // Ctrl-C is handled by us: we then have git clean up.
        .process_group(0);
    command
}

/// Copies an index and keeps its time: git rereads files that are no older than the index, because they may have
/// changed since without a trace in their times (git's Documentation/technical/racy-git).
fn copy_with_time(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    let modified = fs::metadata(from)?.modified()?;
    fs::File::options().write(true).open(to)?.set_modified(modified)
}

fn output(command: &mut Command) -> Result<Result<String, String>, CompareError> {
    git::output(command).map_err(|error| {
        let what = "cannot start git, which makes the copies of both revisions";
        CompareError::Failed(format!("{what}: {error}"))
    })
}

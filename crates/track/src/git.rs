//! Runs the user's git, so that its settings, filters and repository formats work.
//!
//! Functions take a folder and return `None` for what git does not know: benchmarks also run outside of repositories.
//! They keep the environment variables by which git passes hooks their repository, because a hook that measures is
//! about that one. For another worktree, call `forget_hook`.

use std::{
    cell::RefCell,
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::explain::Sources;

/// Maximum number of ancestors searched for the nearest version.
const ANCESTORS_MAX: usize = 1_000;

pub fn head(directory: &Path) -> Option<String> {
    ask(directory, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])
}

/// The checked-out branch. `None` for a detached head.
pub fn branch(directory: &Path) -> Option<String> {
    ask(directory, &["symbolic-ref", "--quiet", "--short", "HEAD"])
}

/// Whether tracked files differ from the commit.
pub fn is_dirty(directory: &Path) -> Option<bool> {
    let told = run(directory, &["status", "--porcelain", "--untracked-files=no"])?;
    Some(!told.is_empty())
}

pub fn root(directory: &Path) -> Option<String> {
    ask(directory, &["rev-parse", "--show-toplevel"])
}

/// Name of the folder that contains the repository.
pub fn repository_name(directory: &Path) -> Option<String> {
    Path::new(&root(directory)?).file_name().map(|name| name.to_string_lossy().into_owned())
}

/// The commit at which HEAD and a branch diverged. Either copy of the branch may be newer: in a CI job the local one is
/// often old, on a developer's machine the remote one is. The later of both commits is used.
pub fn merge_base(directory: &Path, branch: &str) -> Option<String> {
    let base = |side: &str| ask(directory, &["merge-base", "HEAD", &format!("{side}/{branch}")]);
    match (base("refs/remotes/origin"), base("refs/heads")) {
        (Some(remote), Some(local)) if descends(directory, &local, &remote) => Some(local),
        (remote, local) => remote.or(local),
    }
}

/// Whether a commit is a descendant of another, or the same.
pub fn descends(directory: &Path, commit: &str, earlier: &str) -> bool {
    run(directory, &["merge-base", "--is-ancestor", "--end-of-options", earlier, commit]).is_some()
}

pub fn resolve(directory: &Path, revision: &str) -> Option<String> {
    ask(directory, &["rev-parse", "--verify", "--quiet", &format!("{revision}^{{commit}}")])
}

/// A commit and its first-parent ancestors, newest first.
pub fn ancestors(directory: &Path, hash: &str) -> Vec<String> {
    let most = format!("--max-count={ANCESTORS_MAX}");
    // `--end-of-options`, because a user-supplied hash may begin with a hyphen.
    let arguments = ["rev-list", "--first-parent", &most, "--end-of-options", hash];
    run(directory, &arguments)
        .map(|told| told.lines().map(str::to_owned).collect())
        .unwrap_or_default()
}

/// Files of past commits of a folder's repository.
#[derive(Debug)]
pub struct History {
    directory: PathBuf,
    /// Paths of all files by commit.
    files: RefCell<HashMap<String, Vec<String>>>,
    /// Cached texts by commit and path: several alerts may be about the same file.
    texts: RefCell<HashMap<(String, String), Option<String>>>,
}

impl History {
    pub fn new(directory: PathBuf) -> Self {
        Self { directory, files: RefCell::default(), texts: RefCell::default() }
    }

    fn read(&self, commit: &str, path: &str) -> Option<String> {
        let mut all = self.files.borrow_mut();
        let files = all.entry(commit.to_owned()).or_insert_with(|| {
            let arguments = ["ls-tree", "-r", "-z", "--name-only", "--full-tree", commit];
            let told = run(&self.directory, &arguments).unwrap_or_default();
            told.split_terminator('\0').map(str::to_owned).collect()
        });
        let file = recorded_as(files, path)?;
        run(&self.directory, &["cat-file", "blob", &format!("{commit}:{file}")])
    }
}

impl Sources for History {
    fn text(&self, commit: &str, path: &str) -> Option<String> {
        // Reports may come from elsewhere, so their commit may be any text.
        if commit.is_empty() || !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let key = (commit.to_owned(), path.to_owned());
        self.texts.borrow_mut().entry(key).or_insert_with(|| self.read(commit, path)).clone()
    }
}

/// The repository file recorded by a compiler under this path: relative to any folder of the repository, or below a
/// folder where the repository was located. `None` if there is none, or if it is ambiguous.
fn recorded_as<'f>(files: &'f [String], path: &str) -> Option<&'f str> {
    let path = path.trim_start_matches("./");
    let ends = |whole: &str, end: &str| {
        whole.strip_suffix(end).is_some_and(|front| front.is_empty() || front.ends_with('/'))
    };
    let above = files.iter().filter(|file| ends(path, file)).max_by_key(|file| file.len());
    if let Some(file) = above {
        return Some(file);
    }
    let mut below = files.iter().filter(|file| ends(file, path));
    below.next().filter(|_| below.next().is_none()).map(String::as_str)
}

fn ask(directory: &Path, arguments: &[&str]) -> Option<String> {
    let told = run(directory, arguments)?;
    told.lines().next().map(str::to_owned).filter(|line| !line.is_empty())
}

fn run(directory: &Path, arguments: &[&str]) -> Option<String> {
    // Queries must not write: `status` would refresh the index.
    let mut command = command(directory);
    output(command.arg("--no-optional-locks").args(arguments).env("LC_ALL", "C")).ok()?.ok()
}

pub(crate) fn command(directory: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(directory);
    command
}

/// Removes the variables by which git passes hooks their repository, which are wrong elsewhere.
pub(crate) fn forget_hook(command: &mut Command) -> &mut Command {
    let variables = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"];
    for variable in variables.into_iter().chain(["GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"]) {
        command.env_remove(variable);
    }
    command
}

/// The stdout of a successful command, or the stderr of a failed one, without trailing line breaks.
pub(crate) fn output(command: &mut Command) -> io::Result<Result<String, String>> {
    let found = command.output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\n').to_owned();
    Ok(if found.status.success() {
        Ok(text(&found.stdout))
    } else {
        Err(text(&found.stderr).trim().to_owned())
    })
}

/// Runs git as some user, for tests.
#[cfg(test)]
pub(crate) fn by_somebody(directory: &Path, arguments: &[&str]) -> String {
    let identity =
        ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"];
    let told = output(command(directory).args(identity).args(arguments)).expect("git runs");
    told.unwrap_or_else(|said| panic!("{arguments:?}: {said}"))
}

#[cfg(test)]
mod tests {
    use super::{by_somebody as git, *};

    #[test]
    fn a_repository() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path();
        git(directory, &["init", "-q", "-b", "main"]);
        git(directory, &["commit", "-q", "--allow-empty", "-m", "one"]);
        let one = head(directory).expect("a commit");
        git(directory, &["checkout", "-q", "-b", "side"]);
        git(directory, &["commit", "-q", "--allow-empty", "-m", "two"]);
        assert_eq!(branch(directory).as_deref(), Some("side"));
        assert_eq!(merge_base(directory, "main").as_deref(), Some(one.as_str()));
        assert_eq!(merge_base(directory, "nowhere"), None);
        assert_eq!(resolve(directory, "main").as_deref(), Some(one.as_str()));
        let two = head(directory).expect("a commit");
        assert_eq!(ancestors(directory, &two), [two.clone(), one]);
        assert_eq!(ancestors(directory, "--help"), Vec::<String>::new());
        assert_eq!(is_dirty(directory), Some(false));
        std::fs::write(directory.join("file"), "a").expect("written");
        assert_eq!(is_dirty(directory), Some(false), "an untracked file changes nothing");
        git(directory, &["add", "file"]);
        assert_eq!(is_dirty(directory), Some(true));
    }

    #[test]
    fn branches_part_where_the_newer_side_of_the_other_one_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path();
        git(directory, &["init", "-q", "-b", "main"]);
        for message in ["one", "two", "three"] {
            git(directory, &["commit", "-q", "--allow-empty", "-m", message]);
        }
        git(directory, &["checkout", "-q", "-b", "side"]);
        git(directory, &["commit", "-q", "--allow-empty", "-m", "four"]);
        let check = |remote: &str, local: &str, expected: &str| {
            let commit = |name: &str| resolve(directory, name).expect("a commit");
            for (side, name) in [("remotes/origin", remote), ("heads", local)] {
                let side = format!("refs/{side}/main");
                match name {
                    "" => git(directory, &["update-ref", "-d", &side]),
                    name => git(directory, &["update-ref", &side, &commit(name)]),
                };
            }
            let found = merge_base(directory, "main");
            assert_eq!(found, Some(commit(expected)), "remote {remote}, local {local}");
        };
        check("", "side~1", "side~1");
        check("side~3", "side~1", "side~1");
        check("side~1", "side~3", "side~1");
        check("side~2", "side~2", "side~2");
        check("side~2", "", "side~2");
    }

    #[test]
    fn files_by_what_compilers_call_them() {
        let files = ["src/main.rs", "xdp/src/lib.rs", "lib/src/lib.rs", "lib/src/a.rs"];
        let files = files.map(str::to_owned);
        let check = |path, expected| assert_eq!(recorded_as(&files, path), expected, "{path}");
        check("src/main.rs", Some("src/main.rs"));
        check("./src/main.rs", Some("src/main.rs"));
        check("/home/a/project/src/main.rs", Some("src/main.rs"));
        check("/home/a/xdp/src/lib.rs", Some("xdp/src/lib.rs"));
        check("src/a.rs", Some("lib/src/a.rs"));
        check("src/lib.rs", None);
        check("main.rs", Some("src/main.rs"));
        check("ain.rs", None);
        check("", None);
    }

    #[test]
    fn texts_of_past_commits() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path();
        git(directory, &["init", "-q", "-b", "main"]);
        let commit = |text: &str| {
            std::fs::write(directory.join("a.rs"), text).expect("written");
            git(directory, &["add", "a.rs"]);
            git(directory, &["commit", "-q", "-m", text]);
            head(directory).expect("a commit")
        };
        let (one, two) = (commit("one\n"), commit("two\n"));
        let history = History::new(directory.to_owned());
        let check = |commit: &str, path, expected| {
            assert_eq!(history.text(commit, path).as_deref(), expected, "{commit} {path}");
        };
        check(&one, "/build/a.rs", Some("one"));
        check(&two, "a.rs", Some("two"));
        check(&two, "b.rs", None);
        check(&"0".repeat(40), "a.rs", None);
        check("main", "a.rs", None);
        check("--help", "a.rs", None);
    }

    #[test]
    fn no_repository() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!((head(folder.path()), branch(folder.path())), (None, None));
        assert_eq!(is_dirty(folder.path()), None);
    }
}

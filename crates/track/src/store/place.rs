//! The default location of a store, and its folder, which excludes itself from git.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

const FOLDER: &str = ".wingbeat";

/// The store of a working directory: `.wingbeat/results.db` at the root of its git repository, or in the directory
/// itself outside of a repository.
pub fn default_path(directory: &Path) -> PathBuf {
    // `.git` is a file in a linked worktree and in a submodule.
    let root = directory.ancestors().find(|folder| folder.join(".git").exists());
    root.unwrap_or(directory).join(FOLDER).join("results.db")
}

/// Creates the folder of a store and an empty file, if missing.
pub(super) fn create(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        fs::create_dir_all(folder)?;
        if folder.file_name().is_some_and(|name| name == FOLDER) {
            write_new(&folder.join(".gitignore"), b"*\n")?;
        }
    }
    // Created here, because SQLite's errors are less specific. It treats an empty file as a new database.
    write_new(path, b"")
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    match fs::OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => file.write_all(content),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // A read-only file system reports this even if the file exists.
        Err(_) if path.exists() => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_of_the_repository_or_the_directory_itself() {
        let temporary = tempfile::tempdir().expect("a folder");
        let root = temporary.path();
        for folder in ["repository/.git", "repository/a/b", "worktree/a", "outside"] {
            fs::create_dir_all(root.join(folder)).expect("a folder");
        }
        fs::write(root.join("worktree/.git"), "gitdir: elsewhere").expect("a file");
        let check = |directory: &str, expected: &str| {
            let expected = root.join(expected).join(".wingbeat/results.db");
            assert_eq!(default_path(&root.join(directory)), expected, "{directory}");
        };
        check("repository", "repository");
        check("repository/a/b", "repository");
        check("worktree/a", "worktree");
        check("outside", "outside");
    }

    #[test]
    fn its_own_folder_is_ignored_by_git_and_others_are_not_touched() {
        let temporary = tempfile::tempdir().expect("a folder");
        let check = |path: &str, is_ignored: bool| {
            let path = temporary.path().join(path);
            create(&path).expect("created");
            let ignore = path.parent().expect("a folder").join(".gitignore");
            assert_eq!(fs::read_to_string(ignore).ok().as_deref() == Some("*\n"), is_ignored);
            assert_eq!(fs::read(&path).expect("a file"), b"");
        };
        check("a/.wingbeat/results.db", true);
        check("b/results.db", false);
    }

    #[test]
    fn what_is_there_stays() {
        let temporary = tempfile::tempdir().expect("a folder");
        let path = temporary.path().join(".wingbeat/results.db");
        create(&path).expect("created");
        fs::write(&path, "content").expect("written");
        fs::write(path.with_file_name(".gitignore"), "mine").expect("written");
        create(&path).expect("there");
        assert_eq!(fs::read(&path).expect("a file"), b"content");
        assert_eq!(fs::read(path.with_file_name(".gitignore")).expect("a file"), b"mine");
    }
}

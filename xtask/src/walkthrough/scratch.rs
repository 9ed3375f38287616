//! A clone in which to run the commands: they create branches, commits and files.

use std::{
    env, fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;

use wingbeat_steps::{
    command::{Rights, find_program, output_of, repository, run_logged},
    folders,
};

/// Creates the clone, on a branch `main` that includes uncommitted changes.
///
/// It shares our target folder, which has the build of `cargo xtask demo` that the document requires.
pub(super) fn clone(place: &Path) -> anyhow::Result<PathBuf> {
    let root = repository();
    let clone = place.join("wingbeat");
    folders::fresh(place)?;
    let log = place.join("clone.log");
    let git = |folder: &Path| {
        let mut git = Command::new("git");
        git.current_dir(folder);
        git
    };
    run_logged(git(&root).args(["clone", "--quiet", "--shared", "."]).arg(&clone), &log)?;
    run_logged(git(&clone).args(["checkout", "--quiet", "-B", "main"]), &log)?;
    if overlay(&root, &clone)? {
        run_logged(git(&clone).args(["add", "--all"]), &log)?;
        let commit = ["commit", "--quiet", "--message", "Take what is not committed yet"];
        run_logged(git(&clone).args(AUTHOR).args(commit), &log)?;
    }
    symlink(root.join("target"), clone.join("target")).context("cannot link the target folder")?;
    Ok(clone)
}

const AUTHOR: [&str; 4] = ["-c", "user.name=walkthrough", "-c", "user.email=walkthrough@localhost"];

/// Its flags are about the environment, which stays as it is.
const SUDO: &str = r#"#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
exec "$@"
"#;

/// Copies uncommitted changes; returns whether there were any.
fn overlay(root: &Path, clone: &Path) -> anyhow::Result<bool> {
    let list = ["ls-files", "-z", "--modified", "--others", "--exclude-standard"];
    let changed = output_of(Command::new("git").args(list).current_dir(root))
        .context("`git ls-files` failed")?;
    let mut any = false;
    for file in changed.split_terminator('\0') {
        let (from, to) = (root.join(file), clone.join(file));
        if from.is_file() {
            fs::create_dir_all(to.parent().unwrap_or(clone)).context("cannot create a folder")?;
            fs::copy(&from, &to).with_context(|| format!("cannot copy {file}"))?;
        } else if to.exists() {
            fs::remove_file(&to).with_context(|| format!("cannot remove {file}"))?;
        }
        any = true;
    }
    Ok(any)
}

/// Bash with a terminal's environment: without our variables, and with an author for commits.
pub(super) fn bash(place: &Path) -> anyhow::Result<Command> {
    let mut bash = Command::new("bash");
    for (key, _) in env::vars_os() {
        let name = key.to_string_lossy();
        let of_ci = ["GITHUB_", "GITLAB_", "WINGBEAT_", "BENCHER_"];
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().chain(&of_ci).any(|p| name.starts_with(p)) {
            bash.env_remove(&key);
        }
    }
    bash.env_remove("CI").env_remove("RUST_LOG");
    for who in ["GIT_AUTHOR", "GIT_COMMITTER"] {
        bash.env(format!("{who}_NAME"), "walkthrough");
        bash.env(format!("{who}_EMAIL"), "walkthrough@localhost");
    }
    if Rights::now() == Rights::Root && find_program("sudo").is_none() {
        // Root in a container has no sudo, and needs none.
        let programs = place.join("bin");
        fs::create_dir_all(&programs).context("cannot create a folder for sudo")?;
        let sudo = programs.join("sudo");
        fs::write(&sudo, SUDO).context("cannot write a sudo")?;
        fs::set_permissions(&sudo, fs::Permissions::from_mode(0o755))
            .context("cannot make sudo executable")?;
        let path = env::var_os("PATH").unwrap_or_default();
        let all = [programs].into_iter().chain(env::split_paths(&path));
        bash.env("PATH", env::join_paths(all).context("PATH cannot be extended")?);
    }
    Ok(bash)
}

//! Repositories in temporary folders, with benchmarks that are shell scripts.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

pub(crate) use crate::ran::{Ran, wait_for};
use crate::ran::{assert_no_worktrees, worktrees_in};

/// A repository, and a temporary folder for whom it is compared in.
pub(crate) struct Repository {
    folder: TempDir,
}

impl Repository {
    /// With one commit, whose `bench.sh` is this script.
    pub(crate) fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["repository", "temporary"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let repository = Self { folder };
        repository.git(&["init", "--quiet", "--initial-branch", "main"]);
        repository.write("bench.sh", script);
        repository.commit();
        repository
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("repository")
    }

    pub(crate) fn temporary(&self) -> PathBuf {
        self.folder.path().join("temporary")
    }

    /// Writes a file that can be executed.
    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, content).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
    }

    pub(crate) fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", "a commit"]);
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let output = self.command("git").args(arguments).output().expect("git runs");
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// `wingbeat compare` with flags and, behind `--`, a command.
    pub(crate) fn compare(&self, flags: &[&str], command: &[&str]) -> Ran {
        self.wingbeat(flags, command).output().expect("it runs").into()
    }

    pub(crate) fn wingbeat(&self, flags: &[&str], command: &[&str]) -> Command {
        // Signals that are ignored where the tests were started, as by `nohup … &`, would stay so.
        let mut wingbeat = self.command("env");
        wingbeat.arg("--default-signal=INT,TERM,HUP");
        wingbeat.arg(assert_cmd::cargo::cargo_bin!("wingbeat"));
        wingbeat.arg("compare").args(flags).arg("--").args(command);
        wingbeat
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path())
            .env("TMPDIR", self.temporary())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null");
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "name");
            command.env(format!("GIT_{role}_EMAIL"), "name@example.org");
        }
        command
    }

    pub(crate) fn assert_no_worktrees(&self) {
        let listed = self.git(&["worktree", "list", "--porcelain"]);
        assert_no_worktrees(&listed, &self.temporary());
    }

    pub(crate) fn worktrees(&self) -> Vec<PathBuf> {
        worktrees_in(&self.temporary())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// A script that prints a latency, nearly the same each time: up to 0.6 % more.
pub(crate) fn script(latency: u32) -> String {
    format!(
        "#!/bin/sh\n\
         noise=$(date +%N | sed 's/^0*//')\n\
         echo \"{{\\\"loop\\\": {{\\\"latency\\\": {{\\\"value\\\": $(( {latency} + ${{noise:-0}} % 7 ))}}}}}}\"\n"
    )
}

/// A script that prints one value of a measure, and runs a line before.
pub(crate) fn printing(line: &str, name: &str, measure: &str, value: &str) -> String {
    format!(
        "#!/bin/sh\n{line}\n\
         echo \"{{\\\"{name}\\\": {{\\\"{measure}\\\": {{\\\"value\\\": {value}}}}}}}\"\n"
    )
}

pub(crate) fn lines_of(path: &Path) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

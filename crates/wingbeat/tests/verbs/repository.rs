//! Git repositories in which wingbeat runs.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use tempfile::TempDir;
use time::Duration;
use wingbeat_track::{
    model::Report,
    store::{ReportFilter, Store},
};

use crate::ran::Ran;

/// The binary under test.
pub(crate) const WINGBEAT: &str = env!("CARGO_BIN_EXE_wingbeat");

/// A repository on branch `main` with one commit, and next to it a folder for temporary files.
pub(crate) struct Repository {
    folder: TempDir,
}

impl Repository {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["repository", "temporary"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let repository = Self { folder };
        repository.git(&["init", "--quiet", "--initial-branch", "main"]);
        repository.commit();
        repository
    }

    /// With a commit of this script as `bench.sh`.
    pub(crate) fn with_script(script: &str) -> Self {
        let repository = Self::new();
        repository.write("bench.sh", script);
        repository.commit_all();
        repository
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("repository")
    }

    pub(crate) fn temporary(&self) -> PathBuf {
        self.folder.path().join("temporary")
    }

    pub(crate) fn store_path(&self) -> PathBuf {
        self.path().join(".wingbeat/results.db")
    }

    /// Writes an executable file.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, content).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
    }

    /// Runs git and returns its output.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let output = self.command("git").args(arguments).output().expect("git runs");
        assert!(output.status.success(), "git {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    }

    /// Creates an empty commit and returns its hash.
    pub(crate) fn commit(&self) -> String {
        // Otherwise two commits of the same second would be identical.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let message = format!("commit {}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.git(&["commit", "--quiet", "--allow-empty", "--message", &message]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Commits the whole working tree.
    pub(crate) fn commit_all(&self) {
        self.git(&["add", "--all"]);
        self.commit();
    }

    /// Creates a branch from here and checks it out.
    pub(crate) fn branch(&self, name: &str) {
        self.git(&["checkout", "-q", "-b", name]);
    }

    /// A command in the repository, without the environment of a CI job.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path());
        remove_foreign_variables(&mut command);
        command.env("TMPDIR", self.temporary());
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "name");
            command.env(format!("GIT_{role}_EMAIL"), "name@example.org");
        }
        command
    }

    pub(crate) fn wingbeat(&self, arguments: &[&str]) -> Command {
        // Restores signals that were ignored when the tests started, as by `nohup … &`.
        let mut command = self.command("env");
        command.args(["--default-signal=INT,TERM,HUP", WINGBEAT]).args(arguments);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.wingbeat(&["run"]).args(arguments))
    }

    /// `wingbeat compare` with flags and, after `--`, a command.
    pub(crate) fn comparing(&self, flags: &[&str], command: &[&str]) -> Command {
        self.wingbeat(&[&["compare"], flags, &["--"], command].concat())
    }

    pub(crate) fn compare(&self, flags: &[&str], command: &[&str]) -> Ran {
        Ran::of(&mut self.comparing(flags, command))
    }

    /// The worktrees of `wingbeat compare`.
    pub(crate) fn worktrees(&self) -> Vec<PathBuf> {
        let inside = |folder: PathBuf| {
            fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
        };
        let ours = inside(self.temporary());
        let ours = ours.filter(|path| path.to_string_lossy().contains("wingbeat-compare-"));
        ours.flat_map(inside).flat_map(inside).collect()
    }

    /// Asserts that git and the temporary folder have no worktree left.
    pub(crate) fn assert_no_worktrees(&self) {
        let listed = self.git(&["worktree", "list", "--porcelain"]);
        assert_eq!(listed.matches("worktree ").count(), 1, "{listed}");
        assert_eq!(self.worktrees(), Vec::<PathBuf>::new());
    }

    /// All reports with their alerts' status, oldest first. Empty without a store.
    pub(crate) fn reports(&self) -> Vec<Report> {
        reports(&self.store_path())
    }

    /// The same without confirming reports.
    pub(crate) fn first_reports(&self) -> Vec<Report> {
        self.reports().into_iter().filter(|report| report.confirms.is_none()).collect()
    }

    /// Stores a history of one report for each of these values of `a latency`, on branch `main` and testbed `Linux`,
    /// each a minute after the previous one, the last one now.
    pub(crate) fn history(&self, values: &[f64]) {
        self.run(&["--project", "p", &latency(values[0])]).ended_with(0);
        let template = self.reports().pop().expect("a report");
        fs::remove_dir_all(self.path().join(".wingbeat")).expect("removed");
        let store = Store::open(self.store_path()).expect("a store");
        for (at, &value) in (0..).zip(values) {
            let mut report = template.clone();
            let number = format!("00000000-0000-7000-8000-{at:012x}");
            report.uuid = number.parse().expect("a UUID");
            report.start_time -= Duration::minutes(values.len() as i64 - at);
            report.end_time = report.start_time;
            report.iterations[0].benchmarks[0].metrics[0].1.value = value;
            report.verdicts.clear();
            store.insert(&report).expect("stored");
        }
    }
}

/// Removes variables that would affect the tests.
pub(crate) fn remove_foreign_variables(command: &mut Command) {
    let prefixes = ["WINGBEAT", "BENCHER", "GITHUB", "CI", "CARGO_TARGET_DIR", "GIT_"];
    for (name, _) in env::vars() {
        if prefixes.iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
}

pub(crate) fn reports(store: &Path) -> Vec<Report> {
    if !store.exists() {
        return Vec::new();
    }
    let store = Store::open_existing(store).expect("a store");
    let newest_first = store.reports(&ReportFilter::default(), usize::MAX).expect("reports");
    let read = |uuid| store.report(uuid).expect("read").expect("a report");
    newest_first.iter().rev().map(|summary| read(summary.uuid)).collect()
}

/// A command line that prints one exact count, of benchmark `a`.
pub(crate) fn instructions(count: u64) -> String {
    format!("echo '{}'", metric("instructions", count as f64))
}

/// A command line that prints one time in nanoseconds, of benchmark `a`.
pub(crate) fn latency(value: f64) -> String {
    format!("echo '{}'", metric("latency", value))
}

/// A result of benchmark `a`.
pub(crate) fn metric(measure: &str, value: f64) -> String {
    format!("{{\"a\": {{\"{measure}\": {{\"value\": {value}}}}}}}")
}

/// Values of the only metric in each iteration of a report.
pub(crate) fn values(report: &Report) -> Vec<f64> {
    report.iterations.iter().map(|results| results.benchmarks[0].metrics[0].1.value).collect()
}

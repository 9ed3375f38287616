//! A repository to measure in, and what a run of wingbeat gave.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

use assert_cmd::Command;
use tempfile::TempDir;
use time::Duration;
use wingbeat_track::{
    model::Report,
    store::{ReportFilter, Store},
};

pub(crate) use crate::ran::Ran;

/// A git repository on branch `main` with one commit.
pub(crate) struct Repository {
    folder: TempDir,
}

impl Repository {
    pub(crate) fn new() -> Self {
        let repository = Self { folder: tempfile::tempdir().expect("a temporary folder") };
        repository.git(&["init", "-q", "-b", "main"]);
        repository.commit();
        repository
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn store_path(&self) -> PathBuf {
        self.path().join(".wingbeat/results.db")
    }

    /// Runs git and tells what it prints.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let identity =
            ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"];
        let output = process::Command::new("git")
            .current_dir(self.path())
            .args(identity)
            .args(arguments)
            .output()
            .expect("git runs");
        assert!(output.status.success(), "git {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    }

    /// Makes an empty commit and tells its hash.
    pub(crate) fn commit(&self) -> String {
        // Without a difference two commits of the same second would be one.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let message = format!("commit {}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.git(&["commit", "-q", "--allow-empty", "-m", &message]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Makes a branch from here and checks it out.
    pub(crate) fn branch(&self, name: &str) {
        self.git(&["checkout", "-q", "-b", name]);
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path().join(name), content).expect("a file");
    }

    /// wingbeat in the repository, without what a CI job's environment says.
    pub(crate) fn wingbeat(&self, arguments: &[&str]) -> Command {
        let mut command = Command::cargo_bin("wingbeat").expect("wingbeat");
        command.current_dir(self.path()).args(arguments);
        for (name, _) in foreign_variables() {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let arguments: Vec<&str> = ["run"].iter().chain(arguments).copied().collect();
        ran(&mut self.wingbeat(&arguments))
    }

    /// All reports with what became of them, the oldest first. None without a store.
    pub(crate) fn reports(&self) -> Vec<Report> {
        reports(&self.store_path())
    }

    /// Stores a history of one report for each of the values of `a latency`, on branch `main` and on
    /// testbed `Linux`, as if each was measured a minute after the one before and the last one just now.
    pub(crate) fn history(&self, values: &[f64]) {
        self.run(&["--project", "p", &latency(values[0])]).ended_with(0);
        let template = self.reports().pop().expect("a report");
        fs::remove_dir_all(self.path().join(".wingbeat")).expect("removed");
        let mut store = Store::open(self.store_path()).expect("a store");
        for (at, &value) in (0..).zip(values) {
            let mut report = template.clone();
            let number = uuid_of(at);
            report.uuid = number.parse().expect("a UUID");
            report.start_time -= Duration::minutes(values.len() as i64 - at);
            report.end_time = report.start_time;
            report.iterations[0].benchmarks[0].metrics[0].1.value = value;
            report.verdicts.clear();
            store.insert(&report).expect("stored");
        }
    }
}

fn uuid_of(at: i64) -> String {
    format!("00000000-0000-7000-8000-{at:012x}")
}

/// Variables that would have a say in the tests.
pub(crate) fn foreign_variables() -> Vec<(String, String)> {
    let prefixes = ["WINGBEAT", "BENCHER", "GITHUB", "CI", "CARGO_TARGET_DIR", "GIT_"];
    env::vars().filter(|(name, _)| prefixes.iter().any(|it| name.starts_with(it))).collect()
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

pub(crate) fn ran(command: &mut Command) -> Ran {
    command.output().expect("it runs").into()
}

/// A command line that prints one exact count, of benchmark `a`.
pub(crate) fn instructions(count: u64) -> String {
    print_metric("instructions", count as f64)
}

/// A command line that prints one time in nanoseconds, of benchmark `a`.
pub(crate) fn latency(value: f64) -> String {
    print_metric("latency", value)
}

pub(crate) fn print_metric(measure: &str, value: f64) -> String {
    format!("echo '{{\"a\": {{\"{measure}\": {{\"value\": {value}}}}}}}'")
}

/// Values of the only metric in each iteration of a report.
pub(crate) fn values(report: &Report) -> Vec<f64> {
    report.iterations.iter().map(|results| results.benchmarks[0].metrics[0].1.value).collect()
}

//! Early ends of a comparison: signals, kills, and leftovers.

use std::{fs, process::Child};

use rustix::process::Signal;

use super::support::{lines_of, printing, script};
use crate::{
    ran::{started, stopped, wait_for},
    repository::Repository,
};

fn start(repository: &Repository, flags: &[&str], command: &[&str]) -> Child {
    started(repository.comparing(flags, command))
}

#[test]
fn ctrl_c_leaves_no_worktree_and_no_process() {
    for signal in [Signal::INT, Signal::TERM] {
        let repository =
            Repository::with_script("#!/bin/sh\necho $$ > \"$CARGO_TARGET_DIR/pid\"\nsleep 600\n");
        let child = start(&repository, &["--base", "main"], &["./bench.sh"]);
        let pid = || {
            let caches = fs::read_dir(repository.path().join(".wingbeat/compare")).ok()?;
            let found = caches.flatten().map(|entry| entry.path().join("target/pid"));
            found.into_iter().find_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok())
        };
        wait_for("the first run", || pid().is_some());
        assert_eq!(repository.worktrees().len(), 2);
        let ran = stopped(child, signal).ended_with(1).prints_nothing();
        ran.tells("stopped before both revisions were run");
        repository.assert_no_worktrees();
        let pid: u32 = pid().expect("a process");
        wait_for("its end", || {
            let state = fs::read_to_string(format!("/proc/{pid}/stat"));
            state.map_or(true, |state| state.contains(") Z "))
        });
    }
}

#[test]
fn what_was_measured_before_a_signal_is_told() {
    let count = "echo >> \"$CARGO_TARGET_DIR/runs\"; n=$(date +%N | sed 's/^0*//')";
    let repository =
        Repository::with_script(&printing(count, "a", "latency", "$((500 + n % 900))"));
    let flags = ["--base", "main", "--err", "--precision", "0.001"];
    let child = start(&repository, &flags, &["./bench.sh"]);
    let runs = || {
        let caches = fs::read_dir(repository.path().join(".wingbeat/compare"));
        let caches = caches.into_iter().flatten().flatten();
        caches.map(|entry| lines_of(&entry.path().join("target/runs"))).sum::<usize>()
    };
    wait_for("three pairs", || runs() >= 8);
    let ran = stopped(child, Signal::INT).prints(", until it was stopped\n");
    assert!(matches!(ran.code, Some(0 | 1)), "{ran}");
    repository.assert_no_worktrees();
}

#[test]
fn what_a_killed_one_left_behind_is_removed_by_the_next() {
    let repository = Repository::with_script(&script(1000));
    let mine = repository.temporary().join("mine");
    let path = mine.display().to_string();
    repository.git(&["worktree", "add", "--quiet", "--detach", &path]);
    let mut child = start(&repository, &["--base", "main"], &["sleep 5; ./bench.sh"]);
    wait_for("the worktrees", || repository.worktrees().len() == 2);
    child.kill().expect("killed");
    child.wait().expect("it ends");
    assert!(!repository.worktrees().is_empty());
    repository.compare(&["--base", "main"], &["./bench.sh"]).ended_with(0);
    assert!(mine.join("bench.sh").exists());
    repository.git(&["worktree", "remove", &path]);
    repository.assert_no_worktrees();
}

#[test]
fn two_at_once_are_refused() {
    let repository = Repository::with_script(&script(1000));
    let child = start(&repository, &["--base", "main"], &["sleep 600"]);
    wait_for("the worktrees", || repository.worktrees().len() == 2);
    let ran = repository.compare(&["--base", "main"], &["./bench.sh"]).ended_with(1);
    ran.tells("another `wingbeat compare` is running");
    assert_eq!(repository.worktrees().len(), 2);
    stopped(child, Signal::TERM).ended_with(1);
    repository.assert_no_worktrees();
}

#[test]
fn six_pairs_are_run_even_if_time_is_up() {
    let repository = Repository::with_script(&printing(
        "sleep 0.1; n=$(date +%N | sed 's/^0*//')",
        "a",
        "latency",
        "$((500 + n % 900))",
    ));
    let flags = ["--base", "main", "--time", "100ms", "--format", "json"];
    let ran = repository.compare(&flags, &["./bench.sh"]).tells("which is more than --time");
    let found = ran.json();
    assert_eq!((&found["pairs"], &found["end"]), (&6.into(), &"time-spent".into()));
}

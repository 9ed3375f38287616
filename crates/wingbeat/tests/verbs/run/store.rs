//! The store from outside: concurrent runs, and unusable locations.

use std::{fs, process::Child, thread, time::Duration};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::{
    ran::{Ran, started, stopped, wait_for},
    repository::{Repository, WINGBEAT, instructions, reports},
};

#[test]
fn a_dry_run_compares_and_stores_nothing() {
    let repository = Repository::new();
    repository.run(&["--dry-run", &instructions(1)]).ended_with(0);
    assert!(!repository.path().join(".wingbeat").exists());
    repository.run(&[&instructions(1)]).ended_with(0);
    repository.run(&["--dry-run", "--err", &instructions(2)]).ended_with(1);
    assert_eq!(repository.reports().len(), 1);
}

#[test]
fn another_place() {
    let repository = Repository::new();
    let line = instructions(1);
    repository.run(&["--store", "new/folder/s.db", &line]).ended_with(0);
    Ran::of(repository.wingbeat(&["run", &line]).env("WINGBEAT_STORE", "v.db")).ended_with(0);
    for place in ["new/folder/s.db", "v.db"] {
        assert_eq!(reports(&repository.path().join(place)).len(), 1, "{place}");
    }
    assert!(!repository.store_path().exists());
    // From a subfolder, the repository's store.
    let below = repository.path().join("a/b");
    fs::create_dir_all(&below).expect("folders");
    assert_eq!(Ran::of(repository.wingbeat(&["run", &line]).current_dir(below)).code, Some(0));
    assert_eq!(repository.reports().len(), 1);
    assert_eq!(repository.git(&["status", "--porcelain", ".wingbeat"]), "", "git ignores it");
}

#[test]
fn what_cannot_be_used_is_told_before_the_command_runs() {
    let repository = Repository::new();
    repository.write("text.db", "not a database, but a text that is long enough to be looked at");
    let sentence = "cannot create the store /proc/no/store.db";
    for (place, expected) in [("text.db", "is not a store"), ("/proc/no/store.db", sentence)] {
        repository.run(&["--store", place, "touch ran"]).ended_with(1).tells(expected);
        assert!(!repository.path().join("ran").exists(), "{place}");
    }
}

// Ctrl-C while the command runs: it ends too, nothing is stored, and the parent sees the signal.

/// Starts wingbeat with a command line that writes its PID to the file `pid` and keeps running.
fn start(repository: &Repository, flags: &[&str], line: &str) -> Child {
    let line = format!("echo $$ > pid.new; mv pid.new pid; {line}");
    started(repository.wingbeat(&[&["run"], flags, &[&line]].concat()))
}

/// PID of the command, once written.
fn process_of(repository: &Repository) -> Pid {
    let path = repository.path().join("pid");
    wait_for("the start of the command", || path.exists());
    let text = fs::read_to_string(&path).expect("a file");
    fs::remove_file(path).expect("removed");
    Pid::from_raw(text.trim().parse().expect("a number")).expect("a process")
}

fn wait_for_end(process: Pid) {
    wait_for("the end of the command", || test_kill_process(process).is_err());
}

#[test]
fn the_command_ends_and_nothing_is_stored() {
    let check = |signal: Signal, flags: &[&str], line: &str| {
        let repository = Repository::new();
        let child = start(&repository, flags, line);
        let process = process_of(&repository);
        stopped(child, signal).ended_by(signal).tells("interrupted; nothing was stored");
        wait_for_end(process);
        assert_eq!(repository.reports(), []);
    };
    check(Signal::TERM, &[], "exec sleep 600");
    check(Signal::INT, &["--allow-failure", "--iter", "5"], "exec sleep 600");
    // It ends well, and has no result either.
    let ends = format!("trap '{}; exit 0' TERM; while :; do sleep 0.01; done", "echo {}");
    check(Signal::TERM, &[], &ends);
}

#[test]
fn the_second_signal_does_not_wait() {
    let repository = Repository::new();
    let child = start(&repository, &[], "trap '' INT; exec sleep 600");
    let process = process_of(&repository);
    let wingbeat = Pid::from_child(&child);
    kill_process(wingbeat, Signal::INT).expect("told");
    thread::sleep(Duration::from_millis(300));
    assert!(test_kill_process(wingbeat).is_ok(), "it waits for the command");
    stopped(child, Signal::INT).ended_by(Signal::INT);
    wait_for_end(process);
}

#[test]
fn a_signal_that_is_ignored_stays_so() {
    let repository = Repository::new();
    let line = format!("kill -HUP $PPID; {}", instructions(1));
    let mut command = repository.command("sh");
    Ran::of(command.args(["-c", "trap '' HUP; exec \"$0\" run \"$1\"", WINGBEAT, &line]))
        .ended_with(0);
    assert_eq!(repository.reports().len(), 1);
}

// Invalid results are not stored, with a reason in one sentence.

#[test]
fn nothing_is_stored() {
    let repository = Repository::new();
    repository.run(&[&instructions(1)]).ended_with(0);
    let check = |arguments: &[&str], expected: &str| {
        let ran = repository.run(arguments).ended_with(1).prints_nothing().tells(expected);
        assert_eq!(ran.stderr.matches("error:").count(), 1, "{}", ran.stderr);
        assert_eq!(repository.reports().len(), 1, "{arguments:?}");
    };
    let killed = format!("{}; kill -9 $$", instructions(2));
    check(&[&killed], "was killed by signal 9; nothing was stored");
    let failed = format!("{}; exit 3", instructions(2));
    check(&[&failed], "failed with status 3; nothing was stored");
    check(&[&failed], "; --allow-failure keeps the results of 1 benchmark that it printed");
    check(&["--allow-failure", "exit 3"], "`exit 3` failed with status 3, and printed no result");
    check(&["no-such-command"], "failed with status 127");
    check(&["no-such-command", "x"], "cannot run `no-such-command`: No such file");
    check(&["--shell", "/no/sh", "true"], "cannot run `/no/sh`: No such file");
    check(&["--adapter", "go_bench", &instructions(2)], "the adapter go_bench found no result");
    check(&["--adapter", "json", "echo {"], "json");
    let files: Vec<&str> = std::iter::repeat_n(["--file", "x"], 256).flatten().collect();
    check(&[&files[..], &["true"]].concat(), "256 files are too many");
}

#[test]
fn a_benchmark_that_failed_inside_a_good_run_is_told_and_not_recorded_as_fast() {
    let repository = Repository::new();
    let hyperfine = r#"{"results": [
        {"command": "good", "mean": 0.5, "stddev": 0.01, "median": 0.5, "user": 0.1, "system": 0.1,
         "min": 0.4, "max": 0.6, "times": [0.4, 0.5, 0.6], "exit_codes": [0, 0, 0]},
        {"command": "bad", "mean": 0.001, "stddev": 0.0001, "median": 0.001, "user": 0, "system": 0,
         "min": 0.001, "max": 0.001, "times": [0.001, 0.001], "exit_codes": [1, 1]}
    ]}"#;
    repository.write("results.json", hyperfine);
    let check = |flags: &[&str], expected| {
        let fixed = ["--adapter", "shell_hyperfine", "--file", "results.json"];
        let ran = repository.run(&[&fixed, flags].concat()).ended_with(expected).prints("bad");
        let is_told = ran.stderr.contains("error: 1 benchmark failed\n");
        assert_eq!(is_told, expected == 1, "{}", ran.stderr);
    };
    check(&[], 0);
    check(&["--err"], 1);
    let results = &repository.reports()[0].iterations[0];
    let names: Vec<&str> = results.benchmarks.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["good"]);
    assert_eq!(results.failures[0].name.as_str(), "bad");
}

#[test]
fn outside_of_a_repository() {
    let repository = Repository::new();
    fs::remove_dir_all(repository.path().join(".git")).expect("removed");
    repository.run(&["--start-point", "main", &instructions(1)]).ended_with(0);
    let report = &repository.reports()[0];
    assert_eq!((report.branch.as_str(), report.hash.as_deref()), ("main", None));
}

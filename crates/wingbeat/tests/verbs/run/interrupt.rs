//! Ctrl-C while the command runs: it ends too, nothing is stored, and the parent sees the signal.

use std::{fs, process::Child, thread, time::Duration};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::{
    ran::{Ran, started, stopped, wait_for},
    repository::{Repository, WINGBEAT, instructions},
};

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
    let check = |signal: Signal, flags: &[&str]| {
        let repository = Repository::new();
        let child = start(&repository, flags, "exec sleep 600");
        let process = process_of(&repository);
        stopped(child, signal).ended_by(signal).tells("interrupted; nothing was stored");
        wait_for_end(process);
        assert_eq!(repository.reports(), []);
    };
    check(Signal::INT, &[]);
    check(Signal::TERM, &[]);
    check(Signal::INT, &["--allow-failure", "--iter", "5"]);
}

#[test]
fn a_command_that_ends_well_after_it_has_no_result_either() {
    let repository = Repository::new();
    let line = format!("trap '{}; exit 0' TERM; while :; do sleep 0.01; done", "echo {}");
    let child = start(&repository, &[], &line);
    process_of(&repository);
    stopped(child, Signal::TERM).ended_by(Signal::TERM);
    assert_eq!(repository.reports(), []);
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

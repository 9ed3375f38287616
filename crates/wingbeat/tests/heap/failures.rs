//! Unsupported targets, and rejected flags.

use std::{process::Command, thread, time::Duration};

use crate::{
    ran::{Ran, without_rights},
    support::{HEAD, build, command, turn_for_heap},
    target::{Background, build_with},
};

fn wingbeat(words: &[&str]) -> Ran {
    Ran::of(Command::new(env!("CARGO_BIN_EXE_wingbeat")).arg("heap").args(words))
}

#[test]
fn wrong_usage() {
    wingbeat(&[]).ended_with(2);
    wingbeat(&["--pid", "1", "true"]).ended_with(2);
    wingbeat(&["--exact", "--sample", "1K", "true"]).ended_with(2);
    wingbeat(&["--sample", "1", "true"]).ended_with(2).tells("--exact takes every allocation");
    wingbeat(&["-o", "x.txt", "true"]).ended_with(2).tells(".json (DHAT)");
    wingbeat(&["-o", "x.json", "-o", "./x.json", "true"]).ended_with(2).tells("given twice");
    wingbeat(&["-o", "nowhere/x.json", "true"]).ended_with(1).tells("no folder nowhere");
}

#[test]
fn targets_that_are_none() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    let absent = ["--pid", "4194304"];
    Ran::of(&mut command(folder.path(), &absent)).ended_with(1).tells("no process has the PID");
    let no_command = ["--", "./no-such-command"];
    Ran::of(&mut command(folder.path(), &no_command)).ended_with(1).tells("cannot run");
    assert!(!folder.path().join("out.json").exists());
}

#[test]
fn a_program_without_symbols() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    let source = "int main(void) { for (;;) { free(used(malloc(10))); wait_ms(10); } }";
    let flags = ["-static", "-s"];
    let program = build_with(folder.path(), "bare", &[HEAD, source].concat(), &flags);
    let target = Background::start(&program, &[]);
    thread::sleep(Duration::from_millis(300));
    let pid = target.pid();
    let ran = Ran::of(&mut command(folder.path(), &["-d", "1s", "--pid", &pid]));
    ran.ended_with(1).tells("no allocator that wingbeat knows").tells_in_one_line();
    assert!(!folder.path().join("out.json").exists());
}

#[test]
fn a_target_that_would_be_too_slow() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    let source = "int main(void) { for (;;) free(used(malloc(10))); }";
    let target = Background::start(&build(folder.path(), "busy", source), &[]);
    thread::sleep(Duration::from_millis(300));
    let pid = target.pid();
    let ran = Ran::of(&mut command(folder.path(), &["-d", "1s", "--pid", &pid]));
    ran.ended_with(1).tells_all(&["the budget is 10 %", "--budget"]).tells_in_one_line();
    assert!(!folder.path().join("out.json").exists());
}

#[test]
fn without_the_rights() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    let mut wingbeat = without_rights(folder.path());
    wingbeat.args(["heap", "--", "true"]);
    Ran::of(&mut wingbeat).ended_with(1).tells("CAP_BPF and CAP_PERFMON").tells_in_one_line();
}

#[test]
fn the_command_s_own_end() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    Ran::of(&mut command(folder.path(), &["--", "sh", "-c", "exit 7"])).ended_with(7);
}

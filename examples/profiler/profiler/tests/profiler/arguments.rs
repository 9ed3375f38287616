//! Runs that end before the first sample.

use std::{fs, process::Command};

use rustix::{
    process::{Pid, WaitId, WaitIdOptions, waitid},
    thread::gettid,
};

use crate::{
    kernel_permits, profiler,
    program::{check, check_without_rights},
};

fn check_arguments(arguments: &[&str], code: i32, stderr: &str) {
    let folder = tempfile::tempdir().unwrap();
    check(profiler(folder.path()).args(arguments), code, stderr);
}

#[test]
fn wrong_usage_is_2() {
    check_arguments(&[], 2, "<PID>");
    check_arguments(&["0"], 2, "invalid value '0'");
    check_arguments(&["self"], 2, "invalid value 'self'");
    check_arguments(&["4294967296"], 2, "invalid value '4294967296'");
    check_arguments(&["1", "2"], 2, "unexpected argument '2'");
}

#[test]
fn a_pid_that_does_not_exist_is_1() {
    // Above the kernel's maximum PID, 2^22; then above those that it can represent.
    check_arguments(&["4194305"], 1, "there is no process with PID 4194305");
    check_arguments(&["4294967295"], 1, "there is no process with PID 4294967295");
}

#[test]
fn a_thread_is_not_a_process() {
    // This test has its own thread.
    let tid = gettid().as_raw_nonzero().to_string();
    check_arguments(&[&tid], 1, "is a thread: give the PID of its process");
}

#[test]
fn a_kernel_thread_is_refused() {
    // The parent of all kernel threads. In a container 2 may be another process, or none.
    let name = fs::read_to_string("/proc/2/comm").unwrap_or_default();
    if name != "kthreadd\n" {
        eprintln!("SKIPPED: kernel threads cannot be seen from here");
        return;
    }
    check_arguments(&["2"], 1, "2 is a thread of the kernel");
}

#[test]
fn a_process_that_has_ended_is_1() {
    if !kernel_permits() {
        return;
    }
    let mut ended = Command::new("true").spawn().unwrap();
    // Not reaped: its PID is still taken, but there is nothing left to sample.
    let child = WaitId::Pid(Pid::from_child(&ended));
    waitid(child, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
    let pid = ended.id().to_string();
    check_arguments(&[&pid], 1, &format!("process {pid} ended before it could be sampled"));
    ended.wait().unwrap();
}

#[test]
fn without_rights_it_says_how_to_get_them() {
    let own = std::process::id().to_string();
    check_without_rights(env!("CARGO_BIN_EXE_profiler"), &[&own]);
}

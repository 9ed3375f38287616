//! Tests the command-line interface.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
};

fn amicable(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_amicable"));
    command.args(arguments);
    command
}

fn check(arguments: &[&str], code: i32, stdout: &str) {
    let output = amicable(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), stdout, "{arguments:?}");
}

#[test]
fn prints_pairs() {
    check(&["300"], 0, "220 284\n");
    check(&["300", "--repeat", "2"], 0, "220 284\n220 284\n");
    check(&["300", "--repeat", "0"], 0, "");
}

#[test]
fn refuses_what_it_does_not_understand() {
    check(&["many"], 2, "");
    check(&["-1"], 2, "");
    check(&["300", "400"], 2, "");
}

#[test]
fn ends_quietly_when_its_reader_leaves() {
    let mut child = amicable(&["300", "--repeat", "100000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "220 284\n");
    drop(stdout);
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""));
}

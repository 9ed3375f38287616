//! Runs the tests of this program again on PostgreSQL, except those about SQLite's files.

use std::{env, process::Command};

use crate::support::*;

/// About files, or about both engines already.
const OF_FILES: [&str; 5] = ["copy::", "engines::", "flips::", "mounts::", "opening::"];

#[test]
fn the_same_tests_pass_on_postgres() {
    let Some(url) = wingbeat_pg_testing::database() else { return };
    let mut again = Command::new(env::current_exe().expect("this program"));
    again.env(DATABASE, url);
    for skipped in OF_FILES {
        again.args(["--skip", skipped]);
    }
    let output = again.output().expect("a process");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    let passed = text.lines().filter(|line| line.ends_with(" ... ok")).count();
    assert!(passed > 50, "only {passed} tests ran: {text}");
}

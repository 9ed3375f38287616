//! What a benchmark that counts instructions does when cargo starts it: count, run once, or skip.
//!
//! Benchmarks of other crates take this file by its path.

use std::{
    env,
    process::{Command, ExitCode, Stdio},
};

/// Where Gungraun looks for its runner, as it was when this was compiled. `cargo xtask track` says it.
const RUNNER: &str = match option_env!("GUNGRAUN_RUNNER") {
    Some(path) => path,
    None => "gungraun-runner",
};

/// Counts by `start` when cargo benchmarks or the runner asks, and calls `once` when cargo tests.
pub(crate) fn main(start: fn(), once: fn()) -> ExitCode {
    // Valgrind's child, which a runner has started.
    let is_measured = env::args().nth(1).is_some_and(|argument| argument == "--gungraun-run");
    // Cargo says `--bench` when it benchmarks, and nothing when it tests. Counts of a build for tests
    // would be taken for the state before by the next benchmark.
    let is_benchmark = env::args().any(|argument| argument == "--bench");
    if is_measured {
        start();
    } else if !is_benchmark {
        once();
    } else if let Some(missing) = ["valgrind", RUNNER].into_iter().find(|tool| !starts(tool)) {
        eprintln!("SKIPPED: no instructions are counted without {missing}: `cargo xtask track`");
    } else {
        start();
    }
    ExitCode::SUCCESS
}

fn starts(tool: &str) -> bool {
    let quiet = || Stdio::null();
    let status = Command::new(tool).arg("--version").stdout(quiet()).stderr(quiet()).status();
    status.is_ok_and(|status| status.success())
}

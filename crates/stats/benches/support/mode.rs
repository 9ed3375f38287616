//! What an instruction-counting benchmark does when started by cargo: count, run once, or skip.
//!
//! Benchmarks of other crates include this file by path.

use std::{
    env,
    process::{Command, ExitCode, Stdio},
};

/// Path of Gungraun's runner at compile time, set by `cargo xtask track`.
const RUNNER: &str = match option_env!("GUNGRAUN_RUNNER") {
    Some(path) => path,
    None => "gungraun-runner",
};

/// Counts with `start` under `cargo bench` or the runner, and calls `once` under `cargo test`.
pub(crate) fn main(start: fn(), once: fn()) -> ExitCode {
    // The child under Valgrind, started by a runner.
    let is_measured = env::args().nth(1).is_some_and(|argument| argument == "--gungraun-run");
    // Cargo passes `--bench` when benchmarking, and nothing when testing. The next benchmark would take the counts of a
    // test build for its baseline.
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

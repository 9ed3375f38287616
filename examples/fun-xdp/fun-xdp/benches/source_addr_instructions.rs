//! Instructions of each version of the classifier in user space, counted by Valgrind: 256
//! addresses, one for every last octet. The counts are the same on each run, even on a busy
//! machine.
//!
//! Needs Valgrind and Gungraun's runner, which `cargo xtask setup` installs; without them prints a
//! message and does nothing.

use std::{
    env,
    path::Path,
    process::{Command, ExitCode, Stdio},
};

/// Path of the runner, from the build script.
const RUNNER: &str = env!("GUNGRAUN_RUNNER");

fn main() -> ExitCode {
    // Valgrind's child process, started by a runner.
    let is_measured = env::args().nth(1).is_some_and(|argument| argument == "--gungraun-run");
    // Cargo passes `--bench` for benchmarks, but not for tests. Counts of a test build would become
    // the baseline of the next benchmark.
    let is_benchmark = env::args().any(|argument| argument == "--bench");
    if is_measured || (is_benchmark && tools_are_here()) {
        counted::start();
    } else if !is_benchmark {
        counted::run_once();
    }
    ExitCode::SUCCESS
}

fn tools_are_here() -> bool {
    let valgrind = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    let missing = if !valgrind.is_ok_and(|status| status.success()) {
        "valgrind"
    } else if !Path::new(RUNNER).is_file() {
        RUNNER
    } else {
        return true;
    };
    eprintln!("SKIPPED: instructions are not counted without {missing}: `cargo xtask setup`");
    false
}

/// The counted functions.
#[expect(unused_qualifications, reason = "Gungraun's macros write paths in full")]
mod counted {
    use std::hint::black_box;

    use fun_xdp::SourceAddr;
    use gungraun::{library_benchmark, library_benchmark_group, main};

    fn classify_all(version: impl Fn(u32) -> Option<SourceAddr>) {
        for address in 0..=255 {
            black_box(version(black_box(address)));
        }
    }

    #[library_benchmark]
    fn new_v1() {
        classify_all(SourceAddr::new_v1);
    }

    #[library_benchmark]
    fn new_v2() {
        classify_all(SourceAddr::new_v2);
    }

    #[library_benchmark]
    fn new_v3() {
        classify_all(SourceAddr::new_v3);
    }

    #[library_benchmark]
    fn new_v4() {
        classify_all(SourceAddr::new_v4);
    }

    library_benchmark_group!(name = source_addr, benchmarks = [new_v1, new_v2, new_v3, new_v4]);
    main!(library_benchmark_groups = source_addr);

    /// Starts the runner, or the benchmark that it requests.
    pub(super) fn start() {
        main();
    }

    /// Runs every version once, without counting.
    pub(super) fn run_once() {
        for version in
            [SourceAddr::new_v1, SourceAddr::new_v2, SourceAddr::new_v3, SourceAddr::new_v4]
        {
            classify_all(version);
        }
    }
}

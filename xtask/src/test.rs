//! `cargo xtask test`: all tests, on the real kernel.
//!
//! Cargo builds the test programs ([`programs`]), and they run two at a time ([`lanes`]): kernel tests mostly wait for
//! timers, and leave a processor to the others. Tests that failed because of load run again, alone ([`outcome`]).

mod lanes;
mod outcome;
mod programs;

use std::process::ExitCode;

use anyhow::bail;

use self::{lanes::run_all, outcome::Verdict};
use crate::setup;
use wingbeat_steps::{
    command::{Rights, cargo},
    steps::Steps,
};

/// Runs setup and the tests whose names contain `filter`.
pub(crate) fn run(filter: Option<&str>) -> anyhow::Result<ExitCode> {
    let rights = Rights::now();
    if rights == Rights::None {
        bail!(
            "many tests load eBPF programs and need root, and there is no sudo: run this as root"
        );
    }
    let mut steps = Steps::default();
    steps.time("cargo xtask setup", |_| setup::run())?;
    // Tests of `wingbeat` profile this one, built as users build it.
    steps.run(cargo().args(["build", "--release", "-p", "amicable"]))?;
    // A separate package: it pulls in an HTTP stack that nothing else needs.
    let client =
        ["build", "--locked", "--manifest-path", "crates/server/tests/clients/rust/Cargo.toml"];
    steps.run(cargo().args(client).args(["--target-dir", "target"]))?;

    let mut verdict = Verdict::default();
    for (name, arguments) in BUILDS {
        let mut programs = Vec::new();
        steps.time(&format!("build {name}"), |_| {
            programs = programs::build(arguments)?;
            Ok(())
        })?;
        // Before the next build, which replaces a program that tests start.
        steps.time(&format!("run {name}: {} programs", programs.len()), |_| {
            run_all(&programs, filter, rights, &mut verdict)
        })?;
    }
    let mut examples = cargo();
    // Without features of their own, so that nothing is rebuilt.
    examples
        .args(["test", "--profile", "quick", "--workspace", "--doc", "--quiet"])
        .args(filter.map(|_| "--"));
    let examples = steps.run(examples.args(filter));
    steps.report();
    eprintln!("{verdict}");
    examples?;
    Ok(if verdict.is_failure() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The builds, with cargo arguments. Always the whole workspace: with fewer packages their dependencies get other
/// features, and everything is recompiled. Excludes benchmarks and examples: clippy compiles them, and they measure
/// nothing here.
const BUILDS: [(&str, &[&str]); 2] = [
    ("the tests", &["--tests"]),
    // The article's regression and the heap profiler, which are off by default.
    (
        "the tests of examples/profiler with its features",
        &["--test", "profiler", "--features", "profiler/oops,profiler/dhat-heap"],
    ),
];

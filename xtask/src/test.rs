//! `cargo xtask test`: every test there is, on the real kernel.

use std::{env, process::ExitCode};

use anyhow::bail;

use crate::setup;
use wingbeat_steps::{
    command::{Rights, cargo, repository},
    steps::Steps,
};

/// Sets up and runs the tests whose names contain `filter`.
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
    // A package of its own: it pulls in an HTTP stack that nothing else needs.
    let client =
        ["build", "--locked", "--manifest-path", "crates/server/tests/clients/rust/Cargo.toml"];
    steps.run(cargo().args(client).args(["--target-dir", "target"]))?;
    let client = repository().join("target/debug/wingbeat-rust-client");
    for arguments in SUITES {
        let mut command = cargo();
        command.env("WINGBEAT_RUST_CLIENT", &client);
        command.args(*arguments);
        if let Some(filter) = filter {
            command.args(["--", filter]);
        }
        if rights == Rights::Sudo {
            command.env(runner_variable(), "sudo -E");
        }
        steps.run(&mut command)?;
    }
    if filter.is_none() && repository().join("fuzz/Cargo.toml").is_file() {
        // Checked, not run: that takes time. The same target folder, so that nothing is built twice.
        let arguments = ["check", "--manifest-path", "fuzz/Cargo.toml"];
        steps.run(cargo().args(arguments).args(["--target-dir", "target"]))?;
    }
    steps.report();
    Ok(ExitCode::SUCCESS)
}

/// All targets do not include the documentation's examples. Benchmarks are among them: each runs
/// once, unmeasured, which shows that it still works.
const SUITES: &[&[&str]] = &[
    &["test", "--workspace", "--all-targets", "--no-fail-fast"],
    &["test", "--workspace", "--doc"],
    // The article's regression and the heap profiler, which are off otherwise.
    &["test", "-p", "profiler", "--features", "oops,dhat-heap"],
];

/// The variable that makes cargo start test programs of this machine's target through another one.
fn runner_variable() -> String {
    format!("CARGO_TARGET_{}_UNKNOWN_LINUX_GNU_RUNNER", env::consts::ARCH.to_uppercase())
}

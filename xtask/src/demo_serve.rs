//! `cargo xtask demo-serve`: the server's console with demo data.

use std::{net::SocketAddr, os::unix::process::CommandExt as _, process::ExitCode};

use anyhow::Context as _;
use clap::Args;
use wingbeat_steps::command::cargo;

/// What the demonstration is told.
#[derive(Debug, Args)]
pub(crate) struct DemoServeArgs {
    /// Address to listen at
    #[arg(long, default_value = "127.0.0.1:6610")]
    listen: SocketAddr,
    /// Days of history
    #[arg(long, default_value_t = 365)]
    days: u32,
    /// Add the projects of the tests in a browser: hostile names, and reports of 5,000 metrics
    #[arg(long)]
    trials: bool,
}

/// Execs the demo server, an example of the server's crate, so that other subcommands need not build its dependencies.
pub(crate) fn run(args: &DemoServeArgs) -> anyhow::Result<ExitCode> {
    let mut command = cargo();
    command.args([
        "run",
        "--profile",
        "quick",
        "--package",
        "wingbeat-server",
        "--example",
        "demo",
        "--",
    ]);
    command.args(["--listen", &args.listen.to_string(), "--days", &args.days.to_string()]);
    if args.trials {
        command.arg("--trials");
    }
    Err(command.exec()).context("cannot run cargo")
}

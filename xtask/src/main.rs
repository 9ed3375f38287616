//! `cargo xtask`: set-up, demonstration and tests of this repository, with nothing to install first.
//!
//! Each subcommand has a file of its own. What a user of wingbeat needs belongs in the program
//! itself, not here.

mod command;
mod demo;
mod peers;
mod setup;
mod steps;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Sets up, shows and tests wingbeat.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Install what is missing to build the kernel halves; quick when nothing is
    Setup,
    /// Build wingbeat, profile the example target and draw its flame graph
    Demo,
    /// Compare wingbeat with the tools that one would use instead
    #[command(subcommand)]
    Peers(peers::Peers),
    /// Run every test, the privileged ones included (through sudo when not root)
    Test {
        /// Only the tests whose name contains this text
        filter: Option<String>,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.task {
        Task::Setup => setup::run().map(|()| ExitCode::SUCCESS),
        Task::Demo => demo::run(),
        Task::Peers(which) => peers::run(&which),
        Task::Test { filter } => test::run(filter.as_deref()),
    }
}

//! `cargo xtask`: setup, demos and tests of this repository, without prerequisites.
//!
//! Each larger subcommand has its own file. Features for users of wingbeat belong in the program itself.

mod aarch64;
mod demo;
mod dist;
mod kernel;
mod setup;
mod test;
mod track;
mod vm;
mod walkthrough;

use std::{ffi::OsString, os::unix::process::CommandExt as _, process::ExitCode};

use anyhow::Context as _;
use clap::Parser;
use xtask::command::cargo;

/// Sets up, shows and tests wingbeat.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
enum Task {
    /// Install what is missing to build the kernel halves; quick when nothing is
    Setup,
    /// Build wingbeat, profile the example target and draw its flame graph
    Demo,
    /// Start a server with a year of made-up history, and print its address
    #[command(disable_help_flag = true)]
    DemoServe {
        /// Address, days of history: `cargo xtask demo-serve --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Compare wingbeat with other tools
    #[command(disable_help_flag = true)]
    Peers {
        /// What is compared, and how: `cargo xtask peers --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Run the tests of the crates without a kernel for aarch64, emulated, and compile the kernel half for it
    Aarch64,
    /// Run every command of docs/zero-to-hero.md, and check its output
    Walkthrough {
        /// Write the output into the document, and draw its pictures
        #[arg(long)]
        update: bool,
        /// Only from this chapter on, after the steps before the first
        #[arg(long, value_name = "CHAPTER", default_value_t = 0)]
        from: usize,
    },
    /// Benchmark wingbeat itself and compare with its history; 1 if something exact became worse
    Track(track::TrackArgs),
    /// Pack the binary, completions and man pages as an archive and a Debian package, in target/dist
    Dist {
        /// Build nothing: check and install the packages in target/dist
        #[arg(long)]
        check: bool,
    },
    /// Compile the profiler's kernel half for builds without LLVM, or check the compiled one
    Kernel {
        /// Write nothing: 1 unless the objects are what these sources give
        #[arg(long)]
        check: bool,
    },
    /// Run every test, the privileged ones included (through sudo when not root)
    Test {
        /// Only the tests whose name contains this text
        filter: Option<String>,
    },
    /// Run the privileged tests on other kernels, in virtual machines
    Vm(vm::VmArgs),
}

fn main() -> ExitCode {
    let outcome = match Task::parse() {
        Task::Setup => setup::run(),
        Task::Demo => demo::run(),
        Task::DemoServe { arguments } => {
            run(&["--profile", "quick", "-p", "wingbeat-server", "--example", "demo"], &arguments)
        }
        Task::Peers { arguments } => run(&["--quiet", "-p", "wingbeat-peers"], &arguments),
        Task::Aarch64 => aarch64::run(),
        Task::Walkthrough { update, from } => walkthrough::run(update, from),
        Task::Track(args) => track::run(&args),
        Task::Dist { check } => dist::run(check),
        Task::Kernel { check } => kernel::run(check),
        Task::Test { filter } => test::run(filter.as_deref()),
        Task::Vm(args) => vm::run(&args),
    };
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}

/// Execs a program of another crate, so that other subcommands need not build its dependencies.
fn run(target: &[&str], arguments: &[OsString]) -> anyhow::Result<()> {
    Err(cargo().arg("run").args(target).arg("--").args(arguments).exec())
        .context("cannot run cargo")
}

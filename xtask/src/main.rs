//! `cargo xtask`: setup, demos and tests of this repository, without prerequisites.
//!
//! Each subcommand has its own file. Features for users of wingbeat belong in the program itself.

mod aarch64;
mod built;
mod demo;
mod demo_serve;
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
use wingbeat_steps::command::cargo;

/// Sets up, shows and tests wingbeat.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
enum Task {
    /// Install what is missing to build the kernel halves; quick when nothing is
    Setup,
    /// Build wingbeat, profile the example target and draw its flame graph
    Demo,
    /// Start a server with a year of made-up history, and print its address
    DemoServe(demo_serve::DemoServeArgs),
    /// Compare wingbeat with the tools that one would use instead
    #[command(disable_help_flag = true)]
    Peers {
        /// What is compared, and how: `cargo xtask peers --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Run the tests of the crates without a kernel for aarch64, emulated, and compile the kernel half for it
    Aarch64,
    /// Run every command of docs/zero-to-hero.md, and check what comes of each
    Walkthrough {
        /// Write what came into the document, and draw its pictures
        #[arg(long)]
        update: bool,
        /// Only from this chapter on, after the steps before the first
        #[arg(long, value_name = "CHAPTER", default_value_t = 0)]
        from: usize,
    },
    /// Benchmark wingbeat itself and compare with its history; 1 if something exact became worse
    Track(track::TrackArgs),
    /// Pack the binary, completions and man pages as an archive and a Debian package, in target/dist
    Dist(dist::DistArgs),
    /// Compile the profiler's kernel half for builds without LLVM, or check what lies there
    Kernel(kernel::KernelArgs),
    /// Run every test, the privileged ones included (through sudo when not root)
    Test {
        /// Only the tests whose name contains this text
        filter: Option<String>,
    },
    /// Run the privileged tests on other kernels, in virtual machines
    Vm(vm::VmArgs),
}

fn main() -> ExitCode {
    let code = match Task::parse() {
        Task::Setup => setup::run().map(|()| ExitCode::SUCCESS),
        Task::Demo => demo::run(),
        Task::DemoServe(args) => demo_serve::run(&args),
        Task::Peers { arguments } => peers(&arguments),
        Task::Aarch64 => aarch64::run(),
        Task::Walkthrough { update, from } => walkthrough::run(update, from),
        Task::Track(args) => track::run(&args),
        Task::Dist(args) => dist::run(&args),
        Task::Kernel(args) => kernel::run(&args),
        Task::Test { filter } => test::run(filter.as_deref()),
        Task::Vm(args) => vm::run(&args),
    };
    code.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// Execs the comparison program, a separate crate, so that other subcommands need not build its dependencies.
fn peers(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "wingbeat-eval", "--"]).args(arguments);
    Err(command.exec()).context("cannot run cargo")
}

//! `cargo xtask peers run`: whether `wingbeat run` keeps what it promises, with real benchmarks on a real
//! and busy machine. What can be simulated is in `crates/track/examples/how_often`.

mod aa;
mod neighbours;
mod scratch;

use std::process::ExitCode;

use clap::Subcommand;

/// Which promise is put to the test.
#[derive(Debug, Subcommand)]
pub(crate) enum Run {
    /// Code that did not change, from an empty store to the fourth report of history: how often does
    /// --err fail, and how often is twice the work found?
    Aa(aa::AaArgs),
}

/// Runs what was asked for.
pub(crate) fn run(which: &Run) -> anyhow::Result<ExitCode> {
    match which {
        Run::Aa(args) => aa::run(args),
    }
}

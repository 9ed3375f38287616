//! `cargo xtask peers`: wingbeat and other tools in one run on one machine, and whether wingbeat reaches its goals.

mod bench;
mod child;
mod comparison;
mod heap;
mod numbers;
mod profile;
mod run;
mod samplers;
mod serve;
mod tools;
mod unwind;

/// What all comparisons use.
mod prelude {
    pub(crate) use std::{
        ffi::OsStr,
        fs::{self, File},
        io::{self, BufReader, BufWriter, Read, Write},
        path::{Path, PathBuf},
        process::{Command, ExitCode, Stdio},
        thread,
        time::{Duration, Instant},
    };

    pub(crate) use anyhow::{Context as _, Result, bail, ensure};
    pub(crate) use clap::{Args, Subcommand};
    pub(crate) use serde::{Deserialize, Serialize};
    pub(crate) use serde_json::{Value, json};

    pub(crate) use crate::{child::*, comparison::*, numbers::*, samplers::*, tools::*};
}

use clap::Parser;
use prelude::*;

/// Compares wingbeat with other tools, and with its goals.
///
/// A comparison runs the tools in turns, on the same work and the same machine, which should be idle otherwise. It
/// keeps all figures as JSON, also after Ctrl-C, and prints the tables that docs/peers.md explains. Most need root. A
/// missing tool is named, with the command that installs it.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask peers",
    bin_name = "cargo xtask peers",
    disable_help_subcommand = true,
    after_help = "Examples:\n  \
        cargo xtask peers profile --quick               4 minutes: shows that it works, not how fast it is\n  \
        cargo xtask peers profile --update              also writes the tables into docs/peers.md and README.md\n  \
        cargo xtask peers heap --from target/peers/heap.json      the tables of an earlier run"
)]
enum Peers {
    /// Cost and sample counts of `wingbeat profile`, with perf and samply; half an hour
    Profile(Common),
    /// Stacks of programs without frame pointers, with perf and samply
    Unwind(Common),
    /// Sums and cost of `wingbeat heap`, with DHAT, heaptrack and memleak-bpfcc
    Heap(Common),
    /// Times, counts and loading of `wingbeat bench`, with bpftool and libbpf
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Response times of `wingbeat serve`, with their goals; without root
    Serve(Common),
    /// The same reports and questions to Bencher's API server and to `wingbeat serve`; without root
    Bencher(serve::bencher::Beside),
    /// False failures of `wingbeat run`; without root
    #[command(subcommand)]
    Run(run::Runs),
}

fn main() -> ExitCode {
    let peers = Peers::parse();
    let outcome = watch_signals().and_then(|()| match &peers {
        Peers::Profile(args) => profile::COMPARISON.run(args, args),
        Peers::Unwind(args) => unwind::COMPARISON.run(args, args),
        Peers::Heap(args) => heap::COMPARISON.run(args, args),
        Peers::Bench(which) => which.run(),
        Peers::Serve(args) => serve::COMPARISON.run(args, args),
        Peers::Bencher(args) => serve::bencher::COMPARISON.run(args, &args.common),
        Peers::Run(run::Runs::Aa(args)) => run::AA.run(args, args),
    });
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}

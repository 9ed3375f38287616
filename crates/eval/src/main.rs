//! `cargo xtask peers`: wingbeat beside what one would use instead of it, in one run on one machine, and
//! whether it keeps what it promises.

mod account;
mod bench;
mod comparison;
mod heap;
mod numbers;
mod profile;
mod run;
mod serve;
mod table;
mod tools;
mod unwind;

use std::process::ExitCode;

use clap::Parser;

/// Compares wingbeat with the tools that one would use instead.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask peers",
    bin_name = "cargo xtask peers",
    disable_help_subcommand = true
)]
enum Peers {
    /// `wingbeat profile` beside perf, samply, bpftrace, profile-bpfcc and probee
    Profile(profile::ProfileArgs),
    /// Stacks by `wingbeat profile` beside those by perf and samply, of programs without frame pointers
    Unwind(unwind::UnwindArgs),
    /// What `wingbeat bench` promises: less spread than bpftool, sure verdicts, exact counts
    #[command(subcommand)]
    Bench(bench::Bench),
    /// What `wingbeat run` promises: no false failures
    #[command(subcommand)]
    Run(run::Run),
    /// Whether what `wingbeat heap` says is true, and what it costs, beside valgrind, heaptrack and memleak
    Heap(heap::HeapArgs),
    /// How fast `wingbeat serve` answers with a large history
    Serve(serve::ServeArgs),
}

fn main() -> ExitCode {
    let code = match Peers::parse() {
        Peers::Profile(args) => profile::run(&args),
        Peers::Unwind(args) => unwind::run(&args),
        Peers::Bench(which) => bench::run(&which),
        Peers::Run(run::Run::Aa(args)) => run::aa(&args),
        Peers::Heap(args) => heap::run(&args),
        Peers::Serve(args) => serve::run(&args),
    };
    code.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

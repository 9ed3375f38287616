//! `cargo xtask peers`: wingbeat beside what one would use instead of it, in one run on one machine.
//!
//! Figures from different machines, or from different hours on a shared one, cannot be compared. So
//! the tools take turns on the same workloads, round after round, each beside an unprofiled run, and
//! every figure is a median over the rounds with its spread. docs/peers.md says what they mean.

mod bench;
mod changes;
mod goals;
mod markdown;
mod measure;
mod numbers;
mod off_cpu;
mod parse;
mod process;
mod record;
mod run;
mod stats;
mod tables;
mod tools;
mod workload;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context as _, bail};
use clap::{Args, Parser, ValueEnum};

use wingbeat_steps::{
    command::{Rights, cargo, repository},
    steps::Steps,
};

/// Compares wingbeat with the tools that one would use instead.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask peers",
    bin_name = "cargo xtask peers",
    disable_help_subcommand = true
)]
enum Peers {
    /// `wingbeat profile` beside perf, samply, bpftrace, profile-bpfcc and probee
    Profile(ProfileArgs),
    /// What `wingbeat bench` promises: less spread than bpftool, sure verdicts, exact counts
    #[command(subcommand)]
    Bench(bench::Bench),
    /// What `wingbeat run` promises: no false failures
    #[command(subcommand)]
    Run(run::Run),
    /// What `wingbeat changes` finds in made series, beside Apache Otava
    Changes(changes::ChangesArgs),
}

/// What `wingbeat profile` measures while it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Samples of what runs
    OnCpu,
    /// Time off the CPU, beside perf's and bpftrace's `sched_switch`
    OffCpu,
}

/// How `wingbeat profile` is compared.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// What is measured
    #[arg(long, value_enum, default_value_t = Mode::OnCpu)]
    mode: Mode,
    /// One round of one second, at 999 and 9999 Hz: shows that all works, not how fast it is
    #[arg(long)]
    quick: bool,
    /// Rounds over all workloads, frequencies and tools [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Samples per second [default: 99,999,9999]
    #[arg(long, value_name = "HZ", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=50_000))]
    hz: Vec<u32>,
    /// Only these tools; `wingbeat` counts as one
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Only these workloads
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    workload: Vec<String>,
    /// Also write the tables into this file, between its marks when it has them
    #[arg(long, value_name = "FILE")]
    markdown: Vec<PathBuf>,
    /// Measure nothing: make the tables from the figures of an earlier run
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "rounds", "hz", "only", "workload"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    off_cpu: off_cpu::OffCpuArgs,
}

/// Where everything that a run leaves behind lies, below the repository's root.
const OUT: &str = "target/peers";

const QUICK_HZ: [u32; 2] = [999, 9999];
const FULL_HZ: [u32; 3] = [99, 999, 9999];

fn main() -> ExitCode {
    let code = match Peers::parse() {
        Peers::Profile(args) => profile(&args),
        Peers::Bench(which) => bench::run(&which),
        Peers::Run(which) => run::run(&which),
        Peers::Changes(args) => changes::run(&args),
    };
    code.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn profile(args: &ProfileArgs) -> anyhow::Result<ExitCode> {
    match args.mode {
        Mode::OffCpu => return off_cpu::run(args),
        Mode::OnCpu if args.off_cpu.is_used() => {
            bail!("--seconds and --programs belong to --mode off-cpu: add that, or leave them out")
        }
        Mode::OnCpu => {}
    }
    let record = match &args.from {
        Some(file) => record::read(file)?,
        None => measure(args)?,
    };
    let text = markdown::full(&record);
    println!("{text}");
    if record.stopped_early && args.from.is_none() {
        eprintln!("stopped early: no other file was written");
        return Ok(ExitCode::FAILURE);
    }
    for file in &args.markdown {
        markdown::write(file, &record)?;
        eprintln!("wrote the tables into {}", file.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(args: &ProfileArgs) -> anyhow::Result<record::Record> {
    if Rights::now() != Rights::Root {
        bail!(
            "profilers need root: run `sudo -E env PATH=\"$PATH\" cargo xtask peers profile`, or \
             become root"
        );
    }
    let mut steps = Steps::default();
    let packages = ["build", "--release", "-p", "wingbeat", "-p", "wingbeat-workloads"];
    steps.run(cargo().args(packages))?;

    let plan = measure::Plan {
        rounds: args.rounds.unwrap_or(if args.quick { 1 } else { 5 }),
        frequencies_hz: match (args.hz.is_empty(), args.quick) {
            (false, _) => args.hz.clone(),
            (true, true) => QUICK_HZ.to_vec(),
            (true, false) => FULL_HZ.to_vec(),
        },
        target_cpu_s: if args.quick { 1.0 } else { 4.0 },
        tools: tools::chosen(&args.only)?,
        workloads: workload::chosen(&args.workload)?,
    };
    let out = repository().join(OUT);
    let figures = out.join("profile.json");
    let record = measure::run(&plan, &out, |record| record::write(record, &figures))
        .context("cannot compare the profilers")?;
    eprintln!("wrote all figures to {}", figures.display());
    Ok(record)
}

//! `cargo xtask track`: tracks the repository's own benchmarks, with `wingbeat run`.
//!
//! Exact counts decide: user-space instructions by Valgrind, kernel-program instructions by `wingbeat bench`, and
//! verifier statistics of programs that cannot be run on demand. Times are stored, but fail nothing. CI calls this
//! command, so its results can be reproduced locally.

mod jobs;

use std::{
    env, fs,
    path::PathBuf,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, bail};

use self::jobs::{Job, Side};
use crate::setup;
use wingbeat_steps::{
    command::{Rights, cargo, display, output_of, repository, without_package},
    steps::Steps,
};

const WINGBEAT: &str = "target/quick/wingbeat";
const OUT: &str = "target/track";
/// Variable with the path of Gungraun's runner, which benchmarks read at compile time.
const RUNNER: &str = "GUNGRAUN_RUNNER";
/// Context of raw tracepoints that are run on demand: twelve zero arguments, so that each takes the path of an
/// unselected thread.
const CONTEXT: &str = "target/track/zeros.hex";
const CONTEXT_BYTES: usize = 12 * 8;

/// Flags of `cargo xtask track`.
#[derive(Debug, clap::Args)]
pub(crate) struct TrackArgs {
    /// Branch that is measured [default: the one that is checked out; `candidate` with --candidate]
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// Compare with the start point, as a pull request does, instead of with earlier runs
    #[arg(long)]
    candidate: bool,
    /// Branch that a candidate is compared with
    #[arg(long, value_name = "BRANCH", default_value = "main")]
    start_point: String,
    /// Folder of a history: imported before, and unless it is a candidate exported to afterwards
    #[arg(long, value_name = "DIR")]
    history: Option<PathBuf>,
    /// Leave out the benchmarks that take times: they fail nothing
    #[arg(long)]
    exact: bool,
}

/// Runs setup, builds, measures, and reports regressions: exit code 1 for an exact one.
pub(crate) fn run(args: &TrackArgs) -> anyhow::Result<ExitCode> {
    let rights = Rights::now();
    if rights == Rights::None {
        bail!("eBPF programs run as root only, and there is no sudo: run this as root");
    }
    let mut steps = Steps::default();
    steps.time("cargo xtask setup", |_| setup::run())?;
    steps.run(cargo().args(["build", "--profile", "quick", "-p", "wingbeat"]))?;
    let root = repository();
    fs::create_dir_all(root.join(OUT)).with_context(|| format!("cannot create {OUT}"))?;
    fs::write(root.join(CONTEXT), "00".repeat(CONTEXT_BYTES))
        .with_context(|| format!("cannot write {CONTEXT}"))?;
    // Commands run in the root, regardless of the current folder.
    let history = args.history.as_ref().map(std::path::absolute).transpose()?;
    if let Some(history) = &history {
        steps.run(Command::new(WINGBEAT).arg("import").arg(history))?;
    }

    let side = Side {
        branch: args.branch.as_deref().or(args.candidate.then_some("candidate")),
        start_point: args.candidate.then_some(args.start_point.as_str()),
    };
    let mut worse = Vec::new();
    for job in jobs::all(&conditions()?, rights, !args.exact) {
        // Its report is on the terminal; the other jobs still run.
        if !measure(&mut steps, &job.arguments(&side))? {
            worse.push(job);
        }
    }

    if let Some(history) = history.filter(|_| !args.candidate) {
        steps.run(Command::new(WINGBEAT).arg("export").arg(history))?;
    }
    steps.report();
    Ok(verdict(&worse))
}

/// Whether no exact measure regressed.
fn measure(steps: &mut Steps, arguments: &[String]) -> anyhow::Result<bool> {
    let mut command = Command::new(WINGBEAT);
    command.args(arguments);
    // The displayed command line can be typed.
    let line = display(&command);
    without_package(&mut command);
    let mut is_good = false;
    steps.time(&line, |name| {
        // Not by PATH: some build scripts rerun when it changes, and so do all dependents.
        let status = command.env(RUNNER, setup::runner()).current_dir(repository()).status();
        is_good = status.with_context(|| format!("cannot run {name}"))?.success();
        Ok(())
    })?;
    Ok(is_good)
}

fn verdict(worse: &[Job]) -> ExitCode {
    if worse.is_empty() {
        eprintln!("nothing exact became worse");
        return ExitCode::SUCCESS;
    }
    let names: Vec<_> = worse.iter().map(|job| job.name.as_str()).collect();
    eprintln!("worse, or not measured: {}", names.join(", "));
    eprintln!("  `{WINGBEAT} log` lists the reports, `{WINGBEAT} alerts` what they found");
    ExitCode::FAILURE
}

/// Conditions of exact counts besides the sources: counts are comparable within one testbed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Conditions {
    /// As in "rustc 1.95.0".
    compiler: String,
    /// As in "Linux 6.18.44".
    kernel: String,
    /// As in `x86_64`.
    machine: String,
}

fn conditions() -> anyhow::Result<Conditions> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = output_of(Command::new(&rustc).arg("--version"));
    let version = version.with_context(|| format!("`{} --version` failed", rustc.display()))?;
    let compiler = version.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let system = rustix::system::uname();
    let kernel = format!("Linux {}", system.release().to_string_lossy());
    let machine = system.machine().to_string_lossy().into_owned();
    Ok(Conditions { compiler: compiler.trim().to_owned(), kernel, machine })
}

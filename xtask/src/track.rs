//! `cargo xtask track`: the repository watches its own benchmarks, with `wingbeat run`.
//!
//! Exact counts decide: instructions of user space by Valgrind, instructions of kernel programs by
//! `wingbeat bench`, and what the verifier makes of programs that cannot be run on demand. Times are
//! kept, and fail nothing. CI calls this very command, so whatever it says can be had locally.

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
/// The variable with the path of Gungraun's runner, which benchmarks read when they are compiled.
const RUNNER: &str = "GUNGRAUN_RUNNER";
/// The context of raw tracepoints that are run on demand: twelve arguments, all of them zero, so that
/// each takes the way of a thread that nobody asked for.
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

/// Sets up, builds, measures, and says what became worse: 1 if something exact did.
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
    // Commands run in the root, wherever this one does.
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
        // Its report is on the terminal, and the other jobs are to run all the same.
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

/// Whether nothing exact became worse.
fn measure(steps: &mut Steps, arguments: &[String]) -> anyhow::Result<bool> {
    let mut command = Command::new(WINGBEAT);
    command.args(arguments);
    // What the line shows is what one would type.
    let line = display(&command);
    without_package(&mut command);
    let mut is_good = false;
    steps.time(&line, |name| {
        // Not by PATH: some build scripts run again when that changes, and all after them.
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

/// What exact counts depend on beside the sources: they are comparable within one testbed.
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

//! `cargo xtask track`: tracks the repository's own benchmarks, with `wingbeat run`, by `xtask/track.sh`. CI calls this
//! command, so its results can be reproduced locally.

use std::{path::PathBuf, process::Command};

use xtask::command::{Rights, Steps, cargo, without_package};

use crate::setup;

const WINGBEAT: &str = "target/quick/wingbeat";

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
pub(crate) fn run(args: &TrackArgs) -> anyhow::Result<()> {
    Rights::required()?;
    let mut steps = Steps::default();
    steps.time("cargo xtask setup", |_| setup::run())?;
    steps.run(cargo().args(["build", "--profile", "quick", "-p", "wingbeat"]))?;
    // Commands run in the root, regardless of the current folder.
    let history = args.history.as_ref().map(std::path::absolute).transpose()?;
    if let Some(history) = &history {
        steps.run(Command::new(WINGBEAT).arg("import").arg(history))?;
    }
    let mut track = Command::new("bash");
    track.arg("xtask/track.sh");
    if let Some(branch) = args.branch.as_deref().or(args.candidate.then_some("candidate")) {
        track.args(["--branch", branch]);
    }
    if args.candidate {
        track.args(["--start-point", &args.start_point]);
    }
    without_package(&mut track);
    // Not by PATH: some build scripts rerun when it changes, and so do all dependents.
    track
        .env("GUNGRAUN_RUNNER", setup::runner())
        .env("TIMES", if args.exact { "exact" } else { "" });
    // Its results are kept, whatever they are.
    let outcome = steps.run(&mut track);
    if let Some(history) = history.filter(|_| !args.candidate) {
        steps.run(Command::new(WINGBEAT).arg("export").arg(history))?;
    }
    steps.report();
    outcome
}

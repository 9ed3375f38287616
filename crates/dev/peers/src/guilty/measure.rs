//! A benchmark of the harness measured by `wingbeat run --profile`, as a user would do it.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;
use serde_json::Value;
use wingbeat_steps::command::{display, without_package};

use super::{
    cases::{Benchmark, Tool},
    said::Said,
    scratch::Scratch,
};
use crate::comparison::output;

/// Flags of `wingbeat run`. The threshold is fixed, so that a machine that others use does not hide a change: what is
/// put to the test is the cause, not the alert. What looks bad is measured again, since a single report may be a spike.
const RUN: &str = "run --quiet --format json --project guilty --branch main --testbed here \
                   --threshold-test percentage --threshold-upper-boundary 0.1 --confirm 1 --profile";

/// Two seconds of a benchmark, and three that are profiled.
const CRITERION: &str =
    "--noplot --sample-size 20 --nresamples 1001 --warm-up-time 0.3 --measurement-time 1";

/// Enough to count instructions on a busy machine.
const BENCH: &str = "--time 3s --format bmf";

/// Measures what lies in the scratch folder now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bench<'a> {
    pub(super) wingbeat: &'a Path,
    pub(super) scratch: &'a Scratch,
}

impl Bench<'_> {
    /// Builds and measures a benchmark, and stores the report with its profile.
    pub(super) fn report(&self, benchmark: Benchmark, store: &Path) -> anyhow::Result<Said> {
        let mut command = Command::new(self.wingbeat);
        without_package(&mut command);
        command
            .current_dir(self.scratch.harness())
            .env("CARGO_TARGET_DIR", &self.scratch.target)
            .args(RUN.split_whitespace())
            .args(["--threshold-measure", measure(benchmark)])
            .arg("--store")
            .arg(file(store))
            .arg("--");
        match benchmark.tool {
            Tool::Criterion(target) => command
                .args(["cargo", "bench", "--quiet", "--bench", target, "--"])
                .args(CRITERION.split_whitespace())
                .args(["--exact", benchmark.name]),
            Tool::Bench => command
                .arg(self.wingbeat)
                .arg("bench")
                .arg(self.scratch.kernel_half()?)
                .arg(benchmark.name)
                .args(BENCH.split_whitespace()),
        };
        let said =
            command.output().with_context(|| format!("cannot run `{}`", display(&command)))?;
        let report: Option<Value> = serde_json::from_slice(&said.stdout).ok();
        report.as_ref().and_then(|report| Said::of(report, measure(benchmark))).with_context(|| {
            let stderr = String::from_utf8_lossy(&said.stderr).into_owned();
            format!("`{}` gave no report of this benchmark: {stderr}", display(&command))
        })
    }

    /// What `wingbeat diff` says first of a benchmark in two reports.
    pub(super) fn sentence(
        &self,
        benchmark: Benchmark,
        store: &Path,
        [before, after]: [&Said; 2],
    ) -> anyhow::Result<Option<String>> {
        let mut command = Command::new(self.wingbeat);
        // Where the commits of both are found.
        command.current_dir(self.scratch.harness()).args(["diff", "--format", "json", "--reports"]);
        command.arg(format!("{}..{}", before.uuid, after.uuid));
        command.args(["--benchmark", benchmark.name, "--measure", measure(benchmark), "--store"]);
        let said: Value = serde_json::from_str(&output(command.arg(file(store)))?)?;
        Ok(said["sentences"][0].as_str().map(str::to_owned))
    }
}

/// What is judged.
fn measure(benchmark: Benchmark) -> &'static str {
    match benchmark.tool {
        Tool::Criterion(_) => "latency",
        Tool::Bench => "instructions",
    }
}

/// The store in a folder.
pub(super) fn file(store: &Path) -> PathBuf {
    store.join("results.db")
}

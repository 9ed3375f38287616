//! wingbeat itself, as a user runs it.

use std::{fs, process::Command};

use anyhow::Context as _;

use super::{Job, launch::launch};
use crate::{
    parse::Summary,
    process,
    record::{Outcome, Target},
};
use wingbeat_steps::command::repository;

/// The binary, below the repository's root.
pub(super) const PROGRAM: &str = "target/release/wingbeat";

/// From start to flame graph in one process.
pub(super) fn run(job: &Job<'_>) -> anyhow::Result<(Target, Outcome)> {
    let summary = job.file("summary.json");
    let mut command = Command::new(repository().join(PROGRAM));
    command.args(["profile", "--quiet", "--frequency", &job.hz(), "--output"]);
    command.arg(job.file("flamegraph.svg")).arg("--summary-json").arg(&summary).arg("--");
    let (target, usage) = launch(&mut command, job)?;
    let written_monotonic_ns = process::monotonic_ns();
    let text = fs::read_to_string(&summary).context("wingbeat left no summary")?;
    let summary = Summary::parse(&text)?;
    let outcome = Outcome {
        samples: summary.ticks.sampled,
        lost: Some(summary.ticks.lost),
        bytes_per_sample: Some(summary.bytes_per_sample),
        cpu_ns: usage.cpu_ns,
        launched_target: true,
        rss_max_bytes: usage.rss_max_bytes,
        written_monotonic_ns,
        told_cpu_ns: Some(summary.own_cpu_ns()),
    };
    Ok((target, outcome))
}

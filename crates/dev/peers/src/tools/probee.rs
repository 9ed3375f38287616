//! profile-bee, the other profiler on Aya.

use std::{fs::File, io::BufReader, process::Command};

use anyhow::Context as _;

use super::{
    Job,
    attach::{Ready, attach},
    settings::Tracefs,
};
use crate::{
    parse::svg_samples,
    process,
    record::{Outcome, Target},
};

/// Attaches, because the names of a command that it launches itself are lost when that has ended.
pub(super) fn run(job: &Job<'_>) -> anyhow::Result<(Target, Outcome)> {
    let _mounted = Tracefs::mounted()?;
    let picture = job.file("flamegraph.svg");
    // It attaches by links and closes the events, so that only its words show when it is ready.
    let ready = Ready::Says("Waiting for Ctrl-C");
    let (target, usage) = attach(job, ready, &job.file("said"), |pid| {
        let mut command = Command::new("probee");
        // Without a time of 0 it ends after ten seconds.
        command.args(["-p", &pid.to_string(), "-f", &job.hz(), "-t", "0", "-o"]).arg(&picture);
        command
    })?;
    let written_monotonic_ns = process::monotonic_ns();
    let svg = File::open(&picture).context("probee left no flame graph")?;
    let outcome = Outcome {
        samples: svg_samples(BufReader::new(svg))?,
        lost: None,
        bytes_per_sample: None,
        cpu_ns: usage.cpu_ns,
        launched_target: false,
        rss_max_bytes: usage.rss_max_bytes,
        written_monotonic_ns,
        told_cpu_ns: None,
    };
    Ok((target, outcome))
}

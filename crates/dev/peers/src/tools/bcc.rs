//! BCC's profile, which compiles its kernel half at each start and counts stacks in the kernel.

use std::{fs::File, io::BufReader, process::Command};

use anyhow::Context as _;

use super::{
    Job,
    attach::{Ready, attach},
};
use crate::{
    parse::folded_samples,
    process,
    record::{Outcome, Target},
};

/// Counts stacks until the work is done, prints them folded, then draws.
pub(super) fn run(job: &Job<'_>) -> anyhow::Result<(Target, Outcome)> {
    let folded = job.file("stacks.folded");
    let (target, counted) = attach(job, Ready::Events, &folded, |pid| {
        let mut command = Command::new("profile-bpfcc");
        command.args(["-f", "-F", &job.hz(), "-p", &pid.to_string()]);
        command
    })?;
    let open = || File::open(&folded).context("profile-bpfcc left no stacks");
    let picture = File::create(job.file("flamegraph.svg")).context("cannot write the picture")?;
    let mut chain = [Command::new("inferno-flamegraph")];
    let drawn = process::pipeline(&mut chain, open()?.into(), picture, &job.messages())?;
    let written_monotonic_ns = process::monotonic_ns();
    let usage = counted.then(drawn);
    let outcome = Outcome {
        samples: folded_samples(BufReader::new(open()?))?,
        // It warns of stacks that it cannot show, but not of how many samples those had.
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

//! bpftrace's one-liner for profiling, which counts stacks in the kernel.

use std::{fs::File, io::BufReader, process::Command};

use anyhow::Context as _;

use super::{
    Job,
    attach::{Ready, attach},
};
use crate::{
    parse::bpftrace_samples,
    process,
    record::{Outcome, Target},
};

/// Counts stacks until the work is done, then prints them with names.
pub(super) fn run(job: &Job<'_>) -> anyhow::Result<(Target, Outcome)> {
    let stacks = job.file("stacks.txt");
    let (target, usage) = attach(job, Ready::Events, &stacks, |pid| {
        let filter = if job.workload.forks {
            format!("comm == \"{}\"", job.workload.program)
        } else {
            format!("pid == {pid}")
        };
        let hz = job.frequency_hz;
        let program = format!("profile:hz:{hz} /{filter}/ {{ @[kstack, ustack(127)] = count(); }}");
        let mut command = Command::new("bpftrace");
        // By default it reads the program's symbols anew for each frame, which takes minutes.
        command.args(["-e", &program]).env("BPFTRACE_CACHE_USER_SYMBOLS", "1");
        command
    })?;
    let written_monotonic_ns = process::monotonic_ns();
    let text = File::open(&stacks).context("bpftrace left no stacks")?;
    let outcome = Outcome {
        samples: bpftrace_samples(BufReader::new(text))?,
        // A full map and a collision of stacks both drop samples without a count.
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

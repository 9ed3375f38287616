//! samply's recording alone: it names functions in the browser, when the profile is opened.

use std::{
    fs::{self, File},
    io::BufReader,
    process::Command,
};

use anyhow::Context as _;
use flate2::bufread::GzDecoder;

use super::{Job, launch::launch, settings::Paranoia};
use crate::{
    parse::{firefox_samples, samply_lost},
    process,
    record::{Outcome, Target},
};

/// Records into a file that nobody opens.
pub(super) fn run(job: &Job<'_>) -> anyhow::Result<(Target, Outcome)> {
    // samply 0.13 refuses level 2 even to root.
    let _lowered = Paranoia::at_most(1)?;
    let profile = job.file("profile.json.gz");
    let mut command = Command::new("samply");
    command.args(["record", "--save-only", "--no-open", "--rate", &job.hz(), "--output"]);
    command.arg(&profile).arg("--");
    let (target, usage) = launch(&mut command, job)?;
    let written_monotonic_ns = process::monotonic_ns();

    let file = File::open(&profile).context("samply left no profile")?;
    let samples = firefox_samples(BufReader::new(GzDecoder::new(BufReader::new(file))))?;
    let said = fs::read(job.messages()).unwrap_or_default();
    let outcome = Outcome {
        samples,
        lost: Some(samply_lost(&String::from_utf8_lossy(&said))),
        // It has the kernel copy up to 32 kB of stack for each, of which the file shows nothing.
        bytes_per_sample: None,
        cpu_ns: usage.cpu_ns,
        launched_target: true,
        rss_max_bytes: usage.rss_max_bytes,
        written_monotonic_ns,
        told_cpu_ns: None,
    };
    Ok((target, outcome))
}

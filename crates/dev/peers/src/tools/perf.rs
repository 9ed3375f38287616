//! perf with frame pointers, and inferno for the picture: what most people do.

use std::{
    fs::{self, File},
    process::{Command, Stdio},
};

use anyhow::Context as _;

use super::{Job, launch::launch};
use crate::{
    parse::perf_stats,
    process,
    record::{Outcome, Target},
};
use wingbeat_steps::command::output_of;

/// Records, then draws.
///
/// The event is named because without it perf takes hardware cycles where there are any, and the
/// comparison would then be between clocks.
pub(super) fn run(job: &Job<'_>) -> anyhow::Result<(Target, Outcome)> {
    let data = job.file("perf.data");
    let mut record = Command::new("perf");
    record.args(["record", "--quiet", "-g", "-e", "cpu-clock", "-F", &job.hz(), "-o"]);
    record.arg(&data).arg("--");
    let (target, recorded) = launch(&mut record, job)?;

    let mut script = Command::new("perf");
    script.args(["script", "-i"]).arg(&data);
    let mut chain =
        [script, Command::new("inferno-collapse-perf"), Command::new("inferno-flamegraph")];
    let picture = File::create(job.file("flamegraph.svg")).context("cannot write the picture")?;
    let drawn = process::pipeline(&mut chain, Stdio::null(), picture, &job.messages())?;
    let written_monotonic_ns = process::monotonic_ns();

    let stats = output_of(Command::new("perf").args(["report", "--stats", "-i"]).arg(&data));
    let stats = stats.context("`perf report --stats` does not read what perf recorded")?;
    let (samples, lost) = perf_stats(&stats)?;
    let bytes = fs::metadata(&data).context("perf left no recording")?.len();
    let usage = recorded.then(drawn);
    #[expect(clippy::cast_precision_loss, reason = "a file of less than petabytes")]
    let bytes_per_sample = (samples > 0).then(|| bytes as f64 / samples as f64);
    let outcome = Outcome {
        samples,
        lost: Some(lost),
        bytes_per_sample,
        cpu_ns: usage.cpu_ns,
        launched_target: true,
        rss_max_bytes: usage.rss_max_bytes,
        written_monotonic_ns,
        told_cpu_ns: None,
    };
    Ok((target, outcome))
}

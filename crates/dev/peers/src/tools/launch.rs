//! Tools that start the target themselves.

use std::process::{Command, Stdio};

use super::Job;
use crate::{
    process::{self, Usage},
    record::Target,
    workload::{read_report, report_into},
};

/// Runs `command`, which ends with the target's own words, until both have ended.
pub(super) fn launch(command: &mut Command, job: &Job<'_>) -> anyhow::Result<(Target, Usage)> {
    command.args(job.workload.words(job.units));
    report_into(command, job.dir);
    let usage = process::run(command, Stdio::null(), &job.messages())?;
    Ok((read_report(job.dir)?, usage))
}

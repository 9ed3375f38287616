//! What was measured, as it is kept: plain data, from which all tables are made.

use std::{
    fs::{self, File},
    io::BufReader,
    path::Path,
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

/// A whole comparison.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// When it was begun, as `2026-11-21`.
    pub(super) date: String,
    /// The machine, in a line: CPU, how many, kernel.
    pub(super) machine: String,
    pub(super) command: String,
    pub(super) rounds: u32,
    /// Whether it was stopped before the last round was complete.
    #[serde(default)]
    pub(super) stopped_early: bool,
    /// Things to know about the conditions, each a sentence.
    pub(super) notes: Vec<String>,
    /// The tools, wingbeat first.
    pub(super) tools: Vec<ToolRecord>,
    pub(super) unprofiled: Vec<Unprofiled>,
    /// Runs of the workloads under a tool.
    pub(super) runs: Vec<Run>,
    /// Runs that came to nothing, each with its reason.
    pub(super) failures: Vec<String>,
}

/// A tool that was to be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ToolRecord {
    pub(super) name: String,
    /// The programs that it took, from start to its written output.
    pub(super) chain: String,
    /// What it says about its version; nothing when it is missing.
    pub(super) version: Option<String>,
    /// For a missing one: the command that installs it.
    pub(super) install: Option<String>,
}

/// What a workload says about itself at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Target {
    pub(super) units: u64,
    /// CPU time with its children, from its fork until just before its exit.
    pub(super) cpu_time_ns: u64,
    pub(super) wall_time_ns: u64,
    pub(super) end_monotonic_ns: u64,
}

/// A workload run alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Unprofiled {
    pub(super) workload: String,
    /// Among the profiled runs of this frequency it stood, in samples per second.
    pub(super) frequency_hz: u32,
    /// Counted from 0.
    pub(super) round: u32,
    pub(super) target: Target,
    /// CPU time as the kernel counted it, including the exit.
    pub(super) cpu_ns: u64,
}

/// A workload run under a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) tool: String,
    pub(super) workload: String,
    /// Samples per second that were asked for.
    pub(super) frequency_hz: u32,
    /// Counted from 0.
    pub(super) round: u32,
    pub(super) target: Target,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
}

/// What a tool delivered and what that cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// Samples in its output.
    pub(super) samples: u64,
    /// Samples that it says it lost; `None` when it does not say.
    pub(super) lost: Option<u64>,
    /// Bytes that a sample took on its way to user space, when each is sent.
    pub(super) bytes_per_sample: Option<f64>,
    /// CPU time of all its processes; with the target's when that is its child.
    pub(super) cpu_ns: u64,
    /// Whether the target was its child, so that `cpu_ns` contains the target's.
    pub(super) launched_target: bool,
    /// The most resident memory.
    pub(super) rss_max_bytes: u64,
    pub(super) written_monotonic_ns: u64,
    /// Its CPU time by its own account, for a tool that gives one.
    pub(super) told_cpu_ns: Option<u64>,
}

/// Reads what [`write()`] wrote.
pub(super) fn read(file: &Path) -> anyhow::Result<Record> {
    let open = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_reader(BufReader::new(open))
        .with_context(|| format!("{} does not hold the figures of a comparison", file.display()))
}

/// Writes all figures, for [`read`] and for whoever wants to look closer.
pub(super) fn write(record: &Record, file: &Path) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(record).context("cannot turn the figures into JSON")?;
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

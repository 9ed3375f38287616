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
    /// Seconds that each target worked.
    pub(super) seconds: u32,
    /// Whether it was stopped before the last round was complete.
    pub(super) stopped_early: bool,
    /// Things to know about the conditions, each a sentence.
    pub(super) notes: Vec<String>,
    /// Runs that came to nothing, each with its reason.
    pub(super) failures: Vec<String>,
    /// The tools that were asked for, wingbeat first.
    pub(super) tools: Vec<ToolVersion>,
    pub(super) alone: Vec<Alone>,
    pub(super) runs: Vec<Run>,
    /// wingbeat and perf on the same blocks.
    pub(super) agreements: Vec<Agreement>,
}

/// A tool that was to be measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ToolVersion {
    /// Its name in the tables.
    pub(super) name: String,
    pub(super) chain: String,
    /// What it says about its version; nothing when it is missing.
    pub(super) version: Option<String>,
}

/// What a target says about itself at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) rounds: u64,
    pub(super) wall_time_ns: u64,
    /// CPU time from its fork until just before its exit.
    pub(super) cpu_time_ns: u64,
    /// Switches of its threads, by the kernel's count; `None` where it does not look.
    pub(super) switches: Option<u64>,
    /// What each thread measured, of the sleepy one.
    pub(super) threads: Vec<ThreadReport>,
}

/// What a thread of the sleepy target measured by the clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ThreadReport {
    pub(super) name: String,
    pub(super) tid: u32,
    /// Time in the function of this name.
    pub(super) wait_for_mutex_ns: u64,
    /// Time in the function of this name.
    pub(super) hold_ns: u64,
    /// Time in the function of this name.
    pub(super) rest_ns: u64,
}

impl Report {
    /// For a line of progress.
    #[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds of minutes fit 53 bits")]
    pub(super) fn pace(&self) -> String {
        let seconds = self.wall_time_ns as f64 / 1e9;
        format!("{:.0} rounds per second", self.rounds as f64 / seconds)
    }
}

/// A target that nobody watched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Alone {
    pub(super) target: String,
    /// Counted from 0.
    pub(super) round: u32,
    pub(super) report: Report,
    /// CPU time as the kernel counted it, including the exit.
    pub(super) cpu_ns: u64,
}

/// A target under a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) tool: String,
    pub(super) target: String,
    /// Counted from 0.
    pub(super) round: u32,
    pub(super) report: Report,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
}

/// What a tool delivered and what that cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// CPU time of the tool and of the target, which is its child.
    pub(super) cpu_ns: u64,
    /// CPU time to read the recording, for a tool that does so in a second step.
    pub(super) reading_cpu_ns: Option<u64>,
    pub(super) file_bytes: u64,
    /// Times that it saw a thread of the target go off a CPU; `None` when it does not say, or counts
    /// those of other processes as well.
    pub(super) seen: Option<u64>,
    /// Switches or blocks that it says it lost; `None` when it does not say.
    pub(super) lost: Option<u64>,
}

/// The same blocks, seen by wingbeat and by perf at the same time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Agreement {
    /// Counted from 0.
    pub(super) round: u32,
    /// Sums per thread.
    pub(super) threads: Vec<Sum>,
    /// Sums per innermost function of the target, over its threads.
    pub(super) functions: Vec<Sum>,
    /// Events that perf says it lost; with any, its sums are worth little.
    pub(super) perf_lost: u64,
    /// Blocks that wingbeat says it lost.
    pub(super) wingbeat_lost: u64,
}

/// Time off the CPU, as each of them adds it up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sum {
    pub(super) name: String,
    pub(super) perf_ns: u64,
    pub(super) wingbeat_ns: u64,
    /// By the target's own clock, where it looks; with the little that it ran meanwhile.
    pub(super) target_ns: Option<u64>,
}

impl Sum {
    /// wingbeat's ÷ perf's, − 1; `None` where perf saw nothing.
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of minutes fit 53 bits")]
    pub(super) fn gap(&self) -> Option<f64> {
        (self.perf_ns > 0).then(|| self.wingbeat_ns as f64 / self.perf_ns as f64 - 1.0)
    }
}

/// Reads what [`write()`] wrote.
pub(super) fn read(file: &Path) -> anyhow::Result<Record> {
    let open = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_reader(BufReader::new(open))
        .with_context(|| format!("{} does not hold figures of --mode off-cpu", file.display()))
}

/// Writes all figures, for [`read`] and for whoever wants to look closer.
pub(super) fn write(record: &Record, file: &Path) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(record).context("cannot turn the figures into JSON")?;
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

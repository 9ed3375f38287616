//! What was measured, as it is kept: plain data, from which all tables are made. One form for samples
//! and for time off the CPU.

use serde::{Deserialize, Serialize};

use super::process::{self, Usage};
use crate::comparison::Origin;

/// A whole comparison.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    #[serde(flatten)]
    pub(super) origin: Origin,
    pub(super) rounds: u32,
    /// Seconds that each target worked; 0 where it did a fixed amount of work.
    #[serde(default)]
    pub(super) seconds: u32,
    /// Whether it was stopped before the last round was complete.
    #[serde(default)]
    pub(super) stopped_early: bool,
    /// The tools, wingbeat first.
    pub(super) tools: Vec<ToolRecord>,
    /// Runs of the workloads without a tool.
    pub(super) alone: Vec<Run>,
    pub(super) runs: Vec<Run>,
    /// Runs that came to nothing, each with its reason.
    pub(super) failures: Vec<String>,
    /// wingbeat and perf on the same blocks.
    #[serde(default)]
    pub(super) agreements: Vec<Agreement>,
}

/// A tool that was to be measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ToolRecord {
    pub(super) name: String,
    /// The programs that it took, from start to its written output.
    pub(super) chain: String,
    /// `None` when it is missing.
    pub(super) version: Option<String>,
    /// For a missing one: the command that installs it.
    pub(super) install: Option<String>,
}

/// A run of a workload, under a tool or alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    /// Empty when nobody watched.
    pub(super) tool: String,
    pub(super) workload: String,
    /// Samples per second that were asked for, or that the runs beside it were asked for; 0 off the CPU.
    pub(super) frequency_hz: u32,
    /// Counted from 0.
    pub(super) round: u32,
    pub(super) target: Target,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
}

/// What a workload says about itself at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Target {
    pub(super) units: u64,
    /// CPU time with its children, from its fork until just before its exit.
    pub(super) cpu_time_ns: u64,
    pub(super) wall_time_ns: u64,
    #[serde(default)]
    pub(super) end_monotonic_ns: u64,
    /// Switches of its threads, by the kernel's count; `None` where it does not look.
    #[serde(default)]
    pub(super) switches: Option<u64>,
    /// What each thread measured, of the sleepy one.
    #[serde(default)]
    pub(super) threads: Vec<ThreadReport>,
}

/// What a thread of the sleepy target measured by the clock: time in the functions of these names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ThreadReport {
    pub(super) name: String,
    pub(super) tid: u32,
    pub(super) wait_for_mutex_ns: u64,
    pub(super) hold_ns: u64,
    pub(super) rest_ns: u64,
}

/// What a tool delivered and what that cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// Samples in its output, or times that it saw a thread of the target go off a CPU; `None` when it
    /// does not say, or counts those of other processes as well.
    pub(super) seen: Option<u64>,
    /// Samples, switches or blocks that it says it lost; `None` when it does not say.
    pub(super) lost: Option<u64>,
    /// Bytes that a sample took on its way to user space, when each is sent.
    pub(super) bytes_per_sample: Option<f64>,
    /// CPU time of all its processes; with the target's unless it attached.
    pub(super) cpu_ns: u64,
    /// CPU time to read the recording, for a tool that does so in a second step.
    pub(super) reading_cpu_ns: Option<u64>,
    /// Whether it attached, so that the target was not its child and `cpu_ns` is its own alone.
    pub(super) attached: bool,
    pub(super) rss_max_bytes: u64,
    pub(super) written_monotonic_ns: u64,
    /// Its CPU time by its own account, for a tool that gives one.
    pub(super) told_cpu_ns: Option<u64>,
    pub(super) file_bytes: u64,
}

impl Outcome {
    /// What it cost, of a tool that has just written its output.
    pub(super) fn of(usage: Usage) -> Self {
        let Usage { cpu_ns, rss_max_bytes } = usage;
        let written_monotonic_ns = process::monotonic_ns();
        Self { cpu_ns, rss_max_bytes, written_monotonic_ns, ..Self::default() }
    }
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
    pub(super) fn gap(&self) -> Option<f64> {
        (self.perf_ns > 0).then(|| self.wingbeat_ns as f64 / self.perf_ns as f64 - 1.0)
    }
}

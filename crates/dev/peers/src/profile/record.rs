//! What was measured, as it is kept: plain data, from which all tables are made. One form for samples
//! and for time off the CPU.

use serde::{Deserialize, Serialize};

use super::process::{self, Usage};
use crate::comparison::Origin;

/// A whole comparison.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    #[serde(flatten)]
    pub(crate) origin: Origin,
    pub(crate) rounds: u32,
    /// Seconds that each target worked; 0 where it did a fixed amount of work.
    #[serde(default)]
    pub(crate) seconds: u32,
    /// Whether it was stopped before the last round was complete.
    #[serde(default)]
    pub(crate) stopped_early: bool,
    /// The tools, wingbeat first.
    pub(crate) tools: Vec<ToolRecord>,
    /// Runs of the workloads without a tool.
    pub(crate) alone: Vec<Run>,
    pub(crate) runs: Vec<Run>,
    /// Runs that came to nothing, each with its reason.
    pub(crate) failures: Vec<String>,
    /// wingbeat and perf on the same blocks.
    #[serde(default)]
    pub(crate) agreements: Vec<Agreement>,
}

/// A tool that was to be measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ToolRecord {
    pub(crate) name: String,
    /// The programs that it took, from start to its written output.
    pub(crate) chain: String,
    /// `None` when it is missing.
    pub(crate) version: Option<String>,
    /// For a missing one: the command that installs it.
    pub(crate) install: Option<String>,
}

/// A run of a workload, under a tool or alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// Empty when nobody watched.
    pub(crate) tool: String,
    pub(crate) workload: String,
    /// Samples per second that were asked for, or that the runs beside it were asked for; 0 off the CPU.
    pub(crate) frequency_hz: u32,
    /// Counted from 0.
    pub(crate) round: u32,
    pub(crate) target: Target,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

/// What a workload says about itself at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Target {
    #[serde(alias = "rounds")]
    pub(crate) units: u64,
    /// CPU time with its children, from its fork until just before its exit.
    pub(crate) cpu_time_ns: u64,
    pub(crate) wall_time_ns: u64,
    #[serde(default)]
    pub(crate) end_monotonic_ns: u64,
    /// Switches of its threads, by the kernel's count; `None` where it does not look.
    #[serde(default)]
    pub(crate) switches: Option<u64>,
    /// What each thread measured, of the sleepy one.
    #[serde(default)]
    pub(crate) threads: Vec<ThreadReport>,
}

/// What a thread of the sleepy target measured by the clock: time in the functions of these names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ThreadReport {
    pub(crate) name: String,
    pub(crate) tid: u32,
    pub(crate) wait_for_mutex_ns: u64,
    pub(crate) hold_ns: u64,
    pub(crate) rest_ns: u64,
}

/// What a tool delivered and what that cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Samples in its output, or times that it saw a thread of the target go off a CPU; `None` when it
    /// does not say, or counts those of other processes as well.
    pub(crate) seen: Option<u64>,
    /// Samples, switches or blocks that it says it lost; `None` when it does not say.
    pub(crate) lost: Option<u64>,
    /// Bytes that a sample took on its way to user space, when each is sent.
    pub(crate) bytes_per_sample: Option<f64>,
    /// CPU time of all its processes; with the target's unless it attached.
    pub(crate) cpu_ns: u64,
    /// CPU time to read the recording, for a tool that does so in a second step.
    pub(crate) reading_cpu_ns: Option<u64>,
    /// Whether it attached, so that the target was not its child and `cpu_ns` is its own alone.
    pub(crate) attached: bool,
    /// The most resident memory.
    pub(crate) rss_max_bytes: u64,
    pub(crate) written_monotonic_ns: u64,
    /// Its CPU time by its own account, for a tool that gives one.
    pub(crate) told_cpu_ns: Option<u64>,
    pub(crate) file_bytes: u64,
}

impl Outcome {
    /// What it cost, of a tool that has just written its output.
    pub(crate) fn of(usage: Usage) -> Self {
        let Usage { cpu_ns, rss_max_bytes } = usage;
        let written_monotonic_ns = process::monotonic_ns();
        Self { cpu_ns, rss_max_bytes, written_monotonic_ns, ..Self::default() }
    }
}

/// The same blocks, seen by wingbeat and by perf at the same time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Agreement {
    /// Counted from 0.
    pub(crate) round: u32,
    /// Sums per thread.
    pub(crate) threads: Vec<Sum>,
    /// Sums per innermost function of the target, over its threads.
    pub(crate) functions: Vec<Sum>,
    /// Events that perf says it lost; with any, its sums are worth little.
    pub(crate) perf_lost: u64,
    /// Blocks that wingbeat says it lost.
    pub(crate) wingbeat_lost: u64,
}

/// Time off the CPU, as each of them adds it up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sum {
    pub(crate) name: String,
    pub(crate) perf_ns: u64,
    pub(crate) wingbeat_ns: u64,
    /// By the target's own clock, where it looks; with the little that it ran meanwhile.
    pub(crate) target_ns: Option<u64>,
}

impl Sum {
    /// wingbeat's ÷ perf's, − 1; `None` where perf saw nothing.
    pub(crate) fn gap(&self) -> Option<f64> {
        (self.perf_ns > 0).then(|| self.wingbeat_ns as f64 / self.perf_ns as f64 - 1.0)
    }
}

//! The result of a comparison.

use serde::{Deserialize, Serialize};
pub use wingbeat_stats::paired::PairedVerdict;

pub use crate::model::ChangeInterval;
use crate::model::{BenchmarkName, Measure};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SideName {
    Base,
    Head,
}

impl SideName {
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Head => "head",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// As the user named it. `working tree` by default.
    pub asked: String,
    pub commit: String,
    /// Whether it differs from the commit by changed, added or removed files.
    pub has_uncommitted_changes: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub base: Revision,
    pub head: Revision,
    pub command: Vec<String>,
    /// Each measure of each benchmark that both sides have, sorted by importance.
    pub rows: Vec<ComparedRow>,
    pub unmatched: Vec<Unmatched>,
    /// Benchmarks that failed in runs that continued, each once.
    pub failures: Vec<Failed>,
    pub pairs: usize,
    /// Total duration of the runs of these pairs, in seconds.
    pub elapsed_s: f64,
    pub end: End,
    /// The size of a change that should be detected, as a share.
    pub precision: f64,
    /// Noisy measures that are worse by more than this share count against the head.
    pub threshold: f64,
    pub threshold_exact: f64,
}

impl Comparison {
    /// Whether something is worse beyond the threshold, or failed in the head.
    pub fn is_worse(&self) -> bool {
        self.rows.iter().any(|row| row.is_beyond_threshold)
            || self.failures.iter().any(|failed| failed.side == SideName::Head)
    }

    /// Whether too few pairs were run for a verdict on any noisy measure, although there are some.
    pub fn is_undecided(&self) -> bool {
        self.rows.iter().any(|row| row.verdict == PairedVerdict::TooFewPairs)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The requested change would have been detected everywhere.
    Precise,
    TimeSpent,
    Interrupted,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedRow {
    pub benchmark: BenchmarkName,
    pub measure: Measure,
    /// Geometric mean of the runs, or their median if one is not above 0, in units of the measure.
    pub base: f64,
    pub head: f64,
    /// `head / base − 1`; `None` if the base is 0.
    pub change: Option<f64>,
    /// The interval of the change. `None` if it is exact or unknown.
    pub interval: Option<ChangeInterval>,
    /// The smallest change that nine of ten such comparisons would have detected.
    pub smallest_visible: Option<f64>,
    pub pairs: usize,
    #[serde(with = "VerdictName")]
    pub verdict: PairedVerdict,
    pub is_beyond_threshold: bool,
    /// A remark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "PairedVerdict", rename_all = "kebab-case")]
enum VerdictName {
    Worse,
    Changed,
    Better,
    TooFewPairs,
    NotJudged,
    NoChangeSeen,
    Same,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmatched {
    pub side: SideName,
    pub benchmark: BenchmarkName,
    /// Its measures that the other side lacks, by name.
    pub measures: Vec<String>,
}

/// A benchmark that failed in a run that continued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    pub side: SideName,
    pub benchmark: BenchmarkName,
    /// The tool's first message about it.
    pub reason: String,
}

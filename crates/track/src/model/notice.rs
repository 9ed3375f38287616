//! A notice about a whole report.

use serde::{Deserialize, Serialize};

use super::{name::Slug, verdict::Outcome};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Notice {
    /// Most benchmarks moved alike: the host, the toolchain or something else they share changed.
    MovedTogether {
        iteration: u32,
        measure: Slug,
        benchmarks: usize,
        /// Benchmarks of the measure that could be judged.
        judged: usize,
        /// Change of the one in the middle, as a share of its baseline.
        change: f64,
        /// Known changes of the environment: `kernel 6.12.1 → 6.18.4`.
        environment: Vec<String>,
        reason: String,
    },
    /// A threshold that the user named judges nothing in this report.
    IdleThreshold {
        measure: Slug,
        /// Benchmarks that it is for, as a glob; `None`: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        benchmark: Option<String>,
        /// Why, and what to do about it, in one sentence.
        reason: String,
    },
    /// Metrics look changed beside a history of fewer than five reports, which decides nothing.
    LooksChanged {
        /// How: [`Outcome::Worse`], [`Outcome::Better`] or [`Outcome::Changed`].
        outcome: Outcome,
        metrics: usize,
        /// Which, and why nothing was decided about them, in one sentence.
        reason: String,
    },
    /// The level of alerts at the end of history has become the usual one.
    AlertIsUsual {
        metrics: usize,
        /// Which, in one sentence.
        reason: String,
    },
    /// The environment changed since the newest point of history.
    EnvironmentChanged {
        /// What: `kernel 6.12.1 → 6.18.4`.
        changes: Vec<String>,
    },
}

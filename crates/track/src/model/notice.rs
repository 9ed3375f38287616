//! A notice about a whole report.

use std::fmt;

use serde::{Deserialize, Serialize};
use wingbeat_text::sentence;

use super::{
    name::{BenchmarkName, Slug},
    reason::drift_words,
    verdict::Outcome,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    #[serde(flatten)]
    pub kind: NoticeKind,
    #[serde(flatten)]
    pub text: NoticeText,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum NoticeKind {
    /// Most benchmarks moved alike: the host, the toolchain or something else they share changed.
    MovedTogether {
        iteration: u32,
        measure: Slug,
        benchmarks: usize,
        /// Number of benchmarks of the measure that could be judged.
        judged: usize,
        /// Change of the median benchmark, as a share of its baseline.
        change: f64,
        /// Known changes of the environment: `kernel 6.12.1 → 6.18.4`.
        environment: Vec<String>,
    },
    /// A threshold given by the user matches nothing in this report.
    IdleThreshold {
        measure: Slug,
        /// Glob of its benchmarks; `None`: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        benchmark: Option<String>,
    },
    /// The limit of a threshold is so far away that its boundary was probably given in another unit.
    WideThreshold {
        measure: Slug,
        /// Glob of its benchmarks; `None`: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        benchmark: Option<String>,
    },
    /// Benchmarks of the last report have no result in this one.
    Missing {
        benchmarks: Vec<BenchmarkName>,
        /// Number of benchmarks in the last report.
        of: usize,
    },
    /// Metrics look changed, with a history of fewer than five reports, which decides nothing.
    LooksChanged {
        /// How: [`Outcome::Worse`], [`Outcome::Better`] or [`Outcome::Changed`].
        outcome: Outcome,
        metrics: usize,
    },
    /// The level of alerts at the end of history has become the usual one.
    AlertIsUsual { metrics: usize },
    /// Values stay as bad as those of earlier commits, which raised the alerts.
    AlertOfEarlier { metrics: usize },
    /// Measures have alerts only because their better direction is unknown.
    DirectionUnknown { measures: Vec<Slug> },
    /// Levels moved slowly and far, in steps too small for an alert.
    Drifted { metrics: Vec<Drifted> },
    /// The environment changed since the newest point of history.
    EnvironmentChanged { changes: Vec<String> },
}

impl Notice {
    /// Whether it says that a report has none of the last one's benchmarks.
    pub fn is_none_left(&self) -> bool {
        matches!(&self.kind, NoticeKind::Missing { benchmarks, of } if benchmarks.len() == *of)
    }
}

/// A metric whose level drifted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Drifted {
    pub benchmark: BenchmarkName,
    pub measure: Slug,
    /// As a share of the level before.
    pub change: f64,
    /// Reports since the level before.
    pub reports: usize,
}

impl fmt::Display for Drifted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { benchmark, measure, change, reports } = self;
        let moved = drift_words(*change, *reports);
        write!(f, "{benchmark} {measure} {moved}")
    }
}

/// Text of a notice: the parts of a [`wingbeat_text::Warning`], of which all but the cause may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticeText {
    pub cause: String,
    pub effect: String,
    pub next_step: String,
}

impl fmt::Display for NoticeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&sentence(&self.cause, &self.effect, &self.next_step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_go_through_json() {
        let name = |text: &str| BenchmarkName::new(text).expect("a name");
        let slug = || Slug::of("latency");
        for kind in [
            NoticeKind::MovedTogether {
                iteration: 0,
                measure: slug(),
                benchmarks: 5,
                judged: 6,
                change: 0.25,
                environment: vec!["kernel 1 → 2".to_owned()],
            },
            NoticeKind::IdleThreshold { measure: slug(), benchmark: None },
            NoticeKind::Missing { benchmarks: vec![name("a")], of: 41 },
            NoticeKind::LooksChanged { outcome: Outcome::Worse, metrics: 2 },
            NoticeKind::Drifted {
                metrics: vec![Drifted {
                    benchmark: name("a"),
                    measure: slug(),
                    change: 0.5,
                    reports: 120,
                }],
            },
        ] {
            let cause = "1 of 41 benchmarks is missing".to_owned();
            let notice = Notice { kind, text: NoticeText { cause, ..NoticeText::default() } };
            let json = serde_json::to_string(&notice).expect("JSON");
            assert_eq!(serde_json::from_str::<Notice>(&json).expect(&json), notice);
        }
    }
}

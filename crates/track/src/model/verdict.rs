//! The decision about one metric.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    measure::Direction,
    name::{BenchmarkName, Slug},
    reason::{Reason, ReasonKind},
    threshold::{Test, ThresholdModel},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    Lower,
    Upper,
}

impl Limit {
    /// Where a value that crosses it is.
    pub fn side(self) -> &'static str {
        match self {
            Self::Lower => "below",
            Self::Upper => "above",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub iteration: u32,
    pub benchmark: BenchmarkName,
    pub measure: Slug,
    pub outcome: Outcome,
    /// The test that decided; `None` if the measure has no threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Test>,
    /// What it was compared with. All parts are `None` if history is too short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boundary: Option<Boundary>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// The p-value, corrected for the number of judged metrics; `None` if the test has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// The smallest share of the baseline that nine of ten such reports would have detected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_visible: Option<f64>,
    pub points: usize,
    #[serde(default)]
    pub reason: Reason,
}

/// Sorted as reports show them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Beyond the limit on the bad side. Raises an alert.
    Worse,
    /// Beyond the limit on the good side. Raises an alert only if the user set a limit there.
    Better,
    /// Beyond a limit, for a measure without a known better direction.
    Changed,
    /// Like `Worse`, but possibly a spike. Raises no alert: a repeated measurement or the next report decides.
    MaybeWorse,
    MaybeChanged,
    MaybeBetter,
    /// Moved together with most others of the report: the host or the toolchain changed.
    MovedTogether,
    /// Within limits so wide that even twice the value would have been.
    TooNoisy,
    NoChange,
    TooLittleHistory,
    /// It has no threshold, or it opted out of being judged.
    NotJudged,
}

/// What a value was compared with, in the units of the measure.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Boundary {
    pub baseline: Option<f64>,
    pub lower_limit: Option<f64>,
    pub upper_limit: Option<f64>,
}

impl Boundary {
    pub fn limit(&self, limit: Limit) -> Option<f64> {
        match limit {
            Limit::Lower => self.lower_limit,
            Limit::Upper => self.upper_limit,
        }
    }
}

/// A change as a share of the baseline: 0.05 is 5 % more.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Change {
    pub relative: f64,
    /// Lower end of its 95 % interval.
    pub lower: Option<f64>,
    pub upper: Option<f64>,
}

/// An interval of a change, as shares.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChangeInterval {
    pub lower: f64,
    pub upper: f64,
    /// The share of such intervals that contain the true value.
    pub confidence: f64,
}

impl Outcome {
    /// Whether histories and plots highlight it: a change, or a possible one.
    pub const fn stands_out(self) -> bool {
        (self as u8) <= Self::MovedTogether as u8
    }

    /// Whether there is no verdict: the history is too short or too noisy.
    pub const fn is_unknown(self) -> bool {
        matches!(self, Self::TooLittleHistory | Self::TooNoisy)
    }

    pub(crate) fn beyond(limit: Limit, direction: Direction) -> Self {
        match (limit, direction) {
            (_, Direction::Unknown) => Self::Changed,
            (Limit::Upper, Direction::LowerIsBetter)
            | (Limit::Lower, Direction::HigherIsBetter) => Self::Worse,
            (Limit::Lower, Direction::LowerIsBetter)
            | (Limit::Upper, Direction::HigherIsBetter) => Self::Better,
        }
    }

    /// Whether it may be a spike, so that a repeated measurement or the next report decides.
    pub fn is_suspect(self) -> bool {
        matches!(self, Self::MaybeWorse | Self::MaybeBetter | Self::MaybeChanged)
    }
}

impl Boundary {
    /// Limits on both sides of a baseline.
    pub fn around(baseline: f64, lower: f64, upper: f64) -> Self {
        let [baseline, lower_limit, upper_limit] = [baseline, lower, upper].map(Some);
        Self { baseline, lower_limit, upper_limit }
    }
}

impl Change {
    /// The change of a value from a baseline, without an interval. `None` if the baseline is 0.
    pub(crate) fn exactly(value: f64, baseline: f64) -> Option<Self> {
        let relative = if value == baseline { 0.0 } else { (value - baseline) / baseline.abs() };
        relative.is_finite().then_some(Self { relative, lower: None, upper: None })
    }
}

impl Verdict {
    /// The verdict about a metric that was not judged.
    pub fn new(iteration: u32, benchmark: BenchmarkName, measure: Slug) -> Self {
        Self {
            iteration,
            benchmark,
            measure,
            outcome: Outcome::NotJudged,
            test: None,
            boundary: None,
            limit: None,
            change: None,
            p: None,
            smallest_visible: None,
            points: 0,
            reason: Reason::default(),
        }
    }

    /// Sets the outcome to too little history, with that reason.
    pub(crate) fn wait(&mut self, reason: ReasonKind) {
        (self.outcome, self.reason) = (Outcome::TooLittleHistory, reason.into());
    }

    /// Sets the outcome to beyond a limit.
    pub(crate) fn cross(&mut self, limit: Limit, direction: Direction) {
        self.limit = Some(limit);
        self.outcome = Outcome::beyond(limit, direction);
    }

    /// Sets the outcome to possibly beyond a limit: it may be a spike.
    pub(crate) fn suspect(&mut self, limit: Limit, direction: Direction) {
        self.cross(limit, direction);
        self.outcome = match self.outcome {
            Outcome::Worse => Outcome::MaybeWorse,
            Outcome::Better => Outcome::MaybeBetter,
            _ => Outcome::MaybeChanged,
        };
    }

    /// Whether it raises an alert: "better" does only if the user set a limit on that side.
    pub(crate) fn raises_alert(&self, model: Option<&ThresholdModel>) -> bool {
        !self.outcome.is_suspect() && self.counts(model)
    }

    /// Whether it would raise an alert if it were not a spike.
    pub(crate) fn may_raise_alert(&self, model: Option<&ThresholdModel>) -> bool {
        self.outcome.is_suspect() && self.counts(model)
    }

    /// Whether it is beyond the side without a limit, if the threshold has one on the other side.
    pub(crate) fn is_beside(&self, model: Option<&ThresholdModel>) -> bool {
        let sides =
            model.map(|model| (model.lower_boundary.is_some(), model.upper_boundary.is_some()));
        matches!(
            (self.limit, sides),
            (Some(Limit::Lower), Some((false, true))) | (Some(Limit::Upper), Some((true, false)))
        )
    }

    fn counts(&self, model: Option<&ThresholdModel>) -> bool {
        match self.outcome {
            Outcome::Worse | Outcome::Changed | Outcome::MaybeWorse | Outcome::MaybeChanged => {
                !self.is_beside(model)
            }
            Outcome::Better | Outcome::MaybeBetter => model.is_some_and(|model| match self.limit {
                Some(Limit::Lower) => model.lower_boundary.is_some(),
                Some(Limit::Upper) => model.upper_boundary.is_some(),
                None => false,
            }),
            _ => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertStatus {
    Active,
    Dismissed,
    /// Silenced: this and later alerts of the same series do not count.
    Silenced,
}

impl fmt::Display for AlertStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Active => "active",
            Self::Dismissed => "dismissed",
            Self::Silenced => "silenced",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alert {
    pub uuid: Uuid,
    pub iteration: u32,
    pub benchmark: BenchmarkName,
    pub measure: Slug,
    pub limit: Limit,
    pub status: AlertStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Alert {
    /// The active alert raised by a verdict.
    pub fn of(uuid: Uuid, verdict: &Verdict) -> Self {
        Self {
            uuid,
            iteration: verdict.iteration,
            benchmark: verdict.benchmark.clone(),
            measure: verdict.measure.clone(),
            // An alert without a crossed limit is one of exact measures that increased.
            limit: verdict.limit.unwrap_or(Limit::Upper),
            status: AlertStatus::Active,
            reason: None,
        }
    }
}

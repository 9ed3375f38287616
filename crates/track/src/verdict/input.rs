//! Input and result of a decision about a whole report.

use time::OffsetDateTime;

use crate::model::{
    BenchmarkName, Environment, Limit, Measure, Metric, Notice, Outcome, PastPoint, PastReport,
    ThresholdModel, Verdict,
};

#[derive(Debug, Clone)]
pub struct ReportInput<'a> {
    /// When the first iteration began; the age of history is measured from here.
    pub start_time: OffsetDateTime,
    pub environment: &'a Environment,
    /// Its commit, if known.
    pub hash: Option<&'a str>,
    /// Earlier reports, referenced by the points in `history`.
    pub past: &'a [PastReport],
    /// One for each metric of each iteration.
    pub series: Vec<Series<'a>>,
}

/// One metric of the report, and its history.
#[derive(Debug, Clone)]
pub struct Series<'a> {
    pub iteration: u32,
    pub benchmark: &'a BenchmarkName,
    pub measure: &'a Measure,
    pub metric: &'a Metric,
    /// Repeated values of the same metric, to confirm an alert (`--confirm`). `auto` judges the one nearest to history.
    pub repeats: Vec<f64>,
    /// Whether the benchmark opted out of being judged: only its boundary is computed.
    pub is_ignored: bool,
    pub model: Option<ThresholdModel>,
    /// Points of earlier reports, oldest first, without the report's own iterations.
    pub history: &'a [PastPoint],
    /// Values of the newest earlier reports of the same branch, oldest first, if `history` is that of its start point.
    /// `auto` does not count them as usual, but values that deviate alike are not spikes.
    pub pushes: Vec<f64>,
}

impl<'a> Series<'a> {
    /// The metric of the first iteration, measured once, without threshold and history.
    pub fn new(benchmark: &'a BenchmarkName, measure: &'a Measure, metric: &'a Metric) -> Self {
        let (repeats, pushes, history) = (Vec::new(), Vec::new(), &[][..]);
        let (iteration, is_ignored, model) = (0, false, None);
        Self { iteration, benchmark, measure, metric, repeats, is_ignored, model, history, pushes }
    }
}

/// Settings of `auto` and `change_point`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Share of reports that may contain a false verdict; above 0 and below 1.
    pub false_alarm_chance: f64,
    /// Minimum change that counts, as a share of the baseline, unless the threshold sets one.
    pub change_min: f64,
}

/// One report in 200, and 1 %.
impl Default for Settings {
    fn default() -> Self {
        Self { false_alarm_chance: 0.005, change_min: 0.01 }
    }
}

impl Settings {
    /// The rate for each of this many judged metrics, as if they were independent (Šidák).
    pub(super) fn share(&self, metrics: usize) -> Self {
        let power = 1.0 / metrics.max(1) as f64;
        // 1 − (1 − α)^(1/B), accurate for tiny values.
        let chance = -((1.0 - self.false_alarm_chance).ln() * power).exp_m1();
        Self { false_alarm_chance: chance, ..*self }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Decision {
    /// One per series, in order.
    pub verdicts: Vec<Verdict>,
    /// Indices of the verdicts that raise an alert, ascending.
    pub alerts: Vec<usize>,
    /// Indices of verdicts whose alert an earlier commit already raised, and that commit.
    pub told: Vec<(usize, String)>,
    /// Metrics whose raw samples look changed, with too little history to decide. They raise no alert.
    pub looks: Vec<Look>,
    pub notices: Vec<Notice>,
}

/// How a metric looks from its raw samples, with fewer than five reports of history. Samples of a run do not show the
/// variation between runs, so this is a reason to measure again, not a verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    pub place: usize,
    /// [`Outcome::Worse`], [`Outcome::Better`] or [`Outcome::Changed`].
    pub outcome: Outcome,
    pub limit: Limit,
    /// Its change from the median of history, as a share of that.
    pub change: f64,
    /// The minimum change on that side that counts, as a share.
    pub change_min: f64,
    pub reports: usize,
}

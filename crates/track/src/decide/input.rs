//! The input of the decision, and its results for the whole report.

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
    /// Its commit, if it is known.
    pub hash: Option<&'a str>,
    /// Earlier reports: those of the points in `history`.
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
    /// Values of the same metric when it was measured again to confirm an alert (`--confirm`). `auto`
    /// judges the one that is nearest to history.
    pub repeats: Vec<f64>,
    /// Whether the benchmark asked not to be judged: only its boundary is computed.
    pub is_ignored: bool,
    pub model: Option<ThresholdModel>,
    /// Points of earlier reports, the oldest first. The report's own iterations are not among them.
    pub history: &'a [PastPoint],
    /// Values of the newest earlier reports of the same branch, oldest first, if `history` is that of its start
    /// point. `auto` does not take them for usual, but values that deviate alike are no spikes.
    pub pushes: Vec<f64>,
}

impl<'a> Series<'a> {
    /// The metric of the first iteration, measured once, without a threshold and a history.
    pub fn new(benchmark: &'a BenchmarkName, measure: &'a Measure, metric: &'a Metric) -> Self {
        let (repeats, pushes, history) = (Vec::new(), Vec::new(), &[][..]);
        let (iteration, is_ignored, model) = (0, false, None);
        Self { iteration, benchmark, measure, metric, repeats, is_ignored, model, history, pushes }
    }
}

/// How `auto` and `change_point` decide.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Share of reports that may contain a false verdict; above 0 and below 1.
    pub false_alarm_chance: f64,
    /// Least change that counts, as a share of the baseline, if the threshold sets none.
    pub change_min: f64,
}

/// One report in 200, and 1 %.
impl Default for Settings {
    fn default() -> Self {
        Self { false_alarm_chance: 0.005, change_min: 0.01 }
    }
}

impl Settings {
    /// The rate for one of this many judged metrics, as if they were independent (Šidák).
    pub(super) fn share(&self, metrics: usize) -> Self {
        let power = 1.0 / metrics.max(1) as f64;
        // 1 − (1 − α)^(1/B), also where that is tiny.
        let chance = -((1.0 - self.false_alarm_chance).ln() * power).exp_m1();
        Self { false_alarm_chance: chance, ..*self }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Decision {
    /// One for each series, in their order.
    pub verdicts: Vec<Verdict>,
    /// Places of the verdicts that raise an alert, ascending.
    pub alerts: Vec<usize>,
    /// Places of verdicts that would, if an earlier commit had not raised the alert, and that commit.
    pub told: Vec<(usize, String)>,
    /// Metrics whose raw samples look changed, with too little history to decide. They raise no alert.
    pub looks: Vec<Look>,
    pub notices: Vec<Notice>,
}

/// How a metric looks by its raw samples, with fewer than five reports of history. Samples of a run
/// do not show how much runs differ, so this is a reason to measure again, not a verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    pub place: usize,
    /// [`Outcome::Worse`], [`Outcome::Better`] or [`Outcome::Changed`].
    pub outcome: Outcome,
    pub limit: Limit,
    /// Its change from the median of history, as a share of that.
    pub change: f64,
    /// The least change on that side that counts, as a share.
    pub change_min: f64,
    pub reports: usize,
}

//! A metric with its verdict, and the order in which metrics are listed.

use std::{
    cmp::{Ordering, Reverse},
    collections::HashMap,
};

use crate::model::{
    Alert, AlertStatus, BenchmarkResults, Measure, Metric, Outcome, Report, ThresholdModel, Verdict,
};

/// A metric of a report, with what belongs to it.
#[derive(Debug, Clone, Copy)]
pub struct ReportRow<'a> {
    pub iteration: u32,
    pub benchmark: &'a BenchmarkResults,
    pub measure: &'a Measure,
    pub metric: &'a Metric,
    /// `None` without a verdict.
    pub verdict: Option<&'a Verdict>,
    pub threshold: Option<&'a ThresholdModel>,
    pub alert: Option<&'a Alert>,
}

/// Maximum number of noisy rows listed individually.
pub(super) const NOISY_MAX: usize = 3;

impl<'a> ReportRow<'a> {
    /// All metrics, in report order. `thresholds` are those behind the verdicts, in their order.
    pub fn all(report: &'a Report, thresholds: &'a [Option<ThresholdModel>]) -> Vec<Self> {
        let verdicts = report.verdicts.iter().enumerate();
        let verdicts: HashMap<_, _> =
            verdicts.map(|(at, it)| ((it.iteration, &it.benchmark, &it.measure), at)).collect();
        let alerts = report.alerts.iter();
        let alerts: HashMap<_, _> =
            alerts.map(|it| ((it.iteration, &it.benchmark, &it.measure), it)).collect();
        let row = |(iteration, benchmark, measure, metric): (_, &'a BenchmarkResults, _, _)| {
            let measure: &'a Measure = measure;
            let key = (iteration, &benchmark.name, &measure.slug);
            let verdict = verdicts.get(&key).copied();
            Self {
                iteration,
                benchmark,
                measure,
                metric,
                verdict: verdict.and_then(|at| report.verdicts.get(at)),
                threshold: verdict.and_then(|at| thresholds.get(at)?.as_ref()),
                alert: alerts.get(&key).copied(),
            }
        };
        report.metrics().map(row).collect()
    }

    /// All metrics, most important first: alerts, worse, better, changed, moved together, then the rest; larger changes
    /// first.
    pub fn by_weight(report: &'a Report, thresholds: &'a [Option<ThresholdModel>]) -> Vec<Self> {
        let mut rows = Self::all(report, thresholds);
        let weight = |row: &Self| (Reverse(row.is_active()), row.outcome());
        rows.sort_by(|a, b| weight(a).cmp(&weight(b)).then_with(|| b.size_cmp(a)));
        rows
    }

    pub fn outcome(&self) -> Outcome {
        self.verdict.map_or(Outcome::NotJudged, |verdict| verdict.outcome)
    }

    /// Whether it raises an alert that is neither dismissed nor silenced.
    pub fn is_active(&self) -> bool {
        self.alert.is_some_and(|alert| alert.status == AlertStatus::Active)
    }

    /// Whether it is notable.
    pub fn is_loud(&self) -> bool {
        let is_quiet = matches!(
            self.outcome(),
            Outcome::NoChange | Outcome::TooLittleHistory | Outcome::NotJudged
        );
        !is_quiet || self.alert.is_some()
    }

    /// Whether it is too noisy to be judged.
    pub(super) fn is_noisy(&self) -> bool {
        self.alert.is_none() && self.outcome() == Outcome::TooNoisy
    }

    /// The possible spikes and noisy rows to list individually, and how many more are noisy: if many are, they have a
    /// common cause.
    pub(super) fn doubtful(rows: &[Self]) -> (Vec<&Self>, usize) {
        let is_suspect = |row: &&Self| row.alert.is_none() && row.outcome().is_suspect();
        let noisy = || rows.iter().filter(|row| row.is_noisy());
        let told = rows.iter().filter(is_suspect).chain(noisy().take(NOISY_MAX));
        (told.collect(), noisy().count().saturating_sub(NOISY_MAX))
    }

    /// Why the verdict has its outcome; empty without a verdict.
    pub fn reason_text(&self) -> String {
        self.verdict.map(|verdict| verdict.reason.text(self.measure)).unwrap_or_default()
    }

    pub fn baseline(&self) -> Option<f64> {
        self.verdict?.boundary?.baseline
    }

    /// Compares by the size of the change. Quiet rows stay in report order.
    fn size_cmp(&self, other: &Self) -> Ordering {
        let size = |row: &Self| match (row.is_loud(), row.verdict.and_then(|v| v.change)) {
            (true, Some(change)) => change.relative.abs(),
            _ => 0.0,
        };
        size(self).total_cmp(&size(other))
    }
}

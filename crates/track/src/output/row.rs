//! A metric with its verdict, and the order in which metrics are listed.

use std::{
    cmp::{Ordering, Reverse},
    collections::HashMap,
};

use super::Page;
use crate::model::{
    Alert, AlertStatus, BenchmarkResults, Measure, Metric, Outcome, ThresholdModel, Verdict,
};

#[derive(Debug, Clone, Copy)]
pub(super) struct ReportRow<'a> {
    pub(super) iteration: u32,
    pub(super) benchmark: &'a BenchmarkResults,
    pub(super) measure: &'a Measure,
    pub(super) metric: &'a Metric,
    /// `None` without a verdict.
    pub(super) verdict: Option<&'a Verdict>,
    pub(super) threshold: Option<&'a ThresholdModel>,
    pub(super) alert: Option<&'a Alert>,
}

/// Maximum number of noisy rows listed individually.
pub(super) const NOISY_MAX: usize = 3;

impl<'a> ReportRow<'a> {
    /// All metrics, in report order.
    pub(super) fn all(page: &Page<'a>) -> Vec<Self> {
        let alerts = page.report.alerts.iter();
        let alerts: HashMap<_, _> = alerts
            .map(|alert| ((alert.iteration, &alert.benchmark, &alert.measure), alert))
            .collect();
        let metrics = page.report.metrics().enumerate();
        let row = |(place, (iteration, benchmark, measure, metric))| Self {
            iteration,
            benchmark,
            measure,
            metric,
            verdict: page.report.verdicts.get(place),
            threshold: page.thresholds.get(place).and_then(Option::as_ref),
            alert: alerts.get(&(iteration, &benchmark.name, &measure.slug)).copied(),
        };
        metrics.map(row).collect()
    }

    /// All metrics, most important first: alerts, worse, better, changed, moved together, then the rest; larger changes
    /// first.
    pub(super) fn by_weight(page: &Page<'a>) -> Vec<Self> {
        let mut rows = Self::all(page);
        let weight = |row: &Self| (Reverse(row.is_active()), row.outcome());
        rows.sort_by(|a, b| weight(a).cmp(&weight(b)).then_with(|| b.size_cmp(a)));
        rows
    }

    pub(super) fn outcome(&self) -> Outcome {
        self.verdict.map_or(Outcome::NotJudged, |verdict| verdict.outcome)
    }

    /// Whether it raises an alert that is neither dismissed nor silenced.
    pub(super) fn is_active(&self) -> bool {
        self.alert.is_some_and(|alert| alert.status == AlertStatus::Active)
    }

    /// Whether it is notable.
    pub(super) fn is_loud(&self) -> bool {
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

    pub(super) fn baseline(&self) -> Option<f64> {
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

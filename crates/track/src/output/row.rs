//! A metric with its verdict: the order in which metrics are listed, and the cells of a row.

use std::{
    cmp::{Ordering, Reverse},
    collections::HashMap,
};

use wingbeat_text::{Scale, share};

use crate::model::{
    Alert, AlertStatus, BenchmarkResults, Limit, Measure, Metric, Outcome, Report, ThresholdModel,
    Verdict,
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

impl ReportRow<'_> {
    pub fn value_text(&self) -> String {
        let ends = (self.metric.lower_value, self.metric.upper_value);
        self.scale().with_spread(self.metric.value, ends)
    }

    pub fn bare_value_text(&self) -> String {
        self.scale().with_unit(self.metric.value)
    }

    pub fn spread_text(&self) -> String {
        let ends = (self.metric.lower_value, self.metric.upper_value);
        self.scale().spread(self.metric.value, ends).unwrap_or_default()
    }

    pub fn baseline_text(&self) -> String {
        self.baseline().map(|baseline| self.scale().with_unit(baseline)).unwrap_or_default()
    }

    /// The crossed limit.
    pub fn limit(&self) -> Option<(Limit, f64)> {
        let verdict = self.verdict?;
        let limits = verdict.boundary.unwrap_or_default();
        let side = self.alert.map(|alert| alert.limit).or(verdict.limit)?;
        Some((side, limits.limit(side)?))
    }

    /// The crossed limit: `above 1.050 µs`.
    pub fn limit_text(&self) -> String {
        let Some((side, limit)) = self.limit() else { return String::new() };
        let scale = self.measure.scale(self.metric.value, Some(limit));
        format!("{} {}", side.side(), scale.with_unit(limit))
    }

    /// The change alone: `+4.2 %`.
    pub fn change_text(&self) -> String {
        let change = self.verdict.and_then(|verdict| verdict.change);
        change.map(|change| share::change(change.relative)).unwrap_or_default()
    }

    /// The interval of the change: `+3.9 to +4.5`, in percent. Empty without randomness.
    pub fn interval_text(&self) -> String {
        let change = self.verdict.and_then(|verdict| verdict.change);
        let Some((lower, upper)) = change.and_then(|change| change.lower.zip(change.upper)) else {
            return String::new();
        };
        if lower == upper {
            return String::new();
        }
        share::interval(lower, upper)
    }

    /// The change with its interval: `+4.2 % (+3.9 to +4.5)`.
    pub fn change_and_interval(&self) -> String {
        match (self.change_text(), self.interval_text()) {
            (change, interval) if interval.is_empty() => change,
            (change, interval) => format!("{change} ({interval})"),
        }
    }

    /// The verdict in a word or two: `worse`, or `no change ≥ 1.3 %` if smaller ones would not have been detected.
    pub fn verdict_text(&self) -> String {
        let word = outcome_word(self.outcome());
        if self.benchmark.is_ignored && self.outcome() == Outcome::NotJudged {
            return "ignored".to_owned();
        }
        let seen = self.verdict.and_then(|verdict| verdict.smallest_visible);
        match (self.outcome(), seen, self.alert) {
            (Outcome::NoChange, Some(share), _) if share > 0.0 => {
                format!("{word} ≥ {}", share::size(share))
            }
            (_, _, Some(alert)) if !self.is_active() => format!("{word}, {}", alert.status),
            _ => word.to_owned(),
        }
    }

    fn scale(&self) -> Scale {
        self.measure.scale(self.metric.value, self.baseline())
    }
}

pub fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Worse => "worse",
        Outcome::Better => "better",
        Outcome::Changed => "changed",
        Outcome::MaybeWorse => "worse, spike?",
        Outcome::MaybeBetter => "better, spike?",
        Outcome::MaybeChanged => "changed, spike?",
        Outcome::NoChange => "no change",
        Outcome::TooNoisy => "too noisy",
        Outcome::MovedTogether => "moved together",
        Outcome::TooLittleHistory => "too little history",
        Outcome::NotJudged => "not judged",
    }
}

//! Compares two reports, judging the second as if it followed the first.

use std::collections::HashMap;

use time::Duration;
use uuid::Uuid;
use wingbeat_track::{
    model::{
        BenchmarkName, Limit, Measure, Outcome, Past, ReasonKind, Report, Slug, ThresholdModel,
        Verdict, threshold::Test,
    },
    store::{HistoryLimits, ReportSummary, Store},
    verdict::{self, ReportInput, Series},
};

use crate::ApiError;

/// Maximum reports of history, and minimum if there are that many.
const REPORTS_MAX: usize = 64;
const REPORTS_MIN: usize = 32;

/// Maximum values of history, unless the minimum of reports has more: reading them dominates the time of a comparison,
/// and each further report adds less information about the noise.
const VALUES_MAX: usize = 160_000;

/// Newest reports of history whose samples are read.
const SAMPLED_REPORTS: usize = 2;

#[derive(Debug, Clone)]
pub(crate) struct Comparison {
    pub(crate) before: Report,
    pub(crate) after: Report,
    /// In the order of the second report.
    pub(crate) rows: Vec<CompareRow>,
    /// Metrics that only one of them has.
    pub(crate) only_before: Vec<(BenchmarkName, Slug)>,
    pub(crate) only_after: Vec<(BenchmarkName, Slug)>,
    /// One per measure, in the order of the second report.
    pub(crate) measures: Vec<MeasureSummary>,
    /// Differences of the environment, as text.
    pub(crate) environment: Vec<String>,
    /// Number of reports that the second one is judged by, including the first.
    pub(crate) judged_by: usize,
    /// Whether the second report is the older one, so that the first was judged and the verdicts were inverted.
    pub(crate) is_mirrored: bool,
}

/// A metric of both reports.
#[derive(Debug, Clone)]
pub(crate) struct CompareRow {
    pub(crate) benchmark: BenchmarkName,
    pub(crate) measure: Measure,
    pub(crate) before: f64,
    pub(crate) after: f64,
    /// Relative to the value before; `None` if that was 0.
    pub(crate) change: Option<f64>,
    pub(crate) verdict: Verdict,
}

#[derive(Debug, Clone)]
pub(crate) struct MeasureSummary {
    pub(crate) measure: Measure,
    pub(crate) metrics: usize,
    pub(crate) worse: usize,
    pub(crate) better: usize,
    /// Possible changes: with no better direction, or in line with most others.
    pub(crate) perhaps: usize,
    /// With too few reports to judge.
    pub(crate) unknown: usize,
    /// Geometric mean of the ratios, minus one; `None` if any value is not above 0.
    pub(crate) mean: Option<f64>,
}

impl CompareRow {
    /// Whether to show the row.
    pub(crate) fn is_relevant(&self) -> bool {
        self.verdict.outcome.stands_out()
    }

    fn mirrored(self) -> Self {
        let (before, after) = (self.after, self.before);
        let outcome = match self.verdict.outcome {
            Outcome::Worse => Outcome::Better,
            Outcome::Better => Outcome::Worse,
            Outcome::MaybeWorse => Outcome::MaybeBetter,
            Outcome::MaybeBetter => Outcome::MaybeWorse,
            other => other,
        };
        Self {
            before,
            after,
            change: change(before, after),
            verdict: Verdict { outcome, ..self.verdict },
            ..self
        }
    }
}

/// Relative to the value before; `None` if that was 0.
fn change(before: f64, after: f64) -> Option<f64> {
    Some((after - before) / before.abs()).filter(|change| change.is_finite())
}

/// Compares two reports, using the history up to the first.
pub(crate) fn compare(past: &Past, before: Report, after: Report) -> Comparison {
    let verdicts = judged(past, &before, &after);
    let first = first_values(&before);
    let mut rows = Vec::new();
    let mut only_after = Vec::new();
    for ((iteration, benchmark, measure, metric), mut verdict) in after.metrics().zip(verdicts) {
        if iteration > 0 {
            continue;
        }
        match first.get(&(&benchmark.name, &measure.slug)) {
            Some((other, value)) if other.units == measure.units => {
                agree(&mut verdict, *value, metric.value);
                rows.push(CompareRow {
                    benchmark: benchmark.name.clone(),
                    measure: measure.clone(),
                    before: *value,
                    after: metric.value,
                    change: change(*value, metric.value),
                    verdict,
                });
            }
            _ => only_after.push((benchmark.name.clone(), measure.slug.clone())),
        }
    }
    let second = first_values(&after);
    let missing = first.keys().filter(|key| !second.contains_key(*key));
    let mut only_before: Vec<_> =
        missing.map(|(name, slug)| ((*name).clone(), (*slug).clone())).collect();
    only_before.sort();
    let environment = after.environment.changes_since(&before.environment);
    let measures = measures(&rows);
    drop((first, second));
    let judged_by = past.reports.len();
    Comparison {
        before,
        after,
        rows,
        only_before,
        only_after,
        measures,
        environment,
        judged_by,
        is_mirrored: false,
    }
}

impl Comparison {
    /// Swaps both sides, which inverts the verdicts.
    pub(crate) fn mirrored(self) -> Self {
        let rows: Vec<CompareRow> = self.rows.into_iter().map(CompareRow::mirrored).collect();
        Self {
            environment: self.before.environment.changes_since(&self.after.environment),
            measures: measures(&rows),
            rows,
            before: self.after,
            after: self.before,
            only_before: self.only_after,
            only_after: self.only_before,
            judged_by: self.judged_by,
            is_mirrored: true,
        }
    }
}

/// Reconciles the verdict with the first report. The verdict is about the history ending with the first report. If that
/// report is beyond the same limit, the level changed before it, and only the distance between the two counts: one
/// value differs from another by √2 times what the limit allows from a mean of many.
fn agree(verdict: &mut Verdict, before: f64, after: f64) {
    if !verdict.outcome.stands_out() {
        return;
    }
    let boundary = verdict.boundary.unwrap_or_default();
    let is_above = boundary.baseline.is_none_or(|baseline| after >= baseline);
    // A possible change has not crossed a limit yet.
    let limit = verdict.limit.unwrap_or(if is_above { Limit::Upper } else { Limit::Lower });
    let (bound, sign) = match limit {
        Limit::Upper => (boundary.upper_limit, 1.0),
        Limit::Lower => (boundary.lower_limit, -1.0),
    };
    let is_new_level = bound.is_some_and(|bound| (before - bound) * sign > 0.0);
    let allowed = match (bound, boundary.baseline) {
        (Some(bound), Some(baseline)) if is_new_level && baseline != 0.0 => {
            ((bound - baseline) / baseline * before * std::f64::consts::SQRT_2).abs()
        }
        _ => 0.0,
    };
    if (after - before) * sign <= allowed {
        verdict.outcome = Outcome::NoChange;
        verdict.limit = None;
        verdict.reason = ReasonKind::LevelOfBoth.into();
    }
}

/// Values of the first iteration.
fn first_values(report: &Report) -> HashMap<(&BenchmarkName, &Slug), (&Measure, f64)> {
    let metrics = report.metrics().filter(|(iteration, ..)| *iteration == 0);
    metrics
        .map(|(_, benchmark, measure, metric)| {
            ((&benchmark.name, &measure.slug), (measure, metric.value))
        })
        .collect()
}

/// The second report's history as if it came next: the results of the first report and those before it.
pub(crate) fn history(
    results: &Store,
    before: &ReportSummary,
    after: Uuid,
) -> Result<Past, ApiError> {
    let mut next = Report::new(
        after,
        before.project.clone(),
        before.branch.clone(),
        before.testbed.clone(),
        before.start_time + Duration::NANOSECOND,
    );
    next.epoch = before.epoch;
    let metrics = usize::try_from(before.metrics.max(1)).unwrap_or(usize::MAX);
    let limits = HistoryLimits {
        reports: (VALUES_MAX / metrics).clamp(REPORTS_MIN, REPORTS_MAX),
        sampled_reports: SAMPLED_REPORTS,
    };
    Ok(results.history(&next, limits)?)
}

fn judged(past: &Past, before: &Report, after: &Report) -> Vec<Verdict> {
    let series = after.metrics().map(|(iteration, benchmark, measure, metric)| Series {
        iteration,
        is_ignored: benchmark.is_ignored,
        model: Some(ThresholdModel::new(Test::Auto)),
        history: past.find(&benchmark.name, measure).map_or(&[][..], |past| &past.points),
        ..Series::new(&benchmark.name, measure, metric)
    });
    let input = ReportInput {
        start_time: before.start_time + Duration::NANOSECOND,
        environment: &after.environment,
        hash: after.hash.as_deref(),
        past: &past.reports,
        series: series.collect(),
    };
    verdict::decide(&input, &verdict::Settings::default()).verdicts
}

fn measures(rows: &[CompareRow]) -> Vec<MeasureSummary> {
    let mut all: Vec<(MeasureSummary, f64)> = Vec::new();
    for row in rows {
        let known = all.iter().position(|(it, _)| it.measure.slug == row.measure.slug);
        let place = known.unwrap_or_else(|| {
            let empty = MeasureSummary {
                measure: row.measure.clone(),
                metrics: 0,
                worse: 0,
                better: 0,
                perhaps: 0,
                unknown: 0,
                mean: None,
            };
            all.push((empty, 0.0));
            all.len() - 1
        });
        let (summary, logs) = &mut all[place];
        summary.metrics += 1;
        match row.verdict.outcome {
            Outcome::Worse => summary.worse += 1,
            Outcome::Better => summary.better += 1,
            outcome if outcome.is_unknown() => summary.unknown += 1,
            outcome if outcome.stands_out() => summary.perhaps += 1,
            _ => {}
        }
        // NaN if one is not above 0, and then the sum is NaN too.
        *logs += (row.after / row.before).ln();
    }
    let mean = |(summary, logs): (MeasureSummary, f64)| {
        let mean = (logs / summary.metrics as f64).exp_m1();
        MeasureSummary { mean: mean.is_finite().then_some(mean), ..summary }
    };
    all.into_iter().map(mean).collect()
}

#[cfg(test)]
mod tests {
    use wingbeat_track::model::Boundary;

    use super::*;

    /// Reconciles a verdict of a history around 100, whose limits are 5 away.
    fn check(limit: Limit, before: f64, after: f64, expected: Outcome) {
        let benchmark = BenchmarkName::new("parse").expect("a name");
        let measure = Slug::new("latency").expect("a slug");
        let mut verdict = Verdict::new(0, benchmark, measure);
        verdict.boundary = Some(Boundary::around(100.0, 95.0, 105.0));
        verdict.limit = Some(limit);
        verdict.outcome = Outcome::Worse;
        agree(&mut verdict, before, after);
        assert_eq!(verdict.outcome, expected, "{before} → {after}");
    }

    #[test]
    fn what_is_perhaps_a_change_may_be_older_too() {
        let benchmark = BenchmarkName::new("parse").expect("a name");
        let measure = Slug::new("latency").expect("a slug");
        let check = |before: f64, after: f64, expected: Outcome| {
            let mut verdict = Verdict::new(0, benchmark.clone(), measure.clone());
            verdict.boundary = Some(Boundary::around(100.0, 95.0, 105.0));
            verdict.outcome = Outcome::MaybeWorse;
            agree(&mut verdict, before, after);
            assert_eq!(verdict.outcome, expected, "{before} → {after}");
        };
        check(100.0, 120.0, Outcome::MaybeWorse);
        check(120.0, 120.4, Outcome::NoChange);
    }

    #[test]
    fn a_change_before_the_first_report_is_none_between_both() {
        check(Limit::Upper, 100.0, 120.0, Outcome::Worse);
        check(Limit::Upper, 104.9, 120.0, Outcome::Worse);
        check(Limit::Upper, 120.0, 120.4, Outcome::NoChange);
        check(Limit::Upper, 120.0, 119.0, Outcome::NoChange);
        // On the new level: two values may differ by 8.5.
        check(Limit::Upper, 120.0, 128.0, Outcome::NoChange);
        check(Limit::Upper, 120.0, 129.0, Outcome::Worse);
        check(Limit::Lower, 80.0, 79.0, Outcome::NoChange);
        check(Limit::Lower, 80.0, 70.0, Outcome::Worse);
        check(Limit::Lower, 100.0, 80.0, Outcome::Worse);
    }
}

//! Puts a report and its history before the decision, and writes down what it says.

use std::collections::HashSet;

use uuid::Uuid;

use super::{ComparedWith, Finding, Request, RunError, notices};
use crate::{
    decide::{self, Decision, ReportInput, Series},
    model::{
        Alert, AlertStatus, BenchmarkName, Limit, MeasureKind, Outcome, Past, PastReport, Report,
        Slug, ThresholdModel, Verdict,
        threshold::{Test, best_of},
    },
    store::{HistoryQuery, Store},
};

/// Newest reports of a history that are read at most. Tests that want more of them say so.
const REPORTS_MAX: usize = 512;

/// Newest reports whose single measurements are read.
const SAMPLED_REPORTS_MAX: usize = 8;

/// What the store knows that a report is judged by.
#[derive(Debug, Clone, Default)]
pub(super) struct Background {
    past: Past,
    silenced: HashSet<(BenchmarkName, Slug)>,
}

impl Background {
    /// Reads it. Without a store there is none.
    pub(super) fn read(report: &Report, store: Option<&Store>) -> Result<Self, RunError> {
        let Some(store) = store else { return Ok(Self::default()) };
        let query = HistoryQuery {
            reports_max: REPORTS_MAX,
            sampled_reports_max: SAMPLED_REPORTS_MAX,
            ..HistoryQuery::of(report)
        };
        let mut branches = vec![report.branch.clone()];
        branches.extend(report.start_point.iter().map(|start| start.branch.clone()));
        Ok(Self {
            past: store.history(&query)?.baseline,
            silenced: store.silenced(&report.project, &branches, &report.testbed)?,
        })
    }

    /// Whether the user silenced alerts of the series.
    fn is_silenced(&self, verdict: &Verdict) -> bool {
        self.silenced.contains(&(verdict.benchmark.clone(), verdict.measure.clone()))
    }

    pub(super) fn alert(&self, verdict: &Verdict) -> Alert {
        let status = match self.is_silenced(verdict) {
            true => AlertStatus::Silenced,
            false => AlertStatus::Active,
        };
        Alert { status, ..Alert::of(Uuid::now_v7(), verdict) }
    }

    /// The newest report of history that has a value of one of these benchmarks.
    pub(super) fn nearest(&self, benchmarks: &[BenchmarkName]) -> Option<&PastReport> {
        let of_one = self.past.series.iter().filter(|it| benchmarks.contains(&it.benchmark));
        let newest = of_one.filter_map(|series| series.points.last()).map(|point| point.report);
        self.past.reports.get(newest.max()?)
    }
}

/// A value that was measured again to confirm an alert.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Repeat {
    pub(super) benchmark: BenchmarkName,
    pub(super) measure: Slug,
    pub(super) value: f64,
}

/// Judges a report. `repeats` are what was measured again.
pub(super) fn judge(
    mut report: Report,
    request: &Request,
    background: &Background,
    repeats: &[Repeat],
) -> Finding {
    let input = ReportInput {
        start_time: report.start_time,
        environment: &report.environment,
        past: &background.past.reports,
        series: series(&report, request, background, repeats),
    };
    let Decision { mut verdicts, mut alerts, looks, mut notices } =
        decide::decide(&input, &request.settings);
    notices.extend(notices::of_idle(&request.thresholds, &report));
    let told = input.series.iter().zip(&verdicts);
    let told = told.filter(|(_, verdict)| !background.is_silenced(verdict));
    notices.extend(notices::of_absorbed(&background.past.reports, told));
    alerts.retain(|&index| match (input.series.get(index), verdicts.get_mut(index)) {
        (Some(series), Some(verdict)) => recurs(series, verdict),
        _ => true,
    });
    let alerts = alerts
        .into_iter()
        .filter_map(|index| verdicts.get(index))
        .map(|verdict| background.alert(verdict))
        .collect();
    let thresholds = input.series.into_iter().map(|series| series.model).collect();
    report.verdicts = verdicts;
    report.alerts = alerts;
    Finding {
        report,
        confirmations: Vec::new(),
        thresholds,
        notices,
        looks,
        remarks: Vec::new(),
        compared_with: background
            .past
            .reports
            .last()
            .map(|report| ComparedWith { uuid: report.uuid, hash: report.hash.clone() }),
    }
}

/// Whether a value beyond a limit was beyond it each time that it was measured again. If not, the verdict
/// becomes that nothing changed.
fn recurs(series: &Series<'_>, verdict: &mut Verdict) -> bool {
    // `auto` looks at repeats itself, where there is noise.
    if verdict.test == Some(Test::Auto) && series.measure.kind == MeasureKind::Noisy {
        return true;
    }
    let boundary = verdict.boundary.unwrap_or_default();
    let is_beyond = |value: f64| match verdict.limit {
        Some(Limit::Lower) => boundary.lower_limit.is_none_or(|limit| value < limit),
        Some(Limit::Upper) => boundary.upper_limit.is_none_or(|limit| value > limit),
        None => true,
    };
    let Some(within) = series.repeats.iter().copied().find(|&value| !is_beyond(value)) else {
        return true;
    };
    let within = series.measure.scale(within, Some(series.metric.value)).with_unit(within);
    verdict.outcome = Outcome::NoChange;
    verdict.limit = None;
    verdict.reason =
        format!("{}; measured again it was {within}, within the limits", verdict.reason);
    false
}

/// The metrics of the report with their histories.
fn series<'a>(
    report: &'a Report,
    request: &Request,
    background: &'a Background,
    repeats: &[Repeat],
) -> Vec<Series<'a>> {
    let mut all = Vec::new();
    for (iteration, results) in (0..).zip(&report.iterations) {
        for benchmark in &results.benchmarks {
            for (measure, metric) in &benchmark.metrics {
                let past = background.past.find(&benchmark.name, measure);
                let is_this = |repeat: &&Repeat| {
                    repeat.benchmark == benchmark.name && repeat.measure == measure.slug
                };
                all.push(Series {
                    iteration,
                    benchmark: &benchmark.name,
                    measure,
                    metric,
                    repeats: repeats.iter().filter(is_this).map(|repeat| repeat.value).collect(),
                    is_ignored: benchmark.is_ignored,
                    model: model(request, benchmark.name.as_str(), &measure.slug),
                    history: past.map_or(&[][..], |past| &past.points),
                });
            }
        }
    }
    all
}

/// The threshold for a metric. Where the user named none at all, `auto` judges everything.
fn model(request: &Request, benchmark: &str, measure: &Slug) -> Option<ThresholdModel> {
    match request.thresholds.is_empty() {
        true => Some(ThresholdModel::new(Test::Auto)),
        false => best_of(&request.thresholds, benchmark, measure).copied(),
    }
}

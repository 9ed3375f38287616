//! The metric behind profiles: before and after, and its variation without a change.

use time::OffsetDateTime;
use wingbeat_pprof::Metric;
use wingbeat_stats::{Sample, sample::MAD_TO_STD_DEV};

use crate::{
    model::{
        Alert, BenchmarkName, BenchmarkResults, Measure, MeasureKind, Metric as Measured,
        ProfileKind, Report, Slug, Verdict,
    },
    store::{HistoryLimits, Store, StoreError},
};

/// Relative standard deviation of a metric whose spread is not known.
const SD_UNKNOWN: f64 = 0.01;

/// Standard deviations from one end of a 95 % interval to the other.
const INTERVAL_SDS: f64 = 2.0 * 1.96;

/// Minimum number of values for a useful median absolute deviation.
const MAD_MIN: usize = 5;

/// Maximum number of reports searched for the last one within the limit.
const REPORTS_MAX: usize = 100;

/// The measure of exact profiles.
pub(super) const INSTRUCTIONS: &str = "instructions";

/// The kinds of profiles that can explain a measure, best first.
pub(super) fn kinds(measure: &Measure) -> &'static [ProfileKind] {
    match (measure.slug.as_str(), measure.ladder().own().1) {
        (INSTRUCTIONS, _) => &[ProfileKind::Instructions],
        (_, "ns" | "µs" | "ms" | "s") => {
            &[ProfileKind::Wall, ProfileKind::Cpu, ProfileKind::OffCpu, ProfileKind::Instructions]
        }
        _ => &[],
    }
}

/// The measure of an alert, and its metric before and after. `None` if the baseline is unknown.
pub(super) fn metric_of(report: &Report, alert: &Alert) -> Option<(Measure, Metric)> {
    let is_it = |iteration: u32, benchmark: &BenchmarkName, measure: &Slug| {
        (iteration, benchmark, measure) == (alert.iteration, &alert.benchmark, &alert.measure)
    };
    let (.., measure, metric) = report
        .metrics()
        .find(|(iteration, results, measure, _)| is_it(*iteration, &results.name, &measure.slug))?;
    let before = verdict(report, alert)?.boundary?.baseline?;
    let after = metric.value;
    let share = relative_sd(measure, metric);
    let [before_sd, after_sd] = [before, after].map(|value| (value * share).abs());
    Some((measure.clone(), Metric { before, after, before_sd, after_sd }))
}

/// The standard deviation of a metric, relative to its value.
pub fn relative_sd(measure: &Measure, metric: &Measured) -> f64 {
    match (measure.kind, metric.lower_value, metric.upper_value) {
        (MeasureKind::Exact, ..) => 0.0,
        (_, Some(lower), Some(upper)) if metric.value != 0.0 => {
            ((upper - lower) / INTERVAL_SDS / metric.value).abs().max(SD_UNKNOWN)
        }
        _ => SD_UNKNOWN,
    }
}

/// The metric of a report's first iteration, with its measure.
pub(super) fn first_metric<'r>(
    report: &'r Report,
    benchmark: &BenchmarkName,
    measure: &Slug,
) -> Option<(&'r Measure, &'r Measured)> {
    let mut metrics = report.metrics();
    let is_it = |(iteration, results, known, _): &(u32, &BenchmarkResults, &Measure, &Measured)| {
        (*iteration, &results.name, &known.slug) == (0, benchmark, measure)
    };
    metrics.find(is_it).map(|(.., measure, metric)| (measure, metric))
}

/// The metric before the change of an alert.
pub(super) struct Level {
    /// Start time of the last report within the alert's limit: reports after it show the change to explain, even
    /// without an alert. `None` if unknown.
    pub(super) until: Option<OffsetDateTime>,
    /// The standard deviation between reports, relative to the value; 0 if unknown.
    spread: f64,
}

impl Level {
    /// Widens the metric to at least the spread of its history.
    pub(super) fn widen(&self, metric: Metric) -> Metric {
        let least = |sd: f64, value: f64| sd.max(value.abs() * self.spread);
        Metric {
            before_sd: least(metric.before_sd, metric.before),
            after_sd: least(metric.after_sd, metric.after),
            ..metric
        }
    }
}

pub(super) fn level(
    store: &Store,
    report: &Report,
    alert: &Alert,
    measure: &Measure,
) -> Result<Level, StoreError> {
    let boundary = verdict(report, alert).and_then(|verdict| verdict.boundary);
    let limit = boundary.and_then(|boundary| boundary.limit(alert.limit));
    let limits = HistoryLimits { reports: REPORTS_MAX, sampled_reports: 0 };
    let past = store.history(report, limits)?;
    let found = past.find(&alert.benchmark, measure).zip(limit).and_then(|(series, limit)| {
        let (within, _) = series.split_at_limit(alert.limit, limit);
        let until = past.reports.get(within.last()?.report)?.start_time;
        let values = within.iter().map(|point| point.value);
        Some(Level { until: Some(until), spread: spread(values.collect()).unwrap_or(0.0) })
    });
    Ok(found.unwrap_or(Level { until: None, spread: 0.0 }))
}

/// The relative standard deviation of values, from their median absolute deviation, because a history may have spikes
/// and other levels, unless there are too few values. `None` for fewer than two.
pub fn spread(values: Vec<f64>) -> Option<f64> {
    let sample = Sample::new(values).ok()?;
    let sd = match sample.len() >= MAD_MIN {
        true => MAD_TO_STD_DEV * sample.mad(),
        false => sample.std_dev()?,
    };
    let median = sample.median();
    (median != 0.0).then(|| (sd / median).abs())
}

fn verdict<'r>(report: &'r Report, alert: &Alert) -> Option<&'r Verdict> {
    report.verdicts.iter().find(|verdict| {
        (verdict.iteration, &verdict.benchmark, &verdict.measure)
            == (alert.iteration, &alert.benchmark, &alert.measure)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spikes_are_no_spread() {
        let check = |values: &[f64], expected: Option<f64>| {
            let found = spread(values.to_vec()).map(|it| (it * 1e4).round() / 1e4);
            assert_eq!(found, expected, "{values:?}");
        };
        check(&[100.0, 101.0, 99.0, 102.0, 500.0], Some(0.0147));
        check(&[100.0, 110.0], Some(0.0673));
        check(&[100.0], None);
        check(&[0.0, 0.0], None);
    }
}

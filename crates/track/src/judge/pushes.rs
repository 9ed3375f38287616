//! Earlier reports of a branch with a start point. They are not history, so that a regression does not become usual by
//! repeated pushes. But a push that deviates like the one before is not a spike.

use wingbeat_stats::sample;

use crate::model::{BenchmarkName, Measure, Past, PastPoint, PastReport, Report};

/// Maximum number of pushes read, newest first.
pub(super) const PUSHES_MAX: usize = 3;

/// Newest points of history whose median is the level that pushes are compared with.
const BESIDE: usize = 10;

/// One value per push on the same machine, oldest first: for repeated measurements the value nearest to history, for
/// several iterations the median.
pub(super) fn values(
    pushes: &Past,
    report: &Report,
    (benchmark, measure): (&BenchmarkName, &Measure),
    history: &[PastPoint],
) -> Vec<f64> {
    let Some(series) = pushes.find(benchmark, measure).filter(|_| !history.is_empty()) else {
        return Vec::new();
    };
    let newest = &history[history.len().saturating_sub(BESIDE)..];
    let level = sample::median(newest.iter().map(|point| point.value).collect());
    let nearest = |point: &PastPoint| {
        let all = point.repeats.iter().copied().chain([point.value]);
        let distance = |value: &f64| (value - level).abs();
        all.min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(point.value)
    };
    let is_same_machine = |past: &PastReport| report.environment.is_same_machine(&past.environment);
    let by_push = series.points.chunk_by(|one, next| one.report == next.report);
    by_push
        .filter(|push| pushes.reports.get(push[0].report).is_some_and(is_same_machine))
        .map(|push| sample::median(push.iter().map(nearest).collect()))
        .collect()
}

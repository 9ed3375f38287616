//! Series in one line each: the newest value, how it changed, how it went.

use time::{Duration, OffsetDateTime};
use uuid::Uuid;
use wingbeat_stats::{changes, sample::median};
use wingbeat_track::{
    model::{BenchmarkName, BranchName, Measure, MeasureKind, PastReport, TestbedName},
    store::{Plot, PlotQuery, PlotSeries},
};

use super::choice::Choice;
use crate::{ApiError, registry::Project, storage::Databases};

/// Values that a small picture has at most.
const SPARK_MAX: usize = 60;

/// Newest reports that count at most: a page is no archive.
const REPORTS_MAX: usize = 1000;

/// What changed within this time is news.
const RECENT: Duration = Duration::days(30);

/// A series in one line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SeriesRow {
    pub(crate) branch: BranchName,
    pub(crate) testbed: TestbedName,
    pub(crate) benchmark: BenchmarkName,
    pub(crate) measure: Measure,
    pub(crate) newest: Newest,
    /// Against the median of the values that are 30 days older and more, as a share; `None` without any.
    pub(crate) change_30d: Option<f64>,
    /// Values, oldest first, thinned.
    pub(crate) spark: Vec<f32>,
    pub(crate) last_change_point: Option<LastChange>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Newest {
    pub(crate) value: f64,
    pub(crate) report: Uuid,
    pub(crate) time: OffsetDateTime,
}

/// The last lasting change of the level.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LastChange {
    /// As a share of the level before; `None` if that was 0.
    pub(crate) relative: Option<f64>,
    pub(crate) report: Uuid,
    pub(crate) hash: Option<String>,
    pub(crate) time: OffsetDateTime,
    /// Whether it is among the last 30 days of the series.
    pub(crate) is_recent: bool,
}

/// All series of a choice.
pub(crate) fn rows(
    databases: &Databases,
    project: &Project,
    choice: &Choice,
) -> Result<Vec<SeriesRow>, ApiError> {
    if choice.is_void {
        return Ok(Vec::new());
    }
    let query = PlotQuery {
        branches: choice.branches.clone(),
        testbeds: choice.testbeds.clone(),
        benchmarks: choice.benchmarks.clone(),
        measures: choice.measures.clone(),
        reports_max: REPORTS_MAX,
        ..PlotQuery::of(project.stored.clone())
    };
    let plot = databases.results.plot(&query)?;
    Ok(plot.series.iter().filter_map(|series| row(&plot, series)).collect())
}

fn row(plot: &Plot, series: &PlotSeries) -> Option<SeriesRow> {
    let report = |index: usize| plot.reports.get(series.points.get(index)?.report);
    let last = series.points.last()?;
    let newest = report(series.points.len() - 1)?;
    let values: Vec<f64> = series.points.iter().map(|point| point.value).collect();
    let old = series.points.iter().filter(|point| {
        plot.reports.get(point.report).is_some_and(|report| is_old(report, newest))
    });
    // The window before is as long: older levels are no news.
    let old: Vec<f64> = old.map(|point| point.value).collect();
    let old = old[old.len().saturating_sub(20)..].to_vec();
    let change_30d = (!old.is_empty()).then(|| {
        let before = median(old);
        (last.value - before) / before.abs()
    });
    let mut settings = changes::Settings::default();
    if series.measure.kind == MeasureKind::Exact {
        settings.change_min = 0.0;
    }
    let found = changes::find(&values, &settings);
    let last_change_point = found.last().and_then(|change| {
        let report = report(change.index)?;
        let relative = (change.after - change.before) / change.before.abs();
        Some(LastChange {
            relative: relative.is_finite().then_some(relative),
            report: report.uuid,
            hash: report.hash.clone(),
            time: report.start_time,
            is_recent: !is_old(report, newest),
        })
    });
    Some(SeriesRow {
        branch: series.branch.clone(),
        testbed: series.testbed.clone(),
        benchmark: series.benchmark.clone(),
        measure: series.measure.clone(),
        newest: Newest { value: last.value, report: newest.uuid, time: newest.start_time },
        change_30d: change_30d.filter(|change| change.is_finite()),
        spark: thinned(&values),
        last_change_point,
    })
}

fn is_old(report: &PastReport, newest: &PastReport) -> bool {
    newest.start_time - report.start_time >= RECENT
}

/// The medians of as many neighbours as it takes.
fn thinned(values: &[f64]) -> Vec<f32> {
    let size = values.len().div_ceil(SPARK_MAX).max(1);
    values.chunks(size).map(|values| median(values.to_vec()) as f32).collect()
}

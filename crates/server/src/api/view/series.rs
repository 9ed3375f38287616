//! Series of metrics, one for each permutation that was asked for.

use std::collections::HashMap;

use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_track::{
    model::{AlertStatus, BenchmarkName, Limit, Slug},
    store::{AlertFilter, Plot, PlotPoint, PlotQuery, PlotSeries, ReportFilter, StoredAlert},
};

use super::{
    Judges, View, branch::version, branch_name, damaged, report::perf_alert, testbed_name,
};
use crate::{
    ApiError,
    api::shapes::{JsonBoundary, JsonMetric, JsonPerfMetric, JsonPerfMetrics},
    registry::{MetricUuids, ReportRow, Thing},
};

/// What the client's server answers at most.
const PERMUTATIONS_MAX: usize = 255;

/// The things whose series are asked for, each list in its order.
pub(in crate::api) struct Wanted {
    pub(in crate::api) branches: Vec<Thing>,
    pub(in crate::api) testbeds: Vec<Thing>,
    pub(in crate::api) benchmarks: Vec<Thing>,
    pub(in crate::api) measures: Vec<Thing>,
    pub(in crate::api) since: Option<OffsetDateTime>,
    pub(in crate::api) until: Option<OffsetDateTime>,
}

/// A report of the series, as the registry has it.
struct Source {
    row: ReportRow,
    metrics: MetricUuids,
    end_time: OffsetDateTime,
}

impl View<'_> {
    /// The plot that has all that is wanted.
    pub(in crate::api) fn plot(&self, wanted: &Wanted) -> Result<Plot, ApiError> {
        fn all<T>(
            things: &[Thing],
            of: impl Fn(&Thing) -> Result<T, ApiError>,
        ) -> Result<Vec<T>, ApiError> {
            things.iter().map(of).collect()
        }
        let query = PlotQuery {
            branches: all(&wanted.branches, branch_name)?,
            testbeds: all(&wanted.testbeds, testbed_name)?,
            benchmarks: all(&wanted.benchmarks, |thing| {
                BenchmarkName::new(&thing.stored).map_err(damaged)
            })?,
            measures: all(&wanted.measures, |thing| Slug::new(&thing.stored).map_err(damaged))?,
            since: wanted.since,
            ..PlotQuery::of(self.project.stored.clone())
        };
        // An empty list would be everything.
        let is_empty = query.branches.is_empty()
            || query.testbeds.is_empty()
            || query.benchmarks.is_empty()
            || query.measures.is_empty();
        if is_empty { Ok(Plot::default()) } else { Ok(self.databases.results.plot(&query)?) }
    }

    /// The series, in the order in which they were asked for.
    pub(in crate::api) fn series(&self, wanted: &Wanted) -> Result<Vec<JsonPerfMetrics>, ApiError> {
        let plot = self.plot(wanted)?;
        let sources = self.sources(&plot)?;
        let mut series: HashMap<_, Vec<&PlotSeries>> = HashMap::new();
        for one in &plot.series {
            let key = (
                one.branch.as_str(),
                one.testbed.as_str(),
                one.benchmark.as_str(),
                one.measure.slug.as_str(),
            );
            series.entry(key).or_default().push(one);
        }
        let mut answer = Vec::new();
        for branch in &wanted.branches {
            let numbers = self
                .databases
                .results
                .version_numbers(&self.project.stored, &branch_name(branch)?)?;
            let branch_json = self.branch(branch)?;
            for testbed in &wanted.testbeds {
                let judges = Judges::of(self, branch, testbed)?;
                let alerts = self.alerts_by_metric(branch, testbed, &plot)?;
                for benchmark in &wanted.benchmarks {
                    for measure in &wanted.measures {
                        if answer.len() == PERMUTATIONS_MAX {
                            return Ok(answer);
                        }
                        let key: (&str, &str, &str, &str) =
                            (&branch.stored, &testbed.stored, &benchmark.stored, &measure.stored);
                        let found = series.get(&key).into_iter().flatten();
                        let mut metrics = Vec::new();
                        for point in found.flat_map(|series| &series.points) {
                            let Some(source) = &sources[point.report] else { continue };
                            let report = &plot.reports[point.report];
                            if wanted.until.is_some_and(|until| report.start_time > until) {
                                continue;
                            }
                            let number = numbers.get(&report.uuid).copied().unwrap_or_default();
                            let alert = alerts.get(&(report.uuid, point.position));
                            metrics.push(JsonPerfMetric {
                                report: report.uuid,
                                iteration: point.iteration,
                                start_time: report.start_time,
                                end_time: source.end_time,
                                version: version(number, report.hash.as_deref()),
                                metric: metric(&source.metrics, point),
                                threshold: judges.at(self, measure, source.row.created),
                                boundary: point_boundary(point),
                                alert: alert.map(|alert| perf_alert(&source.row, alert)),
                            });
                        }
                        answer.push(JsonPerfMetrics {
                            branch: branch_json.clone(),
                            testbed: self.testbed(testbed),
                            benchmark: self.benchmark(benchmark),
                            measure: self.measure(measure),
                            metrics,
                        });
                    }
                }
            }
        }
        Ok(answer)
    }

    /// The rows of the reports of a plot. One without a row came by another way, and has no metrics here.
    fn sources(&self, plot: &Plot) -> Result<Vec<Option<Source>>, ApiError> {
        let ends = self.databases.results.end_times(&self.project.stored)?;
        let mut sources = Vec::with_capacity(plot.reports.len());
        for report in &plot.reports {
            let row = self.databases.registry.report(report.uuid)?;
            let end_time = ends.get(&report.uuid).copied().unwrap_or(report.start_time);
            sources.push(row.map(|row| Source { metrics: MetricUuids::of(&row), row, end_time }));
        }
        Ok(sources)
    }

    fn alerts_by_metric(
        &self,
        branch: &Thing,
        testbed: &Thing,
        plot: &Plot,
    ) -> Result<HashMap<(Uuid, u32), StoredAlert>, ApiError> {
        let is_alert = |point: &PlotPoint| -> Option<(Limit, AlertStatus)> { point.alert };
        let points = plot.series.iter().flat_map(|series| &series.points);
        if !points.into_iter().any(|point| is_alert(point).is_some()) {
            return Ok(HashMap::new());
        }
        let reports = ReportFilter {
            project: Some(self.project.stored.clone()),
            branch: Some(branch_name(branch)?),
            testbed: Some(testbed_name(testbed)?),
            ..ReportFilter::default()
        };
        let filter = AlertFilter { reports, ..AlertFilter::default() };
        let found = self.databases.results.alerts(&filter, usize::MAX)?;
        Ok(found.into_iter().map(|alert| ((alert.report, alert.position), alert)).collect())
    }
}

fn metric(uuids: &MetricUuids, point: &PlotPoint) -> JsonMetric {
    JsonMetric {
        uuid: uuids.at(point.position),
        value: point.value,
        lower_value: point.lower,
        upper_value: point.upper,
    }
}

fn point_boundary(point: &PlotPoint) -> Option<JsonBoundary> {
    let PlotPoint { baseline, lower_limit, upper_limit, .. } = *point;
    let is_there = baseline.or(lower_limit).or(upper_limit).is_some();
    is_there.then_some(JsonBoundary { baseline, lower_limit, upper_limit })
}

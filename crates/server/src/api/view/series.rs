//! Series of metrics, one per requested permutation.

use std::collections::HashMap;

use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_track::{
    model::{AlertStatus, BenchmarkName, Limit, Slug},
    store::{AlertFilter, Plot, PlotPoint, PlotQuery, PlotSeries, ReportFilter, StoredAlert},
};

use super::{Judges, View, answer::PerfAnswer, branch_name, damaged, testbed_name};
use crate::{
    ApiError,
    registry::{MetricUuids, ReportRow, Thing},
};

/// Maximum in Bencher's server.
const PERMUTATIONS_MAX: usize = 255;

/// Things whose series are requested, each list in its order.
#[derive(Debug, Clone)]
pub(in crate::api) struct Wanted {
    pub(in crate::api) branches: Vec<Thing>,
    pub(in crate::api) testbeds: Vec<Thing>,
    pub(in crate::api) benchmarks: Vec<Thing>,
    pub(in crate::api) measures: Vec<Thing>,
    pub(in crate::api) since: Option<OffsetDateTime>,
    pub(in crate::api) until: Option<OffsetDateTime>,
}

/// A report of the series, from the registry.
pub(super) struct Source {
    pub(super) row: ReportRow,
    pub(super) metrics: MetricUuids,
    pub(super) end_time: OffsetDateTime,
}

impl View<'_> {
    /// Query of the results; `None` if there is nothing to ask.
    pub(in crate::api) fn plot_query(
        &self,
        wanted: &Wanted,
    ) -> Result<Option<PlotQuery>, ApiError> {
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
            until: wanted.until,
            ..PlotQuery::of(self.project.stored.clone())
        };
        // An empty list would match everything.
        let is_empty = query.branches.is_empty()
            || query.testbeds.is_empty()
            || query.benchmarks.is_empty()
            || query.measures.is_empty();
        Ok((!is_empty).then_some(query))
    }

    /// Series of the plot, in request order.
    pub(in crate::api) fn series(
        &self,
        wanted: &Wanted,
        plot: Plot,
    ) -> Result<PerfAnswer, ApiError> {
        let mut found: HashMap<_, Vec<usize>> = HashMap::new();
        for (at, one) in plot.series.iter().enumerate() {
            found.entry(names_of(one)).or_default().push(at);
        }
        let sources = self.sources(&plot)?;
        let mut answer = PerfAnswer::new(self, wanted, plot, sources);
        for branch in &wanted.branches {
            let numbers = self
                .databases
                .results
                .version_numbers(&self.project.stored, &branch_name(branch)?)?;
            let branch_json = self.branch(branch)?;
            for testbed in &wanted.testbeds {
                let judges = Judges::of(self, branch, testbed)?;
                let alerts = self.alerts_by_metric(branch, testbed, answer.plot())?;
                let place = (branch_json.clone(), self.testbed(testbed));
                answer.begin(place, &branch.stored, &numbers, judges, alerts)?;
                for benchmark in &wanted.benchmarks {
                    for measure in &wanted.measures {
                        if answer.len() == PERMUTATIONS_MAX {
                            return Ok(answer);
                        }
                        let names = [branch, testbed, benchmark, measure];
                        let parts = found.get(&names.map(|thing| thing.stored.clone()));
                        let (benchmark, json) = (self.benchmark(benchmark), self.measure(measure));
                        let parts = parts.cloned().unwrap_or_default();
                        answer.add(benchmark, json, measure.clone(), parts);
                    }
                }
            }
        }
        Ok(answer)
    }

    /// Registry rows of a plot's reports. One without a row came by another route, and has no metrics here.
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

/// Names of a series in the results.
fn names_of(series: &PlotSeries) -> [String; 4] {
    let PlotSeries { branch, testbed, benchmark, measure, .. } = series;
    [branch.to_string(), testbed.to_string(), benchmark.to_string(), measure.slug.to_string()]
}

//! Series of metrics, one per requested permutation.

use std::collections::HashMap;

use serde::{Serialize, Serializer};
use time::{OffsetDateTime, serde::rfc3339};
use uuid::Uuid;
use wingbeat_track::{
    model::{AlertStatus, BenchmarkName, Boundary, BranchName, Limit, Outcome, Slug},
    store::{AlertFilter, Plot, PlotPoint, PlotQuery, PlotSeries, ReportFilter, StoredAlert},
};

use super::{
    Judges, View, branch::version, branch_name, damaged, report::perf_alert, testbed_name,
};
use crate::{
    ApiError,
    api::shapes::{
        JsonBenchmark, JsonBranch, JsonMeasure, JsonMetric, JsonPerfMetric, JsonProject,
        JsonTestbed,
    },
    database::{Entity, ReportRow},
};

/// Maximum in Bencher's server.
const PERMUTATIONS_MAX: usize = 255;

/// Things whose series are requested, each list in its order.
#[derive(Debug, Clone)]
pub(in crate::api) struct Wanted {
    pub(in crate::api) branches: Vec<Entity>,
    pub(in crate::api) testbeds: Vec<Entity>,
    pub(in crate::api) benchmarks: Vec<Entity>,
    pub(in crate::api) measures: Vec<Entity>,
    pub(in crate::api) since: Option<OffsetDateTime>,
    pub(in crate::api) until: Option<OffsetDateTime>,
}

/// A report of the series, from the database.
struct Source {
    row: ReportRow,
    end_time: OffsetDateTime,
}

/// Series in request order. It serializes as `JsonPerf`, without holding a hundred thousand metrics as JSON in memory.
pub(in crate::api) struct PerfAnswer {
    project: JsonProject,
    start_time: Option<OffsetDateTime>,
    end_time: Option<OffsetDateTime>,
    plot: Plot,
    /// For each report of the plot.
    sources: Vec<Option<Source>>,
    pairs: Vec<Pair>,
    series: Vec<Series>,
}

/// A branch on a testbed.
struct Pair {
    name: BranchName,
    branch: JsonBranch,
    testbed: JsonTestbed,
    /// Version numbers of the branch's reports.
    numbers: HashMap<Uuid, u64>,
    judges: Judges,
    alerts: HashMap<(Uuid, u32), StoredAlert>,
}

/// A requested series.
struct Series {
    pair: usize,
    benchmark: JsonBenchmark,
    measure: JsonMeasure,
    measure_entity: Entity,
    /// Indexes of the plot's series: units may have changed.
    parts: Vec<usize>,
}

/// An iterator that serializes as a list.
struct List<F>(F);

impl<I: Iterator<Item: Serialize>, F: Fn() -> I> Serialize for List<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

#[derive(Serialize)]
struct PerfMetrics<'a, M: Serialize> {
    branch: &'a JsonBranch,
    testbed: &'a JsonTestbed,
    benchmark: &'a JsonBenchmark,
    measure: &'a JsonMeasure,
    metrics: M,
}

impl Serialize for PerfAnswer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Perf<'a, R: Serialize> {
            project: &'a JsonProject,
            #[serde(with = "rfc3339::option")]
            start_time: Option<OffsetDateTime>,
            #[serde(with = "rfc3339::option")]
            end_time: Option<OffsetDateTime>,
            results: R,
        }
        let series = |series| {
            let Series { pair, benchmark, measure, .. }: &Series = series;
            let pair = self.pairs.get(*pair)?;
            let (branch, testbed) = (&pair.branch, &pair.testbed);
            let metrics = List(move || self.metrics(pair, series));
            Some(PerfMetrics { branch, testbed, benchmark, measure, metrics })
        };
        let results = List(|| self.series.iter().filter_map(series));
        let Self { project, start_time, end_time, .. } = self;
        Perf { project, start_time: *start_time, end_time: *end_time, results }
            .serialize(serializer)
    }
}

impl PerfAnswer {
    /// Metrics of a series. Those of a report without a row are omitted.
    fn metrics<'a>(
        &'a self,
        pair: &'a Pair,
        series: &'a Series,
    ) -> impl Iterator<Item = JsonPerfMetric> + 'a {
        let parts = series.parts.iter().filter_map(|part| self.plot.series.get(*part));
        parts.flat_map(|part| &part.points).filter_map(move |point| {
            let report = self.plot.reports.get(point.report)?;
            let source = self.sources.get(point.report)?.as_ref()?;
            let Source { row, end_time } = source;
            let PlotPoint { baseline, lower_limit, upper_limit, .. } = *point;
            let has_boundary = baseline.or(lower_limit).or(upper_limit).is_some();
            let number = pair.numbers.get(&report.uuid).copied().unwrap_or_default();
            (report.branch == pair.name).then(|| JsonPerfMetric {
                report: report.uuid,
                iteration: point.iteration,
                start_time: report.start_time,
                end_time: *end_time,
                version: version(number, report.hash.as_deref()),
                metric: JsonMetric {
                    uuid: row.metric(point.position),
                    value: point.value,
                    lower_value: point.lower,
                    upper_value: point.upper,
                },
                threshold: pair.judges.at(
                    &series.measure_entity,
                    row.created,
                    point.outcome.is_some_and(|outcome| outcome != Outcome::NotJudged),
                ),
                boundary: has_boundary.then_some(Boundary { baseline, lower_limit, upper_limit }),
                alert: pair
                    .alerts
                    .get(&(row.uuid, point.position))
                    .map(|alert| perf_alert(row, alert)),
            })
        })
    }
}

impl View<'_> {
    /// Query of the results; `None` if there is nothing to ask.
    pub(in crate::api) fn plot_query(
        &self,
        wanted: &Wanted,
    ) -> Result<Option<PlotQuery>, ApiError> {
        fn all<T>(
            entities: &[Entity],
            of: impl Fn(&Entity) -> Result<T, ApiError>,
        ) -> Result<Vec<T>, ApiError> {
            entities.iter().map(of).collect()
        }
        let query = PlotQuery {
            branches: all(&wanted.branches, branch_name)?,
            testbeds: all(&wanted.testbeds, testbed_name)?,
            benchmarks: all(&wanted.benchmarks, |entity| {
                BenchmarkName::new(&entity.stored).map_err(damaged)
            })?,
            measures: all(&wanted.measures, |entity| Slug::new(&entity.stored).map_err(damaged))?,
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
        let mut answer = PerfAnswer {
            project: self.project(),
            start_time: wanted.since,
            end_time: wanted.until,
            plot,
            sources,
            pairs: Vec::new(),
            series: Vec::new(),
        };
        for branch in &wanted.branches {
            let numbers = self
                .database
                .results
                .version_numbers(&self.project.stored, &branch_name(branch)?)?;
            let branch_json = self.branch(branch)?;
            for testbed in &wanted.testbeds {
                answer.pairs.push(Pair {
                    name: branch_name(branch)?,
                    branch: branch_json.clone(),
                    testbed: self.testbed(testbed),
                    numbers: numbers.clone(),
                    judges: Judges::of(self, branch, testbed)?,
                    alerts: self.alerts_by_metric(branch, testbed, &answer.plot)?,
                });
                for benchmark in &wanted.benchmarks {
                    for measure in &wanted.measures {
                        if answer.series.len() == PERMUTATIONS_MAX {
                            return Ok(answer);
                        }
                        let names = [branch, testbed, benchmark, measure];
                        let parts = found.get(&names.map(|entity| entity.stored.clone()));
                        answer.series.push(Series {
                            pair: answer.pairs.len() - 1,
                            benchmark: self.entity(benchmark),
                            measure: self.measure(measure),
                            measure_entity: measure.clone(),
                            parts: parts.cloned().unwrap_or_default(),
                        });
                    }
                }
            }
        }
        Ok(answer)
    }

    /// Database rows of a plot's reports. One without a row came by another route, and has no metrics here.
    fn sources(&self, plot: &Plot) -> Result<Vec<Option<Source>>, ApiError> {
        let ends = self.database.results.end_times(&self.project.stored)?;
        let mut sources = Vec::with_capacity(plot.reports.len());
        for report in &plot.reports {
            let row = self.database.report(report.uuid)?;
            let end_time = ends.get(&report.uuid).copied().unwrap_or(report.start_time);
            sources.push(row.map(|row| Source { row, end_time }));
        }
        Ok(sources)
    }

    fn alerts_by_metric(
        &self,
        branch: &Entity,
        testbed: &Entity,
        plot: &Plot,
    ) -> Result<HashMap<(Uuid, u32), StoredAlert>, ApiError> {
        let is_alert = |point: &PlotPoint| -> Option<(Limit, AlertStatus)> { point.alert };
        let points = plot.series.iter().flat_map(|series| &series.points);
        if !points.into_iter().any(|point| is_alert(point).is_some()) {
            return Ok(HashMap::new());
        }
        let reports = ReportFilter {
            branch: Some(branch_name(branch)?),
            testbed: Some(testbed_name(testbed)?),
            ..ReportFilter::of(&self.project.stored)
        };
        let filter = AlertFilter { reports, ..AlertFilter::default() };
        let found = self.database.results.alerts(&filter, usize::MAX)?;
        Ok(found.into_iter().map(|alert| ((alert.report, alert.position), alert)).collect())
    }
}

/// Names of a series in the results.
fn names_of(series: &PlotSeries) -> [String; 4] {
    let PlotSeries { branch, testbed, benchmark, measure, .. } = series;
    [branch.to_string(), testbed.to_string(), benchmark.to_string(), measure.slug.to_string()]
}

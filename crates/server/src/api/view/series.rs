//! Series of metrics, one per requested permutation.

use std::{
    collections::HashMap,
    fmt::Display,
    io::{self, Write},
    sync::Arc,
};

use axum::http::StatusCode;
use serde::Serialize;
use time::{OffsetDateTime, serde::rfc3339};
use uuid::Uuid;
use wingbeat_track::{
    model::{AlertStatus, BenchmarkName, Boundary, BranchName, Limit, PastReport, Slug},
    store::{AlertFilter, Plot, PlotPoint, PlotQuery, PlotSeries, ReportFilter, StoredAlert},
};

use super::{
    Judges, View, branch::version, branch_name, damaged, report::perf_alert, testbed_name,
};
use crate::{
    ApiError,
    api::shapes::{
        JsonBenchmark, JsonBranch, JsonMeasure, JsonMetric, JsonPerfAlert, JsonProject,
        JsonTestbed, JsonThresholdModel, JsonVersion,
    },
    database::{Entity, ReportTimes, metric_uuid},
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

/// Series in request order, written as [`JsonPerf`](crate::api::shapes::JsonPerf). There may be a hundred thousand
/// metrics, most of whose text depends on the report alone.
pub(in crate::api) struct PerfAnswer {
    project: JsonProject,
    start_time: Option<OffsetDateTime>,
    end_time: Option<OffsetDateTime>,
    plot: Plot,
    pairs: Vec<Pair>,
    series: Vec<Series>,
}

/// A branch on a testbed.
struct Pair {
    branch: JsonBranch,
    testbed: JsonTestbed,
    reports: Reports,
    alerts: HashMap<(Uuid, u32), StoredAlert>,
    /// The threshold of a measure, by its row, for each report of the plot: if it did not judge a metric, and if it did.
    thresholds: HashMap<i64, Vec<[Arc<str>; 2]>>,
}

/// For each report of a plot; `None` for those of other branches.
type Reports = Vec<Option<Arc<ReportText>>>;

/// What the metrics of a report begin with, before and after their iteration.
struct ReportText {
    received: OffsetDateTime,
    before: String,
    after: String,
}

/// A requested series.
struct Series {
    pair: usize,
    benchmark: JsonBenchmark,
    measure: JsonMeasure,
    /// Row of the measure.
    measure_row: i64,
    /// Indexes of the plot's series: units may have changed.
    parts: Vec<usize>,
}

impl PerfAnswer {
    pub(in crate::api) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Head<'a> {
            project: &'a JsonProject,
            #[serde(with = "rfc3339::option")]
            start_time: Option<OffsetDateTime>,
            #[serde(with = "rfc3339::option")]
            end_time: Option<OffsetDateTime>,
        }
        let Self { project, start_time, end_time, .. } = self;
        let (start_time, end_time) = (*start_time, *end_time);
        to.write_all(&opened(&Head { project, start_time, end_time })?)?;
        to.write_all(br#","results":["#)?;
        for (at, series) in self.series.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            to.write_all(comma.as_bytes())?;
            self.write_series(series, to)?;
        }
        to.write_all(b"]}")
    }

    fn write_series(&self, series: &Series, to: &mut impl Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Head<'a> {
            branch: &'a JsonBranch,
            testbed: &'a JsonTestbed,
            benchmark: &'a JsonBenchmark,
            measure: &'a JsonMeasure,
        }
        let Series { pair, benchmark, measure, .. } = series;
        let pair = &self.pairs[*pair];
        let Pair { branch, testbed, .. } = pair;
        to.write_all(&opened(&Head { branch, testbed, benchmark, measure })?)?;
        to.write_all(br#","metrics":["#)?;
        let thresholds = pair.thresholds.get(&series.measure_row);
        let mut comma = "";
        let parts = series.parts.iter().filter_map(|part| self.plot.series.get(*part));
        for point in parts.flat_map(|part| &part.points) {
            let report = pair.reports.get(point.report).and_then(Option::as_ref);
            let (Some(uuid), Some(report)) = (self.plot.reports.get(point.report), report) else {
                continue;
            };
            let thresholds = thresholds.and_then(|all| all.get(point.report));
            let key = (uuid.uuid, point.position);
            let alert = pair.alerts.get(&key).map(|alert| perf_alert(report.received, alert));
            to.write_all(comma.as_bytes())?;
            comma = ",";
            report.write(to, (uuid.uuid, point), thresholds, alert)?;
        }
        to.write_all(b"]}")
    }
}

impl ReportText {
    fn of(report: &PastReport, times: &ReportTimes, number: u64) -> io::Result<Self> {
        #[derive(Serialize)]
        struct OfReport {
            #[serde(with = "rfc3339")]
            start_time: OffsetDateTime,
            #[serde(with = "rfc3339")]
            end_time: OffsetDateTime,
            version: JsonVersion,
        }
        let version = version(number, report.hash.as_deref());
        let (start_time, end_time) = (report.start_time, times.end);
        let fields = opened(&OfReport { start_time, end_time, version })?;
        let fields = String::from_utf8_lossy(&fields[1..]);
        Ok(Self {
            received: times.received,
            before: format!(r#"{{"report":"{}","iteration":"#, report.uuid),
            after: format!(r#",{fields},"metric":"#),
        })
    }

    /// Writes a `JsonPerfMetric`.
    fn write(
        &self,
        to: &mut impl Write,
        (report, point): (Uuid, &PlotPoint),
        thresholds: Option<&[Arc<str>; 2]>,
        alert: Option<JsonPerfAlert>,
    ) -> io::Result<()> {
        let PlotPoint { value, lower, upper, baseline, lower_limit, upper_limit, .. } = *point;
        let has_boundary = baseline.or(lower_limit).or(upper_limit).is_some();
        let boundary = has_boundary.then_some(Boundary { baseline, lower_limit, upper_limit });
        to.write_all(self.before.as_bytes())?;
        write!(to, "{}", point.iteration)?;
        to.write_all(self.after.as_bytes())?;
        let uuid = metric_uuid(report, point.position);
        let metric = JsonMetric { uuid, value, lower_value: lower, upper_value: upper };
        serde_json::to_writer(&mut *to, &metric)?;
        to.write_all(br#","threshold":"#)?;
        let threshold = thresholds.map_or("null", |both| &both[usize::from(has_boundary)]);
        to.write_all(threshold.as_bytes())?;
        to.write_all(br#","boundary":"#)?;
        serde_json::to_writer(&mut *to, &boundary)?;
        to.write_all(br#","alert":"#)?;
        serde_json::to_writer(&mut *to, &alert)?;
        to.write_all(b"}")
    }
}

/// The text of an object without its end, so that more fields can follow.
fn opened(object: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(object)?;
    text.pop();
    Ok(text)
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
        let mut answer = PerfAnswer {
            project: self.project(),
            start_time: wanted.since,
            end_time: wanted.until,
            plot,
            pairs: Vec::new(),
            series: Vec::new(),
        };
        for branch in &wanted.branches {
            let texts = self.report_texts(&branch_name(branch)?, &answer.plot)?;
            let branch_json = self.branch(branch)?;
            for testbed in &wanted.testbeds {
                let judges = Judges::of(self, branch, testbed)?;
                let thresholds = wanted.measures.iter().map(|measure| {
                    Ok((measure.id, self.threshold_texts(&judges, measure, &texts)?))
                });
                answer.pairs.push(Pair {
                    branch: branch_json.clone(),
                    testbed: self.testbed(testbed),
                    thresholds: thresholds.collect::<Result<_, ApiError>>()?,
                    reports: texts.clone(),
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
                            measure_row: measure.id,
                            parts: parts.cloned().unwrap_or_default(),
                        });
                    }
                }
            }
        }
        Ok(answer)
    }

    fn report_texts(&self, branch: &BranchName, plot: &Plot) -> Result<Reports, ApiError> {
        let database = self.database;
        let numbers = database.results.version_numbers(&self.project.stored, branch)?;
        let times = database.report_times(&self.project.stored, branch)?;
        let text = |report: &PastReport| {
            let number = numbers.get(&report.uuid).copied().unwrap_or_default();
            let text = |times| ReportText::of(report, times, number).map(Arc::new);
            times.get(&report.uuid).map(text).transpose().map_err(unwritable)
        };
        plot.reports.iter().map(text).collect()
    }

    /// For each report of the plot.
    fn threshold_texts(
        &self,
        judges: &Judges,
        measure: &Entity,
        reports: &Reports,
    ) -> Result<Vec<[Arc<str>; 2]>, ApiError> {
        let none: Arc<str> = "null".into();
        let mut last = ([None, None], [Arc::clone(&none), none]);
        let of_report = |report: &Option<Arc<ReportText>>| {
            let at = |is_judged| judges.at(measure, report.as_ref()?.received, is_judged);
            let both = [at(false), at(true)];
            if both != last.0 {
                let text = |threshold: &Option<JsonThresholdModel>| {
                    serde_json::to_string(threshold).map(Arc::from).map_err(unwritable)
                };
                last = (both.clone(), [text(&both[0])?, text(&both[1])?]);
            }
            Ok(last.1.clone())
        };
        reports.iter().map(of_report).collect()
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

fn unwritable(error: impl Display) -> ApiError {
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    ApiError::new(status, format!("the series cannot be written: {error}"))
}

/// Names of a series in the results.
fn names_of(series: &PlotSeries) -> [String; 4] {
    let PlotSeries { branch, testbed, benchmark, measure, .. } = series;
    [branch.to_string(), testbed.to_string(), benchmark.to_string(), measure.slug.to_string()]
}

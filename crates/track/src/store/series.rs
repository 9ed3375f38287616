//! Series for plots: the values of some benchmarks over time, with their boundaries and alerts.

use std::collections::hash_map::Entry;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Serialize, Serializer};
use time::OffsetDateTime;
use wingbeat_sql::{Connection, Many, Row, limit_ns};

use super::{
    SqlResult, Store, StoreError,
    history::{
        Marks, MetricRow, PAST_COLUMNS, REPORTS_AT_ONCE, StoredReport, in_order, metric_key,
        past_report,
    },
    many, prepare,
    rows::{Conditions, Names, is_one_of, name_row, newest, project_row},
};
use crate::model::{
    AlertStatus, BenchmarkName, Boundary, BranchName, Limit, Measure, Outcome, PastReport,
    ProjectName, Slug, TestbedName,
};

/// What to plot. An empty list matches everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlotQuery {
    pub project: ProjectName,
    pub branches: Vec<BranchName>,
    pub testbeds: Vec<TestbedName>,
    pub benchmarks: Vec<BenchmarkName>,
    pub measures: Vec<Slug>,
    pub since: Option<OffsetDateTime>,
    pub until: Option<OffsetDateTime>,
    /// Maximum number of reports, newest first, of all branches and testbeds together.
    pub reports_max: usize,
}

/// Series and their reports.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plot {
    /// The reports, oldest first, without those that confirm another.
    pub reports: Vec<PastReport>,
    /// Sorted by branch, testbed, benchmark, measure.
    pub series: Vec<PlotSeries>,
}

/// The values of one measure of one benchmark on one branch and testbed.
#[derive(Debug, Clone, PartialEq)]
pub struct PlotSeries {
    pub branch: BranchName,
    pub testbed: TestbedName,
    pub benchmark: BenchmarkName,
    pub measure: Measure,
    pub points: Vec<PlotPoint>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct PlotPoint {
    /// Index of its report in [`Plot::reports`].
    pub report: usize,
    pub iteration: u32,
    /// Its index among all metrics of the report.
    #[serde(skip)]
    pub position: u32,
    pub value: f64,
    #[serde(rename = "lower_value")]
    pub lower: Option<f64>,
    #[serde(rename = "upper_value")]
    pub upper: Option<f64>,
    #[serde(skip)]
    pub baseline: Option<f64>,
    pub lower_limit: Option<f64>,
    pub upper_limit: Option<f64>,
    pub outcome: Option<Outcome>,
    /// Its alert, with the current status.
    #[serde(serialize_with = "limit_and_status")]
    pub alert: Option<(Limit, AlertStatus)>,
}

fn limit_and_status<S: Serializer>(
    alert: &Option<(Limit, AlertStatus)>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct LimitAndStatus {
        limit: Limit,
        status: AlertStatus,
    }
    alert.map(|(limit, status)| LimitAndStatus { limit, status }).serialize(serializer)
}

impl PlotQuery {
    pub fn of(project: ProjectName) -> Self {
        Self {
            project,
            branches: Vec::new(),
            testbeds: Vec::new(),
            benchmarks: Vec::new(),
            measures: Vec::new(),
            since: None,
            until: None,
            reports_max: usize::MAX,
        }
    }
}

impl Store {
    /// Reads the series of a query. Names that are not in the store have no series.
    pub fn plot(&self, query: &PlotQuery) -> Result<Plot, StoreError> {
        plot(&self.connection, query).map_err(self.error("reading series"))
    }

    /// Start times of the reports of a query, oldest first, to split it among several connections.
    pub fn plot_times(&self, query: &PlotQuery) -> Result<Vec<OffsetDateTime>, StoreError> {
        plot_times(&self.connection, query).map_err(self.error("reading times of reports"))
    }
}

impl Plot {
    /// Appends a plot of the same series with later reports.
    pub fn append(&mut self, later: Self) {
        let first = self.reports.len();
        self.reports.extend(later.reports);
        for mut series in later.series {
            series.points.iter_mut().for_each(|point| point.report += first);
            match self.series.binary_search_by(|known| key(known).cmp(&key(&series))) {
                Ok(at) => self.series[at].points.append(&mut series.points),
                Err(at) => self.series.insert(at, series),
            }
        }
    }
}

/// A report with the row numbers that its series depend on.
struct Source {
    report: StoredReport,
    branch: i64,
    testbed: i64,
    testbed_name: TestbedName,
    metrics: i64,
}

/// Number of rows fetched at a time from PostgreSQL if each report has few.
const ROWS_AT_ONCE: usize = 2048;

/// Maximum number of reports fetched at a time then: more would span more months, which makes planning slow.
const FEW_ROWS_REPORTS_AT_ONCE: usize = 256;

/// Rows of a report that can be scanned in the time of one index lookup.
const SCANNED_MIN: i64 = 4;

fn plot_times(db: &Connection, query: &PlotQuery) -> SqlResult<Vec<OffsetDateTime>> {
    let view = db.view()?;
    let Some(conditions) = conditions(&view, query)? else { return Ok(Vec::new()) };
    let mut times =
        newest(&view, "r.id", conditions, query.reports_max, |row| row.time("start_time_ns"))?;
    times.reverse();
    Ok(times)
}

/// `None`: the project is not in the store.
fn conditions(db: &Connection, query: &PlotQuery) -> SqlResult<Option<Conditions>> {
    let Some(project) = project_row(db, &query.project)? else { return Ok(None) };
    let rows = |table, names: Vec<&str>| rows_of(db, table, project, &names);
    let branches = rows("branch", query.branches.iter().map(BranchName::as_str).collect())?;
    let testbeds = rows("testbed", query.testbeds.iter().map(TestbedName::as_str).collect())?;
    let mut conditions = Conditions::default();
    conditions.add("r.project =", Some(project));
    conditions.among("r.branch", branches.as_deref());
    conditions.among("r.testbed", testbeds.as_deref());
    conditions.add("r.start_time_ns >=", query.since.map(limit_ns));
    conditions.add("r.start_time_ns <=", query.until.map(limit_ns));
    conditions.require("r.confirms IS NULL");
    Ok(Some(conditions))
}

fn plot(db: &Connection, query: &PlotQuery) -> SqlResult<Plot> {
    // A consistent view of the store despite concurrent writes.
    let view = db.view()?;
    let Some(project) = project_row(&view, &query.project)? else { return Ok(Plot::default()) };
    let Some(conditions) = conditions(&view, query)? else { return Ok(Plot::default()) };
    let names: Vec<_> = query.benchmarks.iter().map(BenchmarkName::as_str).collect();
    let benchmarks = rows_of(&view, "benchmark", project, &names)?;
    let measures = measure_rows(&view, &query.measures)?;
    let columns = format!(
        "r.id AS row, r.branch AS branch_row, r.testbed AS testbed_row, r.metrics, {PAST_COLUMNS}"
    );
    let mut sources = newest(&view, &columns, conditions, query.reports_max, source)?;
    sources.reverse();
    let mut metrics =
        Metrics::prepare(&view, (benchmarks.as_deref(), measures.as_deref()), &sources)?;
    let mut plot = Plot::default();
    let mut index = FxHashMap::default();
    let mut names = Names::prepare(&view)?;
    match &benchmarks {
        Some(rows) => names.expect_benchmarks(rows.iter().copied()),
        None => names.expect_all_benchmarks(project)?,
    }
    for source in sources {
        let at = plot.reports.len();
        metrics.read(&source.report, at, |(benchmark, measure), point| {
            let key = (source.branch, source.testbed, benchmark, measure);
            let series = match index.entry(key) {
                Entry::Occupied(entry) => *entry.get(),
                Entry::Vacant(entry) => {
                    plot.series.push(PlotSeries {
                        branch: source.report.report.branch.clone(),
                        testbed: source.testbed_name.clone(),
                        benchmark: names.benchmark(benchmark)?.clone(),
                        measure: names.measure(measure)?.clone(),
                        points: Vec::new(),
                    });
                    *entry.insert(plot.series.len() - 1)
                }
            };
            plot.series[series].points.push(point);
            Ok(())
        })?;
        plot.reports.push(source.report.report);
    }
    plot.series.sort_by(|a, b| key(a).cmp(&key(b)));
    Ok(plot)
}

fn key(series: &PlotSeries) -> impl Ord + use<'_> {
    let PlotSeries { branch, testbed, benchmark, measure, .. } = series;
    (branch, testbed, benchmark, &measure.slug, &measure.units)
}

fn source(row: &Row<'_>) -> SqlResult<Source> {
    Ok(Source {
        report: past_report(row)?,
        branch: row.get("branch_row")?,
        testbed: row.get("testbed_row")?,
        testbed_name: row.get("testbed")?,
        metrics: row.get("metrics")?,
    })
}

/// Reads the metrics of some benchmarks and measures with their boundaries, report by report.
///
/// Metrics and boundaries are two statements: SQLite would prepare a join of both anew for each report, which takes
/// longer than reading it.
struct Metrics<'c> {
    metrics: Many<'c>,
    boundaries: Many<'c>,
    marks: Marks<'c>,
    /// Benchmarks to keep, if whole reports are read.
    wanted: Option<FxHashSet<i64>>,
}

const METRICS: &str =
    "SELECT benchmark, measure, iteration, position, value, lower, upper FROM metric WHERE";

const BOUNDARIES: &str = "SELECT benchmark, measure, iteration, has_boundary, baseline, lower_limit, upper_limit FROM verdict WHERE";

impl<'c> Metrics<'c> {
    /// Prepares to read these reports, in this order. `None` means all benchmarks, or all measures.
    fn prepare(
        db: &'c Connection,
        (benchmarks, measures): (Option<&[i64]>, Option<&[i64]>),
        sources: &[Source],
    ) -> SqlResult<Self> {
        let stored: i64 = sources.iter().map(|source| source.metrics).sum();
        let searches = |rows: &[i64]| i64::try_from(rows.len() * sources.len()).unwrap_or(i64::MAX);
        let scans = |rows: &[i64]| searches(rows).saturating_mul(SCANNED_MIN) > stored;
        let (scanned, searched) = match benchmarks {
            Some(rows) if scans(rows) => (Some(rows), None),
            rows => (None, rows),
        };
        let wanted = scanned.map(|rows| rows.iter().copied().collect());
        let mut among = String::new();
        for (column, rows) in [("benchmark", searched), ("measure", measures)] {
            among.extend(rows.map(|rows| format!(" AND {}", is_one_of(column, rows))));
        }
        // A plot of one series takes as many round trips as it has batches.
        let at_once = searched.map_or(REPORTS_AT_ONCE, |rows| {
            (ROWS_AT_ONCE / rows.len().max(1)).clamp(REPORTS_AT_ONCE, FEW_ROWS_REPORTS_AT_ONCE)
        });
        let of_report = |select: &str, order: &str| -> SqlResult<Many<'c>> {
            let sql = format!("{select} report = ?1 {among} {order}");
            let mut statement = many(db, &sql, at_once)?;
            statement.expect(sources.iter().map(|source| source.report.row));
            Ok(statement)
        };
        let order = in_order(db);
        let metrics = of_report(METRICS, order)?;
        let boundaries = of_report(BOUNDARIES, &order.replace("iteration", "iteration, position"))?;
        let marks = Marks::prepare(db, sources.iter().map(|source| &source.report))?;
        Ok(Self { metrics, boundaries, marks, wanted })
    }

    /// Passes on each metric of a report, the `at`-th in the plot, by row numbers of benchmark and measure.
    fn read(
        &mut self,
        report: &StoredReport,
        at: usize,
        mut hand_on: impl FnMut((i64, i64), PlotPoint) -> SqlResult<()>,
    ) -> SqlResult<()> {
        let marks = self.marks.of(report)?;
        let boundaries = self.boundaries(report.row)?;
        let mut rows = self.metrics.query(report.row)?;
        while let Some(row) = &rows.next()? {
            if is_left_out(self.wanted.as_ref(), row)? {
                continue;
            }
            let key = metric_key(row, 0)?;
            let mark = marks.get(&key).copied().unwrap_or_default();
            let boundary = boundaries.get(&key).copied().unwrap_or_default();
            let point = PlotPoint {
                report: at,
                iteration: key.2,
                position: row.get(3)?,
                value: row.get(4)?,
                lower: row.get(5)?,
                upper: row.get(6)?,
                baseline: boundary.baseline,
                lower_limit: boundary.lower_limit,
                upper_limit: boundary.upper_limit,
                outcome: mark.outcome,
                alert: mark.alert,
            };
            hand_on((key.0, key.1), point)?;
        }
        Ok(())
    }

    fn boundaries(&mut self, report: i64) -> SqlResult<FxHashMap<MetricRow, Boundary>> {
        let mut boundaries = FxHashMap::default();
        let mut rows = self.boundaries.query(report)?;
        while let Some(row) = &rows.next()? {
            if is_left_out(self.wanted.as_ref(), row)? {
                continue;
            }
            if !row.get::<_, bool>(3)? {
                continue;
            }
            let boundary = Boundary {
                baseline: row.get(4)?,
                lower_limit: row.get(5)?,
                upper_limit: row.get(6)?,
            };
            // The first of several verdicts about a metric counts.
            boundaries.entry(metric_key(row, 0)?).or_insert(boundary);
        }
        Ok(boundaries)
    }
}

/// Whether to skip a row, whose first column is its benchmark.
fn is_left_out(wanted: Option<&FxHashSet<i64>>, row: &Row<'_>) -> SqlResult<bool> {
    let Some(wanted) = wanted else { return Ok(false) };
    Ok(!wanted.contains(&row.get(0)?))
}

/// The row numbers of names. `None`: no names were given, which matches everything.
fn rows_of(
    db: &Connection,
    table: &str,
    project: i64,
    names: &[&str],
) -> SqlResult<Option<Vec<i64>>> {
    if names.is_empty() {
        return Ok(None);
    }
    let rows = names.iter().map(|name| name_row(db, table, project, name));
    rows.filter_map(Result::transpose).collect::<SqlResult<_>>().map(Some)
}

fn measure_rows(db: &Connection, slugs: &[Slug]) -> SqlResult<Option<Vec<i64>>> {
    if slugs.is_empty() {
        return Ok(None);
    }
    let mut found = Vec::new();
    let mut statement = prepare(db, "SELECT id FROM measure WHERE slug = ?1")?;
    for slug in slugs {
        let rows = statement.query_map([slug.as_str()], |row| row.get(0))?;
        found.extend(rows.collect::<SqlResult<Vec<i64>>>()?);
    }
    Ok(Some(found))
}

//! Series to draw: the values of some benchmarks over time, with their boundaries and alerts.

use std::collections::{HashMap, hash_map::Entry};

use rusqlite::{Connection, Row, params_from_iter};
use time::OffsetDateTime;

use super::{
    Store, StoreError,
    columns::{Text, limit_ns},
    log::{Conditions, name_row, project_row},
    past::{PastReport, benchmark_name, marks, measure_of, past_report},
    prepare,
    read::{BOUNDARY, ENVIRONMENT, boundary},
};
use crate::{
    decide::{Boundary, Outcome},
    model::{BenchmarkName, BranchName, Limit, Measure, ProjectName, Slug, Status, TestbedName},
};

/// What is to be drawn. An empty list is everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlotQuery {
    /// Of this project.
    pub project: ProjectName,
    /// Of these branches.
    pub branches: Vec<BranchName>,
    /// Of these testbeds.
    pub testbeds: Vec<TestbedName>,
    /// Of these benchmarks.
    pub benchmarks: Vec<BenchmarkName>,
    /// Of these measures.
    pub measures: Vec<Slug>,
    /// Reports that began at this time or later.
    pub since: Option<OffsetDateTime>,
    /// Reports that began at this time or earlier.
    pub until: Option<OffsetDateTime>,
    /// Newest reports that count at most, of all branches and testbeds together.
    pub reports_max: usize,
}

/// Series, and the reports that they are of.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plot {
    /// The reports, oldest first, without those that confirm another.
    pub reports: Vec<PastReport>,
    /// In the order of branch, testbed, benchmark, measure.
    pub series: Vec<PlotSeries>,
}

/// The values of one measure of one benchmark on one branch and testbed.
#[derive(Debug, Clone, PartialEq)]
pub struct PlotSeries {
    /// Branch.
    pub branch: BranchName,
    /// Testbed.
    pub testbed: TestbedName,
    /// Benchmark.
    pub benchmark: BenchmarkName,
    /// Measure.
    pub measure: Measure,
    /// The values, oldest first.
    pub points: Vec<PlotPoint>,
}

/// One value to draw.
#[derive(Debug, Clone, PartialEq)]
pub struct PlotPoint {
    /// Its report: an index of [`Plot::reports`].
    pub report: usize,
    /// Iteration of that report, from 0.
    pub iteration: u32,
    /// The value.
    pub value: f64,
    /// Lower end of its spread.
    pub lower: Option<f64>,
    /// Upper end of its spread.
    pub upper: Option<f64>,
    /// What it was compared with.
    pub boundary: Option<Boundary>,
    /// The decision, if it stood out.
    pub outcome: Option<Outcome>,
    /// The alert that it raised, with its present status.
    pub alert: Option<(Limit, Status)>,
}

impl PlotQuery {
    /// All of a project.
    #[must_use]
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
    /// The series that a query asks for. Names that are not in the store have no series.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn plot(&self, query: &PlotQuery) -> Result<Plot, StoreError> {
        plot(&self.connection, query).map_err(self.error("reading series"))
    }
}

/// A report with the rows that its series depend on.
struct Source {
    report: PastReport,
    branch: i64,
    testbed: i64,
    testbed_name: TestbedName,
}

fn plot(connection: &Connection, query: &PlotQuery) -> rusqlite::Result<Plot> {
    // One view of the store, also if somebody writes meanwhile.
    let view = connection.unchecked_transaction()?;
    let Some(project) = project_row(&view, &query.project)? else { return Ok(Plot::default()) };
    let rows = |table, names: Vec<&str>| rows_of(&view, table, project, &names);
    let branches = rows("branch", query.branches.iter().map(BranchName::as_str).collect())?;
    let testbeds = rows("testbed", query.testbeds.iter().map(TestbedName::as_str).collect())?;
    let benchmarks =
        rows("benchmark", query.benchmarks.iter().map(BenchmarkName::as_str).collect())?;
    let measures = measure_rows(&view, &query.measures)?;
    let mut conditions = Conditions::default();
    conditions.add("r.project =", Some(project));
    add_one_of(&mut conditions, "r.branch", branches.as_deref());
    add_one_of(&mut conditions, "r.testbed", testbeds.as_deref());
    conditions.add("r.start_time_ns >=", query.since.map(limit_ns));
    conditions.add("r.start_time_ns <=", query.until.map(limit_ns));
    conditions.require("r.confirms IS NULL");
    let sources = sources(&view, conditions, query.reports_max)?;
    let sql = metrics_sql(benchmarks.as_deref(), measures.as_deref());
    let mut plot = Plot::default();
    let mut index = HashMap::new();
    for source in sources {
        let at = plot.reports.len();
        let marks = marks(&view, source.report.row)?;
        let mut statement = prepare(&view, &sql)?;
        let mut rows = statement.query([source.report.row])?;
        while let Some(row) = rows.next()? {
            let (benchmark, measure, iteration) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let mark = marks.get(&(benchmark, measure, iteration)).copied().unwrap_or_default();
            let point = PlotPoint {
                report: at,
                iteration,
                value: row.get(3)?,
                lower: row.get(4)?,
                upper: row.get(5)?,
                boundary: boundary(row)?,
                outcome: mark.outcome,
                alert: mark.alert,
            };
            let key = (source.branch, source.testbed, benchmark, measure);
            let series = match index.entry(key) {
                Entry::Occupied(entry) => *entry.get(),
                Entry::Vacant(entry) => {
                    plot.series.push(PlotSeries {
                        branch: source.report.branch.clone(),
                        testbed: source.testbed_name.clone(),
                        benchmark: benchmark_name(&view, benchmark)?,
                        measure: measure_of(&view, measure)?,
                        points: Vec::new(),
                    });
                    *entry.insert(plot.series.len() - 1)
                }
            };
            plot.series[series].points.push(point);
        }
        plot.reports.push(source.report);
    }
    plot.series.sort_by(|a, b| {
        let key = |series| -> (BranchName, TestbedName, BenchmarkName, Slug, String) {
            let PlotSeries { branch, testbed, benchmark, measure, .. }: &PlotSeries = series;
            let (slug, units) = (measure.slug.clone(), measure.units.clone());
            (branch.clone(), testbed.clone(), benchmark.clone(), slug, units)
        };
        key(a).cmp(&key(b))
    });
    Ok(plot)
}

/// The reports, oldest first.
fn sources(
    connection: &Connection,
    mut conditions: Conditions,
    most: usize,
) -> rusqlite::Result<Vec<Source>> {
    let sql = format!(
        "SELECT r.id AS row, r.uuid, b.name AS branch, r.hash, r.start_time_ns,
                r.branch AS branch_row, r.testbed AS testbed_row, t.name AS testbed, {ENVIRONMENT}
         FROM report r
         JOIN branch b ON b.id = r.branch
         JOIN testbed t ON t.id = r.testbed
         JOIN environment e ON e.id = r.environment
         {}
         ORDER BY r.start_time_ns DESC, r.uuid DESC
         LIMIT ?",
        conditions.sql()
    );
    conditions.values.push(i64::try_from(most).unwrap_or(i64::MAX).into());
    let source = |row: &Row<'_>| {
        Ok(Source {
            report: past_report(row)?,
            branch: row.get("branch_row")?,
            testbed: row.get("testbed_row")?,
            testbed_name: row.get::<_, Text<_>>("testbed")?.0,
        })
    };
    let mut statement = prepare(connection, &sql)?;
    let sources = statement.query_map(params_from_iter(&conditions.values), source)?;
    let mut sources: Vec<Source> = sources.collect::<rusqlite::Result<_>>()?;
    sources.reverse();
    Ok(sources)
}

/// Reads the metrics of one report, of these benchmarks and measures, with their boundaries.
fn metrics_sql(benchmarks: Option<&[i64]>, measures: Option<&[i64]>) -> String {
    let among = |column, rows: Option<&[i64]>| {
        rows.map_or_else(String::new, |rows| format!("AND {column} IN ({})", list(rows)))
    };
    format!(
        "SELECT m.benchmark, m.measure, m.iteration, m.value, m.lower, m.upper, {BOUNDARY}
         FROM metric m
         LEFT JOIN verdict v ON v.report = m.report AND v.benchmark = m.benchmark
                            AND v.measure = m.measure AND v.iteration = m.iteration
         WHERE m.report = ?1 {} {}
         GROUP BY m.benchmark, m.measure, m.iteration",
        among("m.benchmark", benchmarks),
        among("m.measure", measures),
    )
}

fn add_one_of(conditions: &mut Conditions, column: &str, rows: Option<&[i64]>) {
    if let Some(rows) = rows {
        conditions.require(&format!("{column} IN ({})", list(rows)));
    }
}

fn list(rows: &[i64]) -> String {
    rows.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

/// The rows of names. `None`: there was no name, and everything is meant.
fn rows_of(
    connection: &Connection,
    table: &str,
    project: i64,
    names: &[&str],
) -> rusqlite::Result<Option<Vec<i64>>> {
    if names.is_empty() {
        return Ok(None);
    }
    let rows = names.iter().map(|name| name_row(connection, table, project, name));
    rows.filter_map(Result::transpose).collect::<rusqlite::Result<_>>().map(Some)
}

fn measure_rows(connection: &Connection, slugs: &[Slug]) -> rusqlite::Result<Option<Vec<i64>>> {
    if slugs.is_empty() {
        return Ok(None);
    }
    let mut found = Vec::new();
    for slug in slugs {
        let mut statement = prepare(connection, "SELECT id FROM measure WHERE slug = ?1")?;
        for row in statement.query_map([slug.as_str()], |row| row.get(0))? {
            found.push(row?);
        }
    }
    Ok(Some(found))
}

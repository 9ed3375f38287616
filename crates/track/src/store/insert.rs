//! Stores a report in one transaction, completely or not at all. It is validated first, so that it is read back as it
//! was stored.

use std::collections::{HashMap, HashSet};

use wingbeat_sql::{Connection, Error, OptionalExtension as _, Time, params};

use super::{
    InvalidDocument, SqlResult, Store, StoreError,
    columns::{Json, Numbers, time_ns},
    document::digest,
    partitions::{self, Free},
    prepare,
    tables::{
        ALERT, BENCHMARK, BRANCH, ENVIRONMENT, FAILURE, MEASURE, METRIC, PROJECT, REPORT, SAMPLES,
        TESTBED, Table, VERDICT,
    },
};
use crate::model::{Alert, BenchmarkName, Environment, Measure, Report, Slug, Verdict};

/// Result of storing a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Insertion {
    Stored,
    /// A report of that UUID already exists. Nothing was changed.
    AlreadyThere,
}

/// Row numbers of the benchmark and the measure of each metric of a report.
type MetricRows<'r> = HashMap<MetricKey<'r>, (i64, i64)>;

/// Writes a report: its row, its contents, and the names it uses.
struct Writer<'c> {
    db: &'c Connection,
    project: i64,
    row: i64,
    samples_row: i64,
    benchmarks: HashMap<String, i64>,
    /// A report has few.
    measures: Vec<(Measure, i64)>,
}

impl Store {
    /// Stores a report durably. An existing UUID changes nothing.
    pub fn insert(&self, report: &Report) -> Result<Insertion, StoreError> {
        validate(report)?;
        self.doing("storing a report", || {
            let transaction = self.connection.writing()?;
            let insertion = insert(&transaction, report)?;
            transaction.commit()?;
            Ok(insertion)
        })
    }
}

/// Stores a valid report in a transaction. [`validate`] has checked that its verdicts and alerts refer to its metrics.
pub(super) fn insert(db: &Connection, report: &Report) -> SqlResult<Insertion> {
    if prepare(db, "SELECT 1 FROM report WHERE uuid = ?1")?.exists([report.uuid])? {
        return Ok(Insertion::AlreadyThere);
    }
    let project = PROJECT.find_or_insert(db, params![report.project.as_str()])?;
    let writer = Writer::new(db, project, report)?;
    writer.report(report)?;
    let metrics = writer.metrics(report)?;
    writer.failures(report)?;
    writer.verdicts(report, &metrics)?;
    writer.alerts(report, &metrics)?;
    Ok(Insertion::Stored)
}

impl<'c> Writer<'c> {
    fn new(db: &'c Connection, project: i64, report: &Report) -> SqlResult<Self> {
        let Free { report: row, samples: samples_row } = match db.is_postgres() {
            true => partitions::free(db, report)?,
            false => Free { report: REPORT.next(db)?, samples: SAMPLES.next(db)? },
        };
        let benchmarks = benchmarks(db, project, report)?;
        let measures = measures(db, report)?;
        Ok(Self { db, project, row, samples_row, benchmarks, measures })
    }
}

impl Writer<'_> {
    fn report(&self, report: &Report) -> SqlResult<()> {
        let Self { db, project, row, .. } = self;
        let branch = self.named(BRANCH, report.branch.as_str())?;
        let testbed = self.named(TESTBED, report.testbed.as_str())?;
        let environment = environment(db, &report.environment)?;
        let start = report.start_point.as_ref();
        let start_branch =
            start.map(|start| self.named(BRANCH, start.branch.as_str())).transpose()?;
        let digest = digest(report)?;
        let values = params![
            row,
            report.uuid,
            project,
            branch,
            testbed,
            report.hash,
            report.epoch,
            start_branch,
            start.and_then(|start| start.hash.as_ref()),
            start.and_then(|start| start.until).map(Time),
            start.map(|start| start.max_versions),
            Time(report.start_time),
            Time(report.end_time),
            report.adapter,
            environment,
            report.environment.load,
            report.environment.steal,
            report.environment.git_hash,
            report.environment.is_dirty,
            number(report.iterations.len()),
            report.confirms,
            number(report.metrics().count()),
            number(report.failures().count()),
            number(report.alerts.len()),
            number(report.verdicts.iter().filter(|it| it.outcome.stands_out()).count()),
            digest.as_slice(),
        ];
        REPORT.insert(db, values)
    }

    fn metrics<'r>(&self, report: &'r Report) -> SqlResult<MetricRows<'r>> {
        let mut rows = HashMap::new();
        let mut metrics = METRIC.inserter(self.db)?;
        let mut samples = SAMPLES.inserter(self.db)?;
        let mut samples_row = self.samples_row;
        let mut position = 0;
        for (iteration, results) in (0..).zip(&report.iterations) {
            for benchmark in &results.benchmarks {
                let name = &benchmark.name;
                let benchmark_row = self.benchmarks[name.as_str()];
                for (measure, metric) in &benchmark.metrics {
                    let known = self.measures.iter().find(|(known, _)| known == measure);
                    let measure_row = known.ok_or(Error::NoRow)?.1;
                    let mut own_samples = None;
                    if !metric.samples.is_empty() {
                        let numbers = Numbers(metric.samples.clone());
                        samples.insert(params![samples_row, numbers])?;
                        own_samples = Some(samples_row);
                        samples_row += 1;
                    }
                    metrics.insert(params![
                        self.row,
                        benchmark_row,
                        measure_row,
                        iteration,
                        position,
                        benchmark.is_ignored,
                        metric.value,
                        metric.lower_value,
                        metric.upper_value,
                        own_samples,
                    ])?;
                    rows.insert((iteration, name, &measure.slug), (benchmark_row, measure_row));
                    position += 1;
                }
            }
        }
        samples.finish()?;
        metrics.finish()?;
        Ok(rows)
    }

    fn failures(&self, report: &Report) -> SqlResult<()> {
        let mut failures = FAILURE.inserter(self.db)?;
        for (position, (iteration, failure)) in (0_i64..).zip(report.failures()) {
            let benchmark = self.benchmarks[failure.name.as_str()];
            failures.insert(params![self.row, position, iteration, benchmark, failure.reason])?;
        }
        failures.finish()
    }

    fn verdicts(&self, report: &Report, rows: &MetricRows<'_>) -> SqlResult<()> {
        let mut verdicts = VERDICT.inserter(self.db)?;
        for (position, verdict) in (0_i64..).zip(&report.verdicts) {
            let (benchmark, measure) =
                rows[&(verdict.iteration, &verdict.benchmark, &verdict.measure)];
            let boundary = verdict.boundary.unwrap_or_default();
            let change = verdict.change;
            verdicts.insert(params![
                self.row,
                benchmark,
                measure,
                verdict.iteration,
                position,
                verdict.outcome,
                verdict.test,
                verdict.boundary.is_some(),
                boundary.baseline,
                boundary.lower_limit,
                boundary.upper_limit,
                verdict.limit,
                change.map(|change| change.relative),
                change.and_then(|change| change.lower),
                change.and_then(|change| change.upper),
                verdict.p,
                verdict.smallest_visible,
                number(verdict.points),
                Json(&verdict.reason),
            ])?;
        }
        verdicts.finish()
    }

    fn alerts(&self, report: &Report, rows: &MetricRows<'_>) -> SqlResult<()> {
        let mut alerts = ALERT.inserter(self.db)?;
        for (position, alert) in (0_i64..).zip(&report.alerts) {
            let Alert { uuid, iteration, limit, status, reason, .. } = alert;
            let (benchmark, measure) = rows[&(*iteration, &alert.benchmark, &alert.measure)];
            let (uuid, limit, status) = (uuid, limit, status);
            alerts.insert(params![
                uuid, self.row, benchmark, measure, iteration, position, limit, status, reason
            ])?;
        }
        alerts.finish()
    }

    /// The row of a name in a table of names, inserted if missing.
    fn named(&self, table: Table, name: &str) -> SqlResult<i64> {
        table.find_or_insert(self.db, params![self.project, name])
    }
}

/// The rows of all benchmarks of a report, inserted if missing.
fn benchmarks(db: &Connection, project: i64, report: &Report) -> SqlResult<HashMap<String, i64>> {
    let of_metrics = report.iterations.iter().flat_map(|results| &results.benchmarks);
    let of_failures = report.failures().map(|(_, failure)| &failure.name);
    let names = of_metrics.map(|benchmark| &benchmark.name).chain(of_failures);
    let names: Vec<&str> = names.map(BenchmarkName::as_str).collect();
    let mut known = match db.is_postgres() {
        true => known_at_once(db, project, &names)?,
        false => known_one_by_one(db, project, &names)?,
    };
    let mut next = BENCHMARK.next(db)?;
    let mut inserter = BENCHMARK.inserter(db)?;
    for name in names {
        if !known.contains_key(name) {
            inserter.insert(params![next, project, name])?;
            known.insert(name.to_owned(), next);
            next += 1;
        }
    }
    inserter.finish()?;
    Ok(known)
}

/// Looks up names in one round trip to PostgreSQL. The list is joined as a single table of names: as a condition its
/// text would be parsed again for each row, because the planner does not know yet that there are many rows.
fn known_at_once(db: &Connection, project: i64, names: &[&str]) -> SqlResult<HashMap<String, i64>> {
    // Names contain no control characters.
    let sql = "SELECT DISTINCT name, id FROM benchmark
               JOIN unnest(string_to_array(?2, chr(10))) AS wanted (wanted) ON name = wanted
               WHERE project = ?1";
    prepare(db, sql)?
        .query_map(params![project, names.join("\n")], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

fn known_one_by_one(
    db: &Connection,
    project: i64,
    names: &[&str],
) -> SqlResult<HashMap<String, i64>> {
    let mut known = HashMap::new();
    let mut find = prepare(db, "SELECT id FROM benchmark WHERE project = ?1 AND name = ?2")?;
    for name in names {
        if let Some(row) = find.query_row(params![project, name], |row| row.get(0)).optional()? {
            known.insert((*name).to_owned(), row);
        }
    }
    Ok(known)
}

/// The rows of all measures of a report, inserted if missing.
fn measures(db: &Connection, report: &Report) -> SqlResult<Vec<(Measure, i64)>> {
    let mut known: Vec<(Measure, i64)> = Vec::new();
    for (_, _, measure, _) in report.metrics() {
        if !known.iter().any(|(known, _)| known == measure) {
            known.push((measure.clone(), self::measure(db, measure)?));
        }
    }
    Ok(known)
}

fn measure(db: &Connection, measure: &Measure) -> SqlResult<i64> {
    let Measure { slug, name, units, direction, kind } = measure;
    let values = params![slug.as_str(), name, units, direction, kind];
    MEASURE.find_or_insert(db, values)
}

fn environment(db: &Connection, environment: &Environment) -> SqlResult<i64> {
    let Environment { kernel, cpu_model, governor, cores, compiler, wingbeat, .. } = environment;
    let values = params![kernel, cpu_model, governor, cores, compiler, wingbeat];
    ENVIRONMENT.find_or_insert(db, values)
}

/// A count as a column. Counts are checked to fit, or are bounded by memory.
fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Identifies a metric of a report: iteration, benchmark, measure.
type MetricKey<'r> = (u32, &'r BenchmarkName, &'r Slug);

pub(super) fn validate(report: &Report) -> Result<(), InvalidDocument> {
    check(report).map_err(|reason| InvalidDocument { uuid: report.uuid, reason })
}

fn check(report: &Report) -> Result<(), String> {
    let until = report.start_point.as_ref().and_then(|start| start.until);
    for time in [Some(report.start_time), Some(report.end_time), until].into_iter().flatten() {
        if time_ns(time).is_none() {
            return Err(format!("its time {time} is not between the years 1677 and 2262"));
        }
    }
    let environment = &report.environment;
    if [environment.load, environment.steal].into_iter().flatten().any(|value| !value.is_finite()) {
        return Err("the load or the steal of its environment is not a finite number".to_owned());
    }
    let metrics = metrics(report)?;
    let is_there = |(iteration, benchmark, measure): MetricKey<'_>, what: &str| {
        let key = (iteration, benchmark, measure);
        let about = || format!("the {measure} of {benchmark} in iteration {iteration}");
        let error = || format!("it has {what} about {}, where it has no such metric", about());
        metrics.contains(&key).then_some(()).ok_or_else(error)
    };
    for verdict in &report.verdicts {
        is_there((verdict.iteration, &verdict.benchmark, &verdict.measure), "a verdict")?;
        check_verdict(verdict)?;
    }
    let mut uuids = HashSet::new();
    for alert in &report.alerts {
        is_there((alert.iteration, &alert.benchmark, &alert.measure), "an alert")?;
        if !uuids.insert(alert.uuid) {
            return Err(format!("it has the alert {} twice", alert.uuid));
        }
    }
    Ok(())
}

fn metrics(report: &Report) -> Result<HashSet<MetricKey<'_>>, String> {
    let mut metrics = HashSet::new();
    for (iteration, results) in (0..).zip(&report.iterations) {
        let mut names = HashSet::new();
        for benchmark in &results.benchmarks {
            let name = &benchmark.name;
            if !names.insert(name) {
                return Err(format!("it has the benchmark {name} twice in iteration {iteration}"));
            }
            if benchmark.metrics.is_empty() {
                return Err(format!("its benchmark {name} has no metric in iteration {iteration}"));
            }
            for (measure, metric) in &benchmark.metrics {
                let slug = &measure.slug;
                if !metric.is_finite() {
                    return Err(format!("the {slug} of {name} is not a finite number"));
                }
                if !metrics.insert((iteration, name, slug)) {
                    return Err(format!(
                        "it has the {slug} of {name} twice in iteration {iteration}"
                    ));
                }
            }
        }
    }
    Ok(metrics)
}

fn check_verdict(verdict: &Verdict) -> Result<(), String> {
    let boundary = verdict.boundary.unwrap_or_default();
    let change = verdict.change;
    let numbers = [
        ("baseline", boundary.baseline),
        ("lower limit", boundary.lower_limit),
        ("upper limit", boundary.upper_limit),
        ("change", change.map(|change| change.relative)),
        ("lower end of the change", change.and_then(|change| change.lower)),
        ("upper end of the change", change.and_then(|change| change.upper)),
        ("p-value", verdict.p),
        ("smallest visible change", verdict.smallest_visible),
    ];
    let (benchmark, measure) = (&verdict.benchmark, &verdict.measure);
    // JSON cannot represent the others.
    let is_finite = |number: Option<f64>| number.is_none_or(f64::is_finite);
    if let Some((name, _)) = numbers.iter().find(|(_, number)| !is_finite(*number)) {
        return Err(format!(
            "the {name} in its verdict about the {measure} of {benchmark} is not a finite number"
        ));
    }
    if u32::try_from(verdict.points).is_err() {
        return Err(format!("its verdict about {benchmark} counts {} points", verdict.points));
    }
    Ok(())
}

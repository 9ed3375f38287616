//! Storing a report: one transaction, whole or not at all.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::{
    Store, StoreError,
    columns::{Id, Numbers, Time, Word},
    prepare,
    validate::{MetricKey, validate},
};
use crate::{
    decide::Verdict,
    model::{Alert, Environment, Measure, Metric, Report},
};

/// What became of a report that was to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Insertion {
    /// It is stored now.
    Stored,
    /// A report of that UUID was there. Nothing was changed.
    AlreadyThere,
}

/// Rows of a metric's benchmark and measure.
type Rows = (i64, i64);

impl Store {
    /// Stores a report. When this returns, the report is on the disk. A report whose UUID is known changes
    /// nothing.
    ///
    /// # Errors
    ///
    /// When the report contradicts itself (a verdict about a metric that it does not have, a number that
    /// is not finite), or the store cannot be written. Nothing of the report is stored then.
    pub fn insert(&mut self, report: &Report) -> Result<Insertion, StoreError> {
        validate(report)?;
        self.insert_valid(report).map_err(self.error("storing a report"))
    }

    fn insert_valid(&self, report: &Report) -> rusqlite::Result<Insertion> {
        // Immediate: a transaction that reads first and writes later cannot wait for another's end.
        let behaviour = TransactionBehavior::Immediate;
        let transaction = Transaction::new_unchecked(&self.connection, behaviour)?;
        let insertion = insert(&transaction, report)?;
        transaction.commit()?;
        Ok(insertion)
    }
}

/// Stores a valid report within a transaction. What it says about metrics is about metrics that it has:
/// [`validate`] saw to it.
pub(super) fn insert(connection: &Connection, report: &Report) -> rusqlite::Result<Insertion> {
    if is_known(connection, report)? {
        return Ok(Insertion::AlreadyThere);
    }
    let project = project(connection, report.project.as_str())?;
    let row = insert_report(connection, project, report)?;
    let metrics = insert_metrics(connection, project, row, report)?;
    insert_failures(connection, project, row, report)?;
    for (position, verdict) in (0..).zip(&report.verdicts) {
        let key = (verdict.iteration, &verdict.benchmark, &verdict.measure);
        insert_verdict(connection, row, metrics[&key], position, verdict)?;
    }
    for (position, alert) in (0..).zip(&report.alerts) {
        let key = (alert.iteration, &alert.benchmark, &alert.measure);
        insert_alert(connection, row, metrics[&key], position, alert)?;
    }
    Ok(Insertion::Stored)
}

fn is_known(connection: &Connection, report: &Report) -> rusqlite::Result<bool> {
    prepare(connection, "SELECT 1 FROM report WHERE uuid = ?1")?.exists([Id(report.uuid)])
}

fn insert_report(connection: &Connection, project: i64, report: &Report) -> rusqlite::Result<i64> {
    let branch = named(connection, "branch", project, report.branch.as_str())?;
    let testbed = named(connection, "testbed", project, report.testbed.as_str())?;
    let environment = environment(connection, &report.environment)?;
    let start = report.start_point.as_ref();
    let start_branch = start
        .map(|start| named(connection, "branch", project, start.branch.as_str()))
        .transpose()?;
    let sql = "INSERT INTO report (
            uuid, project, branch, testbed, hash, epoch,
            start_branch, start_hash, start_until_ns, start_versions_max,
            start_time_ns, end_time_ns, adapter, environment, load, steal, git_hash, is_dirty,
            iterations, confirms
        ) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)";
    prepare(connection, sql)?.insert(params![
        Id(report.uuid),
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
        Word(report.adapter),
        environment,
        report.environment.load,
        report.environment.steal,
        report.environment.git_hash,
        report.environment.is_dirty,
        number(report.iterations.len()),
        report.confirms.map(Id),
    ])
}

fn insert_metrics<'r>(
    connection: &Connection,
    project: i64,
    report: i64,
    content: &'r Report,
) -> rusqlite::Result<HashMap<MetricKey<'r>, Rows>> {
    let mut rows = HashMap::new();
    let mut measures: Vec<(&Measure, i64)> = Vec::new();
    let mut position = 0;
    for (iteration, results) in (0..).zip(&content.iterations) {
        for benchmark in &results.benchmarks {
            let name = &benchmark.name;
            let benchmark_row = named(connection, "benchmark", project, name.as_str())?;
            for (measure, metric) in &benchmark.metrics {
                // A report has few measures.
                let known = measures.iter().find(|known| known.0 == measure).map(|known| known.1);
                let measure_row = match known {
                    Some(row) => row,
                    None => self::measure(connection, measure)?,
                };
                if known.is_none() {
                    measures.push((measure, measure_row));
                }
                let sql = "INSERT INTO metric (
                        report, benchmark, measure, iteration, position, is_ignored,
                        value, lower, upper, samples
                    ) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
                prepare(connection, sql)?.execute(params![
                    report,
                    benchmark_row,
                    measure_row,
                    iteration,
                    position,
                    benchmark.is_ignored,
                    metric.value,
                    metric.lower_value,
                    metric.upper_value,
                    samples(connection, metric)?,
                ])?;
                rows.insert((iteration, name, &measure.slug), (benchmark_row, measure_row));
                position += 1;
            }
        }
    }
    Ok(rows)
}

fn samples(connection: &Connection, metric: &Metric) -> rusqlite::Result<Option<i64>> {
    if metric.samples.is_empty() {
        return Ok(None);
    }
    let sql = "INSERT INTO samples (bytes) VALUES (?1)";
    prepare(connection, sql)?.insert([Numbers(metric.samples.clone())]).map(Some)
}

fn insert_failures(
    connection: &Connection,
    project: i64,
    report: i64,
    content: &Report,
) -> rusqlite::Result<()> {
    let iterations = (0..).zip(&content.iterations);
    let failures = iterations.flat_map(|(iteration, results)| {
        results.failures.iter().map(move |failure| (iteration, failure))
    });
    for (position, (iteration, failure)) in (0_i64..).zip(failures) {
        let benchmark = named(connection, "benchmark", project, failure.name.as_str())?;
        let sql = "INSERT INTO failure (report, position, iteration, benchmark, reason)
                   VALUES (?1, ?2, ?3, ?4, ?5)";
        let row: (i64, i64, u32, i64, &str) =
            (report, position, iteration, benchmark, &failure.reason);
        prepare(connection, sql)?.execute(row)?;
    }
    Ok(())
}

fn insert_verdict(
    connection: &Connection,
    report: i64,
    (benchmark, measure): Rows,
    position: i64,
    verdict: &Verdict,
) -> rusqlite::Result<()> {
    let boundary = verdict.boundary.unwrap_or_default();
    let change = verdict.change;
    let sql = "INSERT INTO verdict (
            report, benchmark, measure, iteration, position, outcome, test,
            has_boundary, baseline, lower_limit, upper_limit, crossed,
            change, change_lower, change_upper, p, smallest_visible, points, reason
        ) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)";
    prepare(connection, sql)?.execute(params![
        report,
        benchmark,
        measure,
        verdict.iteration,
        position,
        Word(verdict.outcome),
        verdict.test.map(Word),
        verdict.boundary.is_some(),
        boundary.baseline,
        boundary.lower_limit,
        boundary.upper_limit,
        verdict.limit.map(Word),
        change.map(|change| change.relative),
        change.and_then(|change| change.lower),
        change.and_then(|change| change.upper),
        verdict.p,
        verdict.smallest_visible,
        number(verdict.points),
        verdict.reason,
    ])?;
    Ok(())
}

fn insert_alert(
    connection: &Connection,
    report: i64,
    (benchmark, measure): Rows,
    position: i64,
    alert: &Alert,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO alert (
            uuid, report, benchmark, measure, iteration, position, crossed, status, reason
        ) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    prepare(connection, sql)?.execute(params![
        Id(alert.uuid),
        report,
        benchmark,
        measure,
        alert.iteration,
        position,
        Word(alert.limit),
        Word(alert.status),
        alert.reason,
    ])?;
    Ok(())
}

fn project(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    let known = prepare(connection, "SELECT id FROM project WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()?;
    match known {
        Some(row) => Ok(row),
        None => prepare(connection, "INSERT INTO project (name) VALUES (?1)")?.insert([name]),
    }
}

/// The row of a name in a table of names, made if need be.
fn named(connection: &Connection, table: &str, project: i64, name: &str) -> rusqlite::Result<i64> {
    let select = format!("SELECT id FROM {table} WHERE project = ?1 AND name = ?2");
    let known =
        prepare(connection, &select)?.query_row((project, name), |row| row.get(0)).optional()?;
    match known {
        Some(row) => Ok(row),
        None => {
            let insert = format!("INSERT INTO {table} (project, name) VALUES (?1, ?2)");
            prepare(connection, &insert)?.insert((project, name))
        }
    }
}

fn measure(connection: &Connection, measure: &Measure) -> rusqlite::Result<i64> {
    let values = params![
        measure.slug.as_str(),
        measure.name,
        measure.units,
        Word(measure.direction),
        Word(measure.kind),
    ];
    let select = "SELECT id FROM measure
                  WHERE slug = ?1 AND name = ?2 AND units = ?3 AND direction = ?4 AND kind = ?5";
    let known = prepare(connection, select)?.query_row(values, |row| row.get(0)).optional()?;
    match known {
        Some(row) => Ok(row),
        None => {
            let insert = "INSERT INTO measure (slug, name, units, direction, kind)
                          VALUES (?1, ?2, ?3, ?4, ?5)";
            prepare(connection, insert)?.insert(values)
        }
    }
}

fn environment(connection: &Connection, environment: &Environment) -> rusqlite::Result<i64> {
    let values = params![
        environment.kernel,
        environment.cpu_model,
        environment.governor,
        environment.cores,
        environment.compiler,
        environment.wingbeat,
    ];
    let select = "SELECT id FROM environment
                  WHERE kernel IS ?1 AND cpu_model IS ?2 AND governor IS ?3 AND cores IS ?4
                    AND compiler IS ?5 AND wingbeat IS ?6";
    let known = prepare(connection, select)?.query_row(values, |row| row.get(0)).optional()?;
    match known {
        Some(row) => Ok(row),
        None => {
            let insert =
                "INSERT INTO environment (kernel, cpu_model, governor, cores, compiler, wingbeat)
                          VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            prepare(connection, insert)?.insert(values)
        }
    }
}

/// A count as a column. Counts are checked to fit, or could not have been counted in memory.
fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

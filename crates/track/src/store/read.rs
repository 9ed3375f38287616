//! Reads a report as stored, or with the current status of its alerts.

use uuid::Uuid;
use wingbeat_sql::{Connection, Error, OptionalExtension as _, Row};

use super::{
    SqlResult, Store, StoreError, alerts,
    columns::{ENVIRONMENT_COLUMNS, Json, Numbers, environment, start_point},
    document::{Digest, digest},
    error::damage,
    many, prepare,
    rows::Names,
    tables::{ALERT, FAILURE, METRIC, VERDICT},
    withdrawals::STANDS,
};
use crate::model::{
    Alert, BenchmarkName, BenchmarkResults, Boundary, Change, FailedBenchmark, Metric, Report,
    Results, Slug, Verdict,
};

/// Number of samples fetched at a time from PostgreSQL.
pub(super) const SAMPLES_AT_ONCE: usize = 4_096;

impl Store {
    /// The report of that UUID, unless withdrawn, with the current status of its alerts.
    pub fn report(&self, uuid: Uuid) -> Result<Option<Report>, StoreError> {
        self.find(uuid, |db, row| {
            let mut report = read(db, row)?;
            for alert in &mut report.alerts {
                if let Some(last) = alerts::last_change(db, alert.uuid)? {
                    (alert.status, alert.reason) = (last.status, last.reason);
                }
            }
            Ok(report)
        })
    }

    /// Like [`Store::report`], without verdicts and alerts, which would double the time.
    pub fn measured(&self, uuid: Uuid) -> Result<Option<Report>, StoreError> {
        self.find(uuid, |db, row| {
            let mut report = head(db, row)?;
            measured(db, row, &mut report, &mut Names::prepare(db)?)?;
            Ok(report)
        })
    }

    fn find(
        &self,
        uuid: Uuid,
        read: impl FnOnce(&Connection, i64) -> SqlResult<Report>,
    ) -> Result<Option<Report>, StoreError> {
        self.doing("reading a report", || {
            // A consistent view of the store despite concurrent writes.
            let view = self.connection.view()?;
            let sql = format!("SELECT id FROM report r WHERE uuid = ?1 AND {STANDS}");
            let row = prepare(&view, &sql)?.query_row([uuid], |row| row.get(0)).optional()?;
            row.map(|row| read(&view, row)).transpose()
        })
    }
}

/// A report with its alerts as raised. Requires a transaction for a consistent view.
pub(super) fn read(db: &Connection, row: i64) -> SqlResult<Report> {
    let mut report = head(db, row)?;
    let mut names = Names::prepare(db)?;
    measured(db, row, &mut report, &mut names)?;
    let sql = format!("{} WHERE report = ?1 ORDER BY position", VERDICT.select());
    let mut statement = prepare(db, &sql)?;
    let mut rows = statement.query([row])?;
    while let Some(row) = &rows.next()? {
        let (benchmark, measure) = named(&mut names, row, 1)?;
        report.verdicts.push(verdict(row, benchmark, measure)?);
    }
    let sql = format!("{} WHERE report = ?1 ORDER BY position", ALERT.select());
    let mut statement = prepare(db, &sql)?;
    let mut rows = statement.query([row])?;
    while let Some(row) = &rows.next()? {
        let (benchmark, measure) = named(&mut names, row, 2)?;
        report.alerts.push(alert(row, benchmark, measure)?);
    }
    Ok(report)
}

/// Like [`read`], and compares the report with its digest.
pub(super) fn verified(db: &Connection, row: i64) -> SqlResult<Report> {
    let report = read(db, row)?;
    let sql = "SELECT digest FROM report WHERE id = ?1";
    let stored: Digest = prepare(db, sql)?.query_row([row], |row| row.get(0))?;
    match digest(&report)? == stored {
        true => Ok(report),
        false => Err(damage(format!("the report {} differs from what was stored", report.uuid))),
    }
}

/// A report without its contents: with the right number of iterations, all empty.
fn head(db: &Connection, row: i64) -> SqlResult<Report> {
    let sql = format!(
        "SELECT r.uuid, p.name AS project, b.name AS branch, t.name AS testbed, r.hash,
                r.epoch, s.name AS start_branch, r.start_hash, r.start_until_ns, r.start_versions_max,
                r.start_time_ns, r.end_time_ns, r.adapter, r.iterations, r.confirms, {ENVIRONMENT_COLUMNS}
         FROM report r
         JOIN project p ON p.id = r.project
         JOIN branch b ON b.id = r.branch
         JOIN testbed t ON t.id = r.testbed
         JOIN environment e ON e.id = r.environment
         LEFT JOIN branch s ON s.id = r.start_branch
         WHERE r.id = ?1"
    );
    prepare(db, &sql)?.query_row([row], |row| {
        Ok(Report {
            uuid: row.get("uuid")?,
            project: row.get("project")?,
            branch: row.get("branch")?,
            hash: row.get("hash")?,
            epoch: row.get("epoch")?,
            start_point: start_point(row)?,
            testbed: row.get("testbed")?,
            start_time: row.time("start_time_ns")?,
            end_time: row.time("end_time_ns")?,
            adapter: row.get("adapter")?,
            environment: environment(row)?,
            iterations: vec![Results::default(); row.get::<_, u32>("iterations")? as usize],
            verdicts: Vec::new(),
            alerts: Vec::new(),
            confirms: row.get("confirms")?,
        })
    })
}

/// Reads the metrics and failures of a report.
fn measured(
    db: &Connection,
    report_row: i64,
    report: &mut Report,
    names: &mut Names<'_>,
) -> SqlResult<()> {
    let mut all_samples = many(db, "SELECT bytes FROM samples WHERE id = ?1", SAMPLES_AT_ONCE)?;
    let sql = format!("{} WHERE report = ?1 ORDER BY position", METRIC.select());
    let mut statement = prepare(db, &sql)?;
    let mut rows = statement.query([report_row])?;
    names.expect_benchmarks(rows.ahead(1));
    all_samples.expect(rows.ahead(9));
    while let Some(row) = &rows.next()? {
        let mut samples = Vec::new();
        if let Some(id) = row.get::<_, Option<i64>>(9)? {
            let mut found = all_samples.query(id)?;
            let bytes = found.next()?.ok_or_else(|| damage("samples are missing"))?;
            samples = bytes.get::<_, Numbers>(0)?.0;
        }
        let metric = Metric {
            value: row.get(6)?,
            lower_value: row.get(7)?,
            upper_value: row.get(8)?,
            samples,
        };
        let measure = names.measure(row.get(2)?)?.clone();
        let name = names.benchmark(row.get(1)?)?;
        let benchmarks = &mut iteration(report, row.get(3)?)?.benchmarks;
        if benchmarks.last().is_none_or(|last| last.name != *name) {
            let (name, is_ignored) = (name.clone(), row.get(5)?);
            benchmarks.push(BenchmarkResults { name, is_ignored, metrics: Vec::new() });
        }
        if let Some(benchmark) = benchmarks.last_mut() {
            benchmark.metrics.push((measure, metric));
        }
    }
    let sql = format!("{} WHERE report = ?1 ORDER BY position", FAILURE.select());
    let mut statement = prepare(db, &sql)?;
    let mut rows = statement.query([report_row])?;
    while let Some(row) = &rows.next()? {
        let name = names.benchmark(row.get(3)?)?.clone();
        let failure = FailedBenchmark { name, reason: row.get(4)? };
        iteration(report, row.get(2)?)?.failures.push(failure);
    }
    Ok(())
}

fn iteration(report: &mut Report, number: u32) -> SqlResult<&mut Results> {
    let missing = || Error::content(format!("it has no iteration {number}"));
    report.iterations.get_mut(number as usize).ok_or_else(missing)
}

/// The names in the columns `benchmark` and `measure`, the first of which has this number.
fn named(names: &mut Names<'_>, row: &Row<'_>, first: usize) -> SqlResult<(BenchmarkName, Slug)> {
    let benchmark = names.benchmark(row.get(first)?)?.clone();
    Ok((benchmark, names.measure(row.get(first + 1)?)?.slug.clone()))
}

/// Reads an alert from the columns of [`ALERT`].
fn alert(row: &Row<'_>, benchmark: BenchmarkName, measure: Slug) -> SqlResult<Alert> {
    Ok(Alert {
        uuid: row.get(0)?,
        iteration: row.get(4)?,
        benchmark,
        measure,
        limit: row.get(6)?,
        status: row.get(7)?,
        reason: row.get(8)?,
    })
}

/// Reads a verdict from the columns of [`VERDICT`].
fn verdict(row: &Row<'_>, benchmark: BenchmarkName, measure: Slug) -> SqlResult<Verdict> {
    let has_boundary: bool = row.get(7)?;
    let boundary = || -> SqlResult<_> {
        let (baseline, lower_limit) = (row.get(8)?, row.get(9)?);
        Ok(Boundary { baseline, lower_limit, upper_limit: row.get(10)? })
    };
    let change = match row.get::<_, Option<f64>>(12)? {
        Some(relative) => Some(Change { relative, lower: row.get(13)?, upper: row.get(14)? }),
        None => None,
    };
    Ok(Verdict {
        iteration: row.get(3)?,
        benchmark,
        measure,
        outcome: row.get(5)?,
        test: row.get(6)?,
        boundary: has_boundary.then(boundary).transpose()?,
        limit: row.get(11)?,
        change,
        p: row.get(15)?,
        smallest_visible: row.get(16)?,
        points: row.get::<_, u32>(17)? as usize,
        reason: row.get::<_, Json<_>>(18)?.0,
    })
}

//! A report as it was stored, or with what became of its alerts since.

use super::prelude::*;

use super::{
    alerts,
    checksum::REPORT,
    from_row::{BOUNDARY, ENVIRONMENT, alert, environment, start_point, time},
    lookup::Names,
    sums::verify_report,
    withdrawals::STANDS,
};

/// Which alerts a report is read with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alerts {
    Raised,
    /// With their present status.
    Present,
}

impl Store {
    /// The report of that UUID, unless it was withdrawn; its alerts with their present status.
    pub fn report(&self, uuid: Uuid) -> Result<Option<Report>, StoreError> {
        let read = || {
            let sql = format!("SELECT id FROM report r WHERE uuid = ?1 AND {STANDS}");
            let row = prepare(&self.connection, &sql)?
                .query_row([Id(uuid)], |row| row.get(0))
                .optional()?;
            row.map(|row| read(&self.connection, row, Alerts::Present)).transpose()
        };
        read().map_err(self.error("reading a report"))
    }
}

pub(super) fn read(db: &Connection, row: i64, which: Alerts) -> SqlResult<Report> {
    // One view of the store, also if somebody writes meanwhile.
    let view = db.is_autocommit().then(|| db.view()).transpose()?;
    let sql = format!(
        "SELECT r.uuid, p.name AS project, b.name AS branch, t.name AS testbed, r.hash,
                r.epoch, s.name AS start_branch, r.start_hash, r.start_until_ns, r.start_versions_max,
                r.start_time_ns, r.end_time_ns, r.adapter, r.iterations, r.confirms, {ENVIRONMENT}
         FROM report r
         JOIN project p ON p.id = r.project
         JOIN branch b ON b.id = r.branch
         JOIN testbed t ON t.id = r.testbed
         JOIN environment e ON e.id = r.environment
         LEFT JOIN branch s ON s.id = r.start_branch
         WHERE r.id = ?1"
    );
    let whole = format!("{} WHERE id = ?1", REPORT.select());
    prepare(db, &whole)?.query_row([row], |row| verify_report(db, row))?;
    let mut report = prepare(db, &sql)?.query_row([row], head)?;
    read_metrics(db, row, &mut report)?;
    read_failures(db, row, &mut report)?;
    report.verdicts = verdicts(db, row)?;
    report.alerts = raised(db, row)?;
    if which == Alerts::Present {
        for alert in &mut report.alerts {
            if let Some(last) = alerts::last_change(db, alert.uuid)? {
                (alert.status, alert.reason) = (last.status, last.reason);
            }
        }
    }
    drop(view);
    Ok(report)
}

/// A report without its content: as many iterations as it has, all empty.
fn head(row: &Row<'_>) -> SqlResult<Report> {
    Ok(Report {
        uuid: row.get::<_, Id>("uuid")?.0,
        project: row.get::<_, Text<_>>("project")?.0,
        branch: row.get::<_, Text<_>>("branch")?.0,
        hash: row.get("hash")?,
        epoch: row.get("epoch")?,
        start_point: start_point(row)?,
        testbed: row.get::<_, Text<_>>("testbed")?.0,
        start_time: time(row, "start_time_ns")?,
        end_time: time(row, "end_time_ns")?,
        adapter: row.get::<_, Word<_>>("adapter")?.0,
        environment: environment(row)?,
        iterations: vec![Results::default(); row.get::<_, u32>("iterations")? as usize],
        verdicts: Vec::new(),
        alerts: Vec::new(),
        confirms: row.get::<_, Option<Id>>("confirms")?.map(|id| id.0),
    })
}

fn iteration(report: &mut Report, number: u32) -> SqlResult<&mut Results> {
    let missing = || Error::content(format!("it has no iteration {number}"));
    report.iterations.get_mut(number as usize).ok_or_else(missing)
}

fn read_metrics(db: &Connection, row: i64, report: &mut Report) -> SqlResult<()> {
    // By numbers of columns: names would be looked for in each of thousands of rows.
    let sql =
        "SELECT m.iteration, b.name AS benchmark, m.is_ignored, m.value, m.lower, m.upper, s.bytes,
                m.measure
         FROM metric m
         JOIN benchmark b ON b.id = m.benchmark
         LEFT JOIN samples s ON s.id = m.samples
         WHERE m.report = ?1
         ORDER BY m.position";
    let mut names = Names::prepare(db)?;
    let mut statement = prepare(db, sql)?;
    let mut rows = statement.query([row])?;
    while let Some(row) = &rows.next()? {
        let results = iteration(report, row.get(0)?)?;
        let name = row.get_ref(1)?.as_str().map_err(Error::content)?;
        if results.benchmarks.last().is_none_or(|last| last.name.as_str() != name) {
            let name = row.get::<_, Text<_>>(1)?.0;
            let is_ignored = row.get(2)?;
            results.benchmarks.push(BenchmarkResults { name, is_ignored, metrics: Vec::new() });
        }
        let samples = row.get::<_, Option<Numbers>>(6)?;
        let metric = Metric {
            value: row.get(3)?,
            lower_value: row.get(4)?,
            upper_value: row.get(5)?,
            samples: samples.map_or_else(Vec::new, |samples| samples.0),
        };
        if let Some(benchmark) = results.benchmarks.last_mut() {
            benchmark.metrics.push((names.measure(row.get(7)?)?, metric));
        }
    }
    Ok(())
}

fn read_failures(db: &Connection, row: i64, report: &mut Report) -> SqlResult<()> {
    let sql = "SELECT f.iteration, b.name AS benchmark, f.reason
               FROM failure f JOIN benchmark b ON b.id = f.benchmark
               WHERE f.report = ?1 ORDER BY f.position";
    let mut statement = prepare(db, sql)?;
    let mut rows = statement.query([row])?;
    while let Some(row) = &rows.next()? {
        let name = row.get::<_, Text<_>>("benchmark")?.0;
        let failure = FailedBenchmark { name, reason: row.get("reason")? };
        iteration(report, row.get("iteration")?)?.failures.push(failure);
    }
    Ok(())
}

fn verdicts(db: &Connection, row: i64) -> SqlResult<Vec<Verdict>> {
    let sql = format!(
        "SELECT v.iteration, b.name AS benchmark, q.slug, v.outcome, v.test, v.crossed, v.change,
                v.change_lower, v.change_upper, v.p, v.smallest_visible, v.points, v.reason, {BOUNDARY}
         FROM verdict v
         JOIN benchmark b ON b.id = v.benchmark
         JOIN measure q ON q.id = v.measure
         WHERE v.report = ?1
         ORDER BY v.position"
    );
    prepare(db, &sql)?.query_map([row], verdict)?.collect()
}

/// By numbers of columns, as metrics.
fn verdict(row: &Row<'_>) -> SqlResult<Verdict> {
    let change = match row.get::<_, Option<f64>>(6)? {
        Some(relative) => Some(Change { relative, lower: row.get(7)?, upper: row.get(8)? }),
        None => None,
    };
    let has_boundary: bool = row.get(13)?;
    let boundary = || -> SqlResult<_> {
        let (baseline, lower_limit) = (row.get(14)?, row.get(15)?);
        Ok(Boundary { baseline, lower_limit, upper_limit: row.get(16)? })
    };
    Ok(Verdict {
        iteration: row.get(0)?,
        benchmark: row.get::<_, Text<_>>(1)?.0,
        measure: row.get::<_, Text<_>>(2)?.0,
        outcome: row.get::<_, Word<_>>(3)?.0,
        test: row.get::<_, Option<Word<_>>>(4)?.map(|word| word.0),
        boundary: has_boundary.then(boundary).transpose()?,
        limit: row.get::<_, Option<Word<_>>>(5)?.map(|word| word.0),
        change,
        p: row.get(9)?,
        smallest_visible: row.get(10)?,
        points: row.get::<_, u32>(11)? as usize,
        reason: row.get(12)?,
    })
}

fn raised(db: &Connection, row: i64) -> SqlResult<Vec<Alert>> {
    let sql =
        "SELECT a.uuid, a.iteration, b.name AS benchmark, q.slug, a.crossed, a.status, a.reason
               FROM alert a
               JOIN benchmark b ON b.id = a.benchmark
               JOIN measure q ON q.id = a.measure
               WHERE a.report = ?1
               ORDER BY a.position";
    prepare(db, sql)?.query_map([row], alert)?.collect()
}

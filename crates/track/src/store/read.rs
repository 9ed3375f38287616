//! Reads a report as stored, or with the current status of its alerts.

use super::prelude::*;

use super::{
    alerts,
    checksum::{FAILURE, METRIC, REPORT, VERDICT},
    columns::Json,
    from_row::{ENVIRONMENT, environment, start_point, time},
    sums::{Part, Scope, verify_report},
    withdrawals::STANDS,
};

/// Which status of alerts to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alerts {
    Raised,
    /// With their current status.
    Present,
}

impl Store {
    /// The report of that UUID, unless withdrawn, with the current status of its alerts.
    pub fn report(&self, uuid: Uuid) -> Result<Option<Report>, StoreError> {
        self.find(uuid, |db, row| read(db, row, Alerts::Present))
    }

    /// Like [`Store::report`], without verdicts and alerts, which would double the time.
    pub fn measured(&self, uuid: Uuid) -> Result<Option<Report>, StoreError> {
        self.find(uuid, |db, row| {
            let view = db.view()?;
            verified(&view, row, Scope::Measured)
        })
    }

    fn find(
        &self,
        uuid: Uuid,
        read: impl FnOnce(&Connection, i64) -> SqlResult<Report>,
    ) -> Result<Option<Report>, StoreError> {
        let read = || {
            let sql = format!("SELECT id FROM report r WHERE uuid = ?1 AND {STANDS}");
            let row = prepare(&self.connection, &sql)?
                .query_row([Id(uuid)], |row| row.get(0))
                .optional()?;
            row.map(|row| read(&self.connection, row)).transpose()
        };
        read().map_err(self.error("reading a report"))
    }
}

pub(super) fn read(db: &Connection, row: i64, which: Alerts) -> SqlResult<Report> {
    // A consistent view of the store despite concurrent writes.
    let view = db.is_autocommit().then(|| db.view()).transpose()?;
    let mut report = verified(db, row, Scope::All)?;
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

/// A report with the contents in this scope, each row verified.
fn verified(db: &Connection, row: i64, scope: Scope) -> SqlResult<Report> {
    let mut content = Content::default();
    let whole = format!("{} WHERE id = ?1", REPORT.select());
    prepare(db, &whole)?
        .query_row([row], |row| verify_report(db, row, scope, &mut |part| content.take(part)))?;
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
    let mut report = prepare(db, &sql)?.query_row([row], head)?;
    content.put_into(&mut report)?;
    Ok(report)
}

/// A report without its contents: with the right number of iterations, all empty.
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

/// The contents of a report, each with its position.
#[derive(Default)]
struct Content {
    metrics: Vec<(i64, StoredMetric)>,
    failures: Vec<(i64, (u32, FailedBenchmark))>,
    verdicts: Vec<(i64, Verdict)>,
    alerts: Vec<(i64, Alert)>,
}

struct StoredMetric {
    iteration: u32,
    benchmark: BenchmarkName,
    is_ignored: bool,
    measure: Measure,
    metric: Metric,
}

impl Content {
    fn take(&mut self, part: Part<'_>) -> SqlResult<()> {
        let Part { table, row, benchmark, measure, samples } = part;
        let benchmark = benchmark.ok_or(Error::NoRow)?.clone();
        if table == FAILURE {
            let failure = FailedBenchmark { name: benchmark, reason: row.get(4)? };
            self.failures.push((row.get(1)?, (row.get(2)?, failure)));
            return Ok(());
        }
        let measure = measure.ok_or(Error::NoRow)?;
        match table {
            METRIC => {
                let metric = Metric {
                    value: row.get(6)?,
                    lower_value: row.get(7)?,
                    upper_value: row.get(8)?,
                    samples,
                };
                let stored = StoredMetric {
                    iteration: row.get(3)?,
                    benchmark,
                    is_ignored: row.get(5)?,
                    measure: measure.clone(),
                    metric,
                };
                self.metrics.push((row.get(4)?, stored));
            }
            VERDICT => {
                let verdict = verdict(&row, benchmark, measure.slug.clone())?;
                self.verdicts.push((row.get(4)?, verdict));
            }
            _ => {
                let alert = Alert {
                    uuid: row.get::<_, Id>(0)?.0,
                    iteration: row.get(4)?,
                    benchmark,
                    measure: measure.slug.clone(),
                    limit: row.get::<_, Word<_>>(6)?.0,
                    status: row.get::<_, Word<_>>(7)?.0,
                    reason: row.get(8)?,
                };
                self.alerts.push((row.get(5)?, alert));
            }
        }
        Ok(())
    }

    fn put_into(self, report: &mut Report) -> SqlResult<()> {
        for stored in by_position(self.metrics) {
            let StoredMetric { iteration, benchmark: name, is_ignored, measure, metric } = stored;
            let benchmarks = &mut self::iteration(report, iteration)?.benchmarks;
            if benchmarks.last().is_none_or(|last| last.name != name) {
                benchmarks.push(BenchmarkResults { name, is_ignored, metrics: Vec::new() });
            }
            if let Some(benchmark) = benchmarks.last_mut() {
                benchmark.metrics.push((measure, metric));
            }
        }
        for (iteration, failure) in by_position(self.failures) {
            self::iteration(report, iteration)?.failures.push(failure);
        }
        report.verdicts = by_position(self.verdicts).collect();
        report.alerts = by_position(self.alerts).collect();
        Ok(())
    }
}

fn by_position<T>(mut parts: Vec<(i64, T)>) -> impl Iterator<Item = T> {
    parts.sort_by_key(|(position, _)| *position);
    parts.into_iter().map(|(_, part)| part)
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
        outcome: row.get::<_, Word<_>>(5)?.0,
        test: row.get::<_, Option<Word<_>>>(6)?.map(|word| word.0),
        boundary: has_boundary.then(boundary).transpose()?,
        limit: row.get::<_, Option<Word<_>>>(11)?.map(|word| word.0),
        change,
        p: row.get(15)?,
        smallest_visible: row.get(16)?,
        points: row.get::<_, u32>(17)? as usize,
        reason: row.get::<_, Json<_>>(18)?.0,
    })
}

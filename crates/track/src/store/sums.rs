//! Sums recorded in a report about its rows, and in a store about its reports: counts, and sums of checksums.

use super::prelude::*;
use wingbeat_sql::ValueRef;

use super::{
    checksum::{
        ALERT, BRANCH, Checksum, ENVIRONMENT, FAILURE, METRIC, PROJECT, REPORT, SAMPLES,
        SAMPLES_COLUMN, TESTBED, Table, VERDICT, damage,
    },
    lookup::{Lookup, Names},
};

/// Counts and sums over the rows of one report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sums {
    pub(super) metrics: i64,
    pub(super) failures: i64,
    pub(super) alerts: i64,
    pub(super) content: Checksum,
    /// Over the parts of metrics that a history reads.
    pub(super) values: Checksum,
    /// Over verdicts that stand out, and alerts.
    pub(super) marks: Checksum,
}

/// Location of damage in a report: row numbers of its benchmark and its measure, as far as known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DamagedPlace {
    pub(super) table: Table,
    pub(super) benchmark: Option<i64>,
    pub(super) measure: Option<i64>,
}

/// Which rows of a report to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    All,
    /// Metrics with their samples, and failures.
    Measured,
}

impl Sums {
    pub(super) fn metric(&mut self, row: Checksum, value: Checksum) {
        self.metrics += 1;
        self.content.add(row);
        self.values.add(value);
    }

    pub(super) fn failure(&mut self, row: Checksum) {
        self.failures += 1;
        self.content.add(row);
    }

    pub(super) fn verdict(&mut self, row: Checksum, mark: Option<Checksum>) {
        self.content.add(row);
        self.marks.add(mark.unwrap_or_default());
    }

    pub(super) fn alert(&mut self, row: Checksum, mark: Checksum) {
        self.alerts += 1;
        self.content.add(row);
        self.marks.add(mark);
    }

    /// The sums recorded in the row of a report, whose columns begin at `first`.
    pub(super) fn told(row: &Row<'_>, first: usize) -> SqlResult<Self> {
        Ok(Self {
            metrics: row.get(first)?,
            failures: row.get(first + 1)?,
            alerts: row.get(first + 2)?,
            content: Checksum::stored(row.get(first + 3)?),
            values: Checksum::stored(row.get(first + 4)?),
            marks: Checksum::stored(row.get(first + 5)?),
        })
    }

    /// Reads rows of a report and those they refer to, and passes each on. Damaged ones are not counted.
    pub(super) fn read(
        db: &Connection,
        report: i64,
        scope: Scope,
        each: &mut dyn FnMut(Result<Part<'_>, Damage>) -> SqlResult<()>,
    ) -> SqlResult<Self> {
        let mut sums = Self::default();
        let mut names = Names::prepare(db)?;
        let mut all_samples = Lookup::prepare(db, SAMPLES)?;
        let rows =
            [(METRIC, 1, Some(2)), (FAILURE, 3, None), (VERDICT, 1, Some(2)), (ALERT, 2, Some(3))];
        let rows = if scope == Scope::All { &rows[..] } else { &rows[..2] };
        for &(table, benchmark, measure) in rows {
            let sql = format!("{} WHERE report = ?1", table.select());
            let mut statement = prepare(db, &sql)?;
            let mut rows = statement.query([report])?;
            names.expect_benchmarks(rows.ahead(benchmark));
            if table == METRIC {
                all_samples.expect(rows.ahead(SAMPLES_COLUMN));
            }
            while let Some(row) = &rows.next()? {
                let place = DamagedPlace {
                    table,
                    benchmark: integer(row, benchmark)?,
                    measure: measure.map_or(Ok(None), |measure| integer(row, measure))?,
                };
                let counted = sums.count(&mut all_samples, table, row).and_then(|samples| {
                    place.benchmark.map_or(Ok(()), |row| names.find_benchmark(row))?;
                    place.measure.map_or(Ok(()), |row| names.find_measure(row))?;
                    Ok(samples)
                });
                each(match counted {
                    Err(error) => Err((place, error)),
                    Ok(samples) => Ok(Part {
                        table,
                        row: *row,
                        benchmark: place.benchmark.and_then(|row| names.known_benchmark(row)),
                        measure: place.measure.and_then(|row| names.known_measure(row)),
                        samples,
                    }),
                })?;
            }
        }
        Ok(sums)
    }

    /// Verifies and counts a row, and reads its samples.
    fn count(
        &mut self,
        all_samples: &mut Lookup<'_>,
        table: Table,
        row: &Row<'_>,
    ) -> SqlResult<Vec<f64>> {
        let checksum = table.verify(row, 0)?;
        let mut samples = Vec::new();
        match table {
            METRIC => {
                let (benchmark, measure) = (row.get(1)?, row.get(2)?);
                let value = Checksum::of_value(benchmark, measure, row.get(3)?, row.get(6)?);
                if let Some(of_metric) = row.get::<_, Option<i64>>(SAMPLES_COLUMN)? {
                    let found = all_samples.row(of_metric, |row| {
                        Ok((SAMPLES.checksum(row, 0)?, row.get::<_, Numbers>(1)?.0))
                    })?;
                    let (checksum, found) = found.ok_or_else(|| damage("samples are missing"))?;
                    self.content.add(checksum);
                    samples = found;
                }
                self.metric(checksum, value);
            }
            VERDICT => {
                let outcome = row.get::<_, Word<Outcome>>(5)?.0;
                let mark = outcome.stands_out().then(|| mark(row, [1, 2, 3, 5])).transpose()?;
                self.verdict(checksum, mark);
            }
            ALERT => self.alert(checksum, mark(row, [2, 3, 4, 6, 7, 0])?),
            _ => self.failure(checksum),
        }
        Ok(samples)
    }
}

/// A verified row of a report, with the rows it refers to.
pub(super) struct Part<'r> {
    pub(super) table: Table,
    /// All columns of the table.
    pub(super) row: Row<'r>,
    pub(super) benchmark: Option<&'r BenchmarkName>,
    pub(super) measure: Option<&'r Measure>,
    /// Only for metrics.
    pub(super) samples: Vec<f64>,
}

/// Location and error of damage.
type Damage = (DamagedPlace, Error);

pub(super) fn verify(db: &Connection, report: Uuid) -> SqlResult<()> {
    let sql = format!("{} WHERE uuid = ?1", REPORT.select());
    let mut statement = prepare(db, &sql)?;
    let mut rows = statement.query([Id(report)])?;
    match rows.next()? {
        Some(row) => verify_report(db, &row, Scope::All, &mut |_| Ok(())),
        None => Err(damage(format!("the report {report} is missing"))),
    }
}

/// Verifies a complete row of a report and its contents, and passes each part on.
pub(super) fn verify_report(
    db: &Connection,
    row: &Row<'_>,
    scope: Scope,
    each: &mut dyn FnMut(Part<'_>) -> SqlResult<()>,
) -> SqlResult<()> {
    REPORT.verify(row, 0)?;
    let report: i64 = row.get(0)?;
    let uuid = row.get::<_, Id>(1)?.0;
    for (table, column) in [(PROJECT, 2), (BRANCH, 3), (TESTBED, 4), (BRANCH, 7), (ENVIRONMENT, 14)]
    {
        if let Some(name) = row.get::<_, Option<i64>>(column)? {
            table.verify_row(db, name)?;
        }
    }
    let found = Sums::read(db, report, scope, &mut |part| match part {
        Ok(part) => each(part),
        Err((_, error)) => Err(error),
    })?;
    let told = Sums::told(row, FIRST)?;
    let is_whole = match scope {
        Scope::All => found == told,
        Scope::Measured => {
            let parts = |sums: &Sums| (sums.metrics, sums.failures, sums.values);
            parts(&found) == parts(&told)
        }
    };
    let error = || damage(format!("rows of the report {uuid} are missing"));
    is_whole.then_some(()).ok_or_else(error)
}

/// The first column of a report with sums.
const FIRST: usize = 21;

pub(super) fn mark<const N: usize>(row: &Row<'_>, columns: [usize; N]) -> SqlResult<Checksum> {
    let mut values = [ValueRef::Null; N];
    for (value, column) in values.iter_mut().zip(columns) {
        *value = row.get_ref(column)?;
    }
    Ok(Checksum::of_read(&values))
}

/// The integer in a column, if it is one.
fn integer(row: &Row<'_>, column: usize) -> SqlResult<Option<i64>> {
    Ok(row.get_ref(column)?.as_i64().ok())
}

/// A count with the sum of the checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Count {
    pub(super) rows: i64,
    pub(super) sum: Checksum,
}

impl Count {
    pub(super) fn add(&mut self, row: Checksum) {
        self.rows += 1;
        self.sum.add(row);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Total {
    pub(super) reports: Count,
    pub(super) alert_changes: Count,
    pub(super) withdrawals: Count,
    pub(super) profiles: Count,
}

impl Total {
    pub(super) fn read(db: &Connection) -> SqlResult<Self> {
        let sql = "SELECT reports, reports_checksum, alert_changes, alert_changes_checksum,
                       withdrawals, withdrawals_checksum, profiles, profiles_checksum
                   FROM total WHERE id = 1";
        prepare(db, sql)?.query_row([], |row| {
            let count = |first: usize| -> SqlResult<Count> {
                Ok(Count { rows: row.get(first)?, sum: Checksum::stored(row.get(first + 1)?) })
            };
            let (reports, alert_changes) = (count(0)?, count(2)?);
            Ok(Self { reports, alert_changes, withdrawals: count(4)?, profiles: count(6)? })
        })
    }

    /// The number of documents.
    pub(super) fn documents(&self) -> u64 {
        let Self { reports, alert_changes, withdrawals, profiles } = self;
        let counts = [reports, alert_changes, withdrawals, profiles];
        counts.iter().map(|count| count.rows.unsigned_abs()).sum()
    }

    /// Writes the columns of version 2 of the store.
    pub(super) fn write_version_2(&self, db: &Connection) -> SqlResult<()> {
        let sql = "UPDATE total SET reports = ?1, reports_checksum = ?2,
                       alert_changes = ?3, alert_changes_checksum = ?4 WHERE id = 1";
        let Self { reports, alert_changes, .. } = self;
        let sums = [reports.sum.whole(), alert_changes.sum.whole()];
        prepare(db, sql)?.execute([reports.rows, sums[0], alert_changes.rows, sums[1]])?;
        Ok(())
    }

    pub(super) fn write(&self, db: &Connection) -> SqlResult<()> {
        let sql = "UPDATE total SET reports = ?1, reports_checksum = ?2,
                       alert_changes = ?3, alert_changes_checksum = ?4,
                       withdrawals = ?5, withdrawals_checksum = ?6,
                       profiles = ?7, profiles_checksum = ?8 WHERE id = 1";
        let Self { reports, alert_changes, withdrawals, profiles } = self;
        prepare(db, sql)?.execute([
            reports.rows,
            reports.sum.whole(),
            alert_changes.rows,
            alert_changes.sum.whole(),
            withdrawals.rows,
            withdrawals.sum.whole(),
            profiles.rows,
            profiles.sum.whole(),
        ])?;
        Ok(())
    }
}

//! The values of a report's metrics, which histories read. They are packed into one row per report, because stepping
//! through the rows of thousands of metrics takes longer than judging them. [`packed`] is the format of the row.

mod packed;

use super::prelude::*;
use wingbeat_sql::Many;

use self::packed::Packed;
use super::{
    checksum::{Checksum, METRIC, SAMPLES, SAMPLES_COLUMN, damage},
    lookup::Lookup,
    past::{REPORTS_AT_ONCE, in_order, metric_key},
};

/// The value of a metric, with the row numbers of its benchmark and its measure.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StoredValue {
    pub(super) benchmark: i64,
    pub(super) measure: i64,
    pub(super) iteration: u32,
    pub(super) value: f64,
    /// Whether the metric has samples.
    pub(super) has_samples: bool,
    /// Filled in by [`Samples::add`].
    pub(super) samples: Vec<f64>,
}

impl StoredValue {
    pub(super) fn checksum(&self) -> Checksum {
        Checksum::of_value(self.benchmark, self.measure, self.iteration, self.value)
    }
}

/// Stores the values of a report.
pub(super) fn insert(db: &Connection, report: i64, mut values: Vec<StoredValue>) -> SqlResult<()> {
    values.sort_unstable_by_key(|it| (it.benchmark, it.measure, it.iteration));
    let sql = "INSERT INTO report_values (report, bytes) VALUES (?1, ?2)";
    prepare(db, sql)?.execute(params![report, Packed(values)])?;
    Ok(())
}

/// Verifies the row of a report, if it has one.
pub(super) fn verify(db: &Connection, report: i64) -> SqlResult<()> {
    let sql =
        "SELECT r.values_checksum, v.bytes FROM report_values v JOIN report r ON r.id = v.report
               WHERE v.report = ?1";
    let mut statement = prepare(db, sql)?;
    let mut rows = statement.query([report])?;
    let Some(row) = rows.next()? else { return Ok(()) };
    let mut sum = Checksum::default();
    row.get::<_, Packed>(1)?.0.iter().for_each(|value| sum.add(value.checksum()));
    let error = || damage("the values that a history reads differ from what was written");
    (sum == Checksum::stored(row.get(0)?)).then_some(()).ok_or_else(error)
}

/// Reads the values of reports one after another.
pub(super) struct Values<'c> {
    packed: Many<'c>,
    metrics: Many<'c>,
}

impl<'c> Values<'c> {
    /// Prepares to read these reports by row number, roughly in this order.
    pub(super) fn prepare(
        db: &'c Connection,
        reports: impl IntoIterator<Item = i64>,
    ) -> SqlResult<Self> {
        let reports: Vec<i64> = reports.into_iter().collect();
        let packed = "SELECT bytes FROM report_values WHERE report = ?1";
        let mut packed = many(db, packed, REPORTS_AT_ONCE)?;
        packed.expect(reports.iter().copied());
        let metrics = format!("{} WHERE report = ?1 {}", METRIC.select(), in_order(db));
        let mut metrics = many(db, &metrics, REPORTS_AT_ONCE)?;
        // Rows of an earlier version are mostly the oldest, so hardly any is prefetched in vain.
        metrics.expect(reports);
        Ok(Self { packed, metrics })
    }

    /// The values of a report, sorted by benchmark, measure and iteration.
    pub(super) fn of(&mut self, report: i64) -> SqlResult<Vec<StoredValue>> {
        if let Some(row) = self.packed.query(report)?.next()? {
            return Ok(row.get::<_, Packed>(0)?.0);
        }
        let mut values = Vec::new();
        let mut rows = self.metrics.query(report)?;
        while let Some(row) = &rows.next()? {
            METRIC.verify(row, 0)?;
            let (benchmark, measure, iteration) = metric_key(row, 1)?;
            let has_samples = row.get::<_, Option<i64>>(SAMPLES_COLUMN)?.is_some();
            let (value, samples) = (row.get(6)?, Vec::new());
            values.push(StoredValue { benchmark, measure, iteration, value, has_samples, samples });
        }
        Ok(values)
    }
}

/// Reads the samples of reports one after another.
pub(super) struct Samples<'c> {
    metrics: Many<'c>,
    samples: Lookup<'c>,
}

impl<'c> Samples<'c> {
    /// Prepares to read these reports by row number, roughly in this order.
    pub(super) fn prepare(
        db: &'c Connection,
        reports: impl IntoIterator<Item = i64>,
    ) -> SqlResult<Self> {
        let metrics = format!(
            "{} WHERE report = ?1 AND samples IS NOT NULL {}",
            METRIC.select(),
            in_order(db)
        );
        let mut metrics = many(db, &metrics, REPORTS_AT_ONCE)?;
        metrics.expect(reports);
        Ok(Self { metrics, samples: Lookup::prepare(db, SAMPLES)? })
    }

    /// Adds the samples of a report to its values, which are sorted.
    pub(super) fn add(&mut self, report: i64, values: &mut [StoredValue]) -> SqlResult<()> {
        let missing = || damage("samples are missing");
        let mut rows = self.metrics.query(report)?;
        self.samples.expect(rows.ahead(SAMPLES_COLUMN));
        for value in values.iter_mut().filter(|value| value.has_samples) {
            let row = rows.next()?.ok_or_else(missing)?;
            METRIC.verify(&row, 0)?;
            if metric_key(&row, 1)? != (value.benchmark, value.measure, value.iteration) {
                return Err(missing());
            }
            let samples = row.get(SAMPLES_COLUMN)?;
            let samples = self.samples.row(samples, |row| row.get::<_, Numbers>(1))?;
            value.samples = samples.ok_or_else(missing)?.0;
        }
        match rows.next()? {
            None => Ok(()),
            Some(_) => Err(damage("a value does not say that it has samples")),
        }
    }
}

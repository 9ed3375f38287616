//! What a history reads of a report: the value of each metric. They are in one row per report, because stepping through the
//! rows of thousands of metrics takes longer than judging them.
//!
//! The row is a sequence of metrics, ordered by benchmark, measure and iteration. Each is three unsigned LEB128 numbers and
//! a little-endian 64-bit float:
//!
//! 1. the row number of the benchmark, less that of the metric before it;
//! 2. the row number of the measure;
//! 3. twice the iteration, plus one if the metric has samples;
//! 4. the value.
//!
//! That is about 11 bytes per metric.

use super::prelude::*;
use wingbeat_sql::{
    FromSql, FromSqlError, FromSqlResult, Many, ToSql, ToSqlOutput, Value, ValueRef, Written,
};

use super::{
    checksum::{Checksum, METRIC, SAMPLES, damage},
    lookup::Lookup,
    past::{REPORTS_AT_ONCE, in_order, metric_key},
};

/// The value of a metric, with the rows of its benchmark and its measure.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StoredValue {
    pub(super) benchmark: i64,
    pub(super) measure: i64,
    pub(super) iteration: u32,
    pub(super) value: f64,
    /// Whether there are single measurements.
    pub(super) has_samples: bool,
    /// Where [`Samples::add`] added them.
    pub(super) samples: Vec<f64>,
}

impl StoredValue {
    pub(super) fn checksum(&self) -> Checksum {
        Checksum::of_value(self.benchmark, self.measure, self.iteration, self.value)
    }
}

/// The column of [`METRIC`] that leads to samples.
const SAMPLES_COLUMN: usize = 9;

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

/// Reads the values of one report after the other.
pub(super) struct Values<'c> {
    packed: Many<'c>,
    metrics: Many<'c>,
}

impl<'c> Values<'c> {
    /// About in the order of these rows of reports.
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
        // Those of an earlier version are mostly the oldest, so hardly any is fetched in vain.
        metrics.expect(reports);
        Ok(Self { packed, metrics })
    }

    /// Those of a report, in the order of benchmark, measure and iteration.
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

/// Reads the single measurements of one report after the other.
pub(super) struct Samples<'c> {
    metrics: Many<'c>,
    samples: Lookup<'c>,
}

impl<'c> Samples<'c> {
    /// About in the order of these rows of reports.
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

    /// Adds those of a report to its values, which are in order.
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

/// The values of a report in their order, as they stand in a row.
#[derive(Debug)]
struct Packed(Vec<StoredValue>);

impl ToSql for Packed {
    fn to_sql(&self) -> Written<'_> {
        let mut bytes = Vec::with_capacity(self.0.len() * 11);
        let mut before = 0;
        for StoredValue { benchmark, measure, iteration, value, has_samples, .. } in &self.0 {
            let above = benchmark.wrapping_sub(before).cast_unsigned();
            before = *benchmark;
            let iteration = u64::from(*iteration) << 1 | u64::from(*has_samples);
            for number in [above, measure.cast_unsigned(), iteration] {
                write_number(&mut bytes, number);
            }
            // SQLite keeps -0.0 as 0 in `metric`.
            bytes.extend_from_slice(&(value + 0.0).to_le_bytes());
        }
        Ok(ToSqlOutput::Owned(Value::Blob(bytes)))
    }
}

impl FromSql for Packed {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let broken = || FromSqlError::Other("values of a report that cannot be read".into());
        unpacked(value.as_blob()?).map(Self).ok_or_else(broken)
    }
}

fn unpacked(mut bytes: &[u8]) -> Option<Vec<StoredValue>> {
    let mut values = Vec::with_capacity(bytes.len() / 11);
    let mut benchmark = 0_i64;
    while !bytes.is_empty() {
        benchmark = benchmark.wrapping_add(read_number(&mut bytes)?.cast_signed());
        let measure = read_number(&mut bytes)?.cast_signed();
        let iteration = read_number(&mut bytes)?;
        let (iteration, has_samples) = (u32::try_from(iteration >> 1).ok()?, iteration & 1 == 1);
        let (value, rest) = bytes.split_first_chunk()?;
        bytes = rest;
        // A flipped sign of 0 has the same checksum.
        let value = f64::from_le_bytes(*value) + 0.0;
        let samples = Vec::new();
        values.push(StoredValue { benchmark, measure, iteration, value, has_samples, samples });
    }
    Some(values)
}

fn write_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes_of(values: Vec<StoredValue>) -> Vec<u8> {
        match Packed(values).to_sql().expect("bytes") {
            ToSqlOutput::Owned(Value::Blob(bytes)) => bytes,
            other => panic!("{other:?}"),
        }
    }

    type Parts = (i64, i64, u32, f64, bool);

    fn stored((benchmark, measure, iteration, value, has_samples): Parts) -> StoredValue {
        StoredValue { benchmark, measure, iteration, value, has_samples, samples: Vec::new() }
    }

    #[test]
    fn the_format_stays_what_it_is() {
        let values = [(1, 2, 0, 1.5, false), (1, 2, 1, -0.0, true), (200, 1, 64, 1e300, false)];
        let values = values.map(stored);
        let bytes = bytes_of(values.to_vec());
        let expected = [
            &[1, 2, 0][..],
            &1.5_f64.to_le_bytes(),
            &[0, 2, 3],
            &0.0_f64.to_le_bytes(),
            &[0xc7, 1, 1, 0x80, 1],
            &1e300_f64.to_le_bytes(),
        ];
        assert_eq!(bytes, expected.concat());
        assert_eq!(unpacked(&bytes), Some(values.to_vec()));
        for end in 1..bytes.len() {
            let is_whole = [11, 22].contains(&end);
            assert_eq!(unpacked(&bytes[..end]).is_some(), is_whole, "{end}");
        }
    }

    proptest! {
        #[test]
        fn values_come_back(
            values in prop::collection::vec(
                (any::<i64>(), any::<i64>(), any::<u32>(), -1e9_f64..1e9, any::<bool>()),
                0..50,
            ),
        ) {
            let values: Vec<_> = values.into_iter().map(stored).collect();
            prop_assert_eq!(unpacked(&bytes_of(values.clone())), Some(values));
        }

        #[test]
        fn any_bytes_are_values_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = unpacked(&bytes);
        }
    }
}

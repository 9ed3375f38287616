//! Checksums of rows. SQLite detects broken pages, but not a flipped bit in a value.
//!
//! The checksum of a row covers its other columns, including its keys, so that a misplaced row is detected too. Sums of
//! checksums, which are independent of the order, detect missing rows.

use std::cell::RefCell;

use wingbeat_sql::{Connection, Error, OptionalExtension as _, Row, ToSql, ToSqlOutput, ValueRef};
use xxhash_rust::xxh3::xxh3_64;

use super::{SqlResult, lookup::Lookup, prepare};

/// A table with its columns in checksum order. Released tables are never edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) name: &'static str,
    /// Number of primary key columns.
    pub(super) keys: usize,
    /// Separated by blanks, the primary key first.
    names: &'static str,
    count: usize,
}

pub(super) const PROJECT: Table = Table::new("project", 1, "id name");
pub(super) const BRANCH: Table = Table::new("branch", 1, NAMED);
pub(super) const TESTBED: Table = Table::new("testbed", 1, NAMED);
pub(super) const BENCHMARK: Table = Table::new("benchmark", 1, NAMED);
pub(super) const MEASURE: Table = Table::new("measure", 1, "id slug name units direction kind");
pub(super) const ENVIRONMENT: Table =
    Table::new("environment", 1, "id kernel cpu_model governor cores compiler wingbeat");
pub(super) const REPORT: Table = Table::new(
    "report",
    1,
    "id uuid project branch testbed hash epoch start_branch start_hash start_until_ns \
     start_versions_max start_time_ns end_time_ns adapter environment load steal git_hash is_dirty \
     iterations confirms metrics failures alerts content_checksum values_checksum marks_checksum",
);
pub(super) const METRIC: Table = Table::new(
    "metric",
    4,
    "report benchmark measure iteration position is_ignored value lower upper samples",
);
/// The column of [`METRIC`] that refers to samples.
pub(super) const SAMPLES_COLUMN: usize = 9;
pub(super) const SAMPLES: Table = Table::new("samples", 1, "id bytes");
pub(super) const FAILURE: Table =
    Table::new("failure", 2, "report position iteration benchmark reason");
pub(super) const VERDICT: Table = Table::new(
    "verdict",
    5,
    "report benchmark measure iteration position outcome test has_boundary baseline lower_limit \
     upper_limit crossed change change_lower change_upper p smallest_visible points reason",
);
pub(super) const ALERT: Table = Table::new(
    "alert",
    1,
    "uuid report benchmark measure iteration position crossed status reason",
);
pub(super) const ALERT_CHANGE: Table =
    Table::new("alert_change", 1, "uuid alert time_ns status reason");
pub(super) const WITHDRAWAL: Table = Table::new("withdrawal", 1, "uuid report time_ns reason");
pub(super) const PROFILE: Table =
    Table::new("profile", 1, "uuid report benchmark kind tool time_ns samples hash bytes");

const NAMED: &str = "id project name";

impl Table {
    const fn new(name: &'static str, keys: usize, names: &'static str) -> Self {
        let (mut count, mut at) = (1, 0);
        while at < names.len() {
            count += (names.as_bytes()[at] == b' ') as usize;
            at += 1;
        }
        Self { name, keys, names, count }
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.names.split(' ')
    }

    /// The columns followed by the checksum, optionally qualified by `alias`.
    pub(super) fn list(&self, alias: &str) -> String {
        let of = |column| match alias {
            "" => String::from(column),
            alias => format!("{alias}.{column}"),
        };
        self.columns().chain(["checksum"]).map(of).collect::<Vec<_>>().join(", ")
    }

    /// Selects the columns for [`Table::verify`].
    pub(super) fn select(&self) -> String {
        format!("SELECT {} FROM {}", self.list(""), self.name)
    }

    pub(super) fn inserter<'c>(&self, db: &'c Connection) -> SqlResult<Inserter<'c>> {
        Ok(Inserter { rows: wingbeat_sql::Inserter::prepare(db, self.name, &self.list(""))? })
    }

    /// The next free row number. Requires a write transaction.
    pub(super) fn next(&self, db: &Connection) -> SqlResult<i64> {
        let sql = format!("SELECT coalesce(max(id), 0) + 1 FROM {}", self.name);
        prepare(db, &sql)?.query_row([], |row| row.get(0))
    }

    /// Verifies the row of that number. Fails if it is missing.
    pub(super) fn verify_row(&self, db: &Connection, id: i64) -> SqlResult<()> {
        Lookup::prepare(db, *self)?.get(id, |_| Ok(()))
    }

    /// The number of the row with these values, inserted if missing.
    pub(super) fn find_or_insert(&self, db: &Connection, values: &[&dyn ToSql]) -> SqlResult<i64> {
        // Only environments have nullable columns. PostgreSQL cannot use an index for this operator.
        let is = if self.name == ENVIRONMENT.name { "IS NOT DISTINCT FROM" } else { "=" };
        let conditions = self.columns().skip(1).zip(1..);
        let conditions: Vec<_> =
            conditions.map(|(name, at)| format!("{name} {is} ?{at}")).collect();
        let sql = format!("SELECT id FROM {} WHERE {}", self.name, conditions.join(" AND "));
        if let Some(known) = prepare(db, &sql)?.query_row(values, |row| row.get(0)).optional()? {
            return Ok(known);
        }
        let id = self.next(db)?;
        self.insert(db, &[&[&id as &dyn ToSql], values].concat())?;
        Ok(id)
    }

    /// Adds one row.
    pub(super) fn insert(&self, db: &Connection, values: &[&dyn ToSql]) -> SqlResult<Checksum> {
        let mut inserter = self.inserter(db)?;
        let checksum = inserter.insert(values)?;
        inserter.finish()?;
        Ok(checksum)
    }

    /// Returns the checksum of a row of [`Table::select`], whose columns begin at `first`. Fails if it does not match
    /// the stored one.
    pub(super) fn verify(&self, row: &Row<'_>, first: usize) -> SqlResult<Checksum> {
        let checksum = self.checksum(row, first)?;
        let written: Option<i64> = row.get(first + self.count)?;
        let is_right = written == Some(i64::from(checksum.short()));
        let error =
            || damage(format!("a row of the table {} differs from what was written", self.name));
        is_right.then_some(checksum).ok_or_else(error)
    }

    pub(super) fn checksum(&self, row: &Row<'_>, first: usize) -> SqlResult<Checksum> {
        // Reuses a buffer: a plot verifies hundreds of thousands of rows.
        SCRATCH.with_borrow_mut(|bytes| {
            bytes.0.clear();
            for column in first..first + self.count {
                bytes.add(row.get_ref(column)?);
            }
            Ok(bytes.checksum())
        })
    }
}

pub(super) struct Inserter<'c> {
    rows: wingbeat_sql::Inserter<'c>,
}

impl Inserter<'_> {
    pub(super) fn insert(&mut self, values: &[&dyn ToSql]) -> SqlResult<Checksum> {
        let checksum = Checksum::of(values)?;
        let short = checksum.short();
        self.rows.insert(values.iter().copied().chain([&short as &dyn ToSql]))?;
        Ok(checksum)
    }

    /// Flushes all rows to the database. On PostgreSQL they are buffered until then.
    pub(super) fn finish(self) -> SqlResult<()> {
        self.rows.finish()
    }
}

/// The checksum of a row, or the sum of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Checksum(i64);

impl Checksum {
    pub(super) fn of(values: &[&dyn ToSql]) -> SqlResult<Self> {
        let mut bytes = Bytes::default();
        for value in values {
            match value.to_sql()? {
                ToSqlOutput::Borrowed(value) => bytes.add(value),
                ToSqlOutput::Owned(value) => bytes.add((&value).into()),
                other => {
                    let error = format!("{other:?} has no checksum");
                    return Err(Error::value(error));
                }
            }
        }
        Ok(bytes.checksum())
    }

    pub(super) fn of_read(values: &[ValueRef<'_>]) -> Self {
        let mut bytes = Bytes::default();
        values.iter().for_each(|value| bytes.add(*value));
        bytes.checksum()
    }

    /// Checksum over the part of a metric that a history reads.
    pub(super) fn of_value(benchmark: i64, measure: i64, iteration: u32, value: f64) -> Self {
        let mut bytes = [0; 32];
        let parts =
            [benchmark.cast_unsigned(), measure.cast_unsigned(), iteration.into(), bits(value)];
        for (place, part) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(parts) {
            *place = part.to_le_bytes();
        }
        Self(xxh3_64(&bytes).cast_signed())
    }

    pub(super) fn stored(sum: i64) -> Self {
        Self(sum)
    }

    pub(super) fn add(&mut self, other: Self) {
        self.0 = self.0.wrapping_add(other.0);
    }

    /// Updates a sum after one of its parts has changed.
    pub(super) fn replace(&mut self, before: Self, after: Self) {
        self.0 = self.0.wrapping_sub(before.0).wrapping_add(after.0);
    }

    /// All bits, as stored in sums.
    pub(super) fn whole(self) -> i64 {
        self.0
    }

    /// The lower half, as stored in a row. A flipped bit goes undetected once in four billion cases.
    pub(super) fn short(self) -> i32 {
        self.0 as i32
    }
}

thread_local! {
    static SCRATCH: RefCell<Bytes> = RefCell::default();
}

/// Serializes the values of a row unambiguously.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn add(&mut self, value: ValueRef<'_>) {
        // A type tag, a number or length, and the text itself.
        let (mark, number, text) = match value {
            ValueRef::Null => return self.0.push(0),
            ValueRef::Integer(number) => (1, number.cast_unsigned(), &[][..]),
            ValueRef::Real(number) => (2, bits(number), &[][..]),
            ValueRef::Text(text) => (3, text.len() as u64, text),
            ValueRef::Blob(blob) => (4, blob.len() as u64, blob),
        };
        let mut head = [mark; 9];
        head[1..].copy_from_slice(&number.to_le_bytes());
        self.0.extend_from_slice(&head);
        self.0.extend_from_slice(text);
    }

    fn checksum(&self) -> Checksum {
        Checksum(xxh3_64(&self.0).cast_signed())
    }
}

/// SQLite stores -0.0 as 0.
fn bits(number: f64) -> u64 {
    (number + 0.0).to_bits()
}

/// Content that differs from what was written.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Damage(String);

/// The error for damage, in the type of database errors.
pub(super) fn damage(what: impl Into<String>) -> Error {
    Error::content(Damage(what.into()))
}

#[cfg(test)]
mod tests {
    use wingbeat_sql::params;

    use super::*;

    #[test]
    fn each_value_counts_and_its_place() {
        let of = |values: &[&dyn ToSql]| Checksum::of(values).expect("a checksum");
        let rows: [&[&dyn ToSql]; 8] = [
            params![1, 2.0, "a"],
            params![2.0, 1, "a"],
            params![1, 2, "a"],
            params![1, 2.0, b"a".to_vec()],
            params![1, 2.0, "a", None::<i64>],
            params![1, 2.0, None::<String>],
            params![1, 2.0, "", "a"],
            params![1, 2.0, "a", ""],
        ];
        for (at, row) in rows.iter().enumerate() {
            for other in &rows[at + 1..] {
                assert_ne!(of(row), of(other));
            }
        }
        assert_eq!(of(params![-0.0]), of(params![0.0]));
    }

    /// Checksums are stored, so they must never change.
    #[test]
    fn known_checksums() {
        let row = Checksum::of(params![7, "main", 1.5, None::<i64>]).expect("a checksum");
        let bytes = b"\x01\x07\0\0\0\0\0\0\0\x03\x04\0\0\0\0\0\0\0main\x02\0\0\0\0\0\0\xf8\x3f\0";
        assert_eq!(row.whole(), xxh3_64(bytes).cast_signed());
        assert_eq!(row.short(), row.whole() as i32);
        assert_ne!(Checksum::of_value(1, 2, 3, 4.0), Checksum::of_value(2, 1, 3, 4.0));
    }
}

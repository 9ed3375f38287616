//! Monthly partitions of a store on PostgreSQL. The upper half of a report's row number is its month, and so is that of
//! its samples'. Tables that grow with metrics are partitioned by it, so a condition on a report prunes partitions by
//! itself.
//!
//! Row numbers grow in the order of storing, which a [`Cursor`](super::Cursor) relies on: the month is that of
//! the measurement, unless a later month has already begun. So a store copied in order of time is partitioned by the
//! months of measurement, and a late report goes into the newest month.

use time::OffsetDateTime;
use wingbeat_sql::Connection;

use super::{SqlResult, prepare};
use crate::model::Report;

/// Bits of a row number below the month.
const SEQUENCE_BITS: u32 = 32;

/// The partitioned tables.
const TABLES: [&str; 4] = ["metric", "samples", "failure", "verdict"];

/// Free row numbers of a report and of its first samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Free {
    pub(super) report: i64,
    pub(super) samples: i64,
}

/// The month of a time in UTC, counted from the year 0.
fn month(time: OffsetDateTime) -> i64 {
    let time = time.to_offset(time::UtcOffset::UTC);
    i64::from(time.year()) * 12 + i64::from(u8::from(time.month()) - 1)
}

/// The row number of the next report, given the newest one. A clock that is ahead must not push all later reports into
/// its month.
fn next(newest: i64, start: OffsetDateTime, now: OffsetDateTime) -> i64 {
    let month = month(start).min(month(now)).max(newest >> SEQUENCE_BITS);
    (newest + 1).max(month << SEQUENCE_BITS | 1)
}

/// The row numbers for a report, whose partition is created if missing. Requires a write transaction.
pub(super) fn free(db: &Connection, report: &Report) -> SqlResult<Free> {
    let newest = "SELECT coalesce(max(id), 0) FROM report";
    let newest: i64 = prepare(db, newest)?.query_row([], |row| row.get(0))?;
    let row = next(newest, report.start_time, OffsetDateTime::now_utc());
    let month = row >> SEQUENCE_BITS;
    if newest >> SEQUENCE_BITS != month {
        make(db, month)?;
    }
    let begin = month << SEQUENCE_BITS;
    let samples = "SELECT coalesce(max(id), ?1) + 1 FROM samples WHERE id > ?1";
    let samples = prepare(db, samples)?.query_row([begin], |row| row.get(0))?;
    Ok(Free { report: row, samples })
}

fn make(db: &Connection, month: i64) -> SqlResult<()> {
    let (begin, end) = (month << SEQUENCE_BITS, (month + 1) << SEQUENCE_BITS);
    for table in TABLES {
        let name = format!("{table}_{:04}_{:02}", month / 12, month % 12 + 1);
        let is_there = "SELECT to_regclass(?1) IS NOT NULL";
        if prepare(db, is_there)?.query_row([name.as_str()], |row| row.get(0))? {
            continue;
        }
        // Attaching a partition does not block readers, as creating one in place would.
        db.execute_batch(&format!(
            "CREATE TABLE {name} (LIKE {table} INCLUDING ALL);
             ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({begin}) TO ({end})"
        ))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_grow_and_tell_the_month_of_measuring() {
        let at = |text: &str| {
            let format = time::format_description::well_known::Rfc3339;
            OffsetDateTime::parse(text, &format).expect("a time")
        };
        let now = at("2026-11-28T03:00:00Z");
        let check = |newest: i64, start: &str, (year, month, sequence): (i64, i64, i64)| {
            let expected = (year * 12 + month - 1) << 32 | sequence;
            let found = next(newest, at(start), now);
            assert_eq!(found, expected, "{start}");
            found
        };
        let first = check(0, "2026-09-30T23:59:59Z", (2026, 9, 1));
        let second = check(first, "2026-09-01T00:00:00Z", (2026, 9, 2));
        let third = check(second, "2026-10-01T01:00:00+02:00", (2026, 9, 3));
        let later = check(third, "2026-10-01T00:00:00Z", (2026, 10, 1));
        // A late report, and one whose clock is ahead.
        let late = check(later, "2020-01-01T00:00:00Z", (2026, 10, 2));
        check(late, "2031-01-01T00:00:00Z", (2026, 11, 1));
    }
}

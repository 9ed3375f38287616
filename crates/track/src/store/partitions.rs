//! Months of a store on PostgreSQL. The row number of a report has its month in the upper half, and so has that of
//! its samples; the tables that grow with metrics are divided by it, so a condition on a report finds its month by
//! itself.
//!
//! Row numbers grow in the order in which reports come, since [`Cursor::Report`](super::Cursor) goes along them: the month is
//! that of the measuring, unless a later month has begun already. So a store that was copied in the order of time is
//! divided by the months of measuring, and a report that comes late lies in the newest month.

use super::prelude::*;

/// Bits of a row number below the month.
const SEQUENCE_BITS: u32 = 32;

/// The tables that are divided.
const TABLES: [&str; 4] = ["metric", "samples", "failure", "verdict"];

/// Free row numbers of a report and of its first samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Free {
    pub(super) report: i64,
    pub(super) samples: i64,
}

/// The months since the year 0 that a time is in, in UTC.
fn month(time: OffsetDateTime) -> i64 {
    let time = time.to_offset(time::UtcOffset::UTC);
    i64::from(time.year()) * 12 + i64::from(u8::from(time.month()) - 1)
}

/// Its number for the next report, given the newest one there is. A clock that is ahead must not push all that
/// follows into its month.
fn next(newest: i64, start: OffsetDateTime, now: OffsetDateTime) -> i64 {
    let month = month(start).min(month(now)).max(newest >> SEQUENCE_BITS);
    (newest + 1).max(month << SEQUENCE_BITS | 1)
}

/// The row numbers for a report, whose partition is made if need be. Only within a transaction that writes.
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
        // A partition that is attached does not lock out who reads, as one that is made does.
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
        // One that comes late, and one whose clock is ahead.
        let late = check(later, "2020-01-01T00:00:00Z", (2026, 10, 2));
        check(late, "2031-01-01T00:00:00Z", (2026, 11, 1));
    }
}

//! The row that tells how many reports and changes of alerts there are, so that none goes unnoticed.

use rusqlite::{Connection, Row};

use super::{SqlResult, checksum::Checksum, prepare};

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
}

impl Total {
    pub(super) fn read(db: &Connection) -> SqlResult<Self> {
        let sql = "SELECT reports, reports_checksum, alert_changes, alert_changes_checksum
                   FROM total WHERE id = 1";
        prepare(db, sql)?.query_row([], |row| {
            let count = |row: &Row<'_>, first: usize| -> SqlResult<Count> {
                let sum = Checksum::stored(row.get(first + 1)?);
                Ok(Count { rows: row.get(first)?, sum })
            };
            Ok(Self { reports: count(row, 0)?, alert_changes: count(row, 2)? })
        })
    }

    pub(super) fn write(&self, db: &Connection) -> SqlResult<()> {
        let sql = "UPDATE total SET reports = ?1, reports_checksum = ?2,
                       alert_changes = ?3, alert_changes_checksum = ?4 WHERE id = 1";
        let Self { reports, alert_changes } = self;
        prepare(db, sql)?.execute([
            reports.rows,
            reports.sum.whole(),
            alert_changes.rows,
            alert_changes.sum.whole(),
        ])?;
        Ok(())
    }
}

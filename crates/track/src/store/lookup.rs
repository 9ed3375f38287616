//! Rows of names, one after the other by their numbers, each verified. The statement stays prepared: a report
//! has thousands of names.

use super::prelude::*;
use rusqlite::CachedStatement;

use super::{
    checksum::{BENCHMARK, Table, damage},
    from_row::{MEASURE, measure},
};

pub(super) struct Lookup<'c> {
    table: Table,
    statement: CachedStatement<'c>,
}

impl<'c> Lookup<'c> {
    pub(super) fn prepare(db: &'c Connection, table: Table) -> SqlResult<Self> {
        let sql = format!("{} WHERE id = ?1", table.select());
        Ok(Self { table, statement: prepare(db, &sql)? })
    }

    /// Verifies the row of that number, if it is there, and reads it.
    pub(super) fn row<T>(
        &mut self,
        id: i64,
        read: impl FnOnce(&Row<'_>) -> SqlResult<T>,
    ) -> SqlResult<Option<T>> {
        let mut rows = self.statement.query([id])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        self.table.verify(row, 0)?;
        read(row).map(Some)
    }
}

impl Lookup<'_> {
    /// Verifies the row of that number. An error where it is missing.
    pub(super) fn verify(&mut self, id: i64) -> SqlResult<()> {
        let name = self.table.name;
        let missing = || damage(format!("a row of the table {name} is missing"));
        self.row(id, |_| Ok(()))?.ok_or_else(missing)
    }
}

/// Names of benchmarks and measures by their rows.
pub(super) struct Names<'c> {
    db: &'c Connection,
    benchmarks: Lookup<'c>,
    /// Measures are few.
    measures: Vec<(i64, Measure)>,
}

impl<'c> Names<'c> {
    pub(super) fn prepare(db: &'c Connection) -> SqlResult<Self> {
        Ok(Self { db, benchmarks: Lookup::prepare(db, BENCHMARK)?, measures: Vec::new() })
    }

    pub(super) fn benchmark(&mut self, row: i64) -> SqlResult<BenchmarkName> {
        let name = self.benchmarks.row(row, |row| row.get::<_, Text<_>>(2))?;
        Ok(name.ok_or(rusqlite::Error::QueryReturnedNoRows)?.0)
    }

    pub(super) fn measure(&mut self, row: i64) -> SqlResult<Measure> {
        if let Some((_, known)) = self.measures.iter().find(|(known, _)| *known == row) {
            return Ok(known.clone());
        }
        let sql = format!("SELECT {MEASURE} FROM measure q WHERE q.id = ?1");
        let found = prepare(self.db, &sql)?.query_row([row], measure)?;
        self.measures.push((row, found.clone()));
        Ok(found)
    }
}

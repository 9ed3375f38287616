//! Rows of names, one after the other by their numbers, each verified. The statement stays prepared: a report
//! has thousands of names.

use super::prelude::*;
use wingbeat_sql::Many;

use super::{
    checksum::{BENCHMARK, Table, damage},
    from_row::{MEASURE, measure},
};

/// Names that PostgreSQL is asked for at once.
const NAMES_AT_ONCE: usize = 4_096;

pub(super) struct Lookup<'c> {
    table: Table,
    statement: Many<'c>,
}

impl<'c> Lookup<'c> {
    pub(super) fn prepare(db: &'c Connection, table: Table) -> SqlResult<Self> {
        let sql = format!("{} WHERE id = ?1", table.select());
        Ok(Self { table, statement: many(db, &sql, NAMES_AT_ONCE)? })
    }

    /// Says which numbers will be asked for.
    pub(super) fn expect(&mut self, ids: impl IntoIterator<Item = i64>) {
        self.statement.expect(ids);
    }

    /// Verifies the row of that number, if it is there, and reads it.
    pub(super) fn row<T>(
        &mut self,
        id: i64,
        read: impl FnOnce(&Row<'_>) -> SqlResult<T>,
    ) -> SqlResult<Option<T>> {
        let mut rows = self.statement.query(id)?;
        let Some(row) = rows.next()? else { return Ok(None) };
        self.table.verify(&row, 0)?;
        read(&row).map(Some)
    }
}

impl Lookup<'_> {
    /// As [`Lookup::row`]. An error where it is missing.
    pub(super) fn get<T>(
        &mut self,
        id: i64,
        read: impl FnOnce(&Row<'_>) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let name = self.table.name;
        let missing = || damage(format!("a row of the table {name} is missing"));
        self.row(id, read)?.ok_or_else(missing)
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

    /// Says which benchmarks will be asked for, by their rows.
    pub(super) fn expect_benchmarks(&mut self, rows: impl IntoIterator<Item = i64>) {
        self.benchmarks.expect(rows);
    }

    /// As [`Self::expect_benchmarks`], for all of a project.
    pub(super) fn expect_all_benchmarks(&mut self, project: i64) -> SqlResult<()> {
        if !self.db.is_postgres() {
            return Ok(());
        }
        let sql = "SELECT id FROM benchmark WHERE project = ?1";
        let mut statement = prepare(self.db, sql)?;
        let rows = statement.query_map([project], |row| row.get(0))?;
        self.benchmarks.expect(rows.collect::<SqlResult<Vec<i64>>>()?);
        Ok(())
    }

    pub(super) fn benchmark(&mut self, row: i64) -> SqlResult<BenchmarkName> {
        let name = self.benchmarks.row(row, |row| row.get::<_, Text<_>>(2))?;
        Ok(name.ok_or(Error::NoRow)?.0)
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

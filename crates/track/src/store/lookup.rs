//! Looks up rows of names by number, and verifies each. The statement stays prepared, because a report has thousands of
//! names.

use super::prelude::*;
use rustc_hash::FxHashMap;
use wingbeat_sql::Many;

use super::checksum::{BENCHMARK, MEASURE, Table, damage};

/// Number of names fetched at a time from PostgreSQL.
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

    /// Announces numbers that will be requested.
    pub(super) fn expect(&mut self, ids: impl IntoIterator<Item = i64>) {
        self.statement.expect(ids);
    }

    /// Verifies and reads the row of that number, if it exists.
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
    /// Like [`Lookup::row`], but fails if it is missing.
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

/// Verified names of benchmarks and measures by row number.
pub(super) struct Names<'c> {
    db: &'c Connection,
    benchmarks: Lookup<'c>,
    measures: Lookup<'c>,
    known_benchmarks: FxHashMap<i64, BenchmarkName>,
    /// There are few.
    known_measures: Vec<(i64, Measure)>,
}

impl<'c> Names<'c> {
    pub(super) fn prepare(db: &'c Connection) -> SqlResult<Self> {
        let (benchmarks, measures) =
            (Lookup::prepare(db, BENCHMARK)?, Lookup::prepare(db, MEASURE)?);
        let (known_benchmarks, known_measures) = (FxHashMap::default(), Vec::new());
        Ok(Self { db, benchmarks, measures, known_benchmarks, known_measures })
    }

    /// Announces benchmarks that will be requested, by row number.
    pub(super) fn expect_benchmarks(&mut self, rows: impl IntoIterator<Item = i64>) {
        self.benchmarks.expect(rows);
    }

    /// Like [`Self::expect_benchmarks`], for all benchmarks of a project.
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

    /// Reads a benchmark, unless it is known.
    pub(super) fn find_benchmark(&mut self, row: i64) -> SqlResult<()> {
        if !self.known_benchmarks.contains_key(&row) {
            let name = self.benchmarks.get(row, |row| row.get::<_, Text<_>>(2))?;
            self.known_benchmarks.insert(row, name.0);
        }
        Ok(())
    }

    /// Reads a measure, unless it is known.
    pub(super) fn find_measure(&mut self, row: i64) -> SqlResult<()> {
        if self.known_measure(row).is_none() {
            let found = self.measures.get(row, measure)?;
            self.known_measures.push((row, found));
        }
        Ok(())
    }

    /// A benchmark read before.
    pub(super) fn known_benchmark(&self, row: i64) -> Option<&BenchmarkName> {
        self.known_benchmarks.get(&row)
    }

    /// A measure read before.
    pub(super) fn known_measure(&self, row: i64) -> Option<&Measure> {
        self.known_measures.iter().find(|(known, _)| *known == row).map(|(_, measure)| measure)
    }

    pub(super) fn benchmark(&mut self, row: i64) -> SqlResult<BenchmarkName> {
        self.find_benchmark(row)?;
        self.known_benchmark(row).cloned().ok_or(Error::NoRow)
    }

    pub(super) fn measure(&mut self, row: i64) -> SqlResult<Measure> {
        self.find_measure(row)?;
        self.known_measure(row).cloned().ok_or(Error::NoRow)
    }
}

/// Reads a measure from the columns [`MEASURE`].
fn measure(row: &Row<'_>) -> SqlResult<Measure> {
    Ok(Measure {
        slug: row.get::<_, Text<_>>(1)?.0,
        name: row.get::<_, String>(2)?.into(),
        units: row.get::<_, String>(3)?.into(),
        direction: row.get::<_, Word<_>>(4)?.0,
        kind: row.get::<_, Word<_>>(5)?.0,
    })
}

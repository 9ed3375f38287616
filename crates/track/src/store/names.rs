//! Looks up benchmarks and measures by row number. The statements stay prepared, because a report has thousands of
//! names.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;
use wingbeat_sql::{Connection, Many, Row};

use super::{
    SqlResult,
    columns::{MEASURE_COLUMNS, Text, measure},
    error::damage,
    many, prepare,
};
use crate::model::{BenchmarkName, Measure};

/// Number of names fetched at a time from PostgreSQL.
const NAMES_AT_ONCE: usize = 4_096;

pub(super) struct Names<'c> {
    db: &'c Connection,
    benchmarks: Many<'c>,
    measures: Many<'c>,
    known_benchmarks: FxHashMap<i64, BenchmarkName>,
    known_measures: FxHashMap<i64, Measure>,
}

impl<'c> Names<'c> {
    pub(super) fn prepare(db: &'c Connection) -> SqlResult<Self> {
        let benchmarks = "SELECT name FROM benchmark WHERE id = ?1";
        let measures = format!("SELECT {MEASURE_COLUMNS} FROM measure q WHERE q.id = ?1");
        let (known_benchmarks, known_measures) = Default::default();
        Ok(Self {
            db,
            benchmarks: many(db, benchmarks, NAMES_AT_ONCE)?,
            measures: many(db, &measures, NAMES_AT_ONCE)?,
            known_benchmarks,
            known_measures,
        })
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

    pub(super) fn benchmark(&mut self, row: i64) -> SqlResult<&BenchmarkName> {
        let name = |row: &Row<'_>| Ok(row.get::<_, Text<_>>(0)?.0);
        find(&mut self.known_benchmarks, &mut self.benchmarks, row, name)
    }

    pub(super) fn measure(&mut self, row: i64) -> SqlResult<&Measure> {
        find(&mut self.known_measures, &mut self.measures, row, measure)
    }
}

fn find<'k, T>(
    known: &'k mut FxHashMap<i64, T>,
    statement: &mut Many<'_>,
    id: i64,
    read: impl FnOnce(&Row<'_>) -> SqlResult<T>,
) -> SqlResult<&'k T> {
    Ok(match known.entry(id) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => {
            let mut rows = statement.query(id)?;
            let missing = || damage("a name that a report refers to is missing");
            let row = rows.next()?.ok_or_else(missing)?;
            entry.insert(read(&row)?)
        }
    })
}

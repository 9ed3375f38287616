//! Rows that many queries need: reports that meet conditions, the rows of names, and the names of rows.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;
use uuid::Uuid;
use wingbeat_sql::{
    Connection, Many, OptionalExtension as _, Row, Value, params, params_from_iter,
};

use super::{
    SqlResult,
    columns::{ENVIRONMENT_COLUMNS, MEASURE_COLUMNS, measure},
    error::damage,
    many, prepare,
    withdrawals::STANDS,
};
use crate::model::{BenchmarkName, BranchName, Measure, ProjectName};

/// Conditions on rows, with the values of their parameters in order.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    texts: Vec<String>,
    values: Vec<Value>,
}

impl Conditions {
    /// Adds a condition, whose text ends before the placeholder of its value. Ignored without a value.
    pub(super) fn add(&mut self, text: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.texts.push(format!("{text} ?"));
            self.values.push(value.into());
        }
    }

    /// Adds the condition that the report `r` comes before this time and UUID.
    pub(super) fn before(&mut self, start_time_ns: i64, report: Uuid) {
        self.texts.push("(r.start_time_ns, r.uuid) < (?, ?)".to_owned());
        self.values.extend([start_time_ns.into(), report.as_bytes().to_vec().into()]);
    }

    pub(super) fn require(&mut self, text: &str) {
        self.texts.push(text.to_owned());
    }

    /// Adds the condition that a column has one of these values. Ignored without a list.
    pub(super) fn among(&mut self, column: &str, rows: Option<&[i64]>) {
        self.texts.extend(rows.map(|rows| is_one_of(column, rows)));
    }

    /// The values, followed by that of a limit.
    pub(super) fn values(mut self, limit: usize) -> Vec<Value> {
        self.values.push(i64::try_from(limit).unwrap_or(i64::MAX).into());
        self.values
    }

    /// `WHERE …`, or empty.
    pub(super) fn sql(&self) -> String {
        match self.texts.is_empty() {
            true => String::new(),
            false => format!("WHERE {}", self.texts.join(" AND ")),
        }
    }
}

pub(super) fn is_one_of(column: &str, rows: &[i64]) -> String {
    // PostgreSQL does not accept an empty list.
    if rows.is_empty() {
        return format!("{column} IN (NULL)");
    }
    let rows: Vec<_> = rows.iter().map(i64::to_string).collect();
    format!("{column} IN ({})", rows.join(", "))
}

/// The reports that meet conditions and were not withdrawn, newest first, at most `limit`. Rows have `uuid`, `hash`,
/// `start_time_ns`, the names `branch` and `testbed`, the environment, and these columns of the report `r`, its project
/// `p`, its branch `b` and its testbed `t`.
pub(super) fn newest<T>(
    db: &Connection,
    columns: &str,
    mut conditions: Conditions,
    limit: usize,
    of_row: impl FnMut(&Row<'_>) -> SqlResult<T>,
) -> SqlResult<Vec<T>> {
    conditions.require(STANDS);
    let sql = format!(
        "SELECT r.uuid, r.hash, r.start_time_ns, b.name AS branch, t.name AS testbed,
                {ENVIRONMENT_COLUMNS}, {columns}
         FROM report r
         JOIN project p ON p.id = r.project
         JOIN branch b ON b.id = r.branch
         JOIN testbed t ON t.id = r.testbed
         JOIN environment e ON e.id = r.environment
         {}
         ORDER BY r.start_time_ns DESC, r.uuid DESC
         LIMIT ?",
        conditions.sql()
    );
    let values = params_from_iter(conditions.values(limit));
    prepare(db, &sql)?.query_map(values, of_row)?.collect()
}

pub(super) fn project_row(db: &Connection, project: &ProjectName) -> SqlResult<Option<i64>> {
    let sql = "SELECT id FROM project WHERE name = ?1";
    prepare(db, sql)?.query_row([project.as_str()], |row| row.get(0)).optional()
}

pub(super) fn branch_row(
    db: &Connection,
    project: &ProjectName,
    branch: &BranchName,
) -> SqlResult<Option<i64>> {
    match project_row(db, project)? {
        Some(project) => name_row(db, "branch", project, branch.as_str()),
        None => Ok(None),
    }
}

pub(super) fn name_row(
    db: &Connection,
    table: &str,
    project: i64,
    name: &str,
) -> SqlResult<Option<i64>> {
    let sql = format!("SELECT id FROM {table} WHERE project = ?1 AND name = ?2");
    prepare(db, &sql)?.query_row(params![project, name], |row| row.get(0)).optional()
}

/// Number of names fetched at a time from PostgreSQL.
const NAMES_AT_ONCE: usize = 4_096;

/// Looks up benchmarks and measures by row number. The statements stay prepared, because a report has thousands of names.
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
        let name = |row: &Row<'_>| row.get(0);
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

//! Selects the rows of a query: those of names, and reports that meet conditions.

use uuid::Uuid;
use wingbeat_sql::{Connection, OptionalExtension as _, Row, Value, params_from_iter};

use super::{SqlResult, columns::ENVIRONMENT_COLUMNS, prepare, withdrawals::STANDS};
use crate::model::{BranchName, ProjectName};

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
    prepare(db, &sql)?.query_row((project, name), |row| row.get(0)).optional()
}

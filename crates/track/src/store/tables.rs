//! The schema with its version, and statements that only depend on the names of tables and columns.

use uuid::Uuid;
use wingbeat_sql::{Connection, Inserter, OptionalExtension as _, ToSql, versions::Application};

use super::{SqlResult, document::Kind, prepare};

/// Statements that create the tables of version 1, and then those to each later version. Released ones are never
/// edited. A version that changes a document must also recompute the digests of reports.
pub(super) const MIGRATIONS: [&str; 1] = [include_str!("schema.sql")];

/// The schema version that this wingbeat reads and writes.
pub const VERSION: i64 = MIGRATIONS.len() as i64;

/// `application_id` of a store: "wngB"; in development it was "wngb".
pub(super) const APPLICATION: Application =
    Application { sqlite_id: 0x776e_6742, development_id: 0x776e_6762, name: "store" };

/// A table and its columns, the key first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table {
    pub(super) name: &'static str,
    columns: &'static str,
}

pub(super) const PROJECT: Table = Table { name: "project", columns: "id, name" };
pub(super) const BRANCH: Table = Table { name: "branch", columns: NAMED };
pub(super) const TESTBED: Table = Table { name: "testbed", columns: NAMED };
pub(super) const BENCHMARK: Table = Table { name: "benchmark", columns: NAMED };
pub(super) const MEASURE: Table =
    Table { name: "measure", columns: "id, slug, name, units, direction, kind" };
pub(super) const ENVIRONMENT: Table = Table {
    name: "environment",
    columns: "id, kernel, cpu_model, governor, cores, compiler, wingbeat",
};
pub(super) const REPORT: Table = Table {
    name: "report",
    columns: "id, uuid, project, branch, testbed, hash, epoch, start_branch, start_hash, start_until_ns, \
              start_versions_max, start_time_ns, end_time_ns, adapter, environment, load, steal, git_hash, is_dirty, \
              iterations, confirms, metrics, failures, alerts, notable, digest",
};
pub(super) const METRIC: Table = Table {
    name: "metric",
    columns: "report, benchmark, measure, iteration, position, is_ignored, value, lower, upper, samples",
};
pub(super) const SAMPLES: Table = Table { name: "samples", columns: "id, bytes" };
pub(super) const FAILURE: Table =
    Table { name: "failure", columns: "report, position, iteration, benchmark, reason" };
pub(super) const VERDICT: Table = Table {
    name: "verdict",
    columns: "report, benchmark, measure, iteration, position, outcome, test, has_boundary, baseline, lower_limit, \
              upper_limit, crossed, change, change_lower, change_upper, p, smallest_visible, points, reason",
};
pub(super) const ALERT: Table = Table {
    name: "alert",
    columns: "uuid, report, benchmark, measure, iteration, position, crossed, status, reason",
};
pub(super) const ALERT_CHANGE: Table =
    Table { name: "alert_change", columns: "uuid, alert, time_ns, status, reason" };
pub(super) const WITHDRAWAL: Table =
    Table { name: "withdrawal", columns: "uuid, report, time_ns, reason" };
pub(super) const PROFILE: Table = Table {
    name: "profile",
    columns: "uuid, report, benchmark, kind, tool, time_ns, samples, hash, bytes",
};

const NAMED: &str = "id, project, name";

impl Table {
    /// Selects all columns.
    pub(super) fn select(&self) -> String {
        format!("SELECT {} FROM {}", self.columns, self.name)
    }

    pub(super) fn inserter<'c>(&self, db: &'c Connection) -> SqlResult<Inserter<'c>> {
        Inserter::prepare(db, self.name, self.columns)
    }

    /// Adds one row.
    pub(super) fn insert(&self, db: &Connection, values: &[&dyn ToSql]) -> SqlResult<()> {
        let mut inserter = self.inserter(db)?;
        inserter.insert(values)?;
        inserter.finish()
    }

    /// The next free row number. Requires a write transaction.
    pub(super) fn next(&self, db: &Connection) -> SqlResult<i64> {
        let sql = format!("SELECT coalesce(max(id), 0) + 1 FROM {}", self.name);
        prepare(db, &sql)?.query_row([], |row| row.get(0))
    }

    /// The number of the row with these values, inserted if missing.
    pub(super) fn find_or_insert(&self, db: &Connection, values: &[&dyn ToSql]) -> SqlResult<i64> {
        // Only environments have nullable columns. PostgreSQL cannot use an index for this operator.
        let is = if self.name == ENVIRONMENT.name { "IS NOT DISTINCT FROM" } else { "=" };
        let conditions = self.columns.split(", ").skip(1).zip(1..);
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
}

/// Whether a document of that kind is in the store.
pub(super) fn is_known(db: &Connection, kind: Kind, uuid: Uuid) -> SqlResult<bool> {
    let sql = format!("SELECT 1 FROM {} WHERE uuid = ?1", kind.table());
    prepare(db, &sql)?.exists([uuid])
}

//! Retention: deletes old or excess data, oldest first, per project.

use rusqlite::{Connection, Transaction, params};

use super::{ProfilesError, levels::HOUR_NS};

/// Retention limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    pub for_s: i64,
    /// Per project.
    pub bytes: u64,
}

impl Keep {
    /// Data that ends earlier is not kept.
    pub fn oldest_ns(self, now_ns: i64) -> i64 {
        now_ns.saturating_sub(self.for_s.saturating_mul(1_000_000_000))
    }
}

/// How long received profiles are remembered, so that retries do not count twice.
const SEEN_NS: i64 = 86_400 * 1_000_000_000;

/// Start of the data to keep of a project above its size limit.
pub(super) fn too_much(
    connection: &Connection,
    project: &str,
    bytes: u64,
) -> Result<Option<i64>, ProfilesError> {
    let of_project = "FROM block WHERE series IN (SELECT id FROM series WHERE project = ?1)";
    let sql = format!("SELECT coalesce(sum(bytes), 0) {of_project}");
    let all: i64 = connection.query_row(&sql, [project], |row| row.get(0))?;
    let mut over = all.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
    if over <= 0 {
        return Ok(None);
    }
    let sql = format!("SELECT start_ns, bytes {of_project} ORDER BY start_ns");
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([project])?;
    let mut limit_ns = None;
    while let Some(row) = rows.next()? {
        let start_ns: i64 = row.get(0)?;
        // Blocks with the same start go together: an hour, and its first ten minutes.
        if over <= 0 && limit_ns != Some(start_ns) {
            return Ok(Some(start_ns));
        }
        over -= row.get::<_, i64>(1)?;
        limit_ns = Some(start_ns);
    }
    Ok(limit_ns.map(|start_ns| start_ns.saturating_add(1)))
}

/// Removes blocks that start before a time; returns files to delete. An hour's parts start later and are removed by the
/// next runs.
pub(super) fn forget_before(
    transaction: &Transaction<'_>,
    project: Option<&str>,
    limit_ns: i64,
) -> Result<Vec<String>, ProfilesError> {
    // Points have no index by age: those of each series are in time order. Blocks have one, and the `+` keeps SQLite
    // from using the series index there.
    let of_project = "series IN (SELECT id FROM series WHERE ?2 IS NULL OR project = ?2)";
    let sql = format!("DELETE FROM block WHERE start_ns < ?1 AND +{of_project} RETURNING path");
    let paths = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
    let gone: Vec<String> = transaction
        .prepare(&sql)?
        .query_map(params![limit_ns, project], paths)?
        .collect::<Result<_, _>>()?;
    let sql = format!("DELETE FROM point WHERE start_ns < ?1 AND {of_project}");
    transaction.execute(&sql, params![limit_ns, project])?;
    let sql = format!("DELETE FROM hour_sum WHERE hour < ?1 AND {of_project}");
    transaction.execute(&sql, params![limit_ns.div_euclid(HOUR_NS), project])?;
    Ok(gone)
}

/// Removes old entries of received profiles.
pub(super) fn forget_seen(transaction: &Transaction<'_>, now_ns: i64) -> Result<(), ProfilesError> {
    transaction.execute("DELETE FROM seen WHERE at_ns < ?1", [now_ns - SEEN_NS])?;
    Ok(())
}

/// Removes empty series.
pub(super) fn forget_empty(transaction: &Transaction<'_>) -> Result<(), ProfilesError> {
    let sql = "DELETE FROM series WHERE NOT EXISTS (SELECT 1 FROM block WHERE block.series = series.id) RETURNING id";
    let gone: Vec<i64> =
        transaction.prepare(sql)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for series in gone {
        for table in ["point", "hour_sum"] {
            let sql = format!("DELETE FROM {table} WHERE series = ?1");
            transaction.prepare_cached(&sql)?.execute([series])?;
        }
    }
    Ok(())
}

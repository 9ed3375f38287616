//! Retention: deletes old or excess data, oldest first, per project.

use wingbeat_sql::{Connection, Result, params, params_from_iter};

use super::levels::HOUR_NS;

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

/// How long files stay after the index no longer names them: longer than a page reads.
const READ_NS: i64 = 120 * 1_000_000_000;

/// Files that are deleted at once.
const GARBAGE_MAX: i64 = 500;

/// Start of the data to keep of a project above its size limit.
pub(super) fn too_much(db: &Connection, project: &str, bytes: u64) -> Result<Option<i64>> {
    let of_project =
        "FROM profile_block WHERE series IN (SELECT id FROM profile_series WHERE project = ?1)";
    let sql = format!("SELECT cast(coalesce(sum(bytes), 0) AS BIGINT) {of_project}");
    let all: i64 = db.query_row(&sql, [project], |row| row.get(0))?;
    let mut over = all.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
    if over <= 0 {
        return Ok(None);
    }
    let sql = format!(
        "SELECT age_ns, cast(sum(bytes) AS BIGINT) {of_project} GROUP BY age_ns ORDER BY age_ns"
    );
    let mut statement = db.prepare(&sql)?;
    let mut rows = statement.query([project])?;
    let mut limit_ns = None;
    while let Some(row) = rows.next()? {
        let age_ns: i64 = row.get(0)?;
        if over <= 0 {
            return Ok(Some(age_ns));
        }
        over -= row.get::<_, i64>(1)?;
        limit_ns = Some(age_ns);
    }
    Ok(limit_ns.map(|age_ns| age_ns.saturating_add(1)))
}

/// Whether there is data before a time.
pub(super) fn has_before(db: &Connection, limit_ns: i64) -> Result<bool> {
    db.prepare("SELECT 1 FROM profile_block WHERE age_ns < ?1 LIMIT 1")?.exists([limit_ns])
}

/// Removes blocks that start before a time, of all projects or one.
pub(super) fn forget_before(
    db: &Connection,
    project: Option<&str>,
    limit_ns: i64,
    now_ns: i64,
) -> Result<()> {
    // Points have no index by age: those of each series are in time order. Blocks have one, and the `+` keeps SQLite
    // from using the series index there.
    let of_project =
        "series IN (SELECT id FROM profile_series WHERE project = coalesce(?2, project))";
    let old = format!("age_ns < ?1 AND +{of_project}");
    let values = params![limit_ns, project];
    let sql = format!(
        "INSERT INTO profile_garbage (path, time_ns) SELECT path, {now_ns} FROM profile_block WHERE {old} \
         ON CONFLICT (path) DO NOTHING"
    );
    db.execute(&sql, values)?;
    db.execute(&format!("DELETE FROM profile_block WHERE {old}"), values)?;
    let sql = format!("DELETE FROM profile_point WHERE start_ns < ?1 AND {of_project}");
    db.execute(&sql, values)?;
    let sql = format!("DELETE FROM profile_hour WHERE hour < ?1 AND {of_project}");
    db.execute(&sql, params![limit_ns.div_euclid(HOUR_NS), project]).map(drop)
}

/// Whether [`forget_seen`] has something to do. Once an hour, not for each push.
pub(super) fn has_seen(db: &Connection, now_ns: i64) -> Result<bool> {
    let sql = "SELECT 1 FROM profile_push WHERE time_ns < ?1 LIMIT 1";
    db.prepare(sql)?.exists([now_ns - SEEN_NS - HOUR_NS])
}

/// Removes old entries of received profiles.
pub(super) fn forget_seen(db: &Connection, now_ns: i64) -> Result<()> {
    db.execute("DELETE FROM profile_push WHERE time_ns < ?1", [now_ns - SEEN_NS]).map(drop)
}

/// Removes empty series.
pub(super) fn forget_empty(db: &Connection) -> Result<()> {
    for series in empty(db)? {
        for (table, column) in
            [("profile_point", "series"), ("profile_hour", "series"), ("profile_series", "id")]
        {
            db.execute(&format!("DELETE FROM {table} WHERE {column} = ?1"), [series])?;
        }
        db.execute("UPDATE profile_series SET total = NULL WHERE total = ?1", [series])?;
    }
    Ok(())
}

/// Series without blocks. A total has none at first: it goes with its last series.
pub(super) fn empty(db: &Connection) -> Result<Vec<i64>> {
    let sql = "SELECT id FROM profile_series AS one \
               WHERE NOT EXISTS (SELECT 1 FROM profile_block WHERE series = one.id) \
               AND NOT EXISTS (SELECT 1 FROM profile_series AS other WHERE other.total = one.id)";
    db.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
}

/// Files to delete now.
pub(super) fn garbage(db: &Connection, now_ns: i64) -> Result<Vec<String>> {
    let sql = "SELECT path FROM profile_garbage WHERE time_ns < ?1 LIMIT ?2";
    db.prepare(sql)?.query_map([now_ns - READ_NS, GARBAGE_MAX], |row| row.get(0))?.collect()
}

/// Removes the entries of deleted files.
pub(super) fn forget_garbage(db: &Connection, gone: Vec<String>) -> Result<()> {
    let places = vec!["?"; gone.len()].join(", ");
    let sql = format!("DELETE FROM profile_garbage WHERE path IN ({places})");
    db.execute(&sql, params_from_iter(gone)).map(drop)
}

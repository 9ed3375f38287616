//! The index of the files: an SQLite database next to them. Files that it does not name are garbage.
//!
//! A **series** is everything with one label set. Its files are **blocks**: a received window, ten minutes, or an hour.
//! **Points** are sums of windows, so that timelines are drawn without opening files.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::{
    files::INDEX,
    intake::{Labels, Part},
    levels::{Block, HOUR_NS, Level, Span},
};

const SCHEMA: &str = "
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS series (
  id INTEGER PRIMARY KEY, project TEXT NOT NULL, service TEXT NOT NULL, name TEXT NOT NULL, labels TEXT NOT NULL,
  types TEXT NOT NULL, shown INTEGER NOT NULL, newest_ns INTEGER NOT NULL,
  UNIQUE (project, service, name, labels, types));
CREATE TABLE IF NOT EXISTS block (
  id INTEGER PRIMARY KEY, series INTEGER NOT NULL, level INTEGER NOT NULL, start_ns INTEGER NOT NULL,
  end_ns INTEGER NOT NULL, windows INTEGER NOT NULL, bytes INTEGER NOT NULL, is_merged INTEGER NOT NULL DEFAULT 0,
  path TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS block_of_series ON block (series, level, start_ns);
CREATE INDEX IF NOT EXISTS block_to_merge ON block (level, end_ns) WHERE is_merged = 0;
CREATE INDEX IF NOT EXISTS block_by_age ON block (start_ns);
CREATE TABLE IF NOT EXISTS point (
  series INTEGER NOT NULL, start_ns INTEGER NOT NULL, duration_ns INTEGER NOT NULL, sums BLOB NOT NULL,
  PRIMARY KEY (series, start_ns)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS hour_sum (
  series INTEGER NOT NULL, hour INTEGER NOT NULL, value INTEGER NOT NULL, PRIMARY KEY (series, hour)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS seen (id TEXT PRIMARY KEY, at_ns INTEGER NOT NULL) WITHOUT ROWID;
";

/// Lock timeout of a writer.
const PATIENCE: Duration = Duration::from_secs(10);

/// All profiles with one label set.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub id: i64,
    pub service: String,
    /// `process_cpu`, `memory`.
    pub name: String,
    pub labels: Labels,
    /// Name and unit of each value.
    pub types: Vec<(String, String)>,
    pub shown: usize,
    /// End of the newest profile, in nanoseconds since 1970.
    pub newest_ns: i64,
}

/// Sums of a series over some seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    pub start_ns: i64,
    pub duration_ns: i64,
    /// For each sample type.
    pub sums: Vec<i64>,
}

/// Opens or creates the index.
pub(super) fn open(folder: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(folder.join(INDEX))?;
    connection.busy_timeout(PATIENCE)?;
    connection.execute_batch(SCHEMA)?;
    Ok(connection)
}

/// Opens a read connection.
pub(super) fn reader(folder: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(folder.join(INDEX))?;
    connection.busy_timeout(PATIENCE)?;
    Ok(connection)
}

const SERIES_COLUMNS: &str = "id, service, name, labels, types, shown, newest_ns";

fn series_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Series> {
    let read = |text: String| serde_json::from_str::<Labels>(&text).unwrap_or_default();
    let types: String = row.get(4)?;
    Ok(Series {
        id: row.get(0)?,
        service: row.get(1)?,
        name: row.get(2)?,
        labels: read(row.get(3)?),
        types: serde_json::from_str(&types).unwrap_or_default(),
        shown: row.get::<_, i64>(5)?.try_into().unwrap_or(0),
        newest_ns: row.get(6)?,
    })
}

/// The series of a project, or of one of its services.
pub(super) fn series(
    connection: &Connection,
    project: &str,
    service: Option<&str>,
) -> rusqlite::Result<Vec<Series>> {
    let sql = format!(
        "SELECT {SERIES_COLUMNS} FROM series WHERE project = ?1 AND (?2 IS NULL OR service = ?2) \
         ORDER BY service, name, labels"
    );
    connection.prepare(&sql)?.query_map(params![project, service], series_of)?.collect()
}

/// Finds or creates the series of a part. `None` if the project has the maximum.
pub(super) fn series_for(
    transaction: &Transaction<'_>,
    project: &str,
    part: &Part,
    series_max: i64,
) -> rusqlite::Result<Option<i64>> {
    // Maps of strings always serialize.
    let labels = serde_json::to_string(&part.labels).unwrap_or_default();
    let types = serde_json::to_string(&part.types).unwrap_or_default();
    let end_ns = part.start_ns.saturating_add(part.duration_ns);
    let known = transaction
        .prepare_cached(
            "UPDATE series SET newest_ns = max(newest_ns, ?6) WHERE project = ?1 AND service = ?2 AND name = ?3 \
             AND labels = ?4 AND types = ?5 RETURNING id",
        )?
        .query_row(params![project, part.service, part.name, labels, types, end_ns], |row| row.get(0))
        .optional()?;
    if known.is_some() {
        return Ok(known);
    }
    let count: i64 = transaction.query_row(
        "SELECT count(*) FROM series WHERE project = ?1",
        [project],
        |row| row.get(0),
    )?;
    if count >= series_max {
        return Ok(None);
    }
    transaction.execute(
        "INSERT INTO series (project, service, name, labels, types, shown, newest_ns) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![project, part.service, part.name, labels, types, part.shown as i64, end_ns],
    )?;
    Ok(Some(transaction.last_insert_rowid()))
}

/// Marks a push as seen; returns whether it was seen before.
pub(super) fn is_seen(
    transaction: &Transaction<'_>,
    id: &str,
    now_ns: i64,
) -> rusqlite::Result<bool> {
    let sql = "INSERT INTO seen (id, at_ns) VALUES (?1, ?2) ON CONFLICT (id) DO NOTHING";
    Ok(transaction.prepare_cached(sql)?.execute(params![id, now_ns])? == 0)
}

/// Adds a file.
pub(super) fn add_block(
    transaction: &Transaction<'_>,
    level: Level,
    block: &Block,
    bytes: u64,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO block (id, series, level, start_ns, end_ns, windows, bytes, path) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let Block { id, series, start_ns, end_ns, windows, path } = block;
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    let values = params![id, series, level as i64, start_ns, end_ns, windows, bytes, path];
    transaction.prepare_cached(sql)?.execute(values).map(drop)
}

/// Number of the next file.
pub(super) fn next_block(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT coalesce(max(id), 0) + 1 FROM block", [], |row| row.get(0))
}

/// Blocks that match a condition with up to four numbers.
pub(super) fn blocks(
    connection: &Connection,
    condition: &str,
    values: &[i64],
) -> rusqlite::Result<Vec<Block>> {
    let sql =
        format!("SELECT id, series, start_ns, end_ns, windows, path FROM block WHERE {condition}");
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Block {
            id: row.get(0)?,
            series: row.get(1)?,
            start_ns: row.get(2)?,
            end_ns: row.get(3)?,
            windows: row.get(4)?,
            path: row.get(5)?,
        })
    };
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_map(rusqlite::params_from_iter(values), read)?.collect()
}

/// Adds a window's sums to its series.
pub(super) fn add_point(
    transaction: &Transaction<'_>,
    series: i64,
    point: &Point,
    shown: usize,
) -> rusqlite::Result<()> {
    let mut sums = point.sums.clone();
    let find = "SELECT sums FROM point WHERE series = ?1 AND start_ns = ?2";
    let known: Option<Vec<u8>> = transaction
        .prepare_cached(find)?
        .query_row(params![series, point.start_ns], |row| row.get(0))
        .optional()?;
    if let Some(known) = known {
        let known = unpacked(&known);
        sums.iter_mut().zip(known).for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }
    let put = "INSERT OR REPLACE INTO point (series, start_ns, duration_ns, sums) VALUES (?1, ?2, ?3, ?4)";
    let values = params![series, point.start_ns, point.duration_ns, packed(&sums)];
    transaction.prepare_cached(put)?.execute(values)?;
    let hour = "INSERT INTO hour_sum (series, hour, value) VALUES (?1, ?2, ?3) \
                ON CONFLICT (series, hour) DO UPDATE SET value = min(value + excluded.value, 4611686018427387903)";
    let value = point.sums.get(shown).copied().unwrap_or(0).min(i64::MAX / 4);
    let values = params![series, point.start_ns.div_euclid(HOUR_NS), value];
    transaction.prepare_cached(hour)?.execute(values).map(drop)
}

/// Points of a series that start in a time range.
pub(super) fn points(
    connection: &Connection,
    series: i64,
    from_ns: i64,
    until_ns: i64,
) -> rusqlite::Result<Vec<Point>> {
    let sql = "SELECT start_ns, duration_ns, sums FROM point WHERE series = ?1 AND start_ns >= ?2 AND start_ns < ?3";
    let read = |row: &rusqlite::Row<'_>| {
        let sums: Vec<u8> = row.get(2)?;
        Ok(Point { start_ns: row.get(0)?, duration_ns: row.get(1)?, sums: unpacked(&sums) })
    };
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_map(params![series, from_ns, until_ns], read)?.collect()
}

/// Coarsens the points of a time range to one per minute.
pub(super) fn coarsen(
    transaction: &Transaction<'_>,
    series: i64,
    from_ns: i64,
    until_ns: i64,
) -> rusqlite::Result<()> {
    const MINUTE_NS: i64 = 60 * 1_000_000_000;
    let minute = |point: &Point| point.start_ns.div_euclid(MINUTE_NS);
    let mut minutes: Vec<Point> = Vec::new();
    for point in points(transaction, series, from_ns, until_ns)? {
        match minutes.last_mut().filter(|last| minute(last) == minute(&point)) {
            Some(last) => {
                let end_ns = point.start_ns.saturating_add(point.duration_ns);
                last.duration_ns = last.duration_ns.max(end_ns.saturating_sub(last.start_ns));
                last.sums
                    .iter_mut()
                    .zip(point.sums)
                    .for_each(|(sum, it)| *sum = sum.saturating_add(it));
            }
            None => minutes.push(point),
        }
    }
    let delete = "DELETE FROM point WHERE series = ?1 AND start_ns >= ?2 AND start_ns < ?3";
    transaction.prepare_cached(delete)?.execute(params![series, from_ns, until_ns])?;
    let put = "INSERT OR REPLACE INTO point (series, start_ns, duration_ns, sums) VALUES (?1, ?2, ?3, ?4)";
    for point in minutes {
        let values = params![series, point.start_ns, point.duration_ns, packed(&point.sums)];
        transaction.prepare_cached(put)?.execute(values)?;
    }
    Ok(())
}

/// Hourly sums of a project's series since an hour, of the primary type.
pub(super) fn hours(
    connection: &Connection,
    project: &str,
    since: i64,
) -> rusqlite::Result<Vec<(i64, i64, i64)>> {
    let sql = "SELECT series, hour, value FROM hour_sum \
               WHERE series IN (SELECT id FROM series WHERE project = ?1) AND hour >= ?2";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    connection.prepare(sql)?.query_map(params![project, since], read)?.collect()
}

/// Time from the oldest block of a project to its newest.
pub(super) fn extent(connection: &Connection, project: &str) -> rusqlite::Result<Option<Span>> {
    let sql = "SELECT start_ns, (SELECT max(newest_ns) FROM series WHERE project = ?1) FROM block \
               WHERE series IN (SELECT id FROM series WHERE project = ?1) ORDER BY start_ns LIMIT 1";
    let read = |row: &rusqlite::Row<'_>| Ok(Span { from_ns: row.get(0)?, until_ns: row.get(1)? });
    connection.query_row(sql, [project], read).optional()
}

/// Start of the newest window of all projects.
pub(super) fn newest_ns(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    connection.query_row("SELECT max(newest_ns) FROM series", [], |row| row.get(0))
}

fn packed(sums: &[i64]) -> Vec<u8> {
    sums.iter().flat_map(|sum| sum.to_le_bytes()).collect()
}

fn unpacked(bytes: &[u8]) -> Vec<i64> {
    bytes.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
}

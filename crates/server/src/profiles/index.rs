//! The index of the files, in the server's database. Files that it does not name are garbage.
//!
//! A **series** is everything with one label set. Its files are **blocks**: a received window, ten minutes, or an hour.
//! **Points** are sums of windows, so that timelines are drawn without opening files. A **total** is a series without
//! labels that sums others, see `totals.rs`.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use wingbeat_sql::{Connection, OptionalExtension as _, Result, Row, params, params_from_iter};

use super::{
    intake::{Labels, Part},
    levels::{Block, HOUR_NS, Level, Span, TEN_MINUTES_NS},
};

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
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub start_ns: i64,
    pub duration_ns: i64,
    /// Windows of each series that are summed, on average.
    pub windows: f64,
    /// For each sample type.
    pub sums: Vec<i64>,
}

/// A series as a push or a merge needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) id: i64,
    /// The total that sums it from a time on.
    pub(super) total: Option<Total>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) id: i64,
    pub(super) from_ns: i64,
}

/// JSON of a total's labels, which no other series has.
const NO_LABELS: &str = "null";

fn series_of(row: &Row<'_>) -> Result<Series> {
    let (labels, types): (String, String) = (row.get(3)?, row.get(4)?);
    Ok(Series {
        id: row.get(0)?,
        service: row.get(1)?,
        name: row.get(2)?,
        labels: serde_json::from_str(&labels).unwrap_or_default(),
        types: serde_json::from_str(&types).unwrap_or_default(),
        shown: row.get::<_, i64>(5)?.try_into().unwrap_or(0),
        newest_ns: row.get(6)?,
    })
}

/// The series of a project, or of one of its services.
pub(super) fn series(db: &Connection, project: &str, service: Option<&str>) -> Result<Vec<Series>> {
    let sql = "SELECT id, service, name, labels, types, shown, newest_ns FROM profile_series \
               WHERE project = ?1 AND service = coalesce(?2, service) AND total_from_ns IS NULL \
               ORDER BY service, name, labels";
    db.prepare(sql)?.query_map(params![project, service], series_of)?.collect()
}

/// Key of a series.
fn key(texts: [&str; 5]) -> Vec<u8> {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    hash.finalize().to_vec()
}

/// Finds or creates the series of a part. `None` if the project has the maximum.
pub(super) fn series_for(
    db: &Connection,
    project: &str,
    part: &Part,
    series_max: i64,
) -> Result<Option<Found>> {
    // Maps of strings always serialize.
    let labels = serde_json::to_string(&part.labels).unwrap_or_default();
    let types = serde_json::to_string(&part.types).unwrap_or_default();
    let end_ns = part.start_ns.saturating_add(part.duration_ns);
    let key = key([project, &part.service, &part.name, &labels, &types]);
    let sql = "SELECT one.id, one.newest_ns, total.id, total.total_from_ns FROM profile_series AS one \
               LEFT JOIN profile_series AS total ON total.id = one.total WHERE one.key = ?1";
    let read = |row: &Row<'_>| {
        let total = row.get::<_, Option<i64>>(2)?.zip(row.get::<_, Option<i64>>(3)?);
        let total = total.map(|(id, from_ns)| Total { id, from_ns });
        Ok((Found { id: row.get(0)?, total }, row.get::<_, i64>(1)?))
    };
    if let Some((found, newest_ns)) = db.query_row(sql, [&key], read).optional()? {
        if newest_ns < end_ns {
            let sql = "UPDATE profile_series SET newest_ns = ?2 WHERE id = ?1";
            db.execute(sql, [found.id, end_ns])?;
        }
        return Ok(Some(found));
    }
    let sql = "SELECT count(*) FROM profile_series WHERE project = ?1";
    if db.query_row(sql, [project], |row| row.get::<_, i64>(0))? >= series_max {
        return Ok(None);
    }
    // A new pod of a service that is summed.
    let total = total_of(db, [project, &part.service, &part.name, &types])?;
    let sql = "INSERT INTO profile_series (key, project, service, name, labels, types, shown, newest_ns, total) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) RETURNING id";
    let shown = part.shown as i64;
    let values = params![
        key,
        project,
        part.service,
        part.name,
        labels,
        types,
        shown,
        end_ns,
        total.map(|total| total.id)
    ];
    let id = db.query_row(sql, values, |row| row.get(0))?;
    Ok(Some(Found { id, total }))
}

/// The total of a project's service with one kind and these types, if there is one.
fn total_of(db: &Connection, [project, service, name, types]: [&str; 4]) -> Result<Option<Total>> {
    let sql = "SELECT id, total_from_ns FROM profile_series WHERE key = ?1";
    let key = key([project, service, name, NO_LABELS, types]);
    let read = |row: &Row<'_>| Ok(Total { id: row.get(0)?, from_ns: row.get(1)? });
    db.query_row(sql, [key], read).optional()
}

/// Creates the total of a series and its like, for all times from one on.
pub(super) fn create_total(db: &Connection, like: i64, from_ns: i64) -> Result<()> {
    let sql =
        "SELECT project, service, name, types, shown, newest_ns FROM profile_series WHERE id = ?1";
    let read = |row: &Row<'_>| {
        let texts = [row.get(0)?, row.get(1)?, row.get(2)?, row.get::<_, String>(3)?];
        Ok((texts, row.get::<_, i64>(4)?, row.get::<_, i64>(5)?))
    };
    let (texts, shown, newest_ns) = db.query_row(sql, [like], read)?;
    let [project, service, name, types] = &texts;
    let key = key([project, service, name, NO_LABELS, types]);
    let sql = "INSERT INTO profile_series (key, project, service, name, labels, types, shown, newest_ns, total_from_ns) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) RETURNING id";
    let values = params![key, project, service, name, NO_LABELS, types, shown, newest_ns, from_ns];
    let total: i64 = db.query_row(sql, values, |row| row.get(0))?;
    let sql = "UPDATE profile_series SET total = ?1 WHERE project = ?2 AND service = ?3 AND name = ?4 AND types = ?5 \
               AND total_from_ns IS NULL";
    db.execute(sql, params![total, project, service, name, types])?;
    let sql = "UPDATE profile_block SET is_totalled = 0 WHERE level = 0 AND start_ns >= ?2 \
               AND series IN (SELECT id FROM profile_series WHERE total = ?1)";
    db.execute(sql, [total, from_ns]).map(drop)
}

/// Marks a push as seen; returns whether it was seen before.
pub(super) fn is_seen(db: &Connection, id: &str, now_ns: i64) -> Result<bool> {
    let sql =
        "INSERT INTO profile_push (push, time_ns) VALUES (?1, ?2) ON CONFLICT (push) DO NOTHING";
    Ok(db.execute(sql, params![id, now_ns])? == 0)
}

/// Adds a file. `is_totalled` is false if a total has yet to sum it.
pub(super) fn add_block(
    db: &Connection,
    level: Level,
    block: &Block,
    bytes: i64,
    is_totalled: bool,
) -> Result<()> {
    let sql = "INSERT INTO profile_block (series, level, start_ns, end_ns, age_ns, windows, bytes, is_merged, \
               is_totalled, path) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9)";
    let Block { series, start_ns, end_ns, windows, path, .. } = block;
    let age_ns = match level {
        // It ages with its last ten minutes, so that it is there as long as they are.
        Level::Hour => end_ns - TEN_MINUTES_NS,
        _ => *start_ns,
    };
    let (level, is_totalled) = (level as i64, i64::from(is_totalled));
    let values =
        params![series, level, start_ns, end_ns, age_ns, windows, bytes, is_totalled, path];
    db.execute(sql, values).map(drop)
}

/// Columns of a [`Block`].
pub(super) const BLOCK: &str = "id, series, start_ns, end_ns, windows, path";

pub(super) fn block_of(row: &Row<'_>) -> Result<Block> {
    Ok(Block {
        id: row.get(0)?,
        series: row.get(1)?,
        start_ns: row.get(2)?,
        end_ns: row.get(3)?,
        windows: row.get(4)?,
        path: row.get(5)?,
    })
}

/// Blocks that match a condition with numbers.
pub(super) fn blocks(db: &Connection, condition: &str, values: &[i64]) -> Result<Vec<Block>> {
    let sql = format!("SELECT {BLOCK} FROM profile_block WHERE {condition}");
    let values = params_from_iter(values.iter().copied());
    db.prepare(&sql)?.query_map(values, block_of)?.collect()
}

/// Adds a window's sums to its series. `shown` is the type of hourly sums.
pub(super) fn add_point(db: &Connection, series: i64, point: &Point, shown: usize) -> Result<()> {
    let find = "SELECT windows, sums FROM profile_point WHERE series = ?1 AND start_ns = ?2";
    let read = |row: &Row<'_>| Ok((row.get::<_, f64>(0)?, row.get::<_, Vec<u8>>(1)?));
    let known = db.query_row(find, [series, point.start_ns], read).optional()?;
    let mut all = point.clone();
    if let Some((windows, sums)) = known {
        all.windows += windows;
        add(&mut all.sums, &unpacked(&sums));
    }
    put_point(db, series, &all)?;
    let hour = "INSERT INTO profile_hour (series, hour, value) VALUES (?1, ?2, ?3) ON CONFLICT (series, hour) \
                DO UPDATE SET value = CASE WHEN profile_hour.value + excluded.value < 4611686018427387903 \
                THEN profile_hour.value + excluded.value ELSE 4611686018427387903 END";
    let value = point.sums.get(shown).copied().unwrap_or(0).min(i64::MAX / 4);
    db.execute(hour, [series, point.start_ns.div_euclid(HOUR_NS), value]).map(drop)
}

/// Replaces the point at its time.
pub(super) fn put_point(db: &Connection, series: i64, point: &Point) -> Result<()> {
    let sql = "INSERT INTO profile_point (series, start_ns, duration_ns, windows, sums) VALUES (?1, ?2, ?3, ?4, ?5) \
               ON CONFLICT (series, start_ns) DO UPDATE SET duration_ns = excluded.duration_ns, \
               windows = excluded.windows, sums = excluded.sums";
    let Point { start_ns, duration_ns, windows, sums } = point;
    let values = params![series, start_ns, duration_ns, windows, packed(sums)];
    db.execute(sql, values).map(drop)
}

/// Points of a series that start in a time range.
pub(super) fn points(db: &Connection, series: i64, span: Span) -> Result<Vec<Point>> {
    let sql = "SELECT start_ns, duration_ns, windows, sums FROM profile_point \
               WHERE series = ?1 AND start_ns >= ?2 AND start_ns < ?3 ORDER BY start_ns";
    db.prepare(sql)?
        .query_map([series, span.from_ns, span.until_ns], |row| point_of(row, 0))?
        .collect()
}

/// Reads the columns of a point, of which the first one has this index.
pub(super) fn point_of(row: &Row<'_>, first: usize) -> Result<Point> {
    let sums: Vec<u8> = row.get(first + 3)?;
    Ok(Point {
        start_ns: row.get(first)?,
        duration_ns: row.get(first + 1)?,
        windows: row.get(first + 2)?,
        sums: unpacked(&sums),
    })
}

/// Coarsens the points of a time range to one for each `step_ns`.
pub(super) fn coarsen(db: &Connection, series: i64, span: Span, step_ns: i64) -> Result<()> {
    let step = |point: &Point| point.start_ns.div_euclid(step_ns);
    let mut coarse: Vec<Point> = Vec::new();
    for point in points(db, series, span)? {
        match coarse.last_mut().filter(|last| step(last) == step(&point)) {
            Some(last) => {
                let end_ns = point.start_ns.saturating_add(point.duration_ns);
                last.duration_ns = last.duration_ns.max(end_ns.saturating_sub(last.start_ns));
                last.windows += point.windows;
                add(&mut last.sums, &point.sums);
            }
            None => coarse.push(point),
        }
    }
    let delete = "DELETE FROM profile_point WHERE series = ?1 AND start_ns >= ?2 AND start_ns < ?3";
    db.execute(delete, [series, span.from_ns, span.until_ns])?;
    coarse.iter().try_for_each(|point| put_point(db, series, point))
}

/// Hourly sums of a project's series since an hour, of the primary type.
pub(super) fn hours(db: &Connection, project: &str, since: i64) -> Result<Vec<(i64, i64, i64)>> {
    let sql = "SELECT series, hour, value FROM profile_hour WHERE hour >= ?2 AND series IN \
               (SELECT id FROM profile_series WHERE project = ?1 AND total_from_ns IS NULL)";
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    db.prepare(sql)?.query_map(params![project, since], read)?.collect()
}

/// Time from the oldest block of a project to its newest. The `+` keeps SQLite from reading and sorting all.
pub(super) fn extent(db: &Connection, project: &str) -> Result<Option<Span>> {
    let sql = "SELECT start_ns, (SELECT max(newest_ns) FROM profile_series WHERE project = ?1) FROM profile_block \
               WHERE +series IN (SELECT id FROM profile_series WHERE project = ?1) ORDER BY age_ns LIMIT 1";
    let read = |row: &Row<'_>| Ok(Span { from_ns: row.get(0)?, until_ns: row.get(1)? });
    db.query_row(sql, [project], read).optional()
}

/// End of the newest window of all projects.
pub(super) fn newest_ns(db: &Connection) -> Result<Option<i64>> {
    db.query_row("SELECT max(newest_ns) FROM profile_series", [], |row| row.get(0))
}

/// Notes files to delete.
pub(super) fn discard<'p>(
    db: &Connection,
    paths: impl IntoIterator<Item = &'p str>,
    now_ns: i64,
) -> Result<()> {
    let sql =
        "INSERT INTO profile_garbage (path, time_ns) VALUES (?1, ?2) ON CONFLICT (path) DO NOTHING";
    let mut statement = db.prepare(sql)?;
    paths.into_iter().try_for_each(|path| statement.execute(params![path, now_ns]).map(drop))
}

/// Adds sums to others.
pub(super) fn add(sums: &mut Vec<i64>, more: &[i64]) {
    sums.resize(sums.len().max(more.len()), 0);
    sums.iter_mut().zip(more).for_each(|(sum, it)| *sum = sum.saturating_add(*it));
}

fn packed(sums: &[i64]) -> Vec<u8> {
    sums.iter().flat_map(|sum| sum.to_le_bytes()).collect()
}

fn unpacked(bytes: &[u8]) -> Vec<i64> {
    bytes.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
}

/// IDs of blocks, as a list in a statement.
pub(super) fn ids(blocks: &[Block]) -> String {
    let mut list = String::new();
    for block in blocks {
        let comma = if list.is_empty() { "" } else { "," };
        let _ = write!(list, "{comma}{}", block.id);
    }
    list
}

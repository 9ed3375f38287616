//! Merges small blocks into large ones: windows into ten minutes, and those into hours. Merged blocks stay alongside
//! for a while or permanently, so that both a day and a few minutes are read from few files.

use bytes::Bytes;
use wingbeat_pprof::Stacks;
use wingbeat_sql::{Connection, OptionalExtension as _, Result as SqlResult, Row, params};

use super::{
    ProfilesError,
    files::{self, Files},
    index,
    levels::{Block, HOUR_NS, Level, MINUTE_NS, Span, TEN_MINUTES_NS, coarse_until},
    read,
};

/// Grace period after a block's end; later data is merged again.
const GRACE_NS: i64 = 90 * 1_000_000_000;

/// Stacks with a smaller share of every type are aggregated in hour blocks: no picture shows them, and they would slow
/// down reading a day.
const RARE: f64 = 0.0002;

/// Maximum merges per run.
const MERGES_MAX: i64 = 10_000;

/// A large block to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    series: i64,
    level: Level,
    start_ns: i64,
}

impl Wanted {
    fn end_ns(self) -> i64 {
        self.start_ns.saturating_add(self.level.length_ns())
    }
}

/// Incomplete large blocks of this level whose time is over.
pub(super) fn wanted(db: &Connection, level: Level, now_ns: i64) -> SqlResult<Vec<Wanted>> {
    let below = if level == Level::Hour { Level::TenMinutes } else { Level::Window };
    let length_ns = level.length_ns();
    let sql = "SELECT DISTINCT series, start_ns / ?1 FROM profile_block \
               WHERE is_merged = 0 AND level = ?2 AND end_ns <= ?3 AND (start_ns / ?1 + 1) * ?1 <= ?3 LIMIT ?4";
    let values = [length_ns, below as i64, now_ns - GRACE_NS, MERGES_MAX];
    let read = |row: &Row<'_>| {
        let number: i64 = row.get(1)?;
        Ok(Wanted { series: row.get(0)?, level, start_ns: number * length_ns })
    };
    db.prepare(sql)?.query_map(values, read)?.collect()
}

/// Sources of a large block, and the block that it replaces.
#[derive(Debug)]
pub(super) struct Sources {
    wanted: Wanted,
    parts: Vec<Block>,
    former: Vec<Block>,
}

pub(super) fn sources(db: &Connection, wanted: Wanted) -> SqlResult<Sources> {
    let Wanted { series, level, start_ns } = wanted;
    let end_ns = wanted.end_ns();
    let find = |level: Level, more: &str| {
        let condition =
            format!("series = ?1 AND level = ?2 AND start_ns >= ?3 AND start_ns < ?4 {more}");
        index::blocks(db, &condition, &[series, level as i64, start_ns, end_ns])
    };
    // Hours are merged from all their parts; ten minutes from the existing block and new windows, because windows get
    // deleted.
    let (parts, former) = match level {
        Level::Hour => (find(Level::TenMinutes, "")?, find(Level::Hour, "")?),
        _ => (find(Level::Window, "AND is_merged = 0")?, find(Level::TenMinutes, "")?),
    };
    Ok(Sources { wanted, parts, former })
}

/// A file that is written but not in the index yet.
pub(super) struct Written {
    pub(super) block: Block,
    /// On the disk; 0 if there is nothing to store.
    pub(super) bytes: i64,
}

/// Sums blocks into a file, `new` ones and what was there before. Fails if one of them may be readable later, because
/// they would be lost. Also returns the sums of the new ones.
pub(super) fn write(
    files: &Files,
    about: &About,
    (new, former): (&[Block], &[Block]),
    (series, span): (i64, Span),
    change: impl FnOnce(Stacks) -> Stacks,
) -> Result<(Written, Vec<i64>), ProfilesError> {
    let mut sum = read::sum(files, new)?;
    let new_sums = sum.stacks.sums();
    sum.add(read::sum(files, former)?)?;
    if let Some(error) = sum.failed {
        return Err(error.into());
    }
    if sum.damaged > 0 {
        files.find_mark()?;
    }
    let stacks = change(sum.stacks);
    let Span { from_ns: start_ns, until_ns: end_ns } = span;
    let About { project, service, name } = about;
    let path = files::path((project, service, name), (start_ns, end_ns));
    let mut bytes = Vec::new();
    if !stacks.is_empty() {
        wingbeat_pprof::pprof::pack(&stacks.message(), &mut bytes)
            .map_err(|error| ProfilesError::Damaged(error.to_string()))?;
    }
    let on_disk = if bytes.is_empty() { 0 } else { files::disk_bytes(bytes.len()) };
    if !bytes.is_empty() {
        files.write(vec![(path.clone(), Bytes::from(bytes))])?;
    }
    let block = Block { id: 0, series, start_ns, end_ns, windows: sum.windows, path };
    Ok((Written { block, bytes: on_disk }, new_sums))
}

/// What a series is of.
pub(super) struct About {
    project: String,
    service: String,
    name: String,
}

/// `None` if the series is gone.
pub(super) fn about(db: &Connection, series: i64) -> SqlResult<Option<About>> {
    let sql = "SELECT project, service, name FROM profile_series WHERE id = ?1";
    let read =
        |row: &Row<'_>| Ok(About { project: row.get(0)?, service: row.get(1)?, name: row.get(2)? });
    db.query_row(sql, [series], read).optional()
}

impl Sources {
    pub(super) fn series(&self) -> i64 {
        self.wanted.series
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Writes the large block.
    pub(super) fn write(&self, files: &Files, about: &About) -> Result<Written, ProfilesError> {
        let is_hour = self.wanted.level == Level::Hour;
        let former = if is_hour { &[][..] } else { &self.former };
        let span = Span { from_ns: self.wanted.start_ns, until_ns: self.wanted.end_ns() };
        let change = |stacks: Stacks| if is_hour { stacks.without_rare(RARE) } else { stacks };
        Ok(write(files, about, (&self.parts, former), (self.wanted.series, span), change)?.0)
    }

    /// Adds the large block and removes those it replaces. False if one of them has been deleted in the meantime, for
    /// example with its project.
    pub(super) fn replace(
        &self,
        db: &Connection,
        written: &Written,
        now_ns: i64,
    ) -> SqlResult<bool> {
        let Wanted { series, level, start_ns } = self.wanted;
        let (parts, former) = (index::ids(&self.parts), index::ids(&self.former));
        let sql = format!("UPDATE profile_block SET is_merged = 1 WHERE id IN ({parts})");
        if db.execute(&sql, [])? != self.parts.len() {
            return Ok(false);
        }
        if !self.former.is_empty() {
            let sql = format!("DELETE FROM profile_block WHERE id IN ({former})");
            if db.execute(&sql, [])? != self.former.len() {
                return Ok(false);
            }
            index::discard(db, self.former.iter().map(|it| it.path.as_str()), now_ns)?;
            if level == Level::TenMinutes {
                reopen_hour(db, series, start_ns, now_ns)?;
            }
        }
        if written.bytes > 0 {
            index::add_block(db, level, &written.block, written.bytes, true)?;
        }
        Ok(true)
    }
}

/// Marks an hour for another merge after late data.
fn reopen_hour(db: &Connection, series: i64, start_ns: i64, now_ns: i64) -> SqlResult<()> {
    let hour_ns = start_ns.div_euclid(HOUR_NS) * HOUR_NS;
    let hours =
        index::blocks(db, "series = ?1 AND level = 2 AND start_ns = ?2", &[series, hour_ns])?;
    for block in &hours {
        db.execute("DELETE FROM profile_block WHERE id = ?1", [block.id])?;
    }
    index::discard(db, hours.iter().map(|it| it.path.as_str()), now_ns)?;
    let sql = "UPDATE profile_block SET is_merged = 0 \
               WHERE series = ?1 AND level = 1 AND start_ns >= ?2 AND start_ns < ?3";
    db.execute(sql, [series, hour_ns, hour_ns + HOUR_NS]).map(drop)
}

/// Windows that are contained in a larger block, and old.
const OLD_WINDOWS: &str = "level = 0 AND is_merged = 1 AND is_totalled = 1 AND age_ns < ?1";

/// Old windows removed at once.
const OLD_MAX: i64 = 5000;

/// Removes old windows contained in a larger block. Returns whether there are more.
pub(super) fn drop_old_windows(db: &Connection, now_ns: i64) -> SqlResult<bool> {
    let limit_ns = coarse_until(now_ns);
    let condition = format!("{OLD_WINDOWS} ORDER BY series, start_ns LIMIT ?2");
    let old = index::blocks(db, &condition, &[limit_ns, OLD_MAX])?;
    let mut stretches: Vec<_> =
        old.iter().map(|it| (it.series, it.start_ns.div_euclid(TEN_MINUTES_NS))).collect();
    stretches.dedup();
    for (series, number) in stretches {
        let from_ns = number * TEN_MINUTES_NS;
        let span = Span { from_ns, until_ns: from_ns + TEN_MINUTES_NS };
        // A timeline of a thousand series would otherwise take longer to read than their files.
        let sql = "SELECT total FROM profile_series WHERE id = ?1";
        let total: Option<Option<i64>> =
            db.query_row(sql, [series], |row| row.get(0)).optional()?;
        let step_ns = if total.flatten().is_some() { TEN_MINUTES_NS } else { MINUTE_NS };
        index::coarsen(db, series, span, step_ns)?;
    }
    if !old.is_empty() {
        let ids = index::ids(&old);
        db.execute(&format!("DELETE FROM profile_block WHERE id IN ({ids})"), [])?;
        index::discard(db, old.iter().map(|it| it.path.as_str()), now_ns)?;
    }
    Ok(old.len() as i64 == OLD_MAX)
}

/// Whether [`drop_old_windows`] has something to do.
pub(super) fn has_old_windows(db: &Connection, now_ns: i64) -> SqlResult<bool> {
    let sql = format!("SELECT 1 FROM profile_block WHERE {OLD_WINDOWS} LIMIT 1");
    db.prepare(&sql)?.exists(params![coarse_until(now_ns)])
}

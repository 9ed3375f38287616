//! Merges small blocks into large ones: windows into ten minutes, and those into hours. Merged blocks stay alongside
//! for a while or permanently, so that both a day and a few minutes are read from few files.

use std::{io, path::Path};

use rusqlite::{Connection, Transaction, params};
use wingbeat_pprof::Stacks;

use super::{
    ProfilesError, files, index,
    levels::{Block, HOUR_NS, Level, TEN_MINUTES_NS, coarse_until},
    read::{self, FileError},
};

/// Grace period after a block's end; later data is merged again.
const GRACE_NS: i64 = 90 * 1_000_000_000;

/// Stacks with a smaller share of every type are aggregated in hour blocks: no picture shows them, and they would slow
/// down reading a day.
const RARE: f64 = 0.0002;

/// Maximum merges per run. Concurrent writers wait for one at most.
const MERGES_MAX: usize = 100_000;

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
pub(super) fn wanted(
    connection: &Connection,
    level: Level,
    now_ns: i64,
) -> Result<Vec<Wanted>, ProfilesError> {
    let below = if level == Level::Hour { Level::TenMinutes } else { Level::Window };
    let length_ns = level.length_ns();
    let sql = "SELECT DISTINCT series, start_ns / ?1 FROM block \
               WHERE is_merged = 0 AND level = ?2 AND end_ns <= ?3 AND (start_ns / ?1 + 1) * ?1 <= ?3 LIMIT ?4";
    let values = params![length_ns, below as i64, now_ns - GRACE_NS, MERGES_MAX as i64];
    let read = |row: &rusqlite::Row<'_>| {
        let number: i64 = row.get(1)?;
        Ok(Wanted { series: row.get(0)?, level, start_ns: number * length_ns })
    };
    let found = connection.prepare(sql)?.query_map(values, read)?.collect::<Result<Vec<_>, _>>();
    Ok(found?)
}

/// Sources of a large block, and the block that it replaces.
#[derive(Debug)]
pub(super) struct Sources {
    wanted: Wanted,
    parts: Vec<Block>,
    former: Vec<Block>,
}

pub(super) fn sources(connection: &Connection, wanted: Wanted) -> Result<Sources, ProfilesError> {
    let Wanted { series, level, start_ns } = wanted;
    let end_ns = wanted.end_ns();
    let find = |level: Level, more: &str| {
        let condition =
            format!("series = ?1 AND level = ?2 AND start_ns >= ?3 AND start_ns < ?4 {more}");
        index::blocks(connection, &condition, &[series, level as i64, start_ns, end_ns])
    };
    // Hours are merged from all their parts; ten minutes from the existing block and new windows, because windows get
    // deleted.
    let (parts, former) = match level {
        Level::Hour => (find(Level::TenMinutes, "")?, find(Level::Hour, "")?),
        _ => (find(Level::Window, "AND is_merged = 0")?, find(Level::TenMinutes, "")?),
    };
    Ok(Sources { wanted, parts, former })
}

impl Sources {
    pub(super) fn series(&self) -> i64 {
        self.wanted.series
    }

    /// Reads and sums the parts; returns the encoded block, and its number of windows.
    pub(super) fn sum(&self, folder: &Path) -> Result<(Vec<u8>, i64), ProfilesError> {
        let former = self.former.iter().filter(|_| self.wanted.level != Level::Hour);
        let mut stacks = Stacks::default();
        let mut windows = 0;
        for block in former.chain(&self.parts) {
            match read::add_file(&mut stacks, &folder.join(&block.path)) {
                Ok(()) => windows += block.windows,
                // If an existing part cannot be read now, merge later: its former block would be lost.
                Err(FileError::Io(error)) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error.into());
                }
                Err(reason) => tracing::warn!("a profile is left out, {}: {reason}", block.path),
            }
        }
        if self.wanted.level == Level::Hour {
            stacks = stacks.without_rare(RARE);
        }
        let mut bytes = Vec::new();
        if !stacks.is_empty() {
            wingbeat_pprof::pprof::pack(&stacks.message(), &mut bytes)?;
        }
        Ok((bytes, windows))
    }

    /// Adds the large block and removes those it replaces; returns files to delete.
    pub(super) fn replace(
        &self,
        transaction: &Transaction<'_>,
        folder: &Path,
        about: (&str, &str, &str),
        (bytes, windows): (&[u8], i64),
    ) -> Result<Vec<String>, ProfilesError> {
        let Wanted { series, level, start_ns } = self.wanted;
        let end_ns = self.wanted.end_ns();
        // The project may have been deleted in the meantime.
        let mut is_there = transaction.prepare_cached("SELECT 1 FROM block WHERE id = ?1")?;
        for block in self.parts.iter().chain(&self.former) {
            if !is_there.exists([block.id])? {
                return Ok(Vec::new());
            }
        }
        for block in &self.parts {
            let sql = "UPDATE block SET is_merged = 1 WHERE id = ?1";
            transaction.prepare_cached(sql)?.execute([block.id])?;
        }
        let mut gone = Vec::new();
        for block in &self.former {
            transaction.execute("DELETE FROM block WHERE id = ?1", [block.id])?;
            gone.push(block.path.clone());
        }
        if level == Level::TenMinutes && !self.former.is_empty() {
            gone.extend(reopen_hour(transaction, series, start_ns)?);
        }
        if !bytes.is_empty() {
            let id = index::next_block(transaction)?;
            let path = files::path(about, (start_ns, end_ns), id);
            let taken = files::write(folder, &path, bytes)?;
            let block = Block { id, series, start_ns, end_ns, windows, path };
            index::add_block(transaction, level, &block, taken)?;
        }
        Ok(gone)
    }
}

/// Marks an hour for another merge after late data.
fn reopen_hour(
    transaction: &Transaction<'_>,
    series: i64,
    start_ns: i64,
) -> Result<Vec<String>, ProfilesError> {
    let hour_ns = start_ns.div_euclid(HOUR_NS) * HOUR_NS;
    let hours = index::blocks(
        transaction,
        "series = ?1 AND level = 2 AND start_ns = ?2",
        &[series, hour_ns],
    )?;
    for block in &hours {
        transaction.execute("DELETE FROM block WHERE id = ?1", [block.id])?;
    }
    transaction.execute(
        "UPDATE block SET is_merged = 0 WHERE series = ?1 AND level = 1 AND start_ns >= ?2 AND start_ns < ?3",
        params![series, hour_ns, hour_ns + HOUR_NS],
    )?;
    Ok(hours.into_iter().map(|block| block.path).collect())
}

/// Removes old windows contained in a larger block; returns files to delete.
pub(super) fn drop_old_windows(
    transaction: &Transaction<'_>,
    now_ns: i64,
) -> Result<Vec<String>, ProfilesError> {
    let limit_ns = coarse_until(now_ns);
    let condition = "level = 0 AND is_merged = 1 AND start_ns < ?1";
    let old = index::blocks(transaction, condition, &[limit_ns])?;
    let mut stretches: Vec<_> =
        old.iter().map(|it| (it.series, it.start_ns.div_euclid(TEN_MINUTES_NS))).collect();
    stretches.sort_unstable();
    stretches.dedup();
    for (series, number) in stretches {
        let start_ns = number * TEN_MINUTES_NS;
        index::coarsen(transaction, series, start_ns, start_ns + TEN_MINUTES_NS)?;
    }
    let sql = format!("DELETE FROM block WHERE {condition}");
    transaction.execute(&sql, [limit_ns])?;
    Ok(old.into_iter().map(|block| block.path).collect())
}

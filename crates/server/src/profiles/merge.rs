//! Small blocks become large ones: windows those of ten minutes, and these hours. What was merged stays beside the
//! large block for a while, or for good, so that both a day and a few minutes are read from few files.

use std::{io, path::Path};

use rusqlite::{Connection, Transaction, params};
use wingbeat_difference::Total;

use super::{
    ProfilesError, files,
    index::{self, Block, HOUR_NS, Level},
    read::{self, FileError},
};

pub(super) const TEN_MINUTES_NS: i64 = HOUR_NS / 6;

/// So long after its end, what belongs to a block has come; what comes later is merged once more.
const GRACE_NS: i64 = 90 * 1_000_000_000;

/// Windows are kept beside the merged ones for so long: of that time, each minute can be looked at. Of all of the last
/// hour at least, with a stretch of ten minutes that is gone in part.
pub(super) const FINE_NS: i64 = HOUR_NS + 2 * TEN_MINUTES_NS;

/// Of an hour, what has a smaller share of every type is not told apart: no picture shows it, and a day would be read
/// slowly.
const RARE: f64 = 0.0002;

/// What is merged at once at most, so that who writes beside waits for no more than one.
const MERGES_MAX: usize = 100_000;

/// A large block that is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    series: i64,
    level: Level,
    start_ns: i64,
}

impl Wanted {
    fn end_ns(self) -> i64 {
        self.start_ns.saturating_add(length_ns(self.level))
    }
}

fn length_ns(level: Level) -> i64 {
    match level {
        Level::Window => 0,
        Level::TenMinutes => TEN_MINUTES_NS,
        Level::Hour => HOUR_NS,
    }
}

/// Large blocks of this level whose time is over and that lack something.
pub(super) fn wanted(
    connection: &Connection,
    level: Level,
    now_ns: i64,
) -> Result<Vec<Wanted>, ProfilesError> {
    let (below, length_ns) = match level {
        Level::Hour => (Level::TenMinutes, HOUR_NS),
        _ => (Level::Window, TEN_MINUTES_NS),
    };
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

/// What a large block is made of, and the one that it replaces.
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
    // Hours are made of all that they consist of; ten minutes of what is there and what is new, since windows go.
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

    /// Reads the parts and adds them up; the bytes of the large block, and how many windows are in it.
    pub(super) fn sum(&self, folder: &Path) -> Result<(Vec<u8>, i64), ProfilesError> {
        let former = self.former.iter().filter(|_| self.wanted.level != Level::Hour);
        let mut total = Total::default();
        let mut windows = 0;
        for block in former.chain(&self.parts) {
            match read::add_file(&mut total, &folder.join(&block.path)) {
                Ok(()) => windows += block.windows,
                // What is there and cannot be read now is merged another time: its former block would be lost.
                Err(FileError::Io(error)) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error.into());
                }
                Err(reason) => tracing::warn!("a profile is left out, {}: {reason}", block.path),
            }
        }
        if self.wanted.level == Level::Hour {
            total = total.without_rare(RARE);
        }
        let mut bytes = Vec::new();
        if !total.is_empty() {
            wingbeat_difference::write::pack(&total.message(), &mut bytes)?;
        }
        Ok((bytes, windows))
    }

    /// Enters the large block and forgets what it replaces; the files that may go.
    pub(super) fn replace(
        &self,
        transaction: &Transaction<'_>,
        folder: &Path,
        about: (&str, &str, &str),
        (bytes, windows): (&[u8], i64),
    ) -> Result<Vec<String>, ProfilesError> {
        let Wanted { series, level, start_ns } = self.wanted;
        let end_ns = self.wanted.end_ns();
        // Its project may have been deleted while it was added up.
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

/// An hour that something came to late is made once more.
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

/// Forgets windows that a larger block has, and are old; the files that may go.
pub(super) fn drop_old_windows(
    transaction: &Transaction<'_>,
    now_ns: i64,
) -> Result<Vec<String>, ProfilesError> {
    // All of a stretch of ten minutes at once: nothing is read from half of it.
    let limit_ns = (now_ns - FINE_NS).div_euclid(TEN_MINUTES_NS) * TEN_MINUTES_NS;
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

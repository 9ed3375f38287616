//! Reads a service over a time range: sums the fewest files that cover it.

use std::{collections::HashSet, fs, io, path::Path};

use rusqlite::Connection;
use wingbeat_pprof::Stacks;

use super::{
    ProfilesError, index,
    levels::{Block, HOUR_NS, Level, Span, TEN_MINUTES_NS, readable},
};

/// Maximum decompressed bytes of a file. Merged files are larger than received ones.
const BYTES_MAX: u64 = 256 << 20;

/// Maximum files per response.
const FILES_MAX: usize = 6000;

/// Result of a read.
#[derive(Debug)]
pub struct Reading {
    /// `None` if empty.
    pub profile: Option<Stacks>,
    /// The range read: the requested one, or slightly more if only larger blocks are left.
    pub span: Span,
    pub files: usize,
    /// Number of series with data in the range.
    pub series: usize,
    pub windows: i64,
    /// Number of unreadable files.
    pub damaged: usize,
}

/// Blocks of a series that cover a range without overlap: the largest ones within it, and windows at its ends.
fn cover(connection: &Connection, series: i64, span: Span) -> rusqlite::Result<Vec<Block>> {
    let find = |level: Level, more: &str, (from, until): (i64, i64)| {
        let condition =
            format!("series = ?1 AND level = ?2 AND start_ns >= ?3 AND start_ns < ?4 {more}");
        index::blocks(connection, &condition, &[series, level as i64, from, until])
    };
    // Aligned stretches of a length within the range.
    let whole = |length_ns: i64| {
        let first = (span.from_ns + length_ns - 1).div_euclid(length_ns) * length_ns;
        (first, span.until_ns.div_euclid(length_ns) * length_ns)
    };
    let tens = whole(TEN_MINUTES_NS);
    let mut all = find(Level::Hour, "ORDER BY start_ns", whole(HOUR_NS))?;
    // Excludes data covered by hours.
    let hours: Vec<i64> = all.iter().map(|block| block.start_ns).collect();
    let hour = |block: &Block| block.start_ns.div_euclid(HOUR_NS) * HOUR_NS;
    let is_in_hour = |block: &Block| hours.binary_search(&hour(block)).is_ok();
    all.extend(find(Level::TenMinutes, "AND is_merged = 0", tens)?);
    let merged = find(Level::TenMinutes, "AND is_merged = 1", tens)?;
    all.extend(merged.into_iter().filter(|block| !is_in_hour(block)));
    let ends = (span.from_ns, span.until_ns);
    all.extend(find(Level::Window, "AND is_merged = 0", ends)?);
    let merged = find(Level::Window, "AND is_merged = 1", ends)?;
    let is_in_ten = |block: &Block| (tens.0..tens.1).contains(&block.start_ns);
    all.extend(merged.into_iter().filter(|block| !is_in_ten(block)));
    Ok(all)
}

/// Reads these series over a time range.
pub(super) fn read(
    folder: &Path,
    connection: &Connection,
    series: &[i64],
    span: Span,
    now_ns: i64,
) -> Result<Reading, ProfilesError> {
    let span = readable(span, now_ns);
    // One snapshot for all: a concurrent merge would be read twice, or not at all.
    let view = connection.unchecked_transaction()?;
    let mut blocks = Vec::new();
    for id in series {
        blocks.extend(cover(&view, *id, span)?);
    }
    drop(view);
    if blocks.len() > FILES_MAX {
        return Err(ProfilesError::TooMuch { files: blocks.len(), most: FILES_MAX });
    }
    let (left, right) = blocks.split_at(blocks.len() / 2);
    // Decompression takes most of the time; two threads share it.
    let (mut total, others) = std::thread::scope(|scope| {
        let right = scope.spawn(|| sum(folder, right));
        (sum(folder, left), right.join())
    });
    // A thread that panicked contributes nothing.
    let others = others.unwrap_or_default();
    total.windows += others.windows;
    total.damaged += others.damaged;
    let merged = total.stacks.merge(others.stacks);
    merged.map_err(|error| ProfilesError::Damaged(error.to_string()))?;
    Ok(Reading {
        profile: Some(total.stacks).filter(|stacks| !stacks.is_empty()),
        span,
        files: blocks.len(),
        series: blocks.iter().map(|block| block.series).collect::<HashSet<_>>().len(),
        windows: total.windows,
        damaged: total.damaged,
    })
}

#[derive(Default)]
struct Sum {
    stacks: Stacks,
    windows: i64,
    damaged: usize,
}

fn sum(folder: &Path, blocks: &[Block]) -> Sum {
    let mut sum = Sum::default();
    for block in blocks {
        match add_file(&mut sum.stacks, &folder.join(&block.path)) {
            Ok(()) => sum.windows += block.windows,
            Err(reason) => {
                tracing::warn!("a profile cannot be read, {}: {reason}", block.path);
                sum.damaged += 1;
            }
        }
    }
    sum
}

/// Why a file was not added.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// A later attempt may succeed.
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Add(#[from] anyhow::Error),
}

pub(super) fn add_file(stacks: &mut Stacks, path: &Path) -> Result<(), FileError> {
    Ok(stacks.add_file(&fs::read(path)?, BYTES_MAX)?)
}

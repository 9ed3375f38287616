//! Reads a service over a time range: sums the fewest files that cover it.

use std::{collections::HashSet, fs, io, path::Path};

use prost::Message as _;
use rusqlite::Connection;
use wingbeat_pprof::{
    AddError, Total,
    pprof::{UnpackError, unpacked},
    proto::Profile,
};

use super::{
    ProfilesError,
    index::{self, Block, HOUR_NS, Level},
    merge::{FINE_NS, TEN_MINUTES_NS},
};

/// Maximum decompressed bytes of a file. Merged files are larger than received ones.
const BYTES_MAX: u64 = 256 << 20;

/// Maximum files per response.
const FILES_MAX: usize = 6000;

/// A time range in nanoseconds since 1970, excluding the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub from_ns: i64,
    pub until_ns: i64,
}

/// Result of a read.
#[derive(Debug)]
pub struct Reading {
    /// `None` if empty.
    pub profile: Option<Profile>,
    /// The range read: the requested one, or slightly more if only larger blocks are left.
    pub span: Span,
    pub files: usize,
    /// Number of series with data in the range.
    pub series: usize,
    pub windows: i64,
    /// Number of unreadable files.
    pub damaged: usize,
}

impl Span {
    /// Intersection with another span.
    #[must_use]
    pub fn within(self, other: Self) -> Self {
        Self {
            from_ns: self.from_ns.max(other.from_ns),
            until_ns: self.until_ns.min(other.until_ns),
        }
    }

    /// Length in seconds.
    pub fn seconds(self) -> f64 {
        self.until_ns.saturating_sub(self.from_ns).max(1) as f64 / 1e9
    }
}

/// Start of the time with single windows.
fn fine_from(now_ns: i64) -> i64 {
    (now_ns - FINE_NS + TEN_MINUTES_NS - 1).div_euclid(TEN_MINUTES_NS) * TEN_MINUTES_NS
}

/// The readable range: older data has a resolution of ten minutes.
pub(super) fn readable(span: Span, now_ns: i64) -> Span {
    let fine_ns = fine_from(now_ns);
    let Span { mut from_ns, mut until_ns } = span;
    if from_ns < fine_ns {
        from_ns = from_ns.div_euclid(TEN_MINUTES_NS) * TEN_MINUTES_NS;
    }
    if until_ns < fine_ns {
        until_ns = (until_ns + TEN_MINUTES_NS - 1).div_euclid(TEN_MINUTES_NS) * TEN_MINUTES_NS;
    }
    Span { from_ns, until_ns }
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
    if !others.total.is_empty() {
        let message = others.total.message();
        match total.total.is_empty() {
            true => total.total = others.total,
            false => total
                .total
                .add(&message)
                .map_err(|error| ProfilesError::Damaged(error.to_string()))?,
        }
    }
    let is_empty = total.total.is_empty();
    Ok(Reading {
        profile: (!is_empty).then(|| total.total.message()),
        span,
        files: blocks.len(),
        series: blocks.iter().map(|block| block.series).collect::<HashSet<_>>().len(),
        windows: total.windows,
        damaged: total.damaged,
    })
}

#[derive(Default)]
struct Sum {
    total: Total,
    windows: i64,
    damaged: usize,
}

fn sum(folder: &Path, blocks: &[Block]) -> Sum {
    let mut sum = Sum::default();
    for block in blocks {
        match add_file(&mut sum.total, &folder.join(&block.path)) {
            Ok(()) => sum.windows += block.windows,
            Err(reason) => {
                tracing::warn!("a profile cannot be read, {}: {reason}", block.path);
                sum.damaged += 1;
            }
        }
    }
    sum
}

/// Why a file was not added to a total.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// A later attempt may succeed.
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    #[error(transparent)]
    Decode(#[from] prost::DecodeError),
    #[error(transparent)]
    Add(#[from] AddError),
}

pub(super) fn add_file(total: &mut Total, path: &Path) -> Result<(), FileError> {
    let bytes = fs::read(path)?;
    let unpacked = unpacked(&bytes, BYTES_MAX)?;
    let message = Profile::decode(&*unpacked)?;
    Ok(total.add(&message)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_times_are_rounded_to_what_is_left() {
        const MINUTE: i64 = 60 * 1_000_000_000;
        // Two hours and five minutes: windows exist from 0:50 on.
        let now = 125 * MINUTE;
        let check = |from: i64, until: i64, expected: (i64, i64)| {
            let span = Span { from_ns: from * MINUTE, until_ns: until * MINUTE };
            let found = readable(span, now);
            assert_eq!((found.from_ns / MINUTE, found.until_ns / MINUTE), expected);
        };
        check(65, 125, (65, 125));
        check(45, 123, (40, 123));
        check(5, 15, (0, 20));
        check(10, 20, (10, 20));
        check(49, 50, (40, 50));
    }
}

//! Reads a service over a time range: sums the fewest files that cover it.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
    thread,
};

use wingbeat_pprof::Stacks;
use wingbeat_sql::{Connection, Many, Result as SqlResult};

use super::{
    ProfilesError,
    files::{Fetched, Files, FilesError},
    index,
    levels::{Block, HOUR_NS, Level, MINUTE_NS, Span, TEN_MINUTES_NS, readable},
    totals,
};

/// Maximum decompressed bytes of a file. Merged files are larger than received ones.
const BYTES_MAX: u64 = 256 << 20;

/// Maximum files per response.
const FILES_MAX: usize = 6000;

/// Series whose blocks are looked up at once.
const SERIES_AT_ONCE: usize = 500;

/// Threads that decompress the files of a response.
const THREADS: usize = 2;

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
    /// Files of the requested range if those were too many: then the range read is only its end.
    pub too_many: Option<usize>,
}

/// The files of a range.
pub(super) struct Plan {
    span: Span,
    blocks: Vec<Block>,
    series: usize,
    too_many: Option<usize>,
}

/// Finds the files of these series over a time range, in one view of the index: a concurrent merge would be read twice,
/// or not at all.
pub(super) fn plan(
    db: &Connection,
    series: &[i64],
    span: Span,
    now_ns: i64,
) -> Result<Plan, ProfilesError> {
    let total = totals::of_all(db, series)?;
    let mut wanted = span;
    let mut too_many = None;
    loop {
        let span = readable(wanted, now_ns);
        let (span, blocks) = match total {
            None => (span, cover(db, series, span)?),
            Some(total) => {
                // It sums whole minutes.
                let span = span.rounded(MINUTE_NS);
                let before = Span { until_ns: span.until_ns.min(total.from_ns), ..span };
                let after = Span { from_ns: span.from_ns.max(total.from_ns), ..span };
                let mut blocks = Vec::new();
                if before.from_ns < before.until_ns {
                    blocks = cover(db, series, before)?;
                }
                if after.from_ns < after.until_ns {
                    blocks.extend(cover(db, &[total.id], after)?);
                    blocks.extend(totals::rest(db, total.id, after)?);
                }
                (span, blocks)
            }
        };
        let files = blocks.len();
        if files <= FILES_MAX {
            let series = match total {
                Some(total) => totals::members(db, total.id, span)?,
                None => blocks.iter().map(|block| block.series).collect::<HashSet<_>>().len(),
            };
            return Ok(Plan { span, blocks, series, too_many });
        }
        // The newest part of it: as much as fits, if the files are evenly spread.
        too_many = too_many.or(Some(files));
        let length_ns = wanted.until_ns - wanted.from_ns;
        let length_ns = (length_ns as f64 * 0.9 * FILES_MAX as f64 / files as f64) as i64;
        if length_ns < MINUTE_NS {
            return Err(ProfilesError::TooMuch { files, most: FILES_MAX });
        }
        wanted.from_ns = wanted.until_ns - length_ns;
        // Rounded inwards, so that it gets shorter.
        if readable(wanted, now_ns).from_ns < wanted.from_ns {
            wanted.from_ns = wanted.rounded(TEN_MINUTES_NS).from_ns + TEN_MINUTES_NS;
        }
        if wanted.from_ns >= wanted.until_ns {
            return Err(ProfilesError::TooMuch { files, most: FILES_MAX });
        }
    }
}

/// Blocks of series that cover a range without overlap: the largest ones within it, and windows at its ends.
fn cover(db: &Connection, series: &[i64], span: Span) -> SqlResult<Vec<Block>> {
    // Aligned stretches of a length within the range. What lies in them and is merged, a larger block has.
    let whole = |length_ns: i64| {
        let first = (span.from_ns + length_ns - 1).div_euclid(length_ns) * length_ns;
        (first, span.until_ns.div_euclid(length_ns) * length_ns)
    };
    let (hours, tens) = (whole(HOUR_NS), whole(TEN_MINUTES_NS));
    let mut all = Vec::new();
    for (level, within, merged) in [
        (Level::Hour, hours, (i64::MIN, i64::MIN)),
        (Level::TenMinutes, tens, hours),
        (Level::Window, (span.from_ns, span.until_ns), tens),
    ] {
        if within.0 >= within.1 {
            continue;
        }
        let sql = format!(
            "SELECT {} FROM profile_block WHERE series = ?1 AND level = {} AND start_ns >= {} AND start_ns < {} \
             AND (is_merged = 0 OR start_ns < {} OR start_ns >= {})",
            index::BLOCK,
            level as i64,
            within.0,
            within.1,
            merged.0,
            merged.1,
        );
        let mut find = Many::prepare(db, &sql, SERIES_AT_ONCE)?;
        find.expect(series.iter().copied());
        for one in series {
            let mut rows = find.query(*one)?;
            while let Some(row) = rows.next()? {
                all.push(index::block_of(&row)?);
            }
        }
    }
    Ok(all)
}

impl Plan {
    /// Reads the files.
    pub(super) fn read(self, files: &Files) -> Result<Reading, ProfilesError> {
        let Self { span, blocks, series, too_many } = self;
        let sum = sum(files, &blocks)?;
        Ok(Reading {
            profile: Some(sum.stacks).filter(|stacks| !stacks.is_empty()),
            span,
            files: blocks.len(),
            series,
            windows: sum.windows,
            damaged: sum.damaged + sum.unread,
            too_many,
        })
    }
}

/// The sum of some files.
#[derive(Default)]
pub(super) struct Sum {
    pub(super) stacks: Stacks,
    pub(super) windows: i64,
    /// Files that are gone or damaged.
    pub(super) damaged: usize,
    /// Files that a later attempt may read, and why the first of them could not be.
    pub(super) unread: usize,
    pub(super) failed: Option<FilesError>,
}

/// Reads and sums files. Decompression takes most of the time; some threads share it.
pub(super) fn sum(files: &Files, blocks: &[Block]) -> Result<Sum, ProfilesError> {
    if blocks.is_empty() {
        return Ok(Sum::default());
    }
    let fetched = files.fetch(blocks.iter().map(|block| block.path.clone()).collect())?;
    let fetched = Mutex::new(fetched);
    let next = || fetched.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
    let sums = thread::scope(|scope| {
        let add = || {
            let mut sum = Sum::default();
            while let Some(one) = next() {
                sum.add_file(blocks, one);
            }
            sum
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(add)).collect();
        // A thread that panicked contributes nothing.
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect::<Vec<_>>()
    });
    let mut total = Sum::default();
    for sum in sums {
        total.add(sum)?;
    }
    Ok(total)
}

impl Sum {
    pub(super) fn add(&mut self, other: Self) -> Result<(), ProfilesError> {
        self.windows += other.windows;
        self.damaged += other.damaged;
        self.unread += other.unread;
        self.failed = self.failed.take().or(other.failed);
        let merged = self.stacks.merge(other.stacks);
        merged.map_err(|error| ProfilesError::Damaged(error.to_string()))
    }

    fn add_file(&mut self, blocks: &[Block], (number, content): Fetched) {
        let Some(block) = blocks.get(number) else { return };
        let added = match content {
            Ok(bytes) => self.stacks.add_file(&bytes, BYTES_MAX).map_err(|it| it.to_string()),
            Err(error) if error.is_missing => Err(error.to_string()),
            Err(error) => {
                self.unread += 1;
                self.failed.get_or_insert(error);
                return;
            }
        };
        match added {
            Ok(()) => self.windows += block.windows,
            Err(reason) => {
                tracing::warn!("a profile cannot be read, {}: {reason}", block.path);
                self.damaged += 1;
            }
        }
    }
}

//! The table of one file: the parts in the kernel half, and when it may return after an eviction.

use std::time::{Duration, Instant};

use wingbeat_profiler_abi::unwind::layout::{Block, STRETCH_BYTES, STRETCH_WORDS, Word};
use wingbeat_unwind::{Rules, Table};

use super::pool::Shared;
use crate::{recorder::address_spaces::Mapping, unwind::Image};

/// A table evicted sooner than this is not rebuilt for a while. Rebuilding it again and again would cost more than
/// completing its samples from copied stacks.
pub(super) const STAY: Duration = Duration::from_secs(10);
/// Range of that delay, which doubles each time.
const AWAY_MIN: Duration = Duration::from_secs(1);
const AWAY_MAX: Duration = Duration::from_secs(64);

/// Data to write for a stretch: the rows before the words that refer to them.
pub(super) struct Writes {
    pub blocks: Vec<(u32, Box<Block>)>,
    /// First word.
    pub word: u32,
    pub words: Vec<Word>,
}

/// The table of one file.
pub(super) struct FileTable {
    /// Address of the first granule.
    start: u64,
    /// Number of words in the directory.
    pub words: usize,
    /// First word; `None` until there is room.
    pub word: Option<u32>,
    /// By stretch: whether the kernel half has its rows.
    built: Vec<bool>,
    /// Numbers of the pool blocks with the rows.
    pub rows: Vec<u32>,
    /// The table, until all stretches are built.
    table: Option<Table>,
    /// No more stretches are built: all are complete, or there was no room.
    pub is_closed: bool,
    /// Did not fit, as a whole or in part.
    pub is_refused: bool,
    /// Last request, by the clock of [`super::Tables`].
    pub used: u64,
    /// Since when it has had rows.
    since: Option<Instant>,
    away: Duration,
    back_at: Option<Instant>,
}

impl FileTable {
    /// A table without rows. `None` for a file without rules.
    pub(super) fn new(image: &Image) -> Option<Self> {
        let rules = image.rules().filter(|rules| rules.has_rules())?;
        let table = Table::new(rules);
        Some(Self {
            start: table.start(),
            words: table.words(),
            word: None,
            built: vec![false; table.stretches()],
            rows: Vec::new(),
            table: None,
            is_closed: table.stretches() == 0,
            is_refused: false,
            used: 0,
            since: None,
            away: Duration::ZERO,
            back_at: None,
        })
    }

    pub(super) fn stretches(&self) -> usize {
        self.built.len()
    }

    /// Added with wrap-around to an address, gives its distance from the first granule.
    pub(super) fn bias(&self, image: &Image, mapping: &Mapping) -> Option<u64> {
        let Mapping { start, end, offset, .. } = *mapping;
        let of_code = image.address_of_code(offset, end - start)?;
        Some(offset.wrapping_sub(start).wrapping_add(of_code).wrapping_sub(self.start))
    }

    /// The stretch at a distance from the first granule, if it should be built.
    pub(super) fn missing_at(&self, distance: u64, now: Instant) -> Option<usize> {
        let stretch = usize::try_from(distance / STRETCH_BYTES).ok()?;
        let may_build = !self.is_closed && self.back_at.is_none_or(|back_at| back_at <= now);
        (may_build && self.built.get(stretch) == Some(&false)).then_some(stretch)
    }

    /// Whether a requested stretch fits only if the table is restarted: it fills the memory with stretches of an
    /// earlier time.
    pub(super) fn is_outdated(&self, now: Instant) -> bool {
        self.is_closed && !self.built.iter().all(|built| *built) && self.has_stayed(now)
    }

    fn has_stayed(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now.saturating_duration_since(since) >= STAY)
    }

    /// Adds the rows of a stretch to the table, and returns the number of row blocks that it lacks; `None` if
    /// there is nothing to do. A new table begins in the block from `shared`.
    pub(super) fn prepare(
        &mut self,
        stretch: usize,
        image: &wingbeat_unwind::Image,
        rules: &mut Rules,
        shared: impl FnOnce() -> Option<Shared>,
    ) -> Option<usize> {
        if self.is_closed || self.built.get(stretch) != Some(&false) {
            return None;
        }
        let table = match &mut self.table {
            Some(table) => table,
            none => none.insert(match shared() {
                Some(Shared { number, block }) => {
                    self.rows.push(number);
                    Table::behind(image, block)
                }
                None => Table::new(image),
            }),
        };
        table.add(stretch, image, rules);
        Some(table.blocks().len().saturating_sub(self.rows.len()))
    }

    /// Adds the missing blocks, and returns the data to write for a stretch.
    pub(super) fn fill(
        &mut self,
        stretch: usize,
        numbers: Vec<u32>,
        now: Instant,
    ) -> Option<Writes> {
        // The last block may have had room left, and got more rows.
        let first_changed = self.rows.len().saturating_sub(1);
        self.rows.extend(numbers);
        let (table, word) = (self.table.as_ref()?, self.word? + (stretch * STRETCH_WORDS) as u32);
        let blocks = self.rows.iter().copied().zip(table.blocks().iter().cloned());
        let blocks = blocks.skip(first_changed).collect();
        let words = table.directory(stretch)?.iter().map(|word| match *word {
            Word::NONE => Word::NONE,
            word => word.moved_to(self.rows[word.block() as usize]),
        });
        let words = words.collect();
        self.built[stretch] = true;
        self.since.get_or_insert(now);
        Some(Writes { blocks, word, words })
    }

    /// Closes the table if all stretches are built, and returns its last block if it has room for others.
    pub(super) fn complete(&mut self) -> Option<Shared> {
        if !self.built.iter().all(|built| *built) {
            return None;
        }
        let (table, number) = (self.table.take(), self.rows.last().copied());
        self.close();
        Some(Shared { number: number?, block: table?.into_open()? })
    }

    /// Stops building stretches.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.table = None;
    }

    /// Whether the kernel half has any of its rows.
    pub(super) fn has_rows(&self) -> bool {
        self.built.contains(&true)
    }

    /// Words that refer to rows: the first of each stretch, and the count.
    pub(super) fn leading(&self) -> impl Iterator<Item = (u32, usize)> {
        let built = self.built.iter().enumerate().filter(|(_, built)| **built);
        built.filter_map(|(stretch, _)| {
            let before = stretch * STRETCH_WORDS;
            Some((self.word? + before as u32, STRETCH_WORDS.min(self.words - before)))
        })
    }

    /// Releases its rows, to which no directory refers any more. If it had them only for a short time, delays its
    /// return.
    pub(super) fn give_way(&mut self, now: Instant) -> Vec<u32> {
        self.away = match self.has_stayed(now) {
            true => Duration::ZERO,
            false => (self.away * 2).clamp(AWAY_MIN, AWAY_MAX),
        };
        self.back_at = Some(now + self.away);
        self.since = None;
        self.built.fill(false);
        self.table = None;
        self.is_closed = false;
        std::mem::take(&mut self.rows)
    }

    /// Whether it returned after an eviction.
    pub(super) fn is_back(&self) -> bool {
        self.back_at.is_some()
    }
}

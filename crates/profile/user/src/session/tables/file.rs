//! The table of one file: what of it the kernel half has, and when it may come again after it made room for
//! others.

use std::time::{Duration, Instant};

use wingbeat_profile_common::unwind::layout::{Block, STRETCH_BYTES, STRETCH_WORDS, Word};
use wingbeat_unwind::{Rules, Table};

use super::pool::Shared;
use crate::{recorder::spaces::Mapping, unwind::Image};

/// A table that made room for another sooner than this stays away for a while. Building it again and
/// again would take more than the copies of stacks by which its samples are completed meanwhile.
pub(super) const STAY: Duration = Duration::from_secs(10);
/// How long it stays away: twice as long each time, between these.
const AWAY_MIN: Duration = Duration::from_secs(1);
const AWAY_MAX: Duration = Duration::from_secs(64);

/// What is to be written for a stretch: the rows before the words that lead to them.
pub(super) struct Writes {
    pub blocks: Vec<(u32, Box<Block>)>,
    /// The first word.
    pub word: u32,
    pub words: Vec<Word>,
}

/// The table of one file.
pub(super) struct FileTable {
    /// Address of the first granule.
    start: u64,
    /// Words in the directory.
    pub words: usize,
    /// The first of its words; `None` while there is no room for them.
    pub word: Option<u32>,
    /// By stretch: does the kernel half have its rows?
    built: Vec<bool>,
    /// Blocks of the pool that the rows are in, by their number in the table.
    pub rows: Vec<u32>,
    /// The table while stretches are missing.
    table: Option<Table>,
    /// No more stretches are built: all are there, or there was no room.
    pub is_closed: bool,
    /// It found no room, as a whole or for some stretches.
    pub is_refused: bool,
    /// When it was asked for last, by the clock of [`super::Tables`].
    pub used: u64,
    /// Since when it has rows.
    since: Option<Instant>,
    away: Duration,
    back_at: Option<Instant>,
}

impl FileTable {
    /// A table without rows. `None` for a file whose code has no rules.
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

    /// What is to be added to an address, with wrap-around, to get its distance from the first granule.
    pub(super) fn bias(&self, image: &Image, mapping: &Mapping) -> Option<u64> {
        let Mapping { start, end, offset, .. } = *mapping;
        let of_code = image.address_of_code(offset, end - start)?;
        Some(offset.wrapping_sub(start).wrapping_add(of_code).wrapping_sub(self.start))
    }

    /// The stretch at a distance from the first granule, if it is to be built.
    pub(super) fn missing_at(&self, distance: u64, now: Instant) -> Option<usize> {
        let stretch = usize::try_from(distance / STRETCH_BYTES).ok()?;
        let may_build = !self.is_closed && self.back_at.is_none_or(|back_at| back_at <= now);
        (may_build && self.built.get(stretch) == Some(&false)).then_some(stretch)
    }

    /// Is there room for a stretch that was asked for only if the table begins anew? So it is if it fills
    /// the memory with stretches of an earlier time.
    pub(super) fn is_outdated(&self, now: Instant) -> bool {
        self.is_closed && !self.built.iter().all(|built| *built) && self.has_stayed(now)
    }

    fn has_stayed(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now.saturating_duration_since(since) >= STAY)
    }

    /// Adds the rows of a stretch to the table, and gives the blocks of rows that it lacks; `None` if
    /// nothing is to be done. A table begins in the block that `shared` gives.
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

    /// Takes the blocks that it lacked, and gives what is to be written for a stretch.
    pub(super) fn place(
        &mut self,
        stretch: usize,
        numbers: Vec<u32>,
        now: Instant,
    ) -> Option<Writes> {
        // The last block may have room left, and gets more rows.
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

    /// Is closed if all is built, and gives its last block if others find room there.
    pub(super) fn complete(&mut self) -> Option<Shared> {
        if !self.built.iter().all(|built| *built) {
            return None;
        }
        let (table, number) = (self.table.take(), self.rows.last().copied());
        self.close();
        Some(Shared { number: number?, block: table?.into_open()? })
    }

    /// No more stretches are built.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.table = None;
    }

    /// Does the kernel half have rows of it?
    pub(super) fn has_rows(&self) -> bool {
        self.built.contains(&true)
    }

    /// The words that lead to rows: the first of each stretch, and how many.
    pub(super) fn leading(&self) -> impl Iterator<Item = (u32, usize)> {
        let built = self.built.iter().enumerate().filter(|(_, built)| **built);
        built.filter_map(|(stretch, _)| {
            let before = stretch * STRETCH_WORDS;
            Some((self.word? + before as u32, STRETCH_WORDS.min(self.words - before)))
        })
    }

    /// Gives up its rows, to which no directory leads any more, and stays away for a while if it has had them
    /// for a short time.
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

    /// It made room for others before.
    pub(super) fn is_back(&self) -> bool {
        self.back_at.is_some()
    }
}

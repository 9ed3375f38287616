//! The table of one file: what of it the kernel half has, and when it may come again after it made room for
//! others.

use std::time::{Duration, Instant};

use wingbeat_profile_common::unwind::layout::{Granule, STRETCH_BYTES};
use wingbeat_unwind::{Rules, Table};

use crate::{recorder::spaces::Mapping, unwind::Image};

/// A table that made room for another sooner than this stays away for a while. Building it again and
/// again would take more than the copies of stacks by which its samples are completed meanwhile.
pub(super) const STAY: Duration = Duration::from_secs(10);
/// How long it stays away: twice as long each time, between these.
const AWAY_MIN: Duration = Duration::from_secs(1);
const AWAY_MAX: Duration = Duration::from_secs(64);

/// The table of one file.
pub(super) struct FileTable {
    /// Address of the first granule.
    start: u64,
    /// First of the directory blocks, which follow one another; `None` while there is no room for them.
    pub directory: Option<u32>,
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
        let rules = image.rules().filter(|rules| rules.entries() > 0)?;
        let table = Table::new(rules);
        Some(Self {
            start: table.start(),
            directory: None,
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
    /// nothing is to be done.
    pub(super) fn prepare(
        &mut self,
        stretch: usize,
        image: &wingbeat_unwind::Image,
        rules: &mut Rules,
    ) -> Option<usize> {
        if self.is_closed || self.built.get(stretch) != Some(&false) {
            return None;
        }
        let table = self.table.get_or_insert_with(|| Table::new(image));
        table.add(stretch, image, rules);
        Some(table.blocks().len().saturating_sub(self.rows.len()))
    }

    /// Takes the blocks that it lacked, and gives what is to be written for a stretch: first these blocks,
    /// each with its number, then the directory's.
    pub(super) fn place(
        &mut self,
        stretch: usize,
        numbers: Vec<u32>,
        now: Instant,
    ) -> Vec<(u32, Vec<u8>)> {
        // The last block may have room left, and gets more rows.
        let first_changed = self.rows.len().saturating_sub(1);
        self.rows.extend(numbers);
        let (Some(table), Some(directory)) = (&self.table, self.directory) else { return vec![] };
        let Some(granules) = table.directory(stretch) else { return vec![] };
        let blocks = self.rows.iter().zip(table.blocks()).skip(first_changed);
        let mut writes: Vec<_> = blocks.map(|(number, block)| (*number, block.to_vec())).collect();
        let words = granules.iter().map(|granule| match *granule {
            Granule::NONE => granule.0,
            granule => granule.moved_to(self.rows[granule.block() as usize]).0,
        });
        writes.push((directory + stretch as u32, words.flat_map(u32::to_le_bytes).collect()));
        self.built[stretch] = true;
        self.since.get_or_insert(now);
        if self.built.iter().all(|built| *built) {
            self.close();
        }
        writes
    }

    /// No more stretches are built.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.table = None;
    }

    /// The directory blocks that lead to rows.
    pub(super) fn leading(&self) -> impl Iterator<Item = u32> {
        let built = self.built.iter().enumerate().filter(|(_, built)| **built);
        let numbers = built.map(|(stretch, _)| self.directory.map(|first| first + stretch as u32));
        numbers.flatten()
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

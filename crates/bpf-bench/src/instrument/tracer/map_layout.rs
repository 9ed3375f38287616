//! Layout of the tracers' per-CPU value, and decoding of the values of all CPUs.

use thiserror::Error;

use super::SLOTS;
use crate::instrument::wrapper::{
    Recorded,
    histogram::{VALUE_SIZE, read_histogram},
};

/// Words of a counter in a slot: count, time enabled, time running.
const READING_WORDS: u16 = 3;

/// Words of its sums: the same, and the number of failed reads.
const SUM_WORDS: u16 = 4;

/// Value of a CPU: a histogram, event counts, slots of active runs, sums of counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) counters: u16,
}

impl Layout {
    /// Runs that began.
    pub(super) const ENTRIES: i16 = VALUE_SIZE as i16;
    /// Exits without a matching entry.
    pub(super) const UNMATCHED: i16 = Self::ENTRIES + 8;
    /// Entries evicted by others.
    pub(super) const DISPLACED: i16 = Self::UNMATCHED + 8;
    pub(super) const SLOTS_START: i16 = Self::DISPLACED + 8;

    /// In a slot: the frame of the run (0 if the slot is free), its start time, counters at that time.
    pub(super) const FRAME: i16 = 0;
    pub(super) const START: i16 = 8;
    const COUNTERS_START: i16 = 16;

    pub(super) fn new(counters: usize) -> Self {
        Self { counters: u16::try_from(counters).unwrap_or(u16::MAX) }
    }

    /// A word of a counter in a slot.
    pub(super) fn counter(number: u16, word: i16) -> i16 {
        Self::COUNTERS_START + 8 * ((READING_WORDS * number).cast_signed() + word)
    }

    pub(super) fn slot_len(self) -> i32 {
        i32::from(Self::counter(self.counters, 0))
    }

    /// A word of the sums of a counter.
    pub(super) fn sum(self, number: u16, word: i16) -> i16 {
        Self::SLOTS_START
            + (i32::from(SLOTS) * self.slot_len()) as i16
            + 8 * ((SUM_WORDS * number).cast_signed() + word)
    }

    pub(super) fn len_bytes(self) -> u32 {
        u32::from(self.sum(self.counters, 0).cast_unsigned())
    }
}

/// Sums of a counter over all runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterSums {
    pub count: u64,
    /// Time enabled in nanoseconds.
    pub enabled_ns: u64,
    /// Time running in nanoseconds: less than enabled if events are multiplexed.
    pub running_ns: u64,
    /// Runs for which it could not be read.
    pub unread: u64,
}

/// The tracers' records, summed over all CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRecords {
    pub recorded: Recorded,
    pub entries: u64,
    /// Exits without an entry: the run began before tracing, or its entry was missed.
    pub unmatched: u64,
    /// Evicted entries: the run never ended, or ended late.
    pub displaced: u64,
    pub unfinished: u64,
    /// Sums of the counters, in order.
    pub counters: Vec<CounterSums>,
}

/// The number of bytes is not a multiple of the value size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "read {found_bytes} bytes as the values of all CPUs, which have {value_bytes} each: is it another map?"
)]
pub struct WrongLen {
    pub found_bytes: usize,
    pub value_bytes: usize,
}

/// Sums the concatenated values of all CPUs. Fails if there are none, or if they are not whole
/// values for this number of counters.
pub fn read_results(values: &[u8], counters: usize) -> Result<RunRecords, WrongLen> {
    let layout = Layout::new(counters);
    let value_bytes = layout.len_bytes() as usize;
    let wrong = WrongLen { found_bytes: values.len(), value_bytes };
    if values.is_empty() || !values.len().is_multiple_of(value_bytes) {
        return Err(wrong);
    }
    let mut sum: Option<RunRecords> = None;
    for value in values.chunks(value_bytes) {
        let histogram = value.get(..VALUE_SIZE).ok_or(wrong)?;
        let recorded = read_histogram(histogram).map_err(|_| wrong)?;
        let one = of_cpu(value, recorded, layout).ok_or(wrong)?;
        match &mut sum {
            Some(sum) => sum.add(&one),
            None => sum = Some(one),
        }
    }
    sum.ok_or(wrong)
}

/// Decodes the value of one CPU, given its histogram.
fn of_cpu(value: &[u8], recorded: Recorded, layout: Layout) -> Option<RunRecords> {
    let word = |offset: i16| {
        let bytes = value.get(usize::try_from(offset).ok()?..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    };
    let slot = |number: u16| {
        let start = i32::from(Layout::SLOTS_START) + i32::from(number) * layout.slot_len();
        word(i16::try_from(start).ok()? + Layout::FRAME)
    };
    let frames = (0..SLOTS).map(slot).collect::<Option<Vec<_>>>()?;
    let sums = |number| {
        Some(CounterSums {
            count: word(layout.sum(number, 0))?,
            enabled_ns: word(layout.sum(number, 1))?,
            running_ns: word(layout.sum(number, 2))?,
            unread: word(layout.sum(number, 3))?,
        })
    };
    Some(RunRecords {
        recorded,
        entries: word(Layout::ENTRIES)?,
        unmatched: word(Layout::UNMATCHED)?,
        displaced: word(Layout::DISPLACED)?,
        unfinished: frames.iter().filter(|&&frame| frame != 0).count() as u64,
        counters: (0..layout.counters).map(sums).collect::<Option<_>>()?,
    })
}

impl RunRecords {
    fn add(&mut self, more: &Self) {
        self.recorded.add(&more.recorded);
        self.entries = self.entries.saturating_add(more.entries);
        self.unmatched = self.unmatched.saturating_add(more.unmatched);
        self.displaced = self.displaced.saturating_add(more.displaced);
        self.unfinished = self.unfinished.saturating_add(more.unfinished);
        for (sum, more) in self.counters.iter_mut().zip(&more.counters) {
            sum.count = sum.count.saturating_add(more.count);
            sum.enabled_ns = sum.enabled_ns.saturating_add(more.enabled_ns);
            sum.running_ns = sum.running_ns.saturating_add(more.running_ns);
            sum.unread = sum.unread.saturating_add(more.unread);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Value of a CPU that contains these words.
    fn value(counters: usize, words: &[(i16, u64)]) -> Vec<u8> {
        let mut value = vec![0; Layout::new(counters).len_bytes() as usize];
        for &(offset, word) in words {
            let start = usize::try_from(offset).expect("an offset");
            value[start..start + 8].copy_from_slice(&word.to_le_bytes());
        }
        value
    }

    #[test]
    fn cpus_add_up() {
        let layout = Layout::new(2);
        let slot = |number: i16| Layout::SLOTS_START + number * layout.slot_len() as i16;
        let first = value(
            2,
            &[
                (Layout::ENTRIES, 10),
                (Layout::UNMATCHED, 1),
                (slot(0), 0xffff_8880_0000_1000),
                (layout.sum(0, 0), 100),
                (layout.sum(1, 3), 4),
            ],
        );
        let second = value(
            2,
            &[
                (Layout::ENTRIES, 5),
                (Layout::DISPLACED, 2),
                (slot(7), 1),
                (layout.sum(0, 0), 20),
                (layout.sum(1, 1), 9),
                (layout.sum(1, 2), 8),
            ],
        );
        let found = read_results(&[first, second].concat(), 2).expect("two values");
        let RunRecords { entries, unmatched, displaced, unfinished, counters, .. } = found;
        assert_eq!((entries, unmatched, displaced, unfinished), (15, 1, 2, 2));
        let none = CounterSums::default();
        assert_eq!(
            counters,
            [
                CounterSums { count: 120, ..none },
                CounterSums { enabled_ns: 9, running_ns: 8, unread: 4, ..none },
            ]
        );
    }

    #[test]
    fn other_lengths() {
        let len = Layout::new(1).len_bytes() as usize;
        let check = |found: usize| assert!(read_results(&vec![0; found], 1).is_err(), "{found}");
        [0, 8, len - 8, len + 8, 2 * len - 1].into_iter().for_each(check);
        assert!(read_results(&vec![0; 3 * len], 1).is_ok());
    }
}

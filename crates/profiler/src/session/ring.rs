//! The ring buffer: its size, and batches read from it.

use std::{mem, ops::Range};

use super::{Options, Unwind, kernel::KernelHalf};
use crate::{targets::Targets, wire};

/// Blocks come in bursts: two threads that pass a token back and forth cause half a million a second.
const BLOCKS_BUFFER_BYTES: u32 = 4 << 20;

/// Stacks are copied until the tables of their files are loaded, which takes a tenth of a second for a large file.
/// A compiler has stacks of half a megabyte.
const COPIES_BUFFER_BYTES: u32 = 16 << 20;
/// Programs start at any time, several at once.
const ALL_BUFFER_BYTES: u32 = 32 << 20;

/// Default size of the ring buffer: about three seconds of all CPUs with 40-frame stacks. User space drains it ten
/// times a second, and is woken when it is a quarter full. Copies of stacks take most of it, up to 1 MiB each. A
/// power of two, as the kernel requires.
pub(super) fn buffer_bytes(options: &Options, cpus: usize) -> u32 {
    let wanted = options.frequency_hz * cpus as u64 * 384 * 3;
    let samples = wanted.next_power_of_two().clamp(4 << 20, 64 << 20) as u32;
    let blocks = if options.mode.blocks() { BLOCKS_BUFFER_BYTES } else { 0 };
    let copies = match (options.unwind, &options.targets) {
        (Unwind::FramePointer, _) => 0,
        (_, Targets::All) => ALL_BUFFER_BYTES,
        _ => COPIES_BUFFER_BYTES,
    };
    samples.max(blocks).max(copies)
}

/// A batch read from the ring buffer.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    /// Its records by time.
    ranges: Vec<(u64, Range<usize>)>,
    /// Number of records processed. The others are later than the time processed so far.
    taken: usize,
    /// Invalid records.
    pub(super) undecoded: u64,
}

impl Batch {
    /// Bytes kept for the next batch. Copied stacks take many megabytes again and again, and new memory costs the
    /// kernel as much as the copies.
    const KEPT_BYTES: usize = 1 << 20;

    /// Reads all waiting records, in addition to unprocessed ones.
    pub(super) fn read(&mut self, kernel_half: &mut KernelHalf) {
        self.ranges.drain(..mem::take(&mut self.taken));
        if self.ranges.is_empty() {
            if self.bytes.len() < Self::KEPT_BYTES && self.bytes.capacity() > Self::KEPT_BYTES {
                self.bytes = Vec::new();
            }
            self.bytes.clear();
        }
        let Self { bytes, ranges, undecoded, .. } = self;
        kernel_half.drain(|record| {
            let start = bytes.len();
            match wire::decode(record) {
                Ok(decoded) => {
                    ranges.push((decoded.time_ns(), start..start + record.len()));
                    bytes.extend_from_slice(record);
                }
                Err(_) => *undecoded += 1,
            }
        });
        ranges.sort_by_key(|(time_ns, _)| *time_ns);
    }

    /// Time of the last record; 0 without one.
    pub(super) fn last_ns(&self) -> u64 {
        self.ranges.last().map_or(0, |(time_ns, _)| *time_ns)
    }

    /// Takes the records up to a time.
    pub(super) fn take(&mut self, until_ns: u64) -> impl Iterator<Item = wire::Record<'_>> {
        self.taken = self.ranges.partition_point(|(time_ns, _)| *time_ns <= until_ns);
        self.records(0..self.taken)
    }

    /// The unprocessed records.
    pub(super) fn rest(&self) -> impl Iterator<Item = wire::Record<'_>> {
        self.records(self.taken..self.ranges.len())
    }

    fn records(&self, range: Range<usize>) -> impl Iterator<Item = wire::Record<'_>> {
        let bytes = self.ranges[range].iter().filter_map(|(_, it)| self.bytes.get(it.clone()));
        bytes.filter_map(|bytes| wire::decode(bytes).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_buffer_is_a_power_of_two_within_bounds() {
        let check = |frequency_hz, cpus, unwind, targets, expected_mib: u32| {
            let options = Options { frequency_hz, unwind, ..Options::new(targets) };
            assert_eq!(buffer_bytes(&options, cpus), expected_mib << 20, "{options:?} on {cpus}");
        };
        let command = || Targets::Command(Vec::new());
        check(99, 2, Unwind::FramePointer, command(), 4);
        check(9_999, 2, Unwind::FramePointer, command(), 32);
        check(9_999, 128, Unwind::FramePointer, command(), 64);
        check(99, 2, Unwind::Auto, command(), 16);
        check(99, 2, Unwind::Table, Targets::All, 32);
        check(9_999, 128, Unwind::Auto, Targets::All, 64);
    }
}

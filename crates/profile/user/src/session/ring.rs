//! The ring buffer: its size, and what is read of it at once.

use std::{mem, ops::Range};

use super::{Options, Unwind, kernel::KernelHalf};
use crate::{targets::Targets, wire};

/// Blocks come in floods: two threads that hand a token to each other make half a million a second.
const BLOCKS_BUFFER_BYTES: u32 = 4 << 20;

/// Stacks are copied until the tables of their files are there, which takes a tenth of a second for a large
/// file. A compiler has stacks of half a megabyte.
const COPIES_BUFFER_BYTES: u32 = 16 << 20;
/// Programs begin at any time, several at once.
const ALL_BUFFER_BYTES: u32 = 32 << 20;

/// The default size of the ring buffer: for about three seconds of all CPUs with 40-frame stacks. User space
/// drains it ten times a second, and is woken when it is a quarter full. Copies of stacks take most of it, 1 MiB
/// each at most. A power of two, as the kernel wants.
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

/// What was read of the ring buffer at once.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    /// The records in it, by their time.
    places: Vec<(u64, Range<usize>)>,
    /// How many of them were taken. The others are of a time that is not looked at yet.
    taken: usize,
    /// Those that made no sense.
    pub(super) undecoded: u64,
}

impl Batch {
    /// Bytes that are kept for the next batch. While stacks are copied there are many megabytes, again and
    /// again, and new memory costs the kernel as much as the copies do.
    const KEPT_BYTES: usize = 1 << 20;

    /// Reads what there is, beside what was not taken.
    pub(super) fn read(&mut self, kernel_half: &mut KernelHalf) {
        self.places.drain(..mem::take(&mut self.taken));
        if self.places.is_empty() {
            if self.bytes.len() < Self::KEPT_BYTES && self.bytes.capacity() > Self::KEPT_BYTES {
                self.bytes = Vec::new();
            }
            self.bytes.clear();
        }
        let Self { bytes, places, undecoded, .. } = self;
        kernel_half.drain(|record| {
            let start = bytes.len();
            match wire::decode(record) {
                Ok(decoded) => {
                    places.push((decoded.time_ns(), start..start + record.len()));
                    bytes.extend_from_slice(record);
                }
                Err(_) => *undecoded += 1,
            }
        });
        places.sort_by_key(|(time_ns, _)| *time_ns);
    }

    /// The time of the last record; 0 without one.
    pub(super) fn last_ns(&self) -> u64 {
        self.places.last().map_or(0, |(time_ns, _)| *time_ns)
    }

    /// Takes those until then.
    pub(super) fn take(&mut self, until_ns: u64) -> impl Iterator<Item = wire::Record<'_>> {
        self.taken = self.places.partition_point(|(time_ns, _)| *time_ns <= until_ns);
        self.records(0..self.taken)
    }

    /// Those that were not taken.
    pub(super) fn rest(&self) -> impl Iterator<Item = wire::Record<'_>> {
        self.records(self.taken..self.places.len())
    }

    fn records(&self, range: Range<usize>) -> impl Iterator<Item = wire::Record<'_>> {
        let bytes = self.places[range].iter().filter_map(|(_, it)| self.bytes.get(it.clone()));
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

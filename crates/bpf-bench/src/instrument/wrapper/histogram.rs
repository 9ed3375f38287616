//! Layout of the wrapper's map value, and its decoding.

use thiserror::Error;
use wingbeat_bpf_loader::code::{Insn, op};
use wingbeat_stats::histogram::BUCKETS;

use super::{alu, alu_immediate};

/// Offset of the sum of all values in nanoseconds, 8 bytes.
pub(super) const SUM: i16 = 0;
/// Maximum value, 8 bytes.
pub(super) const MAX: i16 = 8;
/// Maximum of `u64::MAX − value`, 8 bytes: zero is valid as long as there was no value.
pub(super) const MIN_COMPLEMENT: i16 = 16;
/// Latest value, 8 bytes: passed through here from the clock to the buckets.
pub(super) const LAST: i16 = 24;
/// The buckets, 8 bytes each.
pub(super) const BUCKETS_START: i16 = 32;

/// Size of the map's value in bytes.
pub const VALUE_SIZE: usize = BUCKETS_START as usize + BUCKETS * 8;

/// The same, with the type of map attributes.
pub const VALUE_SIZE_BYTES: u32 = VALUE_SIZE as u32;

/// Recorded times.
///
/// Single values have the resolution of the clock, which advances in steps of 10 ns on some
/// machines (seen on an AMD EPYC: 40, 50, 60). Sum and mean are not affected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Runs in each bucket of `wingbeat_stats::histogram`, which has [`BUCKETS`].
    pub buckets: Vec<u64>,
    pub count: u64,
    /// Exact sum of the times in nanoseconds.
    pub sum_ns: u64,
    /// Exact minimum in nanoseconds; 0 if there were no runs.
    pub min_ns: u64,
    /// Exact maximum in nanoseconds; 0 if there were no runs.
    pub max_ns: u64,
}

impl Recorded {
    /// Builds a recording from times, each with its number of runs.
    #[cfg(test)]
    pub(crate) fn of(times: &[(u64, u64)]) -> Self {
        let mut buckets = vec![0; BUCKETS];
        for &(time_ns, runs) in times {
            buckets[wingbeat_stats::histogram::bucket_of(time_ns)] += runs;
        }
        Self {
            buckets,
            count: times.iter().map(|(_, runs)| runs).sum(),
            sum_ns: times.iter().map(|(time_ns, runs)| time_ns * runs).sum(),
            min_ns: times.iter().map(|(time_ns, _)| *time_ns).min().unwrap_or(0),
            max_ns: times.iter().map(|(time_ns, _)| *time_ns).max().unwrap_or(0),
        }
    }

    /// Merges another recording.
    pub(crate) fn add(&mut self, more: &Self) {
        if more.count == 0 {
            return;
        }
        for (bucket, more) in self.buckets.iter_mut().zip(&more.buckets) {
            *bucket = bucket.saturating_add(*more);
        }
        self.min_ns = if self.count == 0 { more.min_ns } else { self.min_ns.min(more.min_ns) };
        self.max_ns = self.max_ns.max(more.max_ns);
        self.count = self.count.saturating_add(more.count);
        self.sum_ns = self.sum_ns.saturating_add(more.sum_ns);
    }
}

/// The bytes have the wrong size for a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("read {found_bytes} bytes as a histogram, which has {VALUE_SIZE}: is it another map?")]
pub struct WrongSize {
    pub found_bytes: usize,
}

/// Decodes the map's value as written by the kernel of a little-endian machine. Fails if its size
/// is not [`VALUE_SIZE`].
pub fn read_histogram(value: &[u8]) -> Result<Recorded, WrongSize> {
    let (words, rest) = value.as_chunks();
    let mut words = words.iter().map(|&word| u64::from_le_bytes(word));
    let wrong_size = WrongSize { found_bytes: value.len() };
    if value.len() != VALUE_SIZE || !rest.is_empty() {
        return Err(wrong_size);
    }
    let mut next = || words.next().ok_or(wrong_size);
    let [sum_ns, max_ns, min_complement, _last] = [next()?, next()?, next()?, next()?];
    let buckets: Vec<u64> = words.collect();
    let count = buckets.iter().fold(0, |sum: u64, &count| sum.saturating_add(count));
    let min_ns = if count == 0 { 0 } else { u64::MAX - min_complement };
    Ok(Recorded { buckets, count, sum_ns, min_ns, max_ns })
}

// Computes the bucket of a value in bytecode.
//
// `wingbeat_stats::histogram` defines the layout: the bucket is `(shift << 5) + (value >> shift)`
// with the smallest `shift` that leaves six digits of the value. A binary search finds it: shift
// by 16 if the value is still too large after shifting by 15, then likewise by 8, 4, 2 and 1.
//
// The code has no jumps. The verifier would follow each path through five of them, multiplied by
// the states in which the program can return; and the CPU would mispredict them whenever the times
// vary.

/// Replaces the value in r0 by its bucket, which the verifier can prove to be below [`BUCKETS`]. Clobbers r1 and r2.
///
/// `(limit − r0) >> 63` is 1 if the value is above the limit. It may be wrong for values from 2⁶³
/// on, but those exceed all buckets with any shift, and belong in the last.
pub fn bucket_code() -> Vec<Insn> {
    const LAST: i32 = BUCKETS as i32 - 1;
    let mut insns = vec![alu_immediate(op::MOV, 2, 0)];
    for log in (0..5).rev() {
        let step = 1 << log;
        let limit = (64 << (step - 1)) - 1;
        insns.extend([
            alu_immediate(op::MOV, 1, limit),
            alu(op::SUB, 1, 0),
            alu_immediate(op::RSH, 1, 63),
        ]);
        if log > 0 {
            insns.push(alu_immediate(op::LSH, 1, log));
        }
        insns.extend([alu(op::RSH, 0, 1), alu(op::ADD, 2, 1)]);
    }
    insns.extend([
        alu_immediate(op::LSH, 2, 5),
        alu(op::ADD, 0, 2),
        Insn::new(op::JMP | op::JLE, 0, 0, 1, LAST),
        alu_immediate(op::MOV, 0, LAST),
    ]);
    insns
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wingbeat_stats::histogram::{VALUE_END, bounds, bucket_of};

    use super::*;

    fn value(words: &[(usize, u64)]) -> Vec<u8> {
        let mut value = vec![0; VALUE_SIZE];
        for &(offset, word) in words {
            value[offset..offset + 8].copy_from_slice(&word.to_le_bytes());
        }
        value
    }

    #[test]
    fn what_the_wrapper_writes() {
        let bucket = |value| BUCKETS_START as usize + 8 * bucket_of(value);
        let written = value(&[
            (SUM as usize, 322),
            (MAX as usize, 300),
            (MIN_COMPLEMENT as usize, u64::MAX - 7),
            (LAST as usize, 8),
            (bucket(7), 2),
            (bucket(8), 1),
            (bucket(300), 1),
        ]);
        let recorded = read_histogram(&written).expect("a histogram");
        assert_eq!(recorded, Recorded { sum_ns: 322, ..Recorded::of(&[(7, 2), (8, 1), (300, 1)]) });
    }

    #[test]
    fn records_add_up() {
        let mut sum = Recorded::of(&[]);
        for times in [&[(20, 2)][..], &[(10, 1)], &[]] {
            sum.add(&Recorded::of(times));
        }
        assert_eq!(sum, Recorded::of(&[(10, 1), (20, 2)]));
    }

    #[test]
    fn nothing_recorded() {
        assert_eq!(read_histogram(&value(&[])), Ok(Recorded::of(&[])));
    }

    #[test]
    fn another_size() {
        let check = |len| {
            let error = read_histogram(&vec![0; len]).expect_err("another size");
            assert_eq!(error, WrongSize { found_bytes: len });
        };
        [0, 8, VALUE_SIZE - 1, VALUE_SIZE + 1, VALUE_SIZE + 8].into_iter().for_each(check);
    }

    /// Interprets the instructions of [`bucket_code`]: 64-bit arithmetic and one jump.
    fn run(value: u64) -> u64 {
        let insns = bucket_code();
        let mut registers = [value, 0xdead, 0xdead];
        let mut index = 0;
        while let Some(insn) = insns.get(index) {
            let dst = usize::from(insn.dst());
            let operand = match insn.opcode & op::X {
                0 => i64::from(insn.immediate).cast_unsigned(),
                _ => registers[usize::from(insn.src())],
            };
            index += 1;
            let old = registers[dst];
            registers[dst] = match (insn.class(), insn.opcode & op::OPERATION) {
                (op::ALU64, op::MOV) => operand,
                (op::ALU64, op::ADD) => old.wrapping_add(operand),
                (op::ALU64, op::SUB) => old.wrapping_sub(operand),
                (op::ALU64, op::LSH) => old << operand,
                (op::ALU64, op::RSH) => old >> operand,
                (op::JMP, op::JLE) => {
                    if old <= operand {
                        index += usize::from(insn.offset.unsigned_abs());
                    }
                    old
                }
                other => panic!("{other:?} in {insn:?}"),
            };
        }
        registers[0]
    }

    #[track_caller]
    fn check(value: u64) {
        assert_eq!(run(value), bucket_of(value) as u64, "{value:#x}");
    }

    #[test]
    fn small_values_and_all_edges() {
        (0..5000).for_each(check);
        for bucket in 0..BUCKETS {
            let (lower, upper) = bounds(bucket);
            [lower, lower + 1, upper - 1, upper].into_iter().for_each(check);
        }
        for digits in 0..64 {
            let power = 1_u64 << digits;
            [power - 1, power, power + 1, power | power >> 1].into_iter().for_each(check);
        }
        [VALUE_END - 1, VALUE_END, u64::MAX - 1, u64::MAX].into_iter().for_each(check);
    }

    proptest! {
        #[test]
        fn any_value(value: u64, digits in 0_u32..64) {
            check(value);
            check(value >> digits);
        }
    }
}

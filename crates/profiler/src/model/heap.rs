//! Allocations by site.

use std::{
    iter::Sum,
    ops::{AddAssign, SubAssign},
};

use super::{Profile, StackId, ThreadId};

/// Blocks and their bytes. Both are estimates if allocations were sampled.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Amount {
    pub blocks: f64,
    pub bytes: f64,
    /// Variance of the bytes; 0 if every allocation was recorded.
    pub variance: f64,
    /// Number of recorded allocations.
    pub samples: u64,
}

/// Standard deviations around the mean that contain 95 % of a normal distribution.
const SIGMAS_95: f64 = 1.96;

impl Amount {
    /// Amount represented by a sampled allocation of `size` bytes, with samples `sample_bytes` apart; 0 if every
    /// allocation was recorded.
    pub(crate) fn of_sample(size: u64, sample_bytes: u32) -> Self {
        let size = size as f64;
        if sample_bytes == 0 {
            return Self { blocks: 1.0, bytes: size, variance: 0.0, samples: 1 };
        }
        // An allocation of no bytes is never sampled, except at the start of sampling.
        let chance = -(-size.max(1.0) / f64::from(sample_bytes)).exp_m1();
        Self {
            blocks: 1.0 / chance,
            bytes: size / chance,
            variance: size * size * (1.0 - chance) / (chance * chance),
            samples: 1,
        }
    }

    /// Half-width of the 95 % confidence interval of the bytes.
    pub fn margin_bytes(&self) -> f64 {
        SIGMAS_95 * self.variance.max(0.0).sqrt()
    }

    /// Blocks, rounded.
    pub fn blocks(&self) -> u64 {
        self.blocks.round().max(0.0) as u64
    }

    /// Bytes, rounded.
    pub fn bytes(&self) -> u64 {
        self.bytes.round().max(0.0) as u64
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        self.blocks += other.blocks;
        self.bytes += other.bytes;
        self.variance += other.variance;
        self.samples += other.samples;
    }
}

impl SubAssign for Amount {
    fn sub_assign(&mut self, other: Self) {
        self.blocks -= other.blocks;
        self.bytes -= other.bytes;
        self.variance -= other.variance;
        self.samples = self.samples.saturating_sub(other.samples);
    }
}

/// An allocation site: a stack of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Site {
    /// The first thread of the process.
    pub thread: ThreadId,
    pub stack: StackId,
    /// All allocations.
    pub total: Amount,
    /// Live at the peak of this site alone.
    pub own_peak: Amount,
    /// Live at the peak of all sites together.
    pub at_peak: Amount,
    /// Not freed at the end of the recording or of the process.
    pub at_end: Amount,
    /// Sum of block lifetimes, in nanoseconds, until their free or the end of the recording.
    pub lifetime_ns: f64,
}

impl Site {
    /// Adds another site with the same names. Each had its own peak at its own time, so the peak of both is at
    /// most the sum.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.total += other.total;
        self.own_peak += other.own_peak;
        self.at_peak += other.at_peak;
        self.at_end += other.at_end;
        self.lifetime_ns += other.lifetime_ns;
    }
}

impl Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        let mut sum = Self::default();
        amounts.for_each(|amount| sum += amount);
        sum
    }
}

impl Profile {
    /// Sum of an amount over all sites.
    pub fn heap_sum(&self, amount: impl Fn(&Site) -> Amount) -> Amount {
        self.sites.iter().map(amount).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_stand_for_others() {
        let check = |size: u64, expected: (f64, f64)| {
            let found = Amount::of_sample(size, 1000);
            let is_near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-3;
            assert!(
                is_near(found.blocks, expected.0) && is_near(found.bytes, expected.1),
                "{found:?}"
            );
        };
        // For sizes far below the sampling distance, each represents one distance of bytes.
        check(1, (1000.5, 1000.5));
        check(1000, (1.582, 1582.0));
        check(100_000, (1.0, 100_000.0));
        let exact = Amount::of_sample(24, 0);
        assert_eq!((exact.blocks, exact.bytes, exact.margin_bytes()), (1.0, 24.0, 0.0));
    }
}

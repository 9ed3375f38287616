//! Quantiles of bucketed counts, and the layout of the histogram filled by the kernel half.
//!
//! # The layout
//!
//! Values up to 63 have a bucket each. Above that, each power of two is divided into 32 buckets of equal width, so that
//! a bucket is at most 1/32 as wide as its values are large (the log-linear histogram of HdrHistogram, finer at the
//! bottom). All values from 2³² on share one bucket. With
//!
//! ```text
//! shift  = number of binary digits of (value >> 6)        0 for values up to 63
//! bucket = (shift << 5) + (value >> shift)                0 to 895
//! ```
//!
//! a value from 64 on keeps its six leading digits, 32 to 63, in `value >> shift`, and the 32 that `shift << 5` adds
//! per power of two continue from the bucket before. Without a count-leading-zeros instruction, the digits of
//! `x = value >> 6`, which is below 2²⁶, are found by compares and shifts:
//!
//! ```text
//! if value >= 1 << 32:  bucket = 896, done
//! x = value >> 6; shift = 0
//! if x >= 1 << 16:  shift += 16; x >>= 16
//! if x >= 1 << 8:   shift += 8;  x >>= 8
//! if x >= 1 << 4:   shift += 4;  x >>= 4
//! if x >= 1 << 2:   shift += 2;  x >>= 2
//! if x >= 1 << 1:   shift += 1;  x >>= 1
//! shift += x                                              x is 0 or 1 now
//! ```

use std::{error::Error, fmt};

/// Number of buckets of the layout. The last one holds all values from [`VALUE_END`] on.
pub const BUCKETS: usize = 897;

/// The first value that the layout does not distinguish from larger ones: 2³².
pub const VALUE_END: u64 = 1 << 32;

/// Binary digits that a value keeps.
const DIGITS: u32 = 6;

/// The bucket of a value, below [`BUCKETS`].
pub const fn bucket_of(value: u64) -> usize {
    if value >= VALUE_END {
        return BUCKETS - 1;
    }
    let shift = u64::BITS - (value >> DIGITS).leading_zeros();
    ((shift as usize) << (DIGITS - 1)) + (value >> shift) as usize
}

/// The bounds of a bucket: lower inclusive, upper exclusive.
///
/// For the last bucket, and for invalid indices, from [`VALUE_END`] to `u64::MAX`, inclusive.
pub const fn bounds(bucket: usize) -> (u64, u64) {
    if bucket >= BUCKETS - 1 {
        return (VALUE_END, u64::MAX);
    }
    let bucket = bucket as u64;
    // Buckets 0 to 63 are values; after that 32 for each shift.
    let shift = (bucket >> (DIGITS - 1)).saturating_sub(1);
    let digits = bucket - (shift << (DIGITS - 1));
    (digits << shift, (digits + 1) << shift)
}

/// How many integers from `lower` to `lower + width − 1` were seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// The least value.
    pub lower: u64,
    /// How many values share the bucket, at least 1.
    pub width: u64,
    pub count: u64,
}

impl Bucket {
    /// The greatest value.
    fn last(&self) -> u64 {
        self.lower.saturating_add(self.width.saturating_sub(1))
    }

    /// The assumed mean of its values: the middle.
    fn middle(&self) -> f64 {
        self.lower as f64 + (self.last() - self.lower) as f64 / 2.0
    }
}

/// Counts of integers in buckets, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// Ascending, none empty.
    buckets: Vec<Bucket>,
    total: u64,
    min: u64,
    max: u64,
    /// Whether the last bucket is unbounded.
    is_open: bool,
}

/// Why counts are not a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAHistogram {
    Empty,
    /// The bucket with this index has no width, or begins before its predecessor ends.
    Layout {
        index: usize,
    },
    /// The counts do not add up within 64 bits.
    Overflow,
    /// The least and the greatest value are not in the first and the last bucket with a count.
    Extremes {
        min: u64,
        max: u64,
    },
}

impl fmt::Display for NotAHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a histogram needs at least one count, found none"),
            Self::Layout { index } => {
                write!(f, "bucket {index} of a histogram is empty or overlaps the one before")
            }
            Self::Overflow => f.write_str("the counts of a histogram add up to more than 64 bits"),
            Self::Extremes { min, max } => write!(
                f,
                "the least value {min} and the greatest {max} do not lie in the outermost buckets \
                 of the histogram"
            ),
        }
    }
}

impl Error for NotAHistogram {}

impl Histogram {
    /// From buckets in ascending order; empty buckets may be omitted.
    pub fn new(buckets: &[Bucket]) -> Result<Self, NotAHistogram> {
        let mut end = 0_u128;
        for (index, bucket) in buckets.iter().enumerate() {
            if bucket.width == 0 || u128::from(bucket.lower) < end {
                return Err(NotAHistogram::Layout { index });
            }
            end = u128::from(bucket.lower) + u128::from(bucket.width);
        }
        let counted = buckets.iter().filter(|bucket| bucket.count > 0);
        let buckets: Vec<Bucket> = counted.copied().collect();
        let (Some(first), Some(last)) = (buckets.first(), buckets.last()) else {
            return Err(NotAHistogram::Empty);
        };
        let (min, max) = (first.lower, last.last());
        let total = buckets.iter().try_fold(0_u64, |sum, bucket| sum.checked_add(bucket.count));
        let total = total.ok_or(NotAHistogram::Overflow)?;
        Ok(Self { total, min, max, buckets, is_open: false })
    }

    /// Creates a histogram from counts in the layout of this module: `counts[i]` values in bucket i. Counts beyond
    /// [`BUCKETS`] are an error unless they are 0.
    ///
    /// The last bucket has no end. Its values are taken as [`VALUE_END`] unless [`Self::with_extremes`] sets the
    /// greatest.
    pub fn recorded(counts: &[u64]) -> Result<Self, NotAHistogram> {
        if let Some(beyond) = counts.iter().skip(BUCKETS).position(|&count| count > 0) {
            return Err(NotAHistogram::Layout { index: BUCKETS + beyond });
        }
        let bucket = |(index, &count): (usize, &u64)| {
            let (lower, end) = bounds(index);
            let width = if index == BUCKETS - 1 { 1 } else { end - lower };
            Bucket { lower, width, count }
        };
        let buckets: Vec<Bucket> = counts.iter().take(BUCKETS).enumerate().map(bucket).collect();
        let is_open = counts.get(BUCKETS - 1).is_some_and(|&count| count > 0);
        Ok(Self { is_open, ..Self::new(&buckets)? })
    }

    /// Sets the exact least and greatest value. The outermost buckets are cut down to them.
    pub fn with_extremes(mut self, min: u64, max: u64) -> Result<Self, NotAHistogram> {
        let refused = NotAHistogram::Extremes { min, max };
        if let Some(last) = self.buckets.last_mut() {
            if max < last.lower || (max > last.last() && !self.is_open) {
                return Err(refused);
            }
            last.width = (max - last.lower).saturating_add(1);
        }
        if let Some(first) = self.buckets.first_mut() {
            if min < first.lower || min > first.last() {
                return Err(refused);
            }
            first.width -= min - first.lower;
            first.lower = min;
        }
        Ok(Self { min, max, ..self })
    }

    /// Number of values, at least 1.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The least value: exact if it was set, else the lower bound of its bucket.
    pub fn min(&self) -> u64 {
        self.min
    }

    /// The greatest value: exact if it was set, else the upper bound of its bucket.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean, each value taken as the middle of its bucket. Exact for buckets of width 1; else
    /// within half a width, 1/64 of the value in the layout of this module.
    pub fn mean(&self) -> f64 {
        let parts = self.buckets.iter().map(|bucket| bucket.middle() * bucket.count as f64);
        parts.sum::<f64>() / self.total as f64
    }

    /// The quantile of share `q`: the point with `q · total` of the counts below it, by linear
    /// interpolation within the bucket.
    ///
    /// A whole number v stands for all between v − ½ and v + ½, so that the median of equal values is
    /// that value, and a bucket of the values 100 and 101 is spread from 99.5 to 101.5 (the median of
    /// grouped data; Yule & Kendall, "Theory of Statistics"). The result is kept between
    /// [`Self::min`] and [`Self::max`]. `q` outside 0 to 1 is taken as the nearer, NaN as 0.
    pub fn quantile(&self, q: f64) -> f64 {
        let q = if q.is_nan() { 0.0 } else { q.clamp(0.0, 1.0) };
        let rank = q * self.total as f64;
        let mut before = 0.0;
        let mut place = self.max as f64;
        for bucket in &self.buckets {
            let count = bucket.count as f64;
            if before + count >= rank {
                let width = (bucket.last() - bucket.lower) as f64 + 1.0;
                place = bucket.lower as f64 - 0.5 + width * ((rank - before) / count);
                break;
            }
            before += count;
        }
        place.clamp(self.min as f64, self.max as f64)
    }
}

#[cfg(test)]
mod tests;

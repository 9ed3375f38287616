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

/// The layout bucket by bucket, and quantiles against an explicit list of values.
#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::sample::quantile_of_sorted;

    fn bucket(lower: u64, width: u64, count: u64) -> Bucket {
        Bucket { lower, width, count }
    }

    #[test]
    fn known_buckets() {
        let check = |value, expected| assert_eq!(bucket_of(value), expected, "{value}");
        check(0, 0);
        check(63, 63);
        check(64, 64);
        check(65, 64);
        check(66, 65);
        check(127, 95);
        check(128, 96);
        check(131, 96);
        check(132, 97);
        check(255, 127);
        check(256, 128);
        check(1_000_000, 14 * 32 + 61);
        check(VALUE_END - 1, 895);
        check(VALUE_END, 896);
        check(u64::MAX, 896);
    }

    #[test]
    fn known_bounds() {
        let check = |bucket, expected| assert_eq!(bounds(bucket), expected, "{bucket}");
        check(0, (0, 1));
        check(63, (63, 64));
        check(64, (64, 66));
        check(95, (126, 128));
        check(96, (128, 132));
        check(895, (63 << 26, 1 << 32));
        check(896, (1 << 32, u64::MAX));
        check(897, (1 << 32, u64::MAX));
        check(usize::MAX, (1 << 32, u64::MAX));
    }

    /// Buckets are contiguous, contain their bounds, and are narrow.
    #[test]
    fn buckets_close_up() {
        let mut end = 0;
        for bucket in 0..BUCKETS {
            let (lower, upper) = bounds(bucket);
            assert_eq!(lower, end, "{bucket}");
            assert_eq!((bucket_of(lower), bucket_of(upper - 1)), (bucket, bucket));
            let width = upper - lower;
            assert!(
                bucket == BUCKETS - 1 || width == 1 || width * 32 <= lower,
                "{bucket}: {width}"
            );
            end = upper;
        }
        assert_eq!(end, u64::MAX);
    }

    /// The algorithm of the module's documentation, used by the recorder in the kernel.
    fn by_shifts(value: u64) -> usize {
        if value >= 1 << 32 {
            return 896;
        }
        let (mut x, mut shift) = (value >> 6, 0);
        for step in [16, 8, 4, 2, 1] {
            if x >= 1 << step {
                shift += step;
                x >>= step;
            }
        }
        shift += x;
        ((shift << 5) + (value >> shift)) as usize
    }

    #[test]
    fn the_recipe_is_right_at_all_borders() {
        for bucket in 0..BUCKETS {
            let (lower, upper) = bounds(bucket);
            for value in [lower, lower + (upper - lower) / 2, upper - 1] {
                assert_eq!(by_shifts(value), bucket_of(value), "{value}");
            }
        }
    }

    #[test]
    fn what_is_no_histogram() {
        let check = |buckets: &[Bucket], expected| {
            assert_eq!(Histogram::new(buckets), Err(expected), "{buckets:?}");
        };
        check(&[], NotAHistogram::Empty);
        check(&[bucket(0, 1, 0)], NotAHistogram::Empty);
        check(&[bucket(0, 0, 1)], NotAHistogram::Layout { index: 0 });
        check(&[bucket(0, 2, 1), bucket(1, 1, 1)], NotAHistogram::Layout { index: 1 });
        check(&[bucket(5, 1, 1), bucket(1, 1, 0)], NotAHistogram::Layout { index: 1 });
        check(&[bucket(u64::MAX, 9, 1), bucket(3, 1, 1)], NotAHistogram::Layout { index: 1 });
        check(&[bucket(0, 1, u64::MAX), bucket(1, 1, 1)], NotAHistogram::Overflow);
        let recorded = |counts: &[u64]| Histogram::recorded(counts).map(|_| ());
        assert_eq!(recorded(&[]), Err(NotAHistogram::Empty));
        assert_eq!(recorded(&[0; BUCKETS]), Err(NotAHistogram::Empty));
        assert_eq!(recorded(&[1; BUCKETS]), Ok(()));
        assert_eq!(recorded(&[1; BUCKETS + 1]), Err(NotAHistogram::Layout { index: BUCKETS }));
        assert_eq!(recorded(&[&[1; BUCKETS][..], &[0, 0]].concat()), Ok(()));
    }

    #[test]
    fn extremes_have_to_fit() {
        // 100 lies in 100 to 101, 1,000 in 992 to 1,007.
        let mut counts = [0; BUCKETS];
        counts[bucket_of(100)] = 1;
        counts[bucket_of(1000)] = 1;
        let check = |min, max, expected: Option<(f64, f64, f64)>| {
            let bounded = Histogram::recorded(&counts).expect("counts").with_extremes(min, max);
            let found = bounded
                .as_ref()
                .map(|bounded| (bounded.quantile(0.0), bounded.mean(), bounded.quantile(1.0)));
            assert_eq!(found.ok(), expected, "{min} {max}");
            if expected.is_none() {
                assert_eq!(bounded, Err(NotAHistogram::Extremes { min, max }));
            }
        };
        check(100, 1000, Some((100.0, (100.5 + 996.0) / 2.0, 1000.0)));
        check(101, 992, Some((101.0, (101.0 + 992.0) / 2.0, 992.0)));
        check(99, 1000, None);
        check(102, 1000, None);
        check(100, 991, None);
        check(100, 1008, None);
    }

    /// The unbounded bucket accepts any maximum.
    #[test]
    fn overflow_is_told_by_its_maximum() {
        let mut counts = [0; BUCKETS];
        counts[10] = 99;
        counts[BUCKETS - 1] = 1;
        let open = Histogram::recorded(&counts).expect("counts");
        assert_eq!((open.max(), open.quantile(1.0)), (VALUE_END, 4_294_967_296.0));
        for max in [VALUE_END, VALUE_END + 7, u64::MAX] {
            let bounded = open.clone().with_extremes(10, max).expect("in the last bucket");
            assert_eq!((bounded.max(), bounded.quantile(1.0)), (max, max as f64));
            assert!((bounded.quantile(49.5 / 100.0) - 10.0).abs() < 1e-12);
        }
        assert!(open.with_extremes(10, VALUE_END - 1).is_err());
    }

    #[test]
    fn quantiles_within_buckets() {
        let check = |buckets: &[Bucket], q, expected: f64| {
            let found = Histogram::new(buckets).expect("a histogram").quantile(q);
            assert!((found - expected).abs() < 1e-12, "{buckets:?} {q}: {found}");
        };
        let one = [bucket(7, 1, 5)];
        check(&one, 0.0, 7.0);
        check(&one, 0.5, 7.0);
        check(&one, 1.0, 7.0);
        // 100 to 107, spread from 99.5 to 107.5.
        let wide = [bucket(100, 8, 4)];
        check(&wide, 0.0, 100.0);
        check(&wide, 0.25, 101.5);
        check(&wide, 0.5, 103.5);
        check(&wide, 1.0, 107.0);
        let two = [bucket(1, 1, 3), bucket(2, 1, 0), bucket(10, 2, 1)];
        check(&two, 0.5, 0.5 + 2.0 / 3.0);
        check(&two, 0.75, 1.5);
        check(&two, 0.875, 10.5);
        check(&two, 0.99, 11.0);
        check(&two, -1.0, 1.0);
        check(&two, 2.0, 11.0);
        check(&two, f64::NAN, 1.0);
    }

    #[test]
    fn means_and_totals() {
        let histogram = Histogram::new(&[bucket(1, 1, 3), bucket(10, 4, 1)]).expect("a histogram");
        assert_eq!((histogram.total(), histogram.min(), histogram.max()), (4, 1, 13));
        assert_eq!(histogram.mean(), (3.0 + 11.5) / 4.0);
        let full = Histogram::new(&[bucket(0, 1, u64::MAX)]).expect("a histogram");
        assert_eq!((full.mean(), full.quantile(0.999)), (0.0, 0.0));
    }

    fn record(values: &[u64]) -> Histogram {
        let mut counts = [0; BUCKETS];
        for value in values {
            counts[bucket_of(*value)] += 1;
        }
        Histogram::recorded(&counts).expect("at least one value")
    }

    /// Values of all sizes.
    fn value() -> impl Strategy<Value = u64> {
        (0..33_u32, any::<u64>()).prop_map(|(bits, value)| value & ((1 << bits) - 1))
    }

    proptest! {
        #[test]
        fn every_value_lies_in_its_bucket(value: u64) {
            let (lower, upper) = bounds(bucket_of(value));
            prop_assert!(lower <= value && (value < upper || value == u64::MAX));
        }

        /// The true quantile, between two neighbours at that rank, lies within a bucket's width.
        #[test]
        fn quantiles_are_near_the_truth(mut values in vec(value(), 1..200), q in 0.0..=1.0) {
            values.sort_unstable();
            let found = record(&values).quantile(q);
            let rank = q * values.len() as f64;
            let low = values[(rank.ceil() as usize).saturating_sub(1).min(values.len() - 1)] as f64;
            let high = values[(rank.floor() as usize).min(values.len() - 1)] as f64;
            let (low, high) = (low.min(high), low.max(high));
            prop_assert!(low - low / 32.0 - 0.5 <= found && found <= high + high / 32.0 + 0.5);
        }

        #[test]
        fn quantiles_never_fall(values in vec(value(), 1..50), a in 0.0..=1.0, b in 0.0..=1.0) {
            let histogram = record(&values);
            let (low, high) = (f64::min(a, b), f64::max(a, b));
            prop_assert!(histogram.quantile(low) <= histogram.quantile(high));
            prop_assert!(histogram.min() as f64 <= histogram.quantile(low));
            prop_assert!(histogram.quantile(high) <= histogram.max() as f64);
        }

        #[test]
        fn means_are_near_the_truth(values in vec(value(), 1..200)) {
            let mean = values.iter().map(|value| *value as f64).sum::<f64>() / values.len() as f64;
            let found = record(&values).mean();
            prop_assert!((found - mean).abs() <= mean / 64.0 + 1e-9);
        }

        /// Setting extremes changes nothing but the ends.
        #[test]
        fn extremes_of_the_values_fit(values in vec(value(), 1..100)) {
            let (min, max) = (*values.iter().min().expect("one"), *values.iter().max().expect("one"));
            let bounded = record(&values).with_extremes(min, max).expect("they fit");
            prop_assert_eq!((bounded.min(), bounded.max()), (min, max));
            prop_assert_eq!(bounded.quantile(0.0), min as f64);
            prop_assert_eq!(bounded.quantile(1.0), max as f64);
            prop_assert!(min as f64 <= bounded.mean() && bounded.mean() <= max as f64 + 1e-9 * max as f64);
        }

        /// With buckets of width 1 many values behave like a sample, to half a unit.
        #[test]
        fn narrow_buckets_are_a_sample(mut values in vec(0..64_u64, 1..200), q in 0.0..=1.0) {
            values.sort_unstable();
            let sorted: Vec<f64> = values.iter().map(|value| *value as f64).collect();
            let n = sorted.len() as f64;
            // Type 7 looks at rank q (n − 1), the histogram at q n: one rank apart at most.
            let low = quantile_of_sorted(&sorted, q - 1.0 / n);
            let high = quantile_of_sorted(&sorted, q + 1.0 / n);
            let found = record(&values).quantile(q);
            prop_assert!(low - 0.5 <= found && found <= high + 0.5, "{low} {found} {high}");
        }
    }
}

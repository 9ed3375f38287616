//! Histogram of durations: mergeable quantiles in little memory.
//!
//! Buckets are log-linear: each octave is divided into 32, and numbers below 32 have one each. They cover all of
//! `u64`, and only those in use are stored.

/// Buckets per octave.
const DIVISIONS: u64 = 1 << DIVISIONS_LOG2;
const DIVISIONS_LOG2: u32 = 5;

/// A histogram of durations. Quantiles are at most 1/32 too large, and never too small.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Durations {
    /// Bucket and count, sorted by bucket, without zero counts.
    buckets: Vec<(u16, u64)>,
    count: u64,
    max_ns: u64,
}

impl Durations {
    /// Adds a duration.
    pub fn record(&mut self, duration_ns: u64) {
        self.max_ns = self.max_ns.max(duration_ns);
        self.add(bucket(duration_ns), 1);
    }

    /// Adds another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.max_ns = self.max_ns.max(other.max_ns);
        for &(bucket, count) in &other.buckets {
            self.add(bucket, count);
        }
    }

    fn add(&mut self, bucket: u16, count: u64) {
        self.count += count;
        match self.buckets.binary_search_by_key(&bucket, |&(bucket, _)| bucket) {
            Ok(position) => self.buckets[position].1 += count,
            Err(position) => self.buckets.insert(position, (bucket, count)),
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Exact maximum; 0 if empty.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Quantile `q` of the durations: 0.5 gives the median. The upper bound of its bucket, or the maximum if that
    /// is lower; 0 if empty.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        let rank = ((q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut below = 0;
        for &(bucket, count) in &self.buckets {
            below += count;
            if below >= rank {
                return greatest(bucket).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

fn bucket(duration_ns: u64) -> u16 {
    // The top bit and the five bits after it, and their shift.
    let shift = (u64::BITS - duration_ns.leading_zeros()).saturating_sub(DIVISIONS_LOG2 + 1);
    // A shift of at most 58, and a shifted number of at most 63.
    (u64::from(shift) * DIVISIONS + (duration_ns >> shift)) as u16
}

/// The largest duration in a bucket.
fn greatest(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    if bucket < 2 * DIVISIONS {
        return bucket;
    }
    let shift = bucket / DIVISIONS - 1;
    let shifted = bucket % DIVISIONS + DIVISIONS;
    (shifted << shift) + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn of(durations: &[u64]) -> Durations {
        let mut counted = Durations::default();
        for &duration_ns in durations {
            counted.record(duration_ns);
        }
        counted
    }

    fn duration() -> impl Strategy<Value = u64> {
        // Uniform numbers would all be in the highest octaves.
        (any::<u64>(), 0..64_u32).prop_map(|(number, shift)| number >> shift)
    }

    #[test]
    fn buckets_adjoin() {
        let check = |duration_ns, expected, expected_greatest| {
            assert_eq!(bucket(duration_ns), expected, "{duration_ns}");
            assert_eq!(greatest(expected), expected_greatest, "{duration_ns}");
        };
        check(0, 0, 0);
        check(31, 31, 31);
        check(32, 32, 32);
        check(63, 63, 63);
        check(64, 64, 65);
        check(65, 64, 65);
        check(66, 65, 67);
        check(u64::MAX, 1919, u64::MAX);
        for number in 0..bucket(u64::MAX) {
            assert_eq!(bucket(greatest(number)), number);
            assert_eq!(bucket(greatest(number) + 1), number + 1);
        }
    }

    #[test]
    fn quantiles_of_few_durations() {
        let check = |durations: &[u64], q, expected| {
            assert_eq!(of(durations).quantile_ns(q), expected, "{durations:?} {q}");
        };
        check(&[], 0.5, 0);
        check(&[20_000_001], 0.0, 20_000_001);
        check(&[20_000_001], 0.5, 20_000_001);
        check(&[1, 2, 3], 0.5, 2);
        check(&[1, 2, 3, 4], 0.5, 2);
        check(&[1, 2, 3, 4], 0.99, 4);
        check(&[5; 100], 0.99, 5);
        check(&[1, 1_000_000], 1.0, 1_000_000);
        check(&[1_000, 1_000_000], 0.5, 1_007);
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_durations(
            mut durations in vec(duration(), 1..300),
            q in 0.0..=1.0_f64,
        ) {
            let counted = of(&durations);
            durations.sort_unstable();
            let rank = ((q * durations.len() as f64).ceil() as usize).max(1);
            let exact = durations[rank - 1];
            let found = counted.quantile_ns(q);
            prop_assert!(found >= exact && found - exact <= exact / 32, "{} for {}", found, exact);
            prop_assert_eq!(counted.max_ns(), *durations.last().unwrap());
            prop_assert_eq!(counted.quantile_ns(1.0), counted.max_ns());
        }

        #[test]
        fn merging_is_counting_all(a in vec(duration(), 0..99), b in vec(duration(), 0..99)) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            prop_assert_eq!(merged.count(), (a.len() + b.len()) as u64);
            prop_assert_eq!(merged, of(&[a, b].concat()));
        }
    }
}

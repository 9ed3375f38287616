//! The shifts that belong to the rank tests: Hodges and Lehmann's estimates.
//!
//! "Estimates of location based on rank tests", Annals of Mathematical Statistics 34 (1963). Nearly as
//! exact as means for normal values (95 %), and indifferent to wild ones up to 29 % of all.
//!
//! The median of all pairs is found without writing the pairs down: halving the range of `f64` 64 times
//! and counting the pairs up to there in one pass. Time `n log n`, memory none, where the pairs of
//! 10,000 values would fill 400 MB.

use crate::sample::Sample;

/// Where paired differences lie: the median of the means of any two of them, each with itself too.
///
/// One difference is its own estimate.
pub fn shift_of_pairs(differences: &Sample) -> f64 {
    let values = differences.values();
    let n = values.len() as u64;
    let half_sum = |a: f64, b: f64| a / 2.0 + b / 2.0;
    // Pairs i ≤ j with a mean up to `limit`: as i goes up, the last j that fits goes down.
    let up_to = |limit: f64| {
        let mut end = values.len();
        let mut count = 0;
        for (i, &a) in values.iter().enumerate() {
            while end > i && values.get(end - 1).is_some_and(|&b| half_sum(a, b) > limit) {
                end -= 1;
            }
            if end <= i {
                break;
            }
            count += (end - i) as u64;
        }
        count
    };
    median_by(n * (n + 1) / 2, differences.min(), differences.max(), up_to)
}

/// By how much the second sample lies above the first: the median of all differences of a value of the
/// second and one of the first.
pub fn shift_between(first: &Sample, second: &Sample) -> f64 {
    let up_to = |limit: f64| {
        let mut end = 0;
        let mut count = 0;
        // As the first's value goes up, more of the second's values fit.
        for &a in first.values() {
            while second.values().get(end).is_some_and(|&b| b - a <= limit) {
                end += 1;
            }
            count += end as u64;
        }
        count
    };
    let pairs = first.len() as u64 * second.len() as u64;
    let (least, greatest) = (second.min() - first.max(), second.max() - first.min());
    median_by(pairs, least, greatest, up_to)
}

/// The median of `total` numbers between two bounds, of which `up_to` counts those up to a limit.
fn median_by(total: u64, least: f64, greatest: f64, up_to: impl Fn(f64) -> u64) -> f64 {
    // The smallest number that `nth` of all are up to, in the order of the bits.
    let number = |nth: u64| {
        let (mut low, mut high) = (key(least), key(greatest));
        while low < high {
            let middle = low + (high - low) / 2;
            if up_to(value(middle)) >= nth { high = middle } else { low = middle + 1 }
        }
        value(low)
    };
    let below = number(total.div_ceil(2));
    let above = if total.is_multiple_of(2) { number(total / 2 + 1) } else { below };
    // Adding 0 turns −0 into 0.
    f64::midpoint(below, above) + 0.0
}

/// Bits in the order of the values.
fn key(value: f64) -> u64 {
    let bits = value.to_bits();
    if value.is_sign_negative() { !bits } else { bits | 1 << 63 }
}

/// The value of a key.
fn value(key: u64) -> f64 {
    f64::from_bits(if key >> 63 == 1 { key & !(1 << 63) } else { !key })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_the_order() {
        let values = [-1e100, -2.0, -1e-310, -0.0, 0.0, 1e-310, 1.0, 1.5, 1e100];
        for pair in values.windows(2) {
            assert!(key(pair[0]) < key(pair[1]), "{pair:?}");
        }
        for number in values {
            assert_eq!(value(key(number)).to_bits(), number.to_bits());
        }
    }
}

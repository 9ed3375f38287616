//! Adding up samples and times, and writing them for people.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use crate::model::{Profile, Weight};

/// Adds up the weights of equal keys; the result is in order of first appearance, and so
/// deterministic.
pub(super) fn add_up<K: Eq + Hash + Copy>(
    weights: impl IntoIterator<Item = (K, Weight)>,
) -> Vec<(K, Weight)> {
    let mut sums: Vec<(K, Weight)> = Vec::new();
    let mut positions: FxHashMap<K, usize> = FxHashMap::default();
    for (key, weight) in weights {
        let position = *positions.entry(key).or_insert_with(|| {
            sums.push((key, Weight::default()));
            sums.len() - 1
        });
        sums[position].1 += weight;
    }
    sums
}

/// Everything that was weighed.
pub(super) fn total(profile: &Profile) -> Weight {
    let mut total = Weight::default();
    for (_, weight) in profile.weights() {
        total += weight;
    }
    total
}

/// A number with a comma between groups of three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time with three digits that count, in the unit that fits: `999 ns`, `20.1 ms`, `1,234 s`.
pub fn time_text(time_ns: u64) -> String {
    // A unit lasts until its rounding reaches the next.
    let (value, unit) = match time_ns {
        0..1_000 => return format!("{time_ns} ns"),
        1_000..999_500 => (time_ns as f64 / 1e3, "µs"),
        999_500..999_500_000 => (time_ns as f64 / 1e6, "ms"),
        _ => (time_ns as f64 / 1e9, "s"),
    };
    match value {
        value if value < 9.995 => format!("{value:.2} {unit}"),
        value if value < 99.95 => format!("{value:.1} {unit}"),
        _ => format!("{} {unit}", grouped(value.round() as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_keep_the_order_of_first_appearance() {
        let of = |samples| Weight { samples, ..Weight::default() };
        let weights = [(7, of(1)), (3, of(2)), (7, of(4)), (9, of(0)), (3, of(u64::MAX))];
        assert_eq!(add_up(weights), [(7, of(5)), (3, of(u64::MAX)), (9, of(0))]);
    }

    #[test]
    fn times_have_three_digits_and_a_fitting_unit() {
        let check = |time_ns, expected: &str| assert_eq!(time_text(time_ns), expected);
        check(0, "0 ns");
        check(999, "999 ns");
        check(1_000, "1.00 µs");
        check(9_994, "9.99 µs");
        check(9_996, "10.0 µs");
        check(99_960, "100 µs");
        check(999_499, "999 µs");
        check(999_500, "1.00 ms");
        check(20_120_000, "20.1 ms");
        check(999_500_000, "1.00 s");
        check(1_234_400_000_000, "1,234 s");
        check(u64::MAX, "18,446,744,074 s");
    }

    #[test]
    fn digits_are_grouped_by_three() {
        let check = |number, expected: &str| assert_eq!(grouped(number), expected);
        check(0, "0");
        check(999, "999");
        check(1_000, "1,000");
        check(u64::MAX, "18,446,744,073,709,551,615");
    }
}

//! Counting samples, and writing counts for people.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Counts equal keys; the result is in order of first appearance, and so deterministic.
pub(super) fn count<K: Eq + Hash + Copy>(keys: impl IntoIterator<Item = K>) -> Vec<(K, u64)> {
    let mut counts: Vec<(K, u64)> = Vec::new();
    let mut positions: FxHashMap<K, usize> = FxHashMap::default();
    for key in keys {
        let position = *positions.entry(key).or_insert_with(|| {
            counts.push((key, 0));
            counts.len() - 1
        });
        counts[position].1 += 1;
    }
    counts
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_keep_the_order_of_first_appearance() {
        assert_eq!(count([7, 3, 7, 9, 7, 3]), [(7, 3), (3, 2), (9, 1)]);
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

//! Sums of samples and times.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use crate::model::{Profile, Weight};

/// Sums the weights of equal keys. The result is in order of first appearance, so it is deterministic.
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

/// Sum of all weights.
pub(super) fn total(profile: &Profile) -> Weight {
    let mut total = Weight::default();
    for (_, weight) in profile.weights() {
        total += weight;
    }
    total
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
}

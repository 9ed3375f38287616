//! The test of two independent samples by the ranks of their values.

use super::{EXACT_MAX, RankTest, ranks};
use crate::sample::Sample;

/// Are the values of one sample larger than those of the other? Two-sided.
///
/// `U = R₁ − n₁ (n₁ + 1) / 2`, R₁ the sum of the ranks of the first sample among all values: the number
/// of pairs in which the first sample's value is larger, equal ones counting half. Exact for up to
/// [`EXACT_MAX`] values in each if no two of all are equal, else normal with variance
/// `n₁ n₂ / 12 · (N + 1 − Σ(t³ − t) / (N (N − 1)))` over groups of t equal values, and continuity
/// correction ½. Mann & Whitney, Annals of Mathematical Statistics 18 (1947).
///
/// Chance 1 for one value beside one, and if all values are equal. The values have to be independent:
/// many batches of one load are not, when load differs from load.
pub fn mann_whitney(first: &Sample, second: &Sample) -> RankTest {
    let (n_1, n_2) = (first.len(), second.len());
    let mut all: Vec<(f64, bool)> = first.values().iter().map(|&value| (value, true)).collect();
    all.extend(second.values().iter().map(|&value| (value, false)));
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let values: Vec<f64> = all.iter().map(|(value, _)| *value).collect();
    let (ranks, ties) = ranks(&values);
    let of_first = ranks.iter().zip(&all).filter(|(_, (_, is_first))| *is_first);
    let sum: f64 = of_first.map(|(rank, _)| rank).sum();
    let (m, n) = (n_1 as f64, n_2 as f64);
    let statistic = sum - m * (m + 1.0) / 2.0;
    if ties == 0.0 && n_1.max(n_2) <= EXACT_MAX {
        return RankTest::exact(statistic as usize, &orders(n_1, n_2));
    }
    let total = m + n;
    let tied = ties / (total * (total - 1.0));
    RankTest::normal(statistic, m * n / 2.0, m * n / 12.0 * (total + 1.0 - tied))
}

/// The number of orders of n₁ and n₂ values by U, from 0 to n₁ · n₂: Mann and Whitney's recurrence
/// `f(m, n, u) = f(m − 1, n, u − n) + f(m, n − 1, u)`, in place over n. As `f64`, since there may be
/// 10²⁹; nothing is subtracted, so all digits are good.
fn orders(n_1: usize, n_2: usize) -> Vec<f64> {
    let size = n_1 * n_2 + 1;
    let mut by_m = vec![vec![0.0; size]; n_1 + 1];
    for counts in &mut by_m {
        if let Some(count) = counts.first_mut() {
            *count = 1.0;
        }
    }
    for n in 1..=n_2 {
        for m in 1..=n_1 {
            if let Ok([smaller, counts]) = by_m.get_disjoint_mut([m - 1, m]) {
                for (count, add) in counts.iter_mut().skip(n).zip(smaller.iter()) {
                    *count += add;
                }
            }
        }
    }
    by_m.pop().unwrap_or_default()
}

//! Rank tests, which are robust to extreme values.
//!
//! With few values the p-value is bounded: the smallest one of a two-sided test is 2 ÷ the number of orders, 0.029 for
//! 4 against 4 values. It gets below 1 % from 5 against 5 on.

use crate::{normal, sample::Sample};

/// Maximum size of a sample for the exact distribution, which also requires that no two values are equal. As in R.
pub const EXACT_MAX: usize = 50;

/// The result of a rank test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankTest {
    /// U of the first sample.
    pub statistic: f64,
    /// The probability of a statistic at least as far out, on either side, if there is no
    /// difference.
    pub p_value: f64,
    /// The source of the p-value.
    pub method: Method,
}

/// The source of a rank test's p-value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// All orders were counted.
    Exact,
    /// The normal distribution, with correction for ties and for continuity.
    Normal,
}

impl RankTest {
    /// From the number of orders per statistic, 0, 1, 2 …: symmetric, so one side gives the other.
    fn exact(statistic: usize, orders: &[f64]) -> Self {
        let total: f64 = orders.iter().sum();
        let mirrored = (orders.len() - 1).saturating_sub(statistic);
        // Sums the smaller side, so that small probabilities are not lost to rounding.
        let nearer = statistic.min(mirrored);
        let beyond: f64 = orders.iter().take(nearer + 1).sum();
        let p_value = (2.0 * beyond / total).min(1.0);
        Self { statistic: statistic as f64, p_value, method: Method::Exact }
    }

    /// From mean and variance under no difference. Variance 0 means undecidable.
    fn normal(statistic: f64, mean: f64, variance: f64) -> Self {
        let distance = ((statistic - mean).abs() - 0.5).max(0.0);
        let p_value = if variance > 0.0 && distance > 0.0 {
            2.0 * normal::cdf(-distance / variance.sqrt())
        } else {
            1.0
        };
        Self { statistic, p_value, method: Method::Normal }
    }
}

/// Ranks of values that are in ascending order, from 1; equal values share their mean rank. Also
/// `Σ (t³ − t)` over groups of t equal values, which is 0 only if there are none.
fn ranks(ascending: &[f64]) -> (Vec<f64>, f64) {
    let mut ranks = Vec::with_capacity(ascending.len());
    let mut ties = 0.0;
    for group in ascending.chunk_by(|a, b| a == b) {
        let size = group.len() as f64;
        ties += size.powi(3) - size;
        let shared = ranks.len() as f64 + (size + 1.0) / 2.0;
        ranks.resize(ranks.len() + group.len(), shared);
    }
    (ranks, ties)
}

/// Tests whether the values of one sample are larger than those of the other. Two-sided.
///
/// `U = R₁ − n₁ (n₁ + 1) / 2`, R₁ the sum of the ranks of the first sample among all values: the number of pairs in
/// which the first sample's value is larger, equal ones counting half. Exact for up to [`EXACT_MAX`] values in each if
/// no two of all are equal, else normal with variance `n₁ n₂ / 12 · (N + 1 − Σ(t³ − t) / (N (N − 1)))` over groups of t
/// equal values, and continuity correction ½. Mann & Whitney, Annals of Mathematical Statistics 18 (1947).
///
/// p is 1 for one value against one, and if all values are equal. The values must be independent: batches of one
/// process are not, if processes differ.
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
/// `f(m, n, u) = f(m − 1, n, u − n) + f(m, n − 1, u)`, in place over n. As `f64`, since there may be 10²⁹; nothing is
/// subtracted, so no precision is lost.
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

/// Rank tests against R's examples and against brute force.
#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::sample::tests::sample;

    fn close(found: f64, expected: f64, tolerance: f64) -> bool {
        (found - expected).abs() <= tolerance
    }

    /// Permeability of Hollander & Wolfe, in R's `?wilcox.test`: W = 35, p = 0.1272 one-sided.
    const TERM: [f64; 10] = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
    const EARLY: [f64; 5] = [1.15, 0.88, 0.90, 0.74, 1.21];

    #[test]
    fn examples_of_r() {
        let check = |found: RankTest, statistic, p_value| {
            assert_eq!((found.statistic, found.method), (statistic, Method::Exact));
            assert!(close(found.p_value, p_value, 1e-4), "{found:?}");
        };
        check(mann_whitney(&sample(&TERM), &sample(&EARLY)), 35.0, 2.0 * 0.127_2);
    }

    /// Disjoint samples: the smallest p-value is 2 ÷ the number of orders.
    #[test]
    fn smallest_chances() {
        for (n, orders) in
            [(1_u32, 2.0), (2, 6.0), (4, 70.0), (5, 252.0), (6, 924.0), (8, 12_870.0)]
        {
            let low = sample(&(0..n).map(f64::from).collect::<Vec<_>>());
            let high = sample(&(0..n).map(|k| f64::from(k) + 100.0).collect::<Vec<_>>());
            let found = mann_whitney(&low, &high);
            assert!(close(found.p_value, 2.0 / orders, 1e-15), "{n}: {found:?}");
            assert_eq!(found.statistic, 0.0);
        }
    }

    #[test]
    fn ties_and_zeros() {
        let check = |found: RankTest, statistic, p_value| {
            assert_eq!((found.statistic, found.method), (statistic, Method::Normal), "{found:?}");
            assert!(close(found.p_value, p_value, 1e-9), "{found:?}");
        };
        let by_normal =
            |distance: f64, variance: f64| 2.0 * normal::cdf(-distance / variance.sqrt());
        check(mann_whitney(&sample(&[1.0, 1.0]), &sample(&[1.0, 1.0])), 2.0, 1.0);
        // Ranks 1, 2.5, 2.5, 4, 5: U = 3.5 of 6, one tie of two, variance 6/12 · (6 − 6/20).
        check(mann_whitney(&sample(&[1.0, 2.0, 5.0]), &sample(&[2.0, 4.0])), 2.5, {
            // |2.5 − 3| − ½ is 0.
            1.0
        });
        check(
            mann_whitney(&sample(&[1.0, 2.0, 3.0]), &sample(&[3.0, 4.0, 5.0])),
            0.5,
            by_normal(3.5, 9.0 / 12.0 * (7.0 - 6.0 / 30.0)),
        );
    }

    /// At the threshold, switching to the normal distribution makes no visible difference.
    #[test]
    fn exact_and_normal_agree_where_they_meet() {
        let n = EXACT_MAX as u32;
        for step in [1, 5, 9, 14] {
            let first: Vec<f64> = (0..n).map(|k| f64::from(2 * k)).collect();
            let second: Vec<f64> = (0..n).map(|k| f64::from(2 * k + 2 * step) + 1.0).collect();
            let exact = mann_whitney(&sample(&first), &sample(&second));
            let m = f64::from(n);
            let normal =
                RankTest::normal(exact.statistic, m * m / 2.0, m * m / 12.0 * (2.0 * m + 1.0));
            assert_eq!(exact.method, Method::Exact);
            assert!(close(exact.p_value, normal.p_value, 2e-3), "{step}: {exact:?} {normal:?}");
        }
        let many: Vec<f64> = (0..=n).map(f64::from).collect();
        assert_eq!(mann_whitney(&sample(&many), &sample(&[0.5])).method, Method::Normal);
    }

    /// Distinct small numbers in random order.
    fn distinct(size: std::ops::Range<usize>) -> impl Strategy<Value = Vec<f64>> {
        proptest::collection::btree_set(-60_i32..60, size).prop_map(|set| {
            set.into_iter().filter(|k| *k != 0).map(|k| f64::from(k) + 0.25).collect()
        })
    }

    proptest! {
        /// All permutations, for as many values as a test can try.
        #[test]
        fn mann_whitney_by_brute_force(values in distinct(3..11), deal: u16) {
            let n = values.len();
            let pick = |deal: u32, side| {
                let chosen = (0..n).filter(|k| (deal >> k & 1 == 1) == side);
                chosen.map(|k| values[k]).collect::<Vec<f64>>()
            };
            let deal = u32::from(deal) & ((1 << n) - 1);
            prop_assume!(deal != 0 && deal != (1 << n) - 1);
            let u = |deal: u32| {
                let (a, b) = (pick(deal, true), pick(deal, false));
                a.iter().map(|a| b.iter().filter(|b| a > b).count()).sum::<usize>()
            };
            let alike = (0..1_u32 << n).filter(|other| other.count_ones() == deal.count_ones());
            let all: Vec<usize> = alike.map(u).collect();
            let found = mann_whitney(&sample(&pick(deal, true)), &sample(&pick(deal, false)));
            let low = all.iter().filter(|other| **other <= u(deal)).count();
            let high = all.iter().filter(|other| **other >= u(deal)).count();
            let expected = (2.0 * low.min(high) as f64 / all.len() as f64).min(1.0);
            prop_assert_eq!(found.statistic, u(deal) as f64);
            prop_assert!(close(found.p_value, expected, 1e-12));
        }

        #[test]
        fn sides_do_not_matter(first in vec(-9_i32..9, 1..30), second in vec(-9_i32..9, 1..30)) {
            let [first, second] = [first, second]
                .map(|values| sample(&values.into_iter().map(f64::from).collect::<Vec<_>>()));
            let (one, other) = (mann_whitney(&first, &second), mann_whitney(&second, &first));
            prop_assert!(close(one.p_value, other.p_value, 1e-12));
            prop_assert_eq!(one.statistic + other.statistic, (first.len() * second.len()) as f64);
        }

        /// Only the order counts: monotonic functions change nothing.
        #[test]
        fn growing_functions_do_not_matter(
            first in vec(-9_i32..9, 1..30), second in vec(-9_i32..9, 1..30),
        ) {
            let through = |function: fn(f64) -> f64| {
                let [first, second] = [&first, &second].map(|values| {
                    sample(&values.iter().map(|&k| function(f64::from(k))).collect::<Vec<_>>())
                });
                mann_whitney(&first, &second)
            };
            prop_assert_eq!(through(|x| x), through(f64::exp));
        }
    }
}

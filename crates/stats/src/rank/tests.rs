//! Rank tests against R's examples and against brute force.

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
    for (n, orders) in [(1_u32, 2.0), (2, 6.0), (4, 70.0), (5, 252.0), (6, 924.0), (8, 12_870.0)] {
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
    let by_normal = |distance: f64, variance: f64| 2.0 * normal::cdf(-distance / variance.sqrt());
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
        let normal = RankTest::normal(exact.statistic, m * m / 2.0, m * m / 12.0 * (2.0 * m + 1.0));
        assert_eq!(exact.method, Method::Exact);
        assert!(close(exact.p_value, normal.p_value, 2e-3), "{step}: {exact:?} {normal:?}");
    }
    let many: Vec<f64> = (0..=n).map(f64::from).collect();
    assert_eq!(mann_whitney(&sample(&many), &sample(&[0.5])).method, Method::Normal);
}

/// Distinct small numbers in random order.
fn distinct(size: std::ops::Range<usize>) -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::btree_set(-60_i32..60, size)
        .prop_map(|set| set.into_iter().filter(|k| *k != 0).map(|k| f64::from(k) + 0.25).collect())
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

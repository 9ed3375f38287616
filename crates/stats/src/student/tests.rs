//! Student's distribution against tables and `statrs`; its intervals against textbook figures.

use proptest::{collection::vec, prelude::*};
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::*;
use crate::sample::tests::sample;

/// Closed forms: 1 degree is Cauchy's distribution, 2 and 4 are algebraic.
#[test]
fn closed_forms() {
    for t in [-50.0, -3.0, -0.5, 0.0, 1e-9, 0.7, 2.0, 12.0_f64] {
        let check = |degrees, expected: f64| {
            let found = cdf(t, degrees);
            assert!((found - expected).abs() < 1e-14, "{t} {degrees}: {found}, not {expected}");
        };
        check(1.0, 0.5 + t.atan() / PI);
        check(2.0, 0.5 + t / (2.0 * (2.0 + t * t).sqrt()));
        let u = t / (4.0 + t * t).sqrt();
        check(4.0, 0.5 + 0.75 * u * (1.0 - u * u / 3.0));
    }
}

/// Abramowitz & Stegun, table 26.10.
#[test]
fn tables() {
    let check = |degrees, p, expected: f64| {
        let found = quantile(p, degrees);
        assert!((found - expected).abs() < 6e-4 * expected, "{degrees} {p}: {found}");
        assert!((quantile(1.0 - p, degrees) + found).abs() < 1e-9 * found);
    };
    check(1.0, 0.995, 63.657);
    check(2.0, 0.995, 9.925);
    check(3.0, 0.975, 3.182);
    check(5.0, 0.995, 4.032);
    check(9.0, 0.995, 3.250);
    check(19.0, 0.9995, 3.883);
    check(30.0, 0.9, 1.310);
    check(60.0, 0.995, 2.660);
    check(120.0, 0.975, 1.980);
    check(1e9, 0.975, 1.960);
}

#[test]
fn what_is_no_chance_has_no_quantile() {
    let check = |p, degrees, expected: f64| {
        let found = quantile(p, degrees);
        assert!(found == expected || (found.is_nan() && expected.is_nan()), "{p} {degrees}");
    };
    check(0.0, 3.0, f64::NEG_INFINITY);
    check(1.0, 3.0, f64::INFINITY);
    check(0.5, 3.0, 0.0);
    check(-0.1, 3.0, f64::NAN);
    check(1.1, 3.0, f64::NAN);
    check(f64::NAN, 3.0, f64::NAN);
    check(0.9, 0.0, f64::NAN);
    check(0.9, f64::NAN, f64::NAN);
    // Beyond the largest f64.
    check(1e-300, 0.1, f64::NEG_INFINITY);
    assert!(cdf(f64::NAN, 3.0).is_nan() && cdf(1.0, -1.0).is_nan());
    assert_eq!((cdf(f64::NEG_INFINITY, 3.0), cdf(f64::INFINITY, 3.0)), (0.0, 1.0));
}

/// Where statrs 0.19 is off by 1.4e-11. The value is mpmath's, with 40 digits.
#[test]
fn near_zero_with_many_degrees() {
    let found = cdf(-0.001_783_902_057_319_216_2, 1_683.000_309_043_217_4);
    assert!((found - 0.499_288_432_130_077_5).abs() < 1e-15, "{found}");
}

proptest! {
    // Agreement is limited by the accuracy of the oracle.
    #[test]
    fn agrees_with_statrs(t in -40.0..40.0, degrees in 0.5..2000.0) {
        let oracle = StudentsT::new(0.0, 1.0, degrees).expect("degrees above 0");
        prop_assert!((cdf(t, degrees) - oracle.cdf(t)).abs() < 5e-11);
    }

    #[test]
    fn quantiles_lead_back(tail in -30.0..-0.302_f64, degrees in 1.0..5000.0) {
        let p = 10_f64.powf(tail);
        prop_assert!((cdf(quantile(p, degrees), degrees) / p - 1.0).abs() < 1e-11);
    }

    #[test]
    fn quantiles_grow_with_the_chance(p in 0.001..0.99, degrees in 1.0..100.0) {
        prop_assert!(quantile(p, degrees) < quantile(p + 0.001, degrees));
    }

    #[test]
    fn tails_shrink_with_the_degrees(degrees in 1.0..1e5) {
        prop_assert!(quantile(0.995, degrees) > quantile(0.995, degrees * 1.1));
        prop_assert!(quantile(0.995, degrees) > normal::quantile(0.995));
    }
}

/// Transition to the normal distribution.
#[test]
fn there_is_no_seam() {
    for t in [0.3, 1.0, 2.6, 5.0] {
        let (below, above) = (upper_tail(t, DEGREES_LARGE - 1.0), upper_tail(t, DEGREES_LARGE));
        assert!((below / above - 1.0).abs() < 1e-9, "{t}: {below:e} {above:e}");
        assert!((below - above).abs() < 1e-11, "{t}: {below:e} {above:e}");
    }
}

/// R: `t.test(c(…), conf.level = …)$conf.int`, here from its definition with tabled t.
#[test]
fn intervals_of_a_mean() {
    let check = |values: &[f64], confidence, expected: Option<(f64, f64)>| {
        let found = interval_of_mean(&sample(values), confidence);
        assert_eq!(found.is_some(), expected.is_some(), "{values:?} {confidence}");
        if let (Some(found), Some((lower, upper))) = (found, expected) {
            assert!((found.lower - lower).abs() < 2e-3, "{values:?}: {found:?}");
            assert!((found.upper - upper).abs() < 2e-3, "{values:?}: {found:?}");
        }
    };
    // Two values: mean ± 63.657 · 1.
    check(&[1.0, 3.0], 0.99, Some((-61.657, 65.657)));
    // s² = 2.5, √(2.5/5) = 0.70711, t = 2.776 for 4 degrees.
    check(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95, Some((1.0368, 4.9632)));
    check(&[4.0, 4.0], 0.99, Some((4.0, 4.0)));
    check(&[4.0], 0.99, None);
    check(&[4.0, 5.0], 1.0, None);
    check(&[4.0, 5.0], f64::NAN, None);
}

proptest! {
    #[test]
    fn intervals_move_and_grow_with_the_values(
        values in vec(-1e3..1e3, 4..20), shift in -1e3..1e3, scale in 0.01..100.0,
    ) {
        let moved: Vec<f64> = values.iter().map(|x| (x + shift) * scale).collect();
        let (values, moved) = (sample(&values), sample(&moved));
        let before = interval_of_mean(&values, 0.95).expect("four values");
        let after = interval_of_mean(&moved, 0.95).expect("four values");
        let tolerance: f64 = 1e-8 * scale * (1e3 + before.width());
        let lower: f64 = (before.lower + shift) * scale;
        let upper: f64 = (before.upper + shift) * scale;
        prop_assert!((lower - after.lower).abs() < tolerance);
        prop_assert!((upper - after.upper).abs() < tolerance);
    }
}

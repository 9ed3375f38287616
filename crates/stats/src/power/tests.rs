//! Power against published figures, simulation, and its own inverse.

use proptest::prelude::*;

use super::*;
use crate::random::Random;

fn close(found: Option<f64>, expected: f64, tolerance: f64) {
    let found = found.unwrap_or(f64::NAN);
    assert!((found - expected).abs() <= tolerance, "{found}, expected {expected}");
}

/// The examples of R's `?power.t.test`: two groups of 20, 1 standard deviation apart, have power
/// 0.8689528; power 0.9 needs 22.02110 in each group.
#[test]
fn published_powers() {
    close(power_of(1.0, (2.0_f64 / 20.0).sqrt(), 38.0, 0.05), 0.868_952_8, 1e-6);
    let n = 22.021_10;
    close(power_of(1.0, (2.0_f64 / n).sqrt(), 2.0 * n - 2.0, 0.05), 0.9, 1e-5);
}

/// No effect is "detected" with probability alpha, whatever the degrees.
#[test]
fn nothing_is_seen_as_often_as_alpha_says() {
    for degrees in [1.0, 2.0, 5.0, 9.0, 59.0, 1e4, 1e7] {
        for alpha in [0.2, 0.05, 0.01, 0.001] {
            close(power_of(0.0, 1.0, degrees, alpha), alpha, 1e-8);
        }
    }
}

/// For one degree of freedom the distribution of S is half a normal one.
#[test]
fn many_and_few_degrees() {
    let check = |degrees, expected: f64| {
        close(smallest_effect(1.0, degrees, 0.01, 0.9), expected, 1e-6 * expected);
    };
    // z.995 + z.9
    check(1e9, 2.575_829 + 1.281_552);
    // t.995 + t.9 would be 4.032 + 1.476 = 5.508: too little, see the simulation below.
    check(5.0, 5.909_341_4);
}

/// 200,000 samples of six normal values, shifted by the smallest effect that 90 % should detect.
#[test]
fn simulated_power() {
    let (n, effect) = (6, smallest_effect(1.0, 5.0, 0.01, 0.9).expect("valid arguments"));
    let critical = student::quantile(0.995, 5.0);
    let mut random = Random::new(5);
    let runs = 20_000;
    let seen = (0..runs).filter(|_| {
        let values: Vec<f64> = (0..n).map(|_| random.normal()).collect();
        let sample = crate::Sample::new(values).expect("finite values");
        // The true standard error of the mean is 1/√6, so an effect of `effect` standard errors.
        let mean = sample.mean() + effect / f64::from(n).sqrt();
        mean.abs() > critical * sample.standard_error().unwrap_or(0.0)
    });
    let share = seen.count() as f64 / f64::from(runs);
    // Standard deviation 0.0021.
    assert!((share - 0.9).abs() < 0.0065, "{share}");
}

#[test]
fn what_cannot_be_asked() {
    let check = |standard_error, degrees, alpha, power, expected| {
        let found = smallest_effect(standard_error, degrees, alpha, power);
        assert_eq!(found, expected, "{standard_error} {degrees} {alpha} {power}");
    };
    check(0.0, 5.0, 0.01, 0.9, Some(0.0));
    check(-1.0, 5.0, 0.01, 0.9, None);
    check(f64::INFINITY, 5.0, 0.01, 0.9, None);
    check(f64::NAN, 5.0, 0.01, 0.9, None);
    check(1.0, 0.5, 0.01, 0.9, None);
    check(1.0, f64::NAN, 0.01, 0.9, None);
    check(1.0, f64::INFINITY, 0.01, 0.9, None);
    check(1.0, 5.0, 0.0, 0.9, None);
    check(1.0, 5.0, 0.01, 0.01, None);
    check(1.0, 5.0, 0.01, 1.0, None);
    check(1.0, 5.0, 0.01, f64::NAN, None);
    for [effect, standard_error] in [[1.0, 0.0], [f64::NAN, 1.0], [1.0, -1.0], [1.0, f64::NAN]] {
        assert_eq!(power_of(effect, standard_error, 5.0, 0.01), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_smallest_effect_has_that_power(
        standard_error in 0.001..1000.0, degrees in 1.0..200.0, alpha in 0.001..0.2,
        power in 0.3..0.99,
    ) {
        let effect = smallest_effect(standard_error, degrees, alpha, power).expect("valid");
        let found = power_of(effect, standard_error, degrees, alpha).expect("valid");
        prop_assert!((found - power).abs() < 1e-8);
    }

    #[test]
    fn larger_effects_are_seen_more_often(
        degrees in 1.0..100.0, alpha in 0.001..0.2, effect in 0.0..20.0,
    ) {
        let power = |effect| power_of(effect, 1.0, degrees, alpha).expect("valid");
        prop_assert!(power(effect) <= power(effect + 0.1) + 1e-9);
        prop_assert_eq!(power(effect), power(-effect));
    }
}

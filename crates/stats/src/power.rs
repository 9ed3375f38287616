//! The smallest effect that a t-test could have detected.
//!
//! "No change seen" means little without "and a change of 2 % would have been": these functions compute the second
//! half, for the two-sided t-test of a mean (of differences, of logarithms of ratios), which detects an effect if
//! Student's interval excludes 0. For the wider interval for verdicts see
//! [`crate::bootstrap::Bootstrap::smallest_effect`].

use crate::{normal, student};

/// Panels of Simpson's rule in each of three pieces; even.
const PANELS: u32 = 256;

/// Maximum number of iterations of the search, far more than it needs.
const STEPS_MAX: u32 = 200;

/// Beyond this many standard deviations a normal density is negligible.
const REACH: f64 = 9.0;

/// The probability that a two-sided test at level `alpha` detects a true `effect`, in either
/// direction.
///
/// With `t = estimate / standard_error`, which then follows the noncentral t distribution:
/// `P(|t| > t₁₋ₐ/₂)`, by integration over the distribution of the estimated standard error. Absolute
/// error below 10⁻⁸. `standard_error` is that of the estimate, `s / √n` for a mean; `degrees` are
/// `n − 1` for it. Cohen, "Statistical Power Analysis for the Behavioral Sciences" (1988); Johnson,
/// Kotz & Balakrishnan, "Continuous Univariate Distributions" 2 (1995), chapter 31.
///
/// `None` unless `0 < alpha < 1`, `degrees ≥ 1`, `standard_error > 0` and all is finite.
pub fn power_of(effect: f64, standard_error: f64, degrees: f64, alpha: f64) -> Option<f64> {
    let critical = critical(alpha, degrees)?;
    let ratio = effect.abs() / standard_error;
    let is_valid = ratio.is_finite() && standard_error > 0.0;
    is_valid.then(|| chance_beyond(critical, ratio, degrees))
}

/// The smallest effect that a two-sided test at level `alpha` detects with probability `power`, in the unit of the
/// standard error.
///
/// The inverse of [`power_of`], to ten digits. For many degrees of freedom it approaches
/// `(z₁₋ₐ/₂ + z_power) · standard_error`. For few, the estimate of the standard error is itself uncertain, and the
/// effect must be larger than `(t₁₋ₐ/₂ + t_power) · standard_error`.
///
/// 0 if the standard error is. `None` unless `alpha < power < 1`, `alpha > 0`, `degrees ≥ 1` and `standard_error` is
/// finite and not negative.
pub fn smallest_effect(standard_error: f64, degrees: f64, alpha: f64, power: f64) -> Option<f64> {
    let is_valid = power > alpha && power < 1.0 && standard_error >= 0.0;
    let critical = critical(alpha, degrees).filter(|_| is_valid)?;
    // On this scale the power is almost linear in the ratio.
    let target = normal::quantile(power);
    let missing = |ratio| {
        let chance = chance_beyond(critical, ratio, degrees);
        target - normal::quantile(chance.clamp(1e-16, 1.0 - 1e-16))
    };
    let (mut low, mut high) = (0.0, critical.max(1.0));
    let (mut at_low, mut at_high) = (missing(low), missing(high));
    while at_high > 0.0 {
        (low, at_low) = (high, at_high);
        high *= 2.0;
        at_high = missing(high);
        if high.is_infinite() {
            return None;
        }
    }
    let mut last_was_low = true;
    // Regula falsi with the Illinois modification (Dowell & Jarratt, BIT 11, 1971): about ten iterations.
    for _ in 0..STEPS_MAX {
        if high - low <= 1e-11 * high || at_high == 0.0 {
            break;
        }
        let between = (low + (high - low) * at_low / (at_low - at_high)).clamp(low, high);
        let at_between = missing(between);
        // A bound that stays twice counts half, or it would never move.
        if at_between > 0.0 {
            (low, at_low) = (between, at_between);
            at_high /= if last_was_low { 2.0 } else { 1.0 };
            last_was_low = true;
        } else {
            (high, at_high) = (between, at_between);
            at_low /= if last_was_low { 1.0 } else { 2.0 };
            last_was_low = false;
        }
    }
    let effect = high * standard_error;
    effect.is_finite().then_some(effect)
}

/// The critical |t|.
fn critical(alpha: f64, degrees: f64) -> Option<f64> {
    let is_valid = alpha > 0.0 && alpha < 1.0 && degrees >= 1.0 && degrees.is_finite();
    let critical = -student::quantile(alpha / 2.0, degrees);
    (is_valid && critical.is_finite()).then_some(critical)
}

/// `P(|T| > critical)` for the noncentral t distribution: T = (Z + ratio) / S, S = √(χ²/degrees).
///
/// Given S = s, |T| exceeds c with probability `Φ(ratio − c s) + Φ(−ratio − c s)`. Simpson's rule
/// over s, in three pieces, because that chance falls from 1 to 0 about s = ratio/c, steeply if c
/// is large.
fn chance_beyond(critical: f64, ratio: f64, degrees: f64) -> f64 {
    let mode = ((degrees - 1.0) / degrees).sqrt();
    let low = (mode - REACH / degrees.sqrt()).max(0.0);
    let high = mode + REACH / degrees.sqrt();
    // ln of the density of S up to a constant, 0 at its mode.
    let log_density = |s: f64| {
        let power = if degrees > 1.0 { (degrees - 1.0) * (s / mode).ln() } else { 0.0 };
        power - degrees * (s - mode) * (s + mode) / 2.0
    };
    let up_to = |x: f64| {
        if x < -REACH {
            0.0
        } else if x > REACH {
            1.0
        } else {
            normal::cdf(x)
        }
    };
    let seen = |s: f64| up_to(ratio - critical * s) + up_to(-ratio - critical * s);
    let step = (ratio / critical, REACH / critical);
    let cuts = [low, (step.0 - step.1).clamp(low, high), (step.0 + step.1).clamp(low, high), high];
    let (mut part, mut whole) = (0.0, 0.0);
    for piece in cuts.windows(2) {
        let &[from, to] = piece else { continue };
        let width = (to - from) / f64::from(PANELS);
        for k in 0..=PANELS {
            let weight = match k {
                0 | PANELS => 1.0,
                _ if k % 2 == 1 => 4.0,
                _ => 2.0,
            };
            let s = from + width * f64::from(k);
            let density = weight * width * log_density(s).exp();
            whole += density;
            part += density * seen(s);
        }
    }
    (part / whole).clamp(0.0, 1.0)
}

/// Power against published figures, simulation, and its own inverse.
#[cfg(test)]
mod tests {
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
        for [effect, standard_error] in [[1.0, 0.0], [f64::NAN, 1.0], [1.0, -1.0], [1.0, f64::NAN]]
        {
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
}

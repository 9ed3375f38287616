//! Student's t distribution, and the intervals based on it.

use std::f64::consts::PI;

use crate::{
    interval::{Interval, tail},
    normal,
    sample::Sample,
};

/// From this many degrees of freedom on, a corrected normal distribution is used.
const DEGREES_LARGE: f64 = 1e6;

/// Quantiles beyond are returned as infinite: the square of `t` must be finite.
const T_MAX: f64 = 1e150;

/// Bounds the continued fraction, which needs at most about 2 √degrees steps.
const FRACTION_STEPS_MAX: u32 = 10_000;

/// The probability of a value up to `t` with these degrees of freedom, which need not be whole.
///
/// Absolute error below 10⁻¹², relative error in the lower tail below 10⁻¹⁰. By the regularised
/// incomplete beta function, `½ I(ν/(ν+t²); ν/2, ½)` (Abramowitz & Stegun 26.7.1); from 10⁶ degrees
/// on by the normal distribution at `t (1 − 1/4ν) / √(1 + t²/2ν)` (26.7.8). NaN unless `degrees` is
/// above 0, and for NaN.
pub fn cdf(t: f64, degrees: f64) -> f64 {
    if t <= 0.0 { upper_tail(-t, degrees) } else { 1.0 - upper_tail(t, degrees) }
}

/// The density of Student's t distribution, with everything independent of `t` computed once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Density {
    degrees: f64,
    /// Density at 0.
    at_0: f64,
}

impl Density {
    /// With these degrees of freedom, above 0; the normal distribution from 10⁶ on.
    pub fn new(degrees: f64) -> Self {
        if degrees >= DEGREES_LARGE {
            return Self { degrees: f64::INFINITY, at_0: normal::density(0.0) };
        }
        // Γ((ν + 1)/2) ÷ (√(νπ) Γ(ν/2))
        Self { degrees, at_0: gamma_ratio(degrees / 2.0) / (degrees * PI).sqrt() }
    }

    /// At `t`.
    pub fn at(&self, t: f64) -> f64 {
        if self.degrees.is_infinite() {
            return normal::density(t);
        }
        let root = (1.0 + t * t / self.degrees).sqrt();
        match self.degrees + 1.0 {
            // The usual case, and much faster.
            power if power.fract() == 0.0 && power < 100.0 => {
                self.at_0 * root.recip().powi(power as i32)
            }
            power => self.at_0 * root.powf(-power),
        }
    }
}

/// The inverse of [`cdf`]; −∞ for 0, ∞ for 1.
///
/// Found by bisection of [`cdf`], with its accuracy; infinite beyond 10¹⁵⁰. NaN if `p` is outside 0 to 1, and unless
/// `degrees` is above 0.
pub fn quantile(p: f64, degrees: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) || degrees.is_nan() || degrees <= 0.0 {
        return f64::NAN;
    }
    let tail = p.min(1.0 - p);
    upper_quantile(tail, degrees).copysign(p - 0.5)
}

/// The `t` from 0 on that is exceeded with probability `tail`, which is at most ½.
fn upper_quantile(tail: f64, degrees: f64) -> f64 {
    if tail == 0.5 {
        return 0.0;
    }
    if tail == 0.0 {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while high <= T_MAX && upper_tail(high, degrees) > tail {
        (low, high) = (high, high * 2.0);
    }
    if high > T_MAX {
        return f64::INFINITY;
    }
    loop {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            return middle;
        }
        if upper_tail(middle, degrees) > tail { low = middle } else { high = middle }
    }
}

/// The probability of a value above `t`, for `t` from 0 on.
fn upper_tail(t: f64, degrees: f64) -> f64 {
    if t.is_nan() || degrees.is_nan() || degrees <= 0.0 {
        return f64::NAN;
    }
    let square = t * t;
    if degrees >= DEGREES_LARGE {
        let shrink = 1.0 - 1.0 / (4.0 * degrees);
        return normal::cdf(-t * shrink / (1.0 + square / (2.0 * degrees)).sqrt());
    }
    if square.is_infinite() {
        return 0.0;
    }
    let half = degrees / 2.0;
    let (x, rest) = (degrees / (degrees + square), square / (degrees + square));
    // x^(ν/2) · (1 − x)^½ / B(ν/2, ½)
    let front =
        (-half * (square / degrees).ln_1p()).exp() * rest.sqrt() * gamma_ratio(half) / PI.sqrt();
    if x < (half + 1.0) / (half + 2.5) {
        front * beta_fraction(half, 0.5, x) / (2.0 * half)
    } else {
        0.5 - front * beta_fraction(0.5, half, rest)
    }
}

/// The continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method in the
/// form of Thompson and Barnett (J. Comput. Phys. 64, 1986).
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    let not_0 =
        |value: f64| if value.abs() < f64::MIN_POSITIVE { f64::MIN_POSITIVE } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / not_0(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for step in 1..FRACTION_STEPS_MAX {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = fraction;
        for coefficient in [even, odd] {
            d = 1.0 / not_0(1.0 + coefficient * d);
            c = not_0(1.0 + coefficient / c);
            fraction *= c * d;
        }
        if (fraction - before).abs() <= f64::EPSILON * fraction.abs() {
            break;
        }
    }
    fraction
}

/// Γ(a + ½) ÷ Γ(a): from 20 on by the asymptotic series of its logarithm, below by upward recurrence with
/// `Γ(a + 1) = a Γ(a)`. Relative error below 10⁻¹⁴.
fn gamma_ratio(a: f64) -> f64 {
    let (mut a, mut factor) = (a, 1.0);
    while a < 20.0 {
        factor *= a / (a + 0.5);
        a += 1.0;
    }
    let r = 1.0 / (a * a);
    // −B₂ₖ-terms of the difference of two Stirling series: 1/8, 1/192, 1/640, 17/14336, 31/18432.
    let series = -1.0 / 8.0
        + r * (1.0 / 192.0 + r * (-1.0 / 640.0 + r * (17.0 / 14_336.0 - r * 31.0 / 18_432.0)));
    factor * a.sqrt() * (series / a).exp()
}

/// The interval of a mean: `mean ± t · s / √n`, `t` from Student's distribution with n − 1 degrees of freedom. Student,
/// Biometrika 6 (1908).
///
/// Exact for normal values. For others it is off when n is small, most of all for skewed ones (see
/// [`crate::bootstrap`]). `None` for fewer than two values, and unless `0 < confidence < 1`. Equal values give an
/// interval of width 0.
pub fn interval_of_mean(sample: &Sample, confidence: f64) -> Option<Interval> {
    let standard_error = sample.standard_error()?;
    let t = upper_quantile(tail(confidence)?, (sample.len() - 1) as f64);
    let (mean, half_width) = (sample.mean(), t * standard_error);
    Interval::between(mean - half_width, mean + half_width)
}

/// Student's distribution against tables and `statrs`; its intervals against textbook figures.
#[cfg(test)]
mod tests {
    use proptest::prelude::*;
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
}

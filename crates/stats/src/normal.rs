//! The standard normal distribution.

/// 1 ÷ √(2π).
const DENSITY_AT_0: f64 = 0.398_942_280_401_432_7;

/// Switch from the series to the continued fraction.
const SERIES_MAX: f64 = 2.0;

/// Beyond, a probability underflows `f64`.
const TAIL_MAX: f64 = 39.0;

/// The density, `exp(−x²/2) / √(2π)`.
pub fn density(x: f64) -> f64 {
    DENSITY_AT_0 * (-x * x / 2.0).exp()
}

/// The probability of a value up to `x`. NaN for NaN.
///
/// Absolute error below 10⁻¹⁵, relative error below 10⁻¹³ also far down in the lower tail. Up to 2 by
/// the series `½ + φ(x) · (x + x³/3 + x⁵/(3·5) + …)` (Marsaglia, "Evaluating the normal
/// distribution", Journal of Statistical Software 11, 2004), beyond by Laplace's continued fraction
/// (Abramowitz & Stegun 26.2.14).
pub fn cdf(x: f64) -> f64 {
    if x < -SERIES_MAX {
        far_tail(-x)
    } else if x > SERIES_MAX {
        1.0 - far_tail(x)
    } else {
        0.5 + density(x) * series(x)
    }
}

/// `x + x³/3 + x⁵/(3·5) + …`. Stops when a term changes nothing, after 40 at most below 2.
fn series(x: f64) -> f64 {
    let (mut sum, mut term, mut odd) = (x, x, 1.0);
    for _ in 0..100 {
        odd += 2.0;
        term *= x * x / odd;
        if sum + term == sum {
            break;
        }
        sum += term;
    }
    sum
}

/// The probability of a value above `x`, for `x` from 2 on:
/// `φ(x) / (x + 1/(x + 2/(x + 3/(x + …))))`.
fn far_tail(x: f64) -> f64 {
    if x > TAIL_MAX {
        return 0.0;
    }
    // Steps for accuracy to the last bits: 95 at 2, 23 at 9.
    let steps = 20 + (300.0 / (x * x)) as u32;
    let fraction = (1..=steps).rev().fold(x, |rest, k| x + f64::from(k) / rest);
    density(x) / fraction
}

/// The inverse of [`cdf`]; −∞ for 0, ∞ for 1, NaN outside 0 to 1.
///
/// Relative error about 10⁻¹⁵: Wichura, "Algorithm AS 241: The percentage points of the normal distribution", Applied
/// Statistics 37 (1988), routine PPND16.
pub fn quantile(p: f64) -> f64 {
    let centered = p - 0.5;
    if centered.abs() <= 0.425 {
        let r = 0.180_625 - centered * centered;
        return centered * polynomial(&A, r) / polynomial(&B, r);
    }
    let tail = if centered < 0.0 { p } else { 1.0 - p };
    if tail == 0.0 {
        return f64::INFINITY.copysign(centered);
    }
    // NaN also if `p` is outside 0 to 1.
    let r = (-tail.ln()).sqrt();
    let size = if r <= 5.0 {
        polynomial(&C, r - 1.6) / polynomial(&D, r - 1.6)
    } else {
        polynomial(&E, r - 5.0) / polynomial(&F, r - 5.0)
    };
    size.copysign(centered)
}

/// `c₀ + c₁ x + c₂ x² + …`.
fn polynomial(coefficients: &[f64; 8], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

// Coefficients of AS 241: numerators A, C, E and denominators B, D, F, lowest power first.
const A: [f64; 8] = [
    3.387_132_872_796_366_5,
    133.141_667_891_784_38,
    1_971.590_950_306_551_3,
    13_731.693_765_509_46,
    45_921.953_931_549_87,
    67_265.770_927_008_7,
    33_430.575_583_588_13,
    2_509.080_928_730_122_7,
];
const B: [f64; 8] = [
    1.0,
    42.313_330_701_600_91,
    687.187_007_492_057_9,
    5_394.196_021_424_751,
    21_213.794_301_586_597,
    39_307.895_800_092_71,
    28_729.085_735_721_943,
    5_226.495_278_852_854,
];
const C: [f64; 8] = [
    1.423_437_110_749_683_5,
    4.630_337_846_156_546,
    5.769_497_221_460_691,
    3.647_848_324_763_204_5,
    1.270_458_252_452_368_4,
    0.241_780_725_177_450_6,
    0.022_723_844_989_269_184,
    0.000_774_545_014_278_341_4,
];
const D: [f64; 8] = [
    1.0,
    2.053_191_626_637_759,
    1.676_384_830_183_803_8,
    0.689_767_334_985_1,
    0.148_103_976_427_480_08,
    0.015_198_666_563_616_457,
    0.000_547_593_808_499_534_5,
    1.050_750_071_644_416_9e-9,
];
const E: [f64; 8] = [
    6.657_904_643_501_103,
    5.463_784_911_164_114,
    1.784_826_539_917_291_3,
    0.296_560_571_828_504_87,
    0.026_532_189_526_576_124,
    0.001_242_660_947_388_078_4,
    2.711_555_568_743_487_6e-5,
    2.010_334_399_292_288_1e-7,
];
const F: [f64; 8] = [
    1.0,
    0.599_832_206_555_888,
    0.136_929_880_922_735_8,
    0.014_875_361_290_850_615,
    0.000_786_869_131_145_613_3,
    1.846_318_317_510_054_8e-5,
    1.421_511_758_316_446e-7,
    2.044_263_103_389_939_7e-15,
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use statrs::distribution::{Continuous, ContinuousCDF, Normal};

    use super::*;

    /// From tables of higher precision (Abramowitz & Stegun, table 26.1 and 26.2).
    #[test]
    fn known_chances() {
        let check = |x, expected: f64| {
            let found = cdf(x);
            assert!((found / expected - 1.0).abs() < 1e-13, "{x}: {found:e}, not {expected:e}");
        };
        check(0.0, 0.5);
        check(1.0, 0.841_344_746_068_542_9);
        check(-1.0, 0.158_655_253_931_457_05);
        check(2.0, 0.977_249_868_051_820_8);
        check(-3.0, 1.349_898_031_630_094_6e-3);
        check(-5.0, 2.866_515_718_791_939_4e-7);
        check(-10.0, 7.619_853_024_160_527e-24);
        check(9.0, 1.0);
        assert_eq!(cdf(f64::NEG_INFINITY), 0.0);
        assert_eq!(cdf(f64::INFINITY), 1.0);
        assert!(cdf(f64::NAN).is_nan());
    }

    #[test]
    fn known_quantiles() {
        let check = |p, expected: f64| {
            let found = quantile(p);
            let is_close = (found - expected).abs() <= 1e-14 * expected.abs();
            assert!(found == expected || is_close, "{p}: {found}");
        };
        check(0.5, 0.0);
        check(0.75, 0.674_489_750_196_081_7);
        check(0.975, 1.959_963_984_540_054);
        check(0.995, 2.575_829_303_548_901);
        check(0.005, -2.575_829_303_548_901);
        check(1e-20, -9.262_340_089_798_408);
        check(0.0, f64::NEG_INFINITY);
        check(1.0, f64::INFINITY);
        for p in [-0.1, 1.1, f64::NAN] {
            assert!(quantile(p).is_nan(), "{p}");
        }
    }

    proptest! {
        /// `statrs` itself errs by some 2e-11 here, as a comparison with C's `erfc` shows.
        #[test]
        fn agrees_with_statrs(x in -8.0..8.0, p in 1e-6..1.0) {
            let oracle = Normal::new(0.0, 1.0).expect("a normal distribution");
            prop_assert!((density(x) - oracle.pdf(x)).abs() < 1e-15);
            prop_assert!((cdf(x) - oracle.cdf(x)).abs() < 1e-10);
            prop_assert!((quantile(p) - oracle.inverse_cdf(p)).abs() < 1e-8);
        }

        #[test]
        fn quantiles_lead_back(tail in -300.0..-0.301_f64) {
            let p = 10_f64.powf(tail);
            prop_assert!((cdf(quantile(p)) / p - 1.0).abs() < 1e-12);
        }
    }

    /// The series and the fraction agree at 2.
    #[test]
    fn there_is_no_seam() {
        let (series, fraction) = (0.5 - density(2.0) * series(2.0), far_tail(2.0));
        assert!((series / fraction - 1.0).abs() < 1e-13, "{series:e} {fraction:e}");
    }
}

//! A sample: at least one finite value, in ascending order, and its figures.
//!
//! All numbers enter this crate as samples. NaN and infinities are rejected here, and values are
//! sorted once.

use std::{error::Error, fmt};

/// The largest absolute value in a sample.
///
/// Sums of squares of such values stay far below the largest `f64`, so nothing computed from a sample overflows.
pub const VALUE_MAX: f64 = 1e100;

/// Factor that makes [`Sample::mad`] estimate the standard deviation of normal values:
/// 1 ÷ the 0.75 quantile of the normal distribution.
pub const MAD_TO_STD_DEV: f64 = 1.482_602_218_505_602;

/// Finite values in ascending order; at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    sorted: Vec<f64>,
}

/// Why numbers are not a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NotASample {
    Empty,
    /// One is NaN, infinite, or exceeds [`VALUE_MAX`] in magnitude.
    OutOfRange {
        index: usize,
        value: f64,
    },
}

impl fmt::Display for NotASample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a sample needs at least one value, found none"),
            Self::OutOfRange { index, value } => write!(
                f,
                "value {index} of a sample is {value}; it has to lie between -{VALUE_MAX:e} and \
                 {VALUE_MAX:e}"
            ),
        }
    }
}

impl Error for NotASample {}

impl Sample {
    /// Checks and sorts. −0 becomes 0.
    pub fn new(mut values: Vec<f64>) -> Result<Self, NotASample> {
        if values.is_empty() {
            return Err(NotASample::Empty);
        }
        for (index, value) in values.iter_mut().enumerate() {
            if !value.is_finite() || value.abs() > VALUE_MAX {
                return Err(NotASample::OutOfRange { index, value: *value });
            }
            // Adding 0 turns −0 into 0, so that equal values are the same bits.
            *value += 0.0;
        }
        values.sort_unstable_by(f64::total_cmp);
        Ok(Self { sorted: values })
    }

    /// The values, ascending.
    pub fn values(&self) -> &[f64] {
        &self.sorted
    }

    /// Number of values, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a sample is never empty")]
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// The least value.
    pub fn min(&self) -> f64 {
        self.sorted.first().copied().unwrap_or(f64::NAN)
    }

    /// The greatest value.
    pub fn max(&self) -> f64 {
        self.sorted.last().copied().unwrap_or(f64::NAN)
    }

    /// The arithmetic mean, kept between least and greatest value against rounding.
    pub fn mean(&self) -> f64 {
        mean_of(&self.sorted).clamp(self.min(), self.max())
    }

    /// The unbiased variance, `Σ (x − mean)² / (n − 1)`. `None` for fewer than two values.
    pub fn variance(&self) -> Option<f64> {
        (self.len() >= 2).then(|| {
            let mean = self.mean();
            let squares: f64 = self.sorted.iter().map(|value| (value - mean).powi(2)).sum();
            squares / (self.len() - 1) as f64
        })
    }

    /// The root of [`Self::variance`].
    pub fn std_dev(&self) -> Option<f64> {
        self.variance().map(f64::sqrt)
    }

    /// The standard error of the mean, `std_dev / √n`. `None` for fewer than two values.
    pub fn standard_error(&self) -> Option<f64> {
        self.std_dev().map(|std_dev| std_dev / (self.len() as f64).sqrt())
    }

    /// The middle value, or the mean of the two middle values.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The quantile of share `q`, see [`quantile_of_sorted`].
    pub fn quantile(&self, q: f64) -> f64 {
        quantile_of_sorted(&self.sorted, q)
    }

    /// The median absolute deviation: the median of `|x − median|`, not scaled.
    ///
    /// Up to half of the values may be extreme without moving it far. Times [`MAD_TO_STD_DEV`] it
    /// estimates the standard deviation of normal values. 0 for one value. Hampel, "The influence
    /// curve and its role in robust estimation", JASA 69 (1974).
    pub fn mad(&self) -> f64 {
        let median = self.median();
        let mut distances: Vec<f64> = self.sorted.iter().map(|x| (x - median).abs()).collect();
        distances.sort_unstable_by(f64::total_cmp);
        quantile_of_sorted(&distances, 0.5)
    }

    /// The mean of the rest after cutting off `⌊fraction · n⌋` values at *each* end.
    ///
    /// Fraction 0 is the mean; if nothing is left, as with 0.5 and more, it is the median. A negative
    /// fraction and NaN are taken as 0. Tukey & McLaughlin, Sankhyā A 25 (1963).
    pub fn trimmed_mean(&self, fraction: f64) -> f64 {
        // `as` saturates, and takes NaN as 0.
        let cut = (fraction.clamp(0.0, 0.5) * self.len() as f64).floor() as usize;
        match self.sorted.get(cut..self.len().saturating_sub(cut)) {
            Some(kept @ [first, .., last]) => mean_of(kept).clamp(*first, *last),
            _ => self.median(),
        }
    }
}

/// The quantile of share `q` of values in ascending order, by Hyndman & Fan's type 7: the value at
/// the place `q · (n − 1)`, counted from 0, with linear interpolation between neighbours.
///
/// It is what R, NumPy, Julia and Criterion call the quantile ("Sample quantiles in statistical
/// packages", The American Statistician 50, 1996). `q` outside 0 to 1 is taken as the nearer of the
/// two, NaN as 0. NaN if there are no values. With unsorted values the result is meaningless.
pub fn quantile_of_sorted(sorted: &[f64], q: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    at_place(sorted, q.clamp(0.0, 1.0) * last as f64)
}

/// The median of values in any order; the mean of the two middle values if even. NaN if there are
/// none.
pub fn median(mut values: Vec<f64>) -> f64 {
    median_of(&mut values)
}

/// Like [`median`], in place.
pub(crate) fn median_of(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    // Selects in place of sorting.
    let (middle, is_even) = (values.len() / 2, values.len().is_multiple_of(2));
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    match below.iter().copied().max_by(f64::total_cmp) {
        Some(lower) if is_even => lower + (upper - lower) * 0.5,
        _ => upper,
    }
}

/// The value at a place between 0 and n − 1, with linear interpolation. NaN if there is none.
pub(crate) fn at_place(sorted: &[f64], place: f64) -> f64 {
    let Some(&end) = sorted.last() else {
        return f64::NAN;
    };
    // `as` saturates, and takes NaN as 0.
    let below = place as usize;
    match (sorted.get(below), sorted.get(below + 1)) {
        (Some(a), Some(b)) => a + (b - a) * (place - below as f64).max(0.0),
        _ => end,
    }
}

/// The mean of any values, such as resamples. NaN if there are none.
pub fn mean_of(values: &[f64]) -> f64 {
    sum_of(values) / values.len() as f64
}

/// Sum in eight lanes, which a compiler can keep in vector registers.
pub(crate) fn sum_of(values: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    let (chunks, rest) = values.as_chunks::<8>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    lanes.iter().sum::<f64>() + rest.iter().sum::<f64>()
}

/// Known values, and invariance to shifting, scaling and shuffling.
#[cfg(test)]
pub(crate) mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    pub(crate) fn sample(values: &[f64]) -> Sample {
        Sample::new(values.to_vec()).expect("finite values")
    }

    fn close(a: f64, b: f64, tolerance: f64) -> bool {
        (a - b).abs() <= tolerance * a.abs().max(b.abs()).max(1.0)
    }

    #[test]
    fn only_finite_values_are_let_in() {
        let check = |values: &[f64], expected| {
            let found = Sample::new(values.to_vec()).map(|sample| sample.values().to_vec());
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{values:?}");
        };
        let out_of_range = |index, value| Err(NotASample::OutOfRange { index, value });
        check(&[], Err(NotASample::Empty));
        check(&[3.0, 1.0, 2.0], Ok(vec![1.0, 2.0, 3.0]));
        check(&[-0.0], Ok(vec![0.0]));
        check(&[1.0, f64::NAN], out_of_range(1, f64::NAN));
        check(&[f64::NEG_INFINITY], out_of_range(0, f64::NEG_INFINITY));
        check(&[0.0, 1.0, 2e100], out_of_range(2, 2e100));
        check(&[-1e100], Ok(vec![-1e100]));
    }

    #[test]
    fn errors_say_which_value() {
        let error = Sample::new(vec![1.0, f64::NAN]).expect_err("NaN");
        assert_eq!(
            error.to_string(),
            "value 1 of a sample is NaN; it has to lie between -1e100 and 1e100"
        );
    }

    #[test]
    fn moments() {
        let check = |values: &[f64], mean, variance| {
            let sample = sample(values);
            assert_eq!((sample.mean(), sample.variance()), (mean, variance), "{values:?}");
        };
        check(&[7.0], 7.0, None);
        check(&[1.0, 3.0], 2.0, Some(2.0));
        check(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0], 5.0, Some(32.0 / 7.0));
        // One pass over squares would yield only rounding errors here.
        check(&[1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0], 1e9 + 10.0, Some(30.0));
        // The mean of equal values is that value, though 0.1 + 0.1 + 0.1 is not 0.3.
        check(&[0.1, 0.1, 0.1], 0.1, Some(0.0));
    }

    /// R: `quantile(c(…), q, type = 7)`.
    #[test]
    fn quantiles_of_type_7() {
        let check = |values: &[f64], q, expected| {
            let found = sample(values).quantile(q);
            assert!(close(found, expected, 1e-15), "{values:?} {q}: {found}, expected {expected}");
        };
        check(&[4.0], 0.3, 4.0);
        check(&[1.0, 2.0], 0.0, 1.0);
        check(&[1.0, 2.0], 0.25, 1.25);
        check(&[1.0, 2.0], 1.0, 2.0);
        check(&[1.0, 2.0, 4.0, 8.0], 0.5, 3.0);
        check(&[1.0, 2.0, 4.0, 8.0], 0.9, 6.8);
        check(&[10.0, 20.0, 30.0, 40.0, 50.0], 0.1, 14.0);
        check(&[1.0, 2.0], -3.0, 1.0);
        check(&[1.0, 2.0], 7.0, 2.0);
        check(&[1.0, 2.0], f64::NAN, 1.0);
        assert!(quantile_of_sorted(&[], 0.5).is_nan());
    }

    #[test]
    fn median_absolute_deviations() {
        let check =
            |values: &[f64], expected| assert_eq!(sample(values).mad(), expected, "{values:?}");
        check(&[3.0], 0.0);
        check(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0], 1.0);
        check(&[1.0, 2.0, 3.0, 4.0, 1e9], 1.0);
    }

    #[test]
    fn trimmed_means() {
        let values: Vec<f64> = (1..=9).map(f64::from).chain([1e6]).collect();
        let check = |fraction, expected| {
            assert_eq!(sample(&values).trimmed_mean(fraction), expected, "{fraction}");
        };
        check(0.0, 100_004.5);
        check(0.09, 100_004.5);
        check(0.1, 5.5);
        check(0.2, 5.5);
        check(0.5, 5.5);
        check(0.7, 5.5);
        check(-1.0, 100_004.5);
        check(f64::NAN, 100_004.5);
        assert_eq!(sample(&[1.0, 2.0, 100.0]).trimmed_mean(0.4), 2.0);
        assert_eq!(sample(&[5.0]).trimmed_mean(0.4), 5.0);
    }

    #[test]
    fn sums_of_any_length() {
        for length in 0..40_u32 {
            let values: Vec<f64> = (0..length).map(f64::from).collect();
            assert_eq!(
                sum_of(&values),
                f64::from(length * length.saturating_sub(1) / 2),
                "{length}"
            );
        }
    }

    /// Figures that shift with the values.
    fn places(sample: &Sample) -> [f64; 7] {
        [
            sample.min(),
            sample.max(),
            sample.mean(),
            sample.median(),
            sample.quantile(0.1),
            sample.quantile(0.99),
            sample.trimmed_mean(0.2),
        ]
    }

    /// Figures that are invariant to shifts, but scale with the values.
    fn spreads(sample: &Sample) -> [f64; 2] {
        [sample.std_dev().unwrap_or(0.0), sample.mad()]
    }

    /// Rounding is relative to the largest value: small means of large values have lost digits.
    fn differ_by_rounding(a: f64, b: f64, largest: f64) -> bool {
        (a - b).abs() <= 1e-12 * largest
    }

    proptest! {
        #[test]
        fn places_move_with_the_values(values in vec(-1e3..1e3, 1..40), shift in -1e3..1e3) {
            let moved: Vec<f64> = values.iter().map(|x| x + shift).collect();
            for (a, b) in places(&sample(&values)).into_iter().zip(places(&sample(&moved))) {
                prop_assert!(differ_by_rounding(a + shift, b, 2e3));
            }
            for (a, b) in spreads(&sample(&values)).into_iter().zip(spreads(&sample(&moved))) {
                prop_assert!(close(a, b, 1e-9));
            }
        }

        /// Nothing overflows for any valid values, and locations lie among the values.
        #[test]
        fn results_are_finite(values in vec(-VALUE_MAX..=VALUE_MAX, 1..40)) {
            let sample = sample(&values);
            for place in places(&sample) {
                prop_assert!((sample.min()..=sample.max()).contains(&place));
            }
            prop_assert!(spreads(&sample).iter().all(|spread| spread.is_finite()));
            prop_assert!(sample.variance().is_none_or(f64::is_finite));
        }
    }

    #[test]
    fn medians_of_unsorted_values() {
        let check = |values: &[f64]| {
            let mut sorted = values.to_vec();
            sorted.sort_unstable_by(f64::total_cmp);
            assert_eq!(median(values.to_vec()), quantile_of_sorted(&sorted, 0.5), "{values:?}");
        };
        check(&[3.0]);
        check(&[3.0, 1.0]);
        check(&[3.0, 1.0, 2.0]);
        check(&[0.3, 0.1, -0.7, 0.2, 0.2, 9.0]);
        assert!(median(Vec::new()).is_nan());
    }
}

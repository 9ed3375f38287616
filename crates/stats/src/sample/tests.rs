//! Known values, and invariance to shifting, scaling and shuffling.

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
    let check = |values: &[f64], expected| assert_eq!(sample(values).mad(), expected, "{values:?}");
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
        assert_eq!(sum_of(&values), f64::from(length * length.saturating_sub(1) / 2), "{length}");
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

    #[test]
    fn all_grow_with_the_values(values in vec(-1e3..1e3, 1..40), scale in 0.01..100.0) {
        let grown: Vec<f64> = values.iter().map(|x| x * scale).collect();
        let (before, after) = (sample(&values), sample(&grown));
        for (a, b) in places(&before).into_iter().zip(places(&after)) {
            prop_assert!(differ_by_rounding(a * scale, b, 1e3 * scale));
        }
        for (a, b) in spreads(&before).into_iter().zip(spreads(&after)) {
            prop_assert!(close(a * scale, b, 1e-9));
        }
    }

    #[test]
    fn order_is_of_no_account(
        (values, shuffled) in vec(-1e9..1e9, 1..40)
            .prop_flat_map(|values| (Just(values.clone()), Just(values).prop_shuffle())),
    ) {
        prop_assert_eq!(sample(&values), sample(&shuffled));
    }

    #[test]
    fn mirrored_values_give_mirrored_places(values in vec(-1e3..1e3, 1..40)) {
        let mirrored: Vec<f64> = values.iter().map(|x| -x).collect();
        let (one, other) = (sample(&values), sample(&mirrored));
        prop_assert!(differ_by_rounding(one.quantile(0.1), -other.quantile(0.9), 1e3));
        prop_assert!(differ_by_rounding(one.mean(), -other.mean(), 1e3));
        prop_assert!(differ_by_rounding(one.trimmed_mean(0.3), -other.trimmed_mean(0.3), 1e3));
        prop_assert!(differ_by_rounding(one.mad(), other.mad(), 1e3));
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

//! Outliers by Tukey's fences, named as in Criterion.
//!
//! They are counted and named, never removed: a slow run is a run. Tukey, "Exploratory Data
//! Analysis" (1977), with the factors 1.5 and 3.

use crate::sample::Sample;

/// Distance of the mild and of the severe fences from the quartiles, in interquartile ranges.
const MILD: f64 = 1.5;
const SEVERE: f64 = 3.0;

/// How many values of each kind a sample has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outliers {
    pub low_severe: usize,
    pub low_mild: usize,
    pub high_mild: usize,
    pub high_severe: usize,
}

/// The fences of a sample, ascending. Quartiles are quantiles of type 7, as in Criterion.
///
/// With fewer than four values none can lie beyond a fence. If more than half of the values are equal, the fences may
/// coincide, and then every other value is a severe outlier.
fn fences(sample: &Sample) -> [f64; 4] {
    let (q1, q3) = (sample.quantile(0.25), sample.quantile(0.75));
    let range = q3 - q1;
    [q1 - SEVERE * range, q1 - MILD * range, q3 + MILD * range, q3 + SEVERE * range]
}

impl Outliers {
    /// Counts the outliers of a sample.
    pub fn of(sample: &Sample) -> Self {
        Self::beyond(fences(sample), sample.values())
    }

    /// Counts the values beyond the fences. A value on a fence is within it.
    fn beyond([low_severe, low_mild, high_mild, high_severe]: [f64; 4], values: &[f64]) -> Self {
        let count = |is_there: &dyn Fn(f64) -> bool| {
            values.iter().filter(|value| is_there(**value)).count()
        };
        Self {
            low_severe: count(&|value| value < low_severe),
            low_mild: count(&|value| (low_severe..low_mild).contains(&value)),
            high_mild: count(&|value| value > high_mild && value <= high_severe),
            high_severe: count(&|value| value > high_severe),
        }
    }

    /// The number of outliers of all kinds.
    pub fn total(&self) -> usize {
        self.low_severe + self.low_mild + self.high_mild + self.high_severe
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::sample::tests::sample;

    /// Quartiles 2 and 4: the fences are at −4, −1, 7 and 10.
    #[test]
    fn fences_of_five() {
        let fences = fences(&sample(&[1.0, 2.0, 3.0, 4.0, 5.0]));
        assert_eq!(fences, [-4.0, -1.0, 7.0, 10.0]);
        let check = |value, [low_severe, low_mild, high_mild, high_severe]: [usize; 4]| {
            let expected = Outliers { low_severe, low_mild, high_mild, high_severe };
            assert_eq!(Outliers::beyond(fences, &[value]), expected, "{value}");
        };
        check(-4.1, [1, 0, 0, 0]);
        check(-4.0, [0, 1, 0, 0]);
        check(-1.1, [0, 1, 0, 0]);
        check(-1.0, [0, 0, 0, 0]);
        check(3.0, [0, 0, 0, 0]);
        check(7.0, [0, 0, 0, 0]);
        check(7.1, [0, 0, 1, 0]);
        check(10.0, [0, 0, 1, 0]);
        check(10.1, [0, 0, 0, 1]);
    }

    #[test]
    fn counts() {
        let check = |values: &[f64], [low_severe, low_mild, high_mild, high_severe]: [usize; 4]| {
            let expected = Outliers { low_severe, low_mild, high_mild, high_severe };
            assert_eq!(Outliers::of(&sample(values)), expected, "{values:?}");
            assert_eq!(expected.total(), low_severe + low_mild + high_mild + high_severe);
        };
        check(&[1.0], [0; 4]);
        check(&[0.0, 1.0, 1e9], [0; 4]);
        check(&[1.0, 2.0, 3.0, 4.0, 5.0], [0; 4]);
        check(&[-90.0, -4.0, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 90.0], [1, 0, 0, 1]);
        check(&[5.0, 5.0, 5.0, 5.0, 5.0, 6.0], [0, 0, 0, 1]);
        check(&[-2.0, 1.0, 2.0, 2.0, 3.0, 3.0, 3.0, 4.0, 4.0, 5.0, 8.0], [0, 1, 1, 0]);
    }

    proptest! {
        #[test]
        fn at_most_half_lie_beyond(values in vec(-100_i32..100, 1..60)) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            prop_assert!(Outliers::of(&sample(&values)).total() * 2 <= values.len());
        }

        #[test]
        fn sides_change_in_a_mirror(values in vec(-100_i32..100, 1..60)) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let mirrored: Vec<f64> = values.iter().map(|value| -value).collect();
            let (one, other) = (Outliers::of(&sample(&values)), Outliers::of(&sample(&mirrored)));
            prop_assert_eq!(one.low_severe, other.high_severe);
            prop_assert_eq!(one.low_mild, other.high_mild);
        }

        #[test]
        fn shift_and_scale_do_not_matter(
            values in vec(-100_i32..100, 1..60), shift in -50_i32..50, power in -3_i32..4,
        ) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let scale = 2_f64.powi(power);
            let moved: Vec<f64> = values.iter().map(|x| (x + f64::from(shift)) * scale).collect();
            prop_assert_eq!(Outliers::of(&sample(&values)), Outliers::of(&sample(&moved)));
        }
    }
}

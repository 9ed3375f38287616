//! Outliers by Tukey's fences, named as in Criterion.
//!
//! They are counted and named, never removed: a slow run is a run. Tukey, "Exploratory Data
//! Analysis" (1977), with the factors 1.5 and 3.

use crate::sample::Sample;

/// Distance of the mild fences from the quartiles, in interquartile ranges.
pub const MILD: f64 = 1.5;
/// Distance of the severe fences from the quartiles, in interquartile ranges.
pub const SEVERE: f64 = 3.0;

/// Where a value is relative to the fences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutlierKind {
    /// Below the lower severe fence.
    LowSevere,
    /// Between the lower fences.
    LowMild,
    /// Within the mild fences: not an outlier.
    Normal,
    /// Between the upper fences.
    HighMild,
    /// Above the upper severe fence.
    HighSevere,
}

/// The four fences of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fences {
    /// `q1 − 3 · (q3 − q1)`.
    pub low_severe: f64,
    /// `q1 − 1.5 · (q3 − q1)`.
    pub low_mild: f64,
    /// `q3 + 1.5 · (q3 − q1)`.
    pub high_mild: f64,
    /// `q3 + 3 · (q3 − q1)`.
    pub high_severe: f64,
}

/// How many values of each kind a sample has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outliers {
    pub low_severe: usize,
    pub low_mild: usize,
    pub high_mild: usize,
    pub high_severe: usize,
}

impl Fences {
    /// The fences of a sample; quartiles are quantiles of type 7, as Criterion takes them.
    ///
    /// With fewer than four values no value can lie beyond a fence. If more than half of the values
    /// are the same, the fences may coincide, and then every other value is a severe outlier.
    pub fn of(sample: &Sample) -> Self {
        let (q1, q3) = (sample.quantile(0.25), sample.quantile(0.75));
        let range = q3 - q1;
        Self {
            low_severe: q1 - SEVERE * range,
            low_mild: q1 - MILD * range,
            high_mild: q3 + MILD * range,
            high_severe: q3 + SEVERE * range,
        }
    }

    /// Where a value lies. On a fence is within it. NaN counts as [`OutlierKind::Normal`].
    pub fn kind(&self, value: f64) -> OutlierKind {
        if value < self.low_severe {
            OutlierKind::LowSevere
        } else if value < self.low_mild {
            OutlierKind::LowMild
        } else if value > self.high_severe {
            OutlierKind::HighSevere
        } else if value > self.high_mild {
            OutlierKind::HighMild
        } else {
            OutlierKind::Normal
        }
    }
}

impl Outliers {
    /// Counts the outliers of a sample.
    pub fn of(sample: &Sample) -> Self {
        let fences = Fences::of(sample);
        let mut counts = Self::default();
        for &value in sample.values() {
            match fences.kind(value) {
                OutlierKind::LowSevere => counts.low_severe += 1,
                OutlierKind::LowMild => counts.low_mild += 1,
                OutlierKind::Normal => {}
                OutlierKind::HighMild => counts.high_mild += 1,
                OutlierKind::HighSevere => counts.high_severe += 1,
            }
        }
        counts
    }

    /// All kinds together.
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
        let fences = Fences::of(&sample(&[1.0, 2.0, 3.0, 4.0, 5.0]));
        let expected =
            Fences { low_severe: -4.0, low_mild: -1.0, high_mild: 7.0, high_severe: 10.0 };
        assert_eq!(fences, expected);
        let check = |value, expected| assert_eq!(fences.kind(value), expected, "{value}");
        check(-4.1, OutlierKind::LowSevere);
        check(-4.0, OutlierKind::LowMild);
        check(-1.1, OutlierKind::LowMild);
        check(-1.0, OutlierKind::Normal);
        check(3.0, OutlierKind::Normal);
        check(7.0, OutlierKind::Normal);
        check(7.1, OutlierKind::HighMild);
        check(10.0, OutlierKind::HighMild);
        check(10.1, OutlierKind::HighSevere);
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

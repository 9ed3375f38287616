//! How often prediction errors are larger than any that were seen.
//!
//! Errors of the past tell how often errors of usual size come about. What counts for a small budget of
//! false alarms lies beyond them, and has to be extrapolated with due doubt. Two things are assumed:
//!
//! - Beyond a start, the chance falls like a power of the size (Pareto). Nearly every distribution falls
//!   at least so fast beyond its largest seen values. The power is not taken for known: the chance is the
//!   mean over what the seen errors leave possible (Hill, "A simple general approach to inference about
//!   the tail of a distribution", Annals of Statistics 3, 1975, with a gamma prior of the power).
//! - What is as frequent as one in twenty and up to 25 spreads large may not have shown itself yet.

/// The tail begins here at least, in spreads.
const START_MIN: f64 = 2.0;

/// Share of errors beyond [`START_MIN`] that is expected before any was seen; normal values have 0.05.
const SHARE_PRIOR: f64 = 0.1;

/// Errors that this guess counts for.
const SHARE_WEIGHT: f64 = 10.0;

/// The power that is expected before any error was seen; Student's t with 3 degrees of freedom has 3.
const POWER_PRIOR: f64 = 3.0;

/// Errors beyond the start that this guess counts for.
const POWER_WEIGHT: f64 = 4.0;

/// Errors beyond the start of the whole that the tail of a part begins with, at most.
const WHOLE_WEIGHT_MAX: f64 = 40.0;

/// Share of values that are spikes, as long as history does not say otherwise.
const SPIKES: f64 = 0.05;

/// Share of clean points by which unseen spikes get less likely.
const CLEAN: f64 = 0.95;

/// Spikes lie between this size, in spreads,
const SPIKE_FROM: f64 = 5.0;

/// and this one, evenly: 20 standard deviations and a bit, since spreads are guesses.
const SPIKE_TO: f64 = 25.0;

/// The distribution of the sizes of errors, far out.
#[derive(Debug, Clone, PartialEq)]
pub struct Tail {
    /// Sizes, ascending.
    sizes: Vec<f64>,
    /// Where the power law begins.
    start: f64,
    /// Chance of an error beyond the start.
    share: f64,
    /// Shape of the power's gamma distribution: errors beyond the start, guesses included.
    shape: f64,
    /// Rate of it: the sum of their logarithms above the start's.
    rate: f64,
    /// Chance that a spike comes now, where none has come so far.
    unseen: f64,
}

impl Tail {
    /// The tail of errors, of which only the sizes count. Errors that are not finite are left out.
    #[must_use]
    pub fn of(errors: impl IntoIterator<Item = f64>) -> Self {
        let sizes = sizes(errors);
        let count = sizes.len() as f64;
        // The farther out the start, the less it matters how the middle looks.
        let kept = (3.0 * count.cbrt()).ceil() as usize;
        let nth = sizes.len().checked_sub(kept.max(1)).and_then(|at| sizes.get(at));
        let start = nth.copied().unwrap_or(START_MIN).max(START_MIN);
        let (beyond, logs) = beyond(&sizes, start);
        let prior = SHARE_PRIOR * (START_MIN / start).powf(POWER_PRIOR);
        Self {
            start,
            share: (beyond + SHARE_WEIGHT * prior) / (count + SHARE_WEIGHT),
            shape: beyond + POWER_WEIGHT,
            rate: logs + POWER_WEIGHT / POWER_PRIOR,
            unseen: SPIKES * CLEAN.powf(count),
            sizes,
        }
    }

    /// The tail of a part of the errors, which is taken to be like that of all as long as its own
    /// errors do not say otherwise. `spiky_share` is the share of such parts that have spikes.
    #[must_use]
    pub fn of_part(&self, errors: impl IntoIterator<Item = f64>, spiky_share: f64) -> Self {
        let sizes = sizes(errors);
        let (beyond, logs) = beyond(&sizes, self.start);
        let weight = self.shape.min(WHOLE_WEIGHT_MAX);
        Self {
            start: self.start,
            share: (beyond + weight * self.share) / (sizes.len() as f64 + weight),
            shape: beyond + weight,
            rate: logs + weight * self.rate / self.shape,
            unseen: spiky_share * SPIKES * CLEAN.powf(sizes.len() as f64),
            sizes,
        }
    }

    /// Whether an error is so large that it counts as a spike.
    #[must_use]
    pub fn is_spike(error: f64) -> bool {
        error.abs() >= SPIKE_FROM
    }

    /// The chance of an error at least as large as `size`, so many times in a row beyond the first: an
    /// unseen spike does not repeat itself, while nothing is taken for granted about other errors.
    #[must_use]
    pub fn chance(&self, size: f64, repeats: usize) -> f64 {
        let repeated = SPIKES.powi(i32::try_from(repeats).unwrap_or(i32::MAX));
        let larger = ((SPIKE_TO - size) / (SPIKE_TO - SPIKE_FROM)).clamp(0.0, 1.0);
        let spike = larger * self.unseen * repeated;
        let chance = if size > self.start {
            let logs = (size / self.start).ln();
            self.share * (self.rate / (self.rate + logs)).powf(self.shape)
        } else {
            let larger = self.sizes.len() - self.sizes.partition_point(|&other| other < size);
            let seen = (larger as f64 + 1.0) / (self.sizes.len() as f64 + 1.0);
            seen.max(self.share)
        };
        (chance + spike).min(1.0)
    }

    /// The size that an error has with this chance at most, so many times in a row beyond the first;
    /// where the tail begins, if that is more.
    #[must_use]
    pub fn size(&self, chance: f64, repeats: usize) -> f64 {
        let (mut low, mut high) = (self.start, 2.0 * self.start);
        while self.chance(high, repeats) > chance && high < 1e12 {
            (low, high) = (high, high * 2.0);
        }
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if self.chance(middle, repeats) > chance { low = middle } else { high = middle }
        }
        high
    }

    /// The size below which this share of the errors that were seen lies, at least `least`.
    #[must_use]
    pub fn usual(&self, share: f64, least: f64) -> f64 {
        let at = (share * (self.sizes.len() as f64 + 1.0)).ceil() as usize;
        let seen = self.sizes.get(at.saturating_sub(1).min(self.sizes.len().saturating_sub(1)));
        seen.copied().unwrap_or(least).max(least)
    }
}

fn sizes(errors: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sizes: Vec<f64> =
        errors.into_iter().map(f64::abs).filter(|size| size.is_finite()).collect();
    sizes.sort_unstable_by(f64::total_cmp);
    sizes
}

/// Number of sizes beyond the start, and the sum of their logarithms above the start's.
fn beyond(sizes: &[f64], start: f64) -> (f64, f64) {
    let beyond = &sizes[sizes.partition_point(|&size| size <= start)..];
    (beyond.len() as f64, beyond.iter().map(|size| (size / start).ln()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{normal, random::Random};

    fn normal_errors(count: usize) -> Vec<f64> {
        let mut random = Random::new(7);
        (0..count).map(|_| normal::quantile(random.unit().max(1e-17))).collect()
    }

    #[test]
    fn limits_shrink_as_errors_become_known() {
        let check = |count, chance, expected: std::ops::Range<f64>| {
            let size = Tail::of(normal_errors(count)).size(chance, 0);
            assert!(expected.contains(&size), "{count} errors, {chance}: {size}");
        };
        check(0, 0.005, 15.0..50.0);
        check(10, 0.005, 12.0..25.0);
        check(100, 0.005, 3.0..6.0);
        check(10_000, 0.005, 2.7..3.1);
        check(10_000, 0.00005, 4.0..6.5);
    }

    #[test]
    fn spikes_widen_the_limit() {
        let mut errors = normal_errors(1_000);
        let before = Tail::of(errors.clone());
        errors.iter_mut().step_by(25).for_each(|error| *error = 15.0);
        let after = Tail::of(errors);
        assert!(before.size(0.005, 0) < 5.0, "{}", before.size(0.005, 0));
        assert!(after.size(0.005, 0) > 15.0, "{}", after.size(0.005, 0));
        // The same in one of many series.
        let part = before.of_part([0.3, -1.0, 0.2, 15.0, 0.9, -0.5, 12.0, 0.1, 1.1, -0.4], 0.0);
        assert!(part.size(0.001, 0) > 1.5 * before.size(0.001, 0), "{}", part.size(0.001, 0));
    }

    #[test]
    fn spikes_that_were_not_seen_do_not_repeat_themselves() {
        let whole = Tail::of(normal_errors(1_000));
        let check = |spiky_share, repeats, expected: std::ops::Range<f64>| {
            let size = whole.of_part([0.1; 10], spiky_share).size(0.0005, repeats);
            assert!(expected.contains(&size), "{spiky_share}, {repeats}: {size}");
        };
        check(0.0, 0, 3.0..8.0);
        check(0.1, 0, 15.0..25.0);
        check(0.1, 1, 3.0..8.0);
    }

    #[test]
    fn chance_and_size_lead_to_each_other_and_never_rise() {
        let tail = Tail::of(normal_errors(300));
        for chance in [0.01, 0.005, 1e-3, 1e-5, 1e-7] {
            let back = tail.chance(tail.size(chance, 0), 0);
            assert!((back / chance - 1.0).abs() < 1e-6, "{chance}: {back}");
        }
        let chances: Vec<f64> = (0..400).map(|i| tail.chance(f64::from(i) / 10.0, 0)).collect();
        assert!(chances.is_sorted_by(|a, b| a >= b), "{chances:?}");
        assert_eq!(chances[0], 1.0);
    }

    #[test]
    fn what_is_not_finite_is_left_out() {
        assert_eq!(Tail::of([f64::NAN, 1.0, f64::INFINITY, -3.0]), Tail::of([1.0, 3.0]));
        assert_eq!(Tail::of([]).usual(0.95, 1.96), 1.96);
    }
}

//! How often prediction errors are larger than any that were seen.
//!
//! Errors of the past tell how often errors of usual size come about. What counts for a small budget of
//! false alarms lies beyond them, and has to be extrapolated with due doubt. Three things are assumed:
//!
//! - Beyond a start, what is left of errors has a generalized Pareto distribution, as nearly every tail
//!   has far out (Pickands, "Statistical inference using extreme order statistics", Annals of Statistics
//!   3, 1975). Its shape and scale are not taken for known: the chance is the mean over a grid of them,
//!   each weighted by how well it explains the errors that were seen, and by a guess from before.
//! - Spikes that were seen come again as often, and any size up to a largest one is as likely as
//!   another. The more spikes were seen, the nearer the largest possible one is to the largest of them.
//! - Spikes as frequent as one in twenty may not have shown themselves yet
//!   ([`Tail::chance_of_unseen`]).

/// The tail begins here at least, in spreads.
const START_MIN: f64 = 1.6;

/// Share of errors beyond [`START_MIN`] that is expected before any was seen; normal values have 0.11.
const SHARE_PRIOR: f64 = 0.2;

/// Errors that this guess counts for.
const SHARE_WEIGHT: f64 = 10.0;

/// The share falls by this power of the start; normal values fall faster.
const SHARE_POWER: f64 = 4.0;

/// Shapes of tails with their weights before any error was seen: −0.15 ends somewhere, 0 is exponential,
/// 0.5 and 1 are as heavy as Student's t with 2 degrees and 1 degree of freedom.
const SHAPES: [(f64, f64); 5] = [(-0.15, 0.3), (0.0, 0.5), (0.25, 0.35), (0.5, 0.12), (1.0, 0.05)];

/// Scales of tails, as shares of the start.
const SCALES: [f64; 6] = [0.1, 0.18, 0.32, 0.56, 1.0, 1.8];

/// The scale that is expected before any error was seen; normal values have 0.27.
const SCALE_PRIOR: f64 = 0.34;

/// Standard deviation of the logarithm of that guess.
const SCALE_DOUBT: f64 = 0.6;

/// Tails that are weighed.
const GRID: usize = SHAPES.len() * SCALES.len();

/// Errors beyond the start of the whole that count for a part, at most.
const WHOLE_BEYOND_MAX: f64 = 40.0;

/// Errors that the share of the whole counts for in a part.
const WHOLE_WEIGHT: f64 = 100.0;

/// Share of values that are spikes, as long as history does not say otherwise.
const SPIKES: f64 = 0.05;

/// Share of clean points by which unseen spikes get less likely.
const CLEAN: f64 = 0.95;

/// Spikes lie between this size, in spreads,
const SPIKE_FROM: f64 = 5.0;

/// and this one, evenly: 20 standard deviations and a bit, since spreads are guesses.
const SPIKE_TO: f64 = 25.0;

/// An error that is as large has shown itself as a spike. Few normal values, whose spread is a guess, get
/// beyond 5 now and then.
const SEEN_FROM: f64 = 6.0;

/// Spikes may be larger than the largest one that was seen by this factor at least.
const SPIKE_GROWTH: f64 = 1.25;

/// After one spike the next may be larger by this share of it; after k by the k-th root of the factor
/// 1 + 3: the largest of k sizes that lie evenly between 0 and an end is less than the end ÷ that root
/// once in four.
const SPIKE_GROWTH_OF_ONE: f64 = 3.0;

/// The growth is smaller, by the root of their share, where spikes are rarer: a few among thousands of
/// errors are the end of a lopsided tail rather than a kind of their own.
const SPIKES_COMMON: f64 = 0.01;

/// A logarithm of size ÷ start beyond which no size is looked for.
const LOG_MAX: f64 = 25.0;

/// The distribution of the sizes of errors, far out.
#[derive(Debug, Clone, PartialEq)]
pub struct Tail {
    /// Sizes, ascending.
    sizes: Vec<f64>,
    /// Where the tail begins.
    start: f64,
    /// Chance of an error beyond the start.
    share: f64,
    /// Errors beyond the start.
    beyond: f64,
    /// Logarithms of how well each tail of the grid explains them.
    likelihoods: [f64; GRID],
    /// Chances of the tails of the grid.
    weights: [f64; GRID],
    /// Share of spikes among the errors.
    spikes: f64,
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
        let (beyond, likelihoods) = likelihoods(&sizes, start);
        let prior = SHARE_PRIOR * (START_MIN / start).powf(SHARE_POWER);
        Self {
            start,
            share: (beyond + SHARE_WEIGHT * prior) / (count + SHARE_WEIGHT),
            beyond,
            likelihoods,
            weights: weights(|at| likelihoods[at]),
            spikes: share_of_spikes(&sizes),
            unseen: SPIKES * CLEAN.powf(count),
            sizes,
        }
    }

    /// The tail of a part of the errors, which is taken to be like that of all as long as its own
    /// errors do not say otherwise. `spiky_share` is the share of such parts that have spikes.
    #[must_use]
    pub fn of_part(&self, errors: impl IntoIterator<Item = f64>, spiky_share: f64) -> Self {
        let sizes = sizes(errors);
        let count = sizes.len() as f64;
        let (beyond, own) = likelihoods(&sizes, self.start);
        let of_whole = (WHOLE_BEYOND_MAX / self.beyond.max(1.0)).min(1.0);
        Self {
            start: self.start,
            share: (beyond + WHOLE_WEIGHT * self.share) / (count + WHOLE_WEIGHT),
            beyond,
            likelihoods: own,
            weights: weights(|at| of_whole * self.likelihoods[at] + own[at]),
            spikes: share_of_spikes(&sizes),
            unseen: spiky_share * SPIKES * CLEAN.powf(count),
            sizes,
        }
    }

    /// Whether an error is so large that it counts as a spike.
    #[must_use]
    pub fn is_spike(error: f64) -> bool {
        error.abs() >= SEEN_FROM
    }

    /// The chance of an error at least as large as `size`, by what the errors that were seen leave
    /// possible.
    #[must_use]
    pub fn chance(&self, size: f64) -> f64 {
        if size > self.start {
            return self.chance_beyond(size).max(self.chance_of_seen(size));
        }
        let larger = self.sizes.len() - self.sizes.partition_point(|&other| other < size);
        let seen = (larger as f64 + 1.0) / (self.sizes.len() as f64 + 1.0);
        seen.max(self.share).min(1.0)
    }

    /// The chance of a spike at least as large as `size`, of a kind that has not shown itself yet, so
    /// many times in a row beyond the first.
    #[must_use]
    pub fn chance_of_unseen(&self, size: f64, repeats: usize) -> f64 {
        let repeated = SPIKES.powi(i32::try_from(repeats).unwrap_or(i32::MAX));
        larger_spikes(size, SPIKE_TO) * self.unseen * repeated
    }

    /// The size that an error has with this chance at most; where the tail begins, if that is more.
    #[must_use]
    pub fn size(&self, chance: f64) -> f64 {
        let to = self.spike_max();
        let by_spikes = match self.spikes > chance {
            true => to - (to - SPIKE_FROM) * chance / self.spikes,
            false => 0.0,
        };
        self.size_of_tail(chance).max(by_spikes)
    }

    /// The size below which this share of the errors that were seen lies, at least `least`.
    #[must_use]
    pub fn usual(&self, share: f64, least: f64) -> f64 {
        let at = (share * (self.sizes.len() as f64 + 1.0)).ceil() as usize;
        let seen = self.sizes.get(at.saturating_sub(1).min(self.sizes.len().saturating_sub(1)));
        seen.copied().unwrap_or(least).max(least)
    }

    /// By the tails of the grid, for sizes from the start on.
    fn chance_beyond(&self, size: f64) -> f64 {
        let excess = size / self.start - 1.0;
        let likely = self.weights.iter().enumerate().filter(|(_, weight)| **weight > 1e-9);
        self.share * likely.map(|(at, weight)| weight * survival(at, excess)).sum::<f64>()
    }

    /// By the spikes that were seen.
    fn chance_of_seen(&self, size: f64) -> f64 {
        self.spikes * larger_spikes(size, self.spike_max())
    }

    /// Spikes that come again are no larger. One spike tells little about the largest; many small ones
    /// tell that all are small.
    fn spike_max(&self) -> f64 {
        let seen = self.sizes.len() - self.sizes.partition_point(|&size| size < SEEN_FROM);
        match self.sizes.last() {
            Some(largest) if seen > 0 => {
                let common = (self.spikes / SPIKES_COMMON).min(1.0).sqrt();
                let growth = (1.0 + SPIKE_GROWTH_OF_ONE * common).powf(1.0 / seen as f64);
                (largest * growth).min(SPIKE_TO).max(largest * SPIKE_GROWTH)
            }
            _ => SPIKE_TO,
        }
    }

    fn size_of_tail(&self, chance: f64) -> f64 {
        if self.share <= chance {
            return self.start;
        }
        let size = |log: f64| self.start * log.exp();
        let above = |log: f64| (self.chance_beyond(size(log)) / chance).max(1e-300).ln();
        let (mut low, mut above_low) = (0.0, (self.share / chance).ln());
        let mut high = 0.5;
        let mut above_high = above(high);
        while above_high > 0.0 && high < LOG_MAX {
            (low, above_low) = (high, above_high);
            high *= 2.0;
            above_high = above(high);
        }
        // Regula falsi, with the end that stays halved (Illinois).
        for _ in 0..60 {
            let middle = (low * above_high - high * above_low) / (above_high - above_low);
            let above_middle = above(middle);
            if above_middle.abs() < 1e-9 {
                return size(middle);
            }
            if above_middle > 0.0 {
                (low, above_low, above_high) = (middle, above_middle, above_high / 2.0);
            } else {
                (high, above_high, above_low) = (middle, above_middle, above_low / 2.0);
            }
        }
        size(high)
    }
}

/// Shape and scale of a tail of the grid.
fn tail(at: usize) -> (f64, f64) {
    (SHAPES[at / SCALES.len()].0, SCALES[at % SCALES.len()])
}

/// The logarithm of 1 + shape · excess ÷ scale, divided by the shape: what tails are made of.
fn log_distance(shape: f64, scaled: f64) -> f64 {
    // Where a tail has ended there is next to nothing, but not nothing.
    if shape == 0.0 { scaled } else { (shape * scaled).max(-0.999_999).ln_1p() / shape }
}

/// The chance to lie farther beyond the start than `excess`, as a share of the start.
fn survival(at: usize, excess: f64) -> f64 {
    let (shape, scale) = tail(at);
    (-log_distance(shape, excess / scale)).exp()
}

/// Number of sizes beyond the start, and how well each tail of the grid explains them.
fn likelihoods(sizes: &[f64], start: f64) -> (f64, [f64; GRID]) {
    let beyond = &sizes[sizes.partition_point(|&size| size <= start)..];
    let log_density = |at: usize, size: f64| {
        let (shape, scale) = tail(at);
        -(1.0 + shape) * log_distance(shape, (size / start - 1.0) / scale) - scale.ln()
    };
    let of = |at| beyond.iter().map(|&size| log_density(at, size)).sum();
    (beyond.len() as f64, std::array::from_fn(of))
}

/// Chances of the tails of the grid, from the logarithms of how well they explain what was seen.
fn weights(likelihood: impl Fn(usize) -> f64) -> [f64; GRID] {
    let logs: [f64; GRID] = std::array::from_fn(|at| {
        let off = (tail(at).1 / SCALE_PRIOR).ln() / SCALE_DOUBT;
        SHAPES[at / SCALES.len()].1.ln() - off * off / 2.0 + likelihood(at)
    });
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights = logs.map(|log| (log - largest).exp());
    let sum: f64 = weights.iter().sum();
    weights.map(|weight| weight / sum)
}

/// The share of spikes up to `to` that are at least as large as `size`.
fn larger_spikes(size: f64, to: f64) -> f64 {
    ((to - size) / (to - SPIKE_FROM)).clamp(0.0, 1.0)
}

fn share_of_spikes(sizes: &[f64]) -> f64 {
    let spikes = sizes.len() - sizes.partition_point(|&size| size < SEEN_FROM);
    spikes as f64 / sizes.len().max(1) as f64
}

fn sizes(errors: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sizes: Vec<f64> =
        errors.into_iter().map(f64::abs).filter(|size| size.is_finite()).collect();
    sizes.sort_unstable_by(f64::total_cmp);
    sizes
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
            let size = Tail::of(normal_errors(count)).size(chance);
            assert!(expected.contains(&size), "{count} errors, {chance}: {size}");
        };
        check(0, 0.005, 5.0..7.0);
        check(10, 0.005, 4.0..5.5);
        check(100, 0.005, 2.9..4.0);
        check(10_000, 0.005, 2.7..3.1);
        check(10_000, 0.00005, 3.9..5.0);
    }

    #[test]
    fn spikes_widen_the_limit() {
        let mut errors = normal_errors(1_000);
        let before = Tail::of(errors.clone());
        errors.iter_mut().step_by(25).for_each(|error| *error = 15.0);
        let after = Tail::of(errors);
        assert!(before.size(0.005) < 5.0, "{}", before.size(0.005));
        assert!(after.size(0.005) > 15.0, "{}", after.size(0.005));
        // The same in one of many series.
        let part = before.of_part([0.3, -1.0, 0.2, 15.0, 0.9, -0.5, 12.0, 0.1, 1.1, -0.4], 0.0);
        assert!(part.size(0.001) > 1.5 * before.size(0.001), "{}", part.size(0.001));
    }

    /// Many small spikes leave no room for large ones; one leaves much, and less if it is rare.
    #[test]
    fn spikes_come_again_hardly_larger_than_the_largest_of_many() {
        let check = |count: usize, spikes: &[f64], expected: f64| {
            let clean = std::iter::repeat_n(0.5, count - spikes.len());
            let max = Tail::of(clean.chain(spikes.iter().copied())).spike_max();
            assert!((max - expected).abs() < 0.01, "{count} {spikes:?}: {max}");
        };
        check(100, &[], 25.0);
        check(100, &[6.0], 24.0);
        check(100, &[20.0], 25.0);
        check(100, &[30.0], 37.5);
        check(100, &[6.0, 7.0], 14.0);
        check(100, &[6.0; 8], 7.5);
        check(10_000, &[6.0], 7.8);
        check(10_000, &[6.0, 8.0], 10.0);
    }

    #[test]
    fn spikes_that_were_not_seen_get_unlikely_and_do_not_repeat_themselves() {
        let check = |clean, size, repeats, expected: f64| {
            let chance = Tail::of(vec![0.1; clean]).chance_of_unseen(size, repeats);
            assert!((chance - expected).abs() < 1e-9, "{clean}, {size}, {repeats}: {chance}");
        };
        check(0, 5.0, 0, 0.05);
        check(0, 15.0, 0, 0.025);
        check(0, 26.0, 0, 0.0);
        check(0, 5.0, 1, 0.0025);
        check(10, 5.0, 0, 0.05 * 0.95_f64.powi(10));
    }

    #[test]
    fn chance_and_size_lead_to_each_other_and_never_rise() {
        let tail = Tail::of(normal_errors(300));
        for chance in [0.01, 0.005, 1e-3, 1e-5, 1e-7] {
            let back = tail.chance(tail.size(chance));
            assert!((back / chance - 1.0).abs() < 1e-6, "{chance}: {back}");
        }
        let chances: Vec<f64> = (0..400).map(|i| tail.chance(f64::from(i) / 10.0)).collect();
        assert!(chances.is_sorted_by(|a, b| a >= b), "{chances:?}");
        assert_eq!(chances[0], 1.0);
    }

    #[test]
    fn what_is_not_finite_is_left_out() {
        assert_eq!(Tail::of([f64::NAN, 1.0, f64::INFINITY, -3.0]), Tail::of([1.0, 3.0]));
        assert_eq!(Tail::of([]).usual(0.95, 1.96), 1.96);
    }
}

//! How often a value deviates as far by chance, and whether a new level explains the newest values better.
//!
//! The kind of noise of a series is unknown. So 64 kinds are considered at once ([`Kinds`]): values are normal or
//! heavier in the tails, and a share of them are spikes, several times as wide (Tukey's contaminated normal
//! distribution). Each kind is weighted by how well it explains all past values, together with the true size of the
//! spread, which few values do not determine exactly. Results are the mean over all of them: a posterior predictive
//! distribution. A spike is like an earlier one, or a new one (Blackwell & MacQueen, "Ferguson distributions via Pólya
//! urn schemes", Annals of Statistics 1, 1973).
//!
//! Sizes are in spreads of [`crate::robust_level`].

mod kinds;
mod ratio;
mod tables;

pub use kinds::{Common, Kinds};
pub use ratio::Value;

use self::{
    kinds::{KINDS, Kind, SIZES, TAILS},
    tables::{SCALES, TABLES, place, scale},
};
use crate::{
    normal,
    robust_level::{Error, RobustLevel},
    spread_prior::SpreadPrior,
};

/// A spike like an earlier one deviates as far as that one, plus or minus the noise of both.
const ALIKE: f64 = std::f64::consts::SQRT_2;

/// Degrees of freedom of the prior on how far a series differs from the others of its report.
const UNLIKE_DEGREES: f64 = 3.0;

/// Kinds and scales whose log-likelihood is this far below the maximum are ignored.
const UNLIKELY: f64 = -100.0;

/// Maximum size, in spreads; larger ones count as this one.
const SIZE_MAX: f64 = 4096.0;

/// The possible noise of a series, given its past.
#[derive(Debug, Clone, PartialEq)]
pub struct Noise {
    /// Probability of each kind with each scale of the spread.
    weights: Vec<[f64; SCALES]>,
    /// Probability of a usual value, by tail and scale.
    usual: [[f64; SCALES]; TAILS.len()],
    /// Probability of a spike, by size and scale.
    spike: [[f64; SCALES]; SIZES.len()],
    /// The past spikes, in spreads.
    seen: Vec<f64>,
}

impl Noise {
    /// Fits the noise to past errors, with the prior probabilities `kinds`. Other series give the expected spread.
    #[must_use]
    pub fn of(past: &RobustLevel, kinds: &Kinds, expected: Option<&SpreadPrior>) -> Self {
        let size = |error: &Error| error.size.abs().max(past.least_error);
        let bins = tables::bins(past.errors.iter().map(|error| (size(error), error.weight)));
        let count: f64 = past.errors.iter().map(|error| error.weight).sum();
        let scale_prior = scale_prior(past, expected);
        let of_scale: [f64; SCALES] =
            std::array::from_fn(|at| scale_prior[at] - count * scale(at).ln());
        let mut logs = Vec::with_capacity(KINDS);
        let mut largest = f64::NEG_INFINITY;
        for (kind, prior) in kinds.0.iter().enumerate() {
            let seen = tables::log_likelihood(&TABLES.log_density[kind], &bins);
            let prior = prior.ln();
            let row: [f64; SCALES] = std::array::from_fn(|at| prior + of_scale[at] + seen[at]);
            largest = row.iter().copied().fold(largest, f64::max);
            logs.push(row);
        }
        let weight = |log: f64| if log < largest + UNLIKELY { 0.0 } else { (log - largest).exp() };
        let weights = logs.into_iter().map(|row| row.map(weight)).collect();
        let seen = past.errors.iter().filter(|error| error.is_spike).map(|error| error.size);
        Self::from_weights(weights, seen.collect())
    }

    /// The same noise with other prior probabilities than those it was fitted with.
    #[must_use]
    pub fn with_kinds(&self, from: &Kinds, to: &Kinds) -> Self {
        let ratios = to.0.iter().zip(&from.0).map(|(to, from)| to / from);
        let weights = self.weights.iter().zip(ratios);
        let weights = weights.map(|(row, ratio)| row.map(|weight| weight * ratio)).collect();
        Self::from_weights(weights, self.seen.clone())
    }

    /// Normalizes weights.
    fn from_weights(mut weights: Vec<[f64; SCALES]>, seen: Vec<f64>) -> Self {
        let sum: f64 = weights.iter().flatten().sum();
        let mut usual = [[0.0; SCALES]; TAILS.len()];
        let mut spike = [[0.0; SCALES]; SIZES.len()];
        for (place, row) in weights.iter_mut().enumerate() {
            let kind = Kind::at(place);
            for (at, weight) in row.iter_mut().enumerate() {
                *weight /= sum;
                usual[kind.tail][at] += *weight * (1.0 - kind.share);
                spike[kind.size][at] += *weight * kind.share;
            }
        }
        Self { weights, usual, spike, seen }
    }

    /// The probabilities of the kinds.
    #[must_use]
    pub fn kinds(&self) -> Kinds {
        Kinds(std::array::from_fn(|kind| self.weights[kind].iter().sum()))
    }

    /// The probability that a value other than a spike deviates by at least `size`, on either side.
    #[must_use]
    pub fn chance_of_usual(&self, size: f64) -> f64 {
        mixture(&self.usual, &TABLES.tail, place(size.abs().min(SIZE_MAX)))
    }

    /// The probability that this many values in a row are all spikes at least as large as `size`.
    #[must_use]
    pub fn chance_of_spikes(&self, size: f64, times: usize) -> f64 {
        let size = size.abs().min(SIZE_MAX);
        let times = i32::try_from(times).unwrap_or(i32::MAX);
        let larger = |seen: &f64| normal::cdf((seen.abs() - size) / ALIKE);
        let (seen, count) = (self.seen.iter().map(larger).sum::<f64>(), self.seen.len() as f64);
        let place = place(size);
        let larger = TABLES.spike_tail.each_ref().map(|new| -> [f64; SCALES] {
            std::array::from_fn(|at| {
                ((tables::at(new, at, place) + seen) / (1.0 + count)).powi(times)
            })
        });
        let mut chance = 0.0;
        for (index, row) in self.weights.iter().enumerate() {
            let kind = Kind::at(index);
            if kind.share > 0.0 {
                let all = row.iter().zip(&larger[kind.size]).map(|(weight, it)| weight * it);
                chance += kind.share.powi(times) * all.sum::<f64>();
            }
        }
        chance
    }

    /// The size that a value other than a spike has with this probability.
    #[must_use]
    pub fn limit(&self, chance: f64) -> f64 {
        let chance_at = |place: f64| mixture(&self.usual, &TABLES.tail, place);
        tables::size_at(place_where(chance_at, chance))
    }
}

/// Logarithms of the prior probabilities of the scales: all are equal, unless other series give the
/// expected spread.
fn scale_prior(past: &RobustLevel, expected: Option<&SpreadPrior>) -> [f64; SCALES] {
    let Some(expected) = expected.filter(|_| past.level != 0.0 && past.spread > 0.0) else {
        return [0.0; SCALES];
    };
    let log_expected = expected.log_share + past.level.abs().ln() - past.spread.ln();
    let variance = expected.variance.max(tables::STEP_VARIANCE);
    std::array::from_fn(|at| {
        let square = (scale(at).ln() - log_expected).powi(2) / variance;
        -(UNLIKE_DEGREES + 1.0) / 2.0 * (square / UNLIKE_DEGREES).ln_1p()
    })
}

/// The mean of functions of size ÷ scale, at a place of the tables.
fn mixture<const N: usize>(
    weights: &[[f64; SCALES]; N],
    tables: &[tables::Table; N],
    place: f64,
) -> f64 {
    let mut sum = 0.0;
    for (row, table) in weights.iter().zip(tables) {
        for (at, weight) in row.iter().enumerate().filter(|(_, weight)| **weight > 1e-15) {
            sum += weight * tables::at(table, at, place);
        }
    }
    sum
}

/// The first place with this chance, which decreases and is linear between two places. The last one if there is none.
fn place_where(chance_at: impl Fn(f64) -> f64, chance: f64) -> f64 {
    let (mut low, mut high) = (0.0, tables::LAST);
    while high - low > 1.0 {
        let middle = f64::midpoint(low, high).floor();
        if chance_at(middle) <= chance { high = middle } else { low = middle }
    }
    let (before, after) = (chance_at(low), chance_at(high));
    match before > after {
        true => low + ((before - chance) / (before - after)).clamp(0.0, 1.0),
        false => high,
    }
}

/// Probabilities of values, the uncertainty of few values, and newest values that agree with each other.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn noise(values: &[f64]) -> (RobustLevel, Noise) {
        let usual = RobustLevel::of(&[values], 1e-9).expect("values");
        let noise = Noise::of(&usual, &Kinds::default(), None);
        (usual, noise)
    }

    fn values(count: usize, spikes: f64, seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        let mut one = || {
            let value = random.normal();
            let size = 5.0 + 15.0 * random.unit();
            if random.unit() < spikes { value + size } else { value }
        };
        (0..count).map(|_| one()).collect()
    }

    fn run(errors: &[f64]) -> Vec<Value> {
        errors.iter().map(|&error| Value { error, correlation: 0.0 }).collect()
    }

    #[test]
    fn chances_are_those_of_the_noise() {
        let (_, many) = noise(&values(2_000, 0.0, 1));
        for size in [1.0, 2.0, 3.0] {
            let expected = 2.0 * normal::cdf(-size);
            let found = many.chance_of_usual(size) + many.chance_of_spikes(size, 1);
            assert!((found / expected - 1.0).abs() < 0.3, "{size}: {found} {expected}");
        }
        assert!((many.limit(0.0027) - 3.0).abs() < 0.3, "{}", many.limit(0.0027));
        let (_, spiky) = noise(&values(2_000, 0.15, 2));
        assert!((spiky.limit(0.0027) - 3.0).abs() < 0.4, "{}", spiky.limit(0.0027));
        assert!((spiky.chance_of_spikes(10.0, 1) / 0.1 - 1.0).abs() < 0.3);
        let whole: f64 = spiky.kinds().0.iter().sum();
        assert!((whole - 1.0).abs() < 1e-9, "{whole}");
    }

    #[test]
    fn few_values_doubt_more() {
        let limits: Vec<f64> = [5, 10, 30, 300]
            .iter()
            .map(|&count| noise(&values(count, 0.0, 3)).1.limit(0.002))
            .collect();
        assert!(limits.is_sorted_by(|a, b| a > b), "{limits:?}");
        let unseen = noise(&values(10, 0.0, 4)).1.chance_of_spikes(8.0, 1);
        assert!((0.003..0.05).contains(&unseen), "{unseen}");
        let unlikely = noise(&values(400, 0.0, 4)).1.chance_of_spikes(8.0, 1);
        assert!(unlikely < 0.000_5, "{unlikely}");
    }

    /// Spikes scatter, values of a new level agree. But spikes that always had one size agree too.
    #[test]
    fn what_agrees_is_a_level() {
        let (usual, spiky) = noise(&values(400, 0.2, 5));
        let ratio = |errors: &[f64]| spiky.ratio(&run(errors), usual.level_doubt());
        assert!(ratio(&[8.0, 7.5, 8.6]) > 60.0, "{}", ratio(&[8.0, 7.5, 8.6]));
        assert!(ratio(&[8.0, 11.0, 15.0]) < 30.0, "{}", ratio(&[8.0, 11.0, 15.0]));
        assert!(ratio(&[8.0]) < 10.0, "{}", ratio(&[8.0]));
        assert!(ratio(&[0.5, 0.3, -0.2]) < 1.0);
        let two: Vec<f64> = values(100, 0.0, 6)
            .iter()
            .enumerate()
            .map(|(place, value)| if place % 5 == 0 { value + 8.0 } else { *value })
            .collect();
        let (usual, two) = noise(&two);
        let again = [8.0, 7.5, 8.6].map(|value| value / usual.spread);
        let ratio = two.ratio(&run(&again), usual.level_doubt());
        assert!(ratio < 30.0, "{ratio}");
    }

    #[test]
    fn neighbours_that_hang_together_say_less() {
        let (usual, noise) = noise(&values(100, 0.0, 7));
        let ratio = |correlation| {
            let run: Vec<Value> =
                [2.5, 2.2, 2.6].iter().map(|&error| Value { error, correlation }).collect();
            noise.ratio(&run, usual.level_doubt())
        };
        assert!(ratio(0.7) < ratio(0.0) / 5.0, "{} {}", ratio(0.7), ratio(0.0));
    }

    #[test]
    fn others_say_what_is_likely() {
        let (_, spiky) = noise(&values(200, 0.2, 8));
        let (_, clean) = noise(&values(200, 0.0, 9));
        let usual = RobustLevel::of(&[&values(10, 0.0, 10)], 0.0).expect("values");
        let among = |others: &Noise| {
            let (kinds, own) = (others.kinds(), Noise::of(&usual, &Kinds::default(), None).kinds());
            let series: Vec<&Kinds> = [&kinds; 10].into_iter().chain([&own]).collect();
            let common = Common::of(&series);
            assert_eq!(common.count(), 11);
            let expected = common.without(&own);
            assert!((expected.0.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            Noise::of(&usual, &expected, None).chance_of_spikes(8.0, 1)
        };
        assert!(among(&spiky) > 3.0 * among(&clean), "{} {}", among(&spiky), among(&clean));
    }

    /// Ten short histories together show their share of spikes.
    #[test]
    fn many_short_histories_are_a_long_one() {
        let kinds: Vec<Kinds> =
            (0..60).map(|seed| noise(&values(12, 0.2, 40 + seed)).1.kinds()).collect();
        let series: Vec<&Kinds> = kinds.iter().collect();
        let clean = RobustLevel::of(&[&values(12, 0.0, 11)], 0.0).expect("values");
        let alone = Noise::of(&clean, &Kinds::default(), None);
        let among = Noise::of(&clean, &Common::of(&series).without(&kinds[0]), None);
        let again = alone.with_kinds(&Kinds::default(), &Common::of(&series).without(&kinds[0]));
        for size in [0.5, 2.0, 8.0, 100.0] {
            let chances = [&among, &again].map(|noise| noise.chance_of_usual(size));
            assert!((chances[0] / chances[1] - 1.0).abs() < 1e-9, "{chances:?}");
        }
        let (alone, among) = (alone.chance_of_spikes(8.0, 3), among.chance_of_spikes(8.0, 3));
        assert!(among > 4.0 * alone, "{alone} {among}");
    }
}

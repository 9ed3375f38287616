//! How often a value deviates as far by chance, and whether a new level explains the newest values better.
//!
//! The kind of noise of a series is unknown. So 64 kinds are considered at once ([`Kinds`]): values are normal or
//! heavier in the tails, and a share of them are spikes, several times as wide (Tukey's contaminated normal
//! distribution). Each kind is weighted by how well it explains all past values, together with the true size of the
//! spread, which few values do not determine exactly. Results are the mean over all of them: a posterior predictive
//! distribution. A spike is like an earlier one, or a new one (Blackwell & MacQueen, "Ferguson distributions via Pólya
//! urn schemes", Annals of Statistics 1, 1973).
//!
//! Sizes are in spreads of [`crate::usual`].

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
    others::Expected,
    usual::{Error, Usual},
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
    pub fn of(past: &Usual, kinds: &Kinds, expected: Option<&Expected>) -> Self {
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
fn scale_prior(past: &Usual, expected: Option<&Expected>) -> [f64; SCALES] {
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

#[cfg(test)]
mod tests;

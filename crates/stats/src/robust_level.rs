//! The usual level and spread of a series, without spikes.
//!
//! The series may consist of pieces with different levels (see [`crate::changes`]). All of them
//! share one spread.

use crate::{normal, sample};

/// Values farther from the level than this many spreads are spikes.
const SPIKE_FROM: f64 = 5.0;

/// At most one value in this many may be a spike, rounded down; if more look like it, they are the
/// spread.
const ONE_SPIKE_IN: usize = 3;

/// Number of rounds of removing spikes and measuring the rest; the second hardly changes anything.
const ROUNDS: usize = 3;

/// Share of the minimum spread due to rounding: 1/√12 of a step, where the minimum spread is 0.4 of it.
const ROUNDED: f64 = 0.72;

/// Variance of a median ÷ variance of a single value, times their number, for normal values.
const MEDIAN_VARIANCE: f64 = std::f64::consts::FRAC_PI_2;

/// Level and spread of a series.
#[derive(Debug, Clone, PartialEq)]
pub struct RobustLevel {
    /// Median of the last piece, without spikes.
    pub level: f64,
    /// Standard deviation of single values around the level of their piece, without spikes.
    pub spread: f64,
    /// Values of the last piece without spikes.
    pub values: usize,
    pub spikes: usize,
    /// Deviation of each value from the level of its piece.
    pub errors: Vec<Error>,
    /// Smaller errors, in spreads, are indistinguishable: values are rounded.
    pub least_error: f64,
}

/// Deviation of a past value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Error {
    /// In spreads. Scaled like a new value's, although this one is part of the level.
    pub size: f64,
    /// Its weight: a piece of n values contains as much information about the spread as n − 1 new
    /// ones.
    pub weight: f64,
    pub is_spike: bool,
}

impl RobustLevel {
    /// Computes level and spread from the pieces of a series, the newest last. Empty pieces are ignored. The spread is
    /// at least `least`. `None` if there are no values. The values must be finite.
    #[must_use]
    pub fn of(pieces: &[&[f64]], least: f64) -> Option<Self> {
        let pieces: Vec<&[f64]> =
            pieces.iter().copied().filter(|piece| !piece.is_empty()).collect();
        let count: usize = pieces.iter().map(|piece| piece.len()).sum();
        // Scratch space for sorting and selecting: this runs several times for all series of a report.
        let mut scratch = Vec::with_capacity(count);
        let mut levels: Vec<f64> = pieces
            .iter()
            .map(|piece| {
                scratch.clear();
                scratch.extend_from_slice(piece);
                sample::median_of(&mut scratch)
            })
            .collect();
        let most = count / ONE_SPIKE_IN;
        distances(&pieces, &levels, &mut scratch);
        let mut spread = first_spread(&mut scratch).max(least);
        let mut limit = f64::INFINITY;
        for _ in 0..ROUNDS {
            distances(&pieces, &levels, &mut scratch);
            limit = match most {
                0 => f64::INFINITY,
                // Only the farthest, if there are too many.
                _ => {
                    let (_, &mut first, _) =
                        scratch.select_nth_unstable_by(count - most, f64::total_cmp);
                    below(first).max(SPIKE_FROM * spread)
                }
            };
            let mut is_same = true;
            for (piece, level) in pieces.iter().zip(&mut levels) {
                scratch.clear();
                scratch.extend(piece.iter().filter(|value| (**value - *level).abs() <= limit));
                if !scratch.is_empty() {
                    let found = sample::median_of(&mut scratch);
                    is_same &= found == *level;
                    *level = found;
                }
            }
            distances(&pieces, &levels, &mut scratch);
            let found = usual_spread(&scratch, limit, pieces.len()).max(least);
            is_same &= found == spread;
            spread = found;
            // Converged.
            if is_same {
                break;
            }
        }
        let mut errors = Vec::with_capacity(count);
        let (mut spikes, mut values) = (0, 0);
        for (piece, level) in pieces.iter().zip(&levels) {
            let is_spike = |value: f64| (value - level).abs() > limit;
            let kept = piece.iter().filter(|value| !is_spike(**value)).count().max(1);
            spikes += piece.len() - kept.min(piece.len());
            values = kept;
            let weight = (kept as f64 - 1.0) / kept as f64;
            errors.extend(piece.iter().map(|&value| {
                let size = if value == *level { 0.0 } else { (value - level) / spread };
                Error {
                    size: if weight > 0.0 { size / weight.sqrt() } else { size },
                    weight,
                    is_spike: is_spike(value),
                }
            }));
        }
        let least_error = if least > 0.0 { ROUNDED * least / spread } else { 0.0 };
        levels.last().map(|&level| Self { level, spread, values, spikes, errors, least_error })
    }

    /// Standard deviation of a new value's error: the spread, and the uncertainty of the level.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.spread * (1.0 + self.level_doubt().powi(2)).sqrt()
    }

    /// Standard error of the level, in spreads.
    #[must_use]
    pub fn level_doubt(&self) -> f64 {
        (MEDIAN_VARIANCE / self.values as f64).sqrt()
    }

    /// Deviation of a value, in [`scale`](Self::scale)s; 0 if it is as expected.
    #[must_use]
    pub fn error(&self, value: f64) -> f64 {
        if value == self.level { 0.0 } else { (value - self.level) / self.scale() }
    }
}

/// How far each value is from the level of its piece.
fn distances(pieces: &[&[f64]], levels: &[f64], found: &mut Vec<f64>) {
    found.clear();
    for (piece, level) in pieces.iter().zip(levels) {
        found.extend(piece.iter().map(|value| (value - level).abs()));
    }
}

/// Slightly less, so that the distance itself is beyond.
fn below(distance: f64) -> f64 {
    distance * (1.0 - 1e-9)
}

/// The mean of the nearest three quarters of the distances, scaled to the standard deviation of
/// normal values: a first guess that spikes do not affect.
fn first_spread(distances: &mut [f64]) -> f64 {
    let kept = distances.len() * 3 / 4;
    if kept == 0 {
        return 0.0;
    }
    distances.select_nth_unstable_by(kept, f64::total_cmp);
    let mean = distances[..kept].iter().sum::<f64>() / kept as f64;
    let share = kept as f64 / distances.len() as f64;
    let end = normal::quantile(f64::midpoint(1.0, share));
    mean * share / (2.0 * (normal::density(0.0) - normal::density(end)))
}

/// The mean of the distances up to `limit`, scaled to the standard deviation of normal values. Each
/// level takes one degree of freedom.
fn usual_spread(distances: &[f64], limit: f64, levels: usize) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for distance in distances.iter().filter(|distance| **distance <= limit) {
        sum += distance;
        count += 1.0;
    }
    let free = count - levels as f64;
    if free < 1.0 {
        return 0.0;
    }
    sum / count * (count / free).sqrt() * std::f64::consts::FRAC_PI_2.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn values(count: usize, seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        (0..count).map(|_| 100.0 + 3.0 * random.normal()).collect()
    }

    #[test]
    fn spread_is_that_of_normal_values() {
        let many = values(20_000, 1);
        let found = RobustLevel::of(&[&many], 0.0).expect("values");
        assert!((found.spread - 3.0).abs() < 0.05 && found.spikes < 3, "{}", found.spread);
        assert_eq!(RobustLevel::of(&[&[]], 0.0), None);
    }

    #[test]
    fn a_fifth_of_spikes_moves_neither_level_nor_spread() {
        for count in [10, 50, 1_000] {
            let (mut level, mut spread, mut spikes) = (0.0, 0.0, 0);
            for seed in 0..40 {
                let mut wild = values(count, seed);
                wild.iter_mut().step_by(5).for_each(|value| *value += 50.0);
                let found = RobustLevel::of(&[&wild], 0.0).expect("values");
                level += found.level / 40.0;
                spread += found.spread / 40.0;
                spikes += found.spikes;
            }
            assert!((level - 100.0).abs() < 0.5, "{count}: {level}");
            assert!((spread - 3.0).abs() < 0.4, "{count}: {spread}");
            assert!((spikes as f64 / (8 * count) as f64 - 1.0).abs() < 0.05, "{count}: {spikes}");
        }
    }

    #[test]
    fn levels_of_pieces_do_not_add_to_the_spread() {
        let (low, high) = (values(30, 2), values(30, 3));
        let raised: Vec<f64> = high.iter().map(|value| value + 50.0).collect();
        let found = RobustLevel::of(&[&low, &raised], 0.0).expect("values");
        assert!((found.level - 150.0).abs() < 3.0 && (found.spread - 3.0).abs() < 1.0);
        assert_eq!((found.values, found.errors.len(), found.spikes), (30, 60, 0));
    }

    /// The new value's error has the same distribution.
    #[test]
    fn errors_of_the_past_are_as_large_as_the_next() {
        let (mut past, mut next) = (0.0, 0.0);
        for seed in 0..2_000 {
            let all = values(12, seed);
            let (new, old) = all.split_last().expect("values");
            let found = RobustLevel::of(&[old], 0.0).expect("values");
            let sum: f64 = found.errors.iter().map(|error| error.size.abs()).sum();
            past += sum / found.errors.len() as f64;
            next += found.error(*new).abs();
        }
        assert!((past / next - 1.0).abs() < 0.1, "{past} {next}");
    }

    /// Supports skipping further checks when the newest value is near the level: removing a few values does not make it
    /// deviate, whatever they are.
    #[test]
    fn what_is_near_is_not_far_off_without_a_few() {
        let mut near = 0;
        for seed in 0..4_000 {
            let mut past = values(24 + seed as usize % 60, seed);
            let mut random = Random::new(seed + 1_000_000);
            let (few, shift) = (1 + seed as usize % 3, 12.0 * random.normal());
            past.iter_mut().rev().take(few).for_each(|value| *value += shift);
            let new = 100.0 + 3.0 * random.normal() + if seed % 2 == 0 { shift } else { 0.0 };
            let found = RobustLevel::of(&[&past], 0.0).expect("values");
            if found.values >= 24 && found.error(new).abs() < 1.0 {
                near += 1;
                let without = RobustLevel::of(&[&past[..past.len() - few]], 0.0).expect("values");
                let error = (new - without.level) / without.spread;
                assert!(error.abs() < 2.0, "{seed}: {error}");
            }
        }
        assert!(near > 500, "{near}");
    }

    #[test]
    fn equal_values_have_the_least_spread() {
        let found = RobustLevel::of(&[&[5.0; 9]], 0.1).expect("values");
        assert_eq!((found.level, found.spread, found.spikes), (5.0, 0.1, 0));
        let found = RobustLevel::of(&[&[5.0, 5.0, 9.0, 5.0, 5.0]], 0.1).expect("values");
        assert_eq!((found.level, found.spikes), (5.0, 1));
    }
}

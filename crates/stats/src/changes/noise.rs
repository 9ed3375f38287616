//! How much the means of neighbouring windows differ where nothing changes.
//!
//! For independent values the variance of a mean of m values is σ²/m. Results of a benchmark are not independent:
//! adjacent values correlate, hosts alternate, the level drifts. So the variance is measured at several lengths, as the
//! *inflation* of σ²/m. That is the idea of the variogram, and of batch means in simulation. Where there are too few
//! windows to measure, it is that of an autoregression, determined by the correlation of neighbours.

use super::clean::{Clean, ranges};
use crate::{normal, sample::quantile_of_sorted};

/// Lengths of windows at which the inflation is measured.
const WINDOWS: [usize; 5] = [4, 8, 16, 32, 64];

/// Beyond this window the measured growth is bounded: undetected steps have much weight there.
const WINDOW_SURE: usize = 8;

/// How much the inflation may grow from one window to one of twice the length.
const GROWTH_MAX: f64 = 1.4;

/// A first guess of the inflation, on the safe side: that of a first-order autoregression with ρ = 0.71.
const STRONG: f64 = 6.0;

/// The share of pairs of windows that should differ less than the measured variance suggests:
/// undetected steps are in the others.
const SHARE: f64 = 0.6;

/// The inflation of an autoregression counts as much as one measured with this many pairs of windows.
const PAIRS_OF_PRIOR: f64 = 40.0;

/// The largest correlation of neighbours.
const CORRELATION_MAX: f64 = 0.9;

/// The variance of means, for windows of any length.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Noise {
    /// Variance of a mean × its values ÷ σ², at `WINDOWS`; at least 1 and never falling.
    inflations: [f64; WINDOWS.len()],
}

impl Noise {
    /// Far more than most series have, so changes found in such noise are certain.
    pub(super) fn strong() -> Self {
        Self { inflations: [STRONG; WINDOWS.len()] }
    }

    /// As if the values were independent: the minimum.
    pub(super) fn independent() -> Self {
        Self { inflations: [1.0; WINDOWS.len()] }
    }

    /// Measures the noise within the segments between these boundaries, with windows up to `window_max`.
    pub(super) fn measure(clean: &Clean, boundaries: &[usize], window_max: usize) -> Self {
        let segments: Vec<(usize, usize)> = ranges(boundaries, clean.len()).collect();
        let rho = correlation(clean, &segments);
        let (mut inflation, mut expected) = (1.0_f64, 1.0);
        let inflations = WINDOWS.map(|window| {
            let before = inflation;
            let here = inflation_at(rho, window);
            let grown = before * here / expected;
            expected = here;
            inflation = grown;
            if window <= window_max {
                let (measured, pairs) = inflation_of(clean, &segments, window);
                let most = if window > WINDOW_SURE { before * GROWTH_MAX } else { f64::INFINITY };
                let weight = pairs as f64 / (pairs as f64 + PAIRS_OF_PRIOR);
                inflation *= (measured.min(most).max(before) / grown).powf(weight);
            }
            inflation = inflation.max(before);
            inflation
        });
        Self { inflations }
    }

    /// The smaller of both at every length.
    pub(super) fn min(mut self, other: &Self) -> Self {
        for (mine, others) in self.inflations.iter_mut().zip(other.inflations) {
            *mine = mine.min(others);
        }
        self
    }

    /// The larger of both at every length.
    pub(super) fn max(mut self, other: &Self) -> Self {
        for (mine, others) in self.inflations.iter_mut().zip(other.inflations) {
            *mine = mine.max(others);
        }
        self
    }

    /// Variance of a mean of this many values, as a share of σ².
    pub(super) fn variance_of_mean(&self, values: usize) -> f64 {
        let longer = WINDOWS.iter().position(|&window| window >= values);
        let inflation = match longer {
            Some(0) => self.inflations[0],
            Some(at) => {
                // Interpolates between two lengths by their logarithms.
                let (low, high) = (WINDOWS[at - 1] as f64, WINDOWS[at] as f64);
                let share = (values as f64 / low).ln() / (high / low).ln();
                self.inflations[at - 1] * (1.0 - share) + self.inflations[at] * share
            }
            None => self.inflations[WINDOWS.len() - 1],
        };
        inflation / values as f64
    }
}

/// The correlation of neighbours within segments. Around a segment's own mean it is biased downwards, more so for
/// shorter segments. Without that bias, half of the steps in series of fifty values would be missed, in exchange for
/// half as many false ones, which are few.
fn correlation(clean: &Clean, segments: &[(usize, usize)]) -> f64 {
    let (mut product, mut square) = (0.0, 0.0);
    for &(start, end) in segments {
        let mean = clean.mean(start, end);
        let noise = |place: usize| (clean.values[place] - mean) / clean.sigma(place);
        product += (start + 1..end).map(|place| noise(place - 1) * noise(place)).sum::<f64>();
        square += (start..end).map(|place| noise(place).powi(2)).sum::<f64>();
    }
    let seen = if square > 0.0 { product / square } else { 0.0 };
    seen.clamp(0.0, CORRELATION_MAX)
}

/// The inflation at a window in an autoregression of the first order.
fn inflation_at(rho: f64, window: usize) -> f64 {
    let m = window as f64;
    let far = rho * (1.0 - rho.powi(window as i32)) / (1.0 - rho);
    (1.0 + rho) / (1.0 - rho) - 2.0 * far / (m * (1.0 - rho))
}

/// A quantile over all pairs of neighbouring windows, so that a few steps do not count; and the number of pairs.
fn inflation_of(clean: &Clean, segments: &[(usize, usize)], window: usize) -> (f64, usize) {
    let mut squares = Vec::new();
    for &(start, end) in segments {
        let mut place = start + window;
        while place + window <= end {
            let difference = clean.mean(place, place + window) - clean.mean(place - window, place);
            squares.push((difference / clean.sigma(place)).powi(2));
            place += window.div_ceil(2);
        }
    }
    if squares.is_empty() {
        return (1.0, 0);
    }
    squares.sort_unstable_by(f64::total_cmp);
    // Both means vary.
    let variance = quantile_of_sorted(&squares, SHARE) / square_at(SHARE) / 2.0;
    (variance * window as f64, squares.len())
}

/// The value that the square of a standard normal value does not exceed with this probability.
fn square_at(chance: f64) -> f64 {
    normal::quantile(0.5 + chance / 2.0).powi(2)
}

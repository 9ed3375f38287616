//! A series with spikes limited, and the size of its noise at each place.

use std::ops::Range;

use crate::sample::{MAD_TO_STD_DEV, median_of, quantile_of_sorted};

/// Points on each side of a value whose median it is compared with: spikes of up to as many points
/// are limited.
const REACH: usize = 5;

/// Values farther from the running median than this many times the noise are moved to that
/// distance.
const FAR: f64 = 2.5;

/// Points for which the noise is assumed to be the same.
const BLOCK: usize = 32;

/// Points on each side of a block that its noise is measured with as well.
const AROUND: usize = 48;

/// Standard deviation of normal values ÷ the mean of the nearer nine tenths of their distances.
const SIGMAS_PER_TRIMMED: f64 = 1.527;

/// Standard deviation of normal values ÷ their root mean square distance to the running median.
const SIGMAS_PER_DISTANCE: f64 = 1.03;

/// A cleaned series, shifted so that its median is 0.
#[derive(Debug)]
pub(super) struct Clean {
    /// The values with spikes limited, minus `origin`.
    pub(super) values: Vec<f64>,
    pub(super) origin: f64,
    /// Standard deviation of the noise, by blocks.
    sigmas: Vec<f64>,
    /// Sums of the values before each place.
    sums: Vec<f64>,
}

impl Clean {
    /// `None` if all values are the same. The values must be finite.
    pub(super) fn new(series: &[f64]) -> Option<Self> {
        let mut sorted = series.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let origin = quantile_of_sorted(&sorted, 0.5);
        let quantum = smallest_gap(&sorted)?;
        let mut values: Vec<f64> = series.iter().map(|value| value - origin).collect();
        let medians = running_medians(&values);
        let distances: Vec<f64> =
            values.iter().zip(&medians).map(|(value, median)| (value - median).abs()).collect();
        // Noise below a quarter of the smallest gap between values cannot be resolved.
        let sigmas = sigmas(&distances, quantum / 4.0);
        for (place, (value, median)) in values.iter_mut().zip(&medians).enumerate() {
            let far = FAR * sigmas[place / BLOCK];
            *value = value.clamp(median - far, median + far);
        }
        let squares = values.iter().zip(&medians).map(|(value, median)| (value - median).powi(2));
        let sigmas = drawn_in_sigmas(&squares.collect::<Vec<f64>>(), quantum / 4.0);
        let sums = sums(&values);
        Some(Self { values, origin, sigmas, sums })
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Standard deviation of the noise near a place.
    pub(super) fn sigma(&self, place: usize) -> f64 {
        self.sigmas[(place / BLOCK).min(self.sigmas.len() - 1)]
    }

    /// Mean of the values from one place up to, but not including, a later one.
    pub(super) fn mean(&self, from: usize, to: usize) -> f64 {
        (self.sums[to] - self.sums[from]) / (to - from) as f64
    }
}

/// The ranges of places between boundaries of a series with `len` of them.
pub(super) fn ranges(boundaries: &[usize], len: usize) -> impl Iterator<Item = (usize, usize)> {
    let starts = [0].into_iter().chain(boundaries.iter().copied());
    starts.zip(boundaries.iter().copied().chain([len]))
}

/// The smallest gap between two different values, ignoring rounding errors.
fn smallest_gap(sorted: &[f64]) -> Option<f64> {
    let largest = sorted.first()?.abs().max(sorted.last()?.abs());
    let gaps = sorted.windows(2).map(|pair| pair[1] - pair[0]);
    gaps.filter(|&gap| gap > largest * 1e-12).reduce(f64::min)
}

/// The median of the values around each place; near the ends, of those that exist.
fn running_medians(values: &[f64]) -> Vec<f64> {
    let mut window: Vec<f64> = Vec::with_capacity(2 * REACH + 2);
    let insert = |window: &mut Vec<f64>, value: f64| {
        window.insert(window.partition_point(|&other| other < value), value);
    };
    for &value in values.iter().take(REACH) {
        insert(&mut window, value);
    }
    let mut medians = Vec::with_capacity(values.len());
    for place in 0..values.len() {
        if let Some(&entering) = values.get(place + REACH) {
            insert(&mut window, entering);
        }
        if let Some(leaving) = place.checked_sub(REACH + 1) {
            window.remove(window.partition_point(|&other| other < values[leaving]));
        }
        medians.push(quantile_of_sorted(&window, 0.5));
    }
    medians
}

/// The size of the noise in each block, from distances to the running median.
fn sigmas(distances: &[f64], least: f64) -> Vec<f64> {
    let blocks = distances.len().div_ceil(BLOCK);
    let mut near = Vec::with_capacity(BLOCK + 2 * AROUND);
    let sigma = |block: usize| {
        near.clear();
        near.extend_from_slice(&distances[around(block, distances.len())]);
        let median = median_of(&mut near);
        // If most values are equal, the median distance is 0.
        let count = near.len() - near.len() / 10;
        near.select_nth_unstable_by(count - 1, f64::total_cmp);
        let nearer = &near[..count];
        let trimmed = nearer.iter().sum::<f64>() / nearer.len() as f64;
        (median * MAD_TO_STD_DEV).max(trimmed * SIGMAS_PER_TRIMMED).max(least)
    };
    (0..blocks).map(sigma).collect()
}

/// The size of the noise in each block after limiting spikes, from squared distances to the running median. The rest of
/// the spikes, and both of two alternating levels, count here.
fn drawn_in_sigmas(squares: &[f64], least: f64) -> Vec<f64> {
    let sigma = |block: usize| {
        let around = around(block, squares.len());
        let mean = squares[around.clone()].iter().sum::<f64>() / around.len() as f64;
        (mean.sqrt() * SIGMAS_PER_DISTANCE).max(least)
    };
    (0..squares.len().div_ceil(BLOCK)).map(sigma).collect()
}

/// The range of points used to measure a block's noise.
fn around(block: usize, len: usize) -> Range<usize> {
    (block * BLOCK).saturating_sub(AROUND)..(block * BLOCK + BLOCK + AROUND).min(len)
}

fn sums(values: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    let mut sums = Vec::with_capacity(values.len() + 1);
    sums.push(sum);
    for value in values {
        sum += value;
        sums.push(sum);
    }
    sums
}

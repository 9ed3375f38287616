//! How much better a new level explains the newest values than noise around the old one.

use super::{
    ALIKE, Noise, SIZE_MAX,
    kinds::{Kind, SIZES, SPIKE_DEGREES, TAILS},
    tables::{SCALES, scale},
};
use crate::{normal, student::Density};

/// One of the newest values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    /// Its deviation, in spreads.
    pub error: f64,
    /// Correlation of usual values with the one before, from 0 to 1.
    pub correlation: f64,
}

/// Levels are tried up to this far around each value, and at this distance, in spreads.
const AROUND: f64 = 2.5;
const APART: f64 = 0.5;

/// Parts of the mixture with less weight contribute too little to be worth the time.
const WEIGHT_MIN: f64 = 1e-4;

/// Values that deviate farther, in spreads, are spikes, which predict nothing about the next value.
const CARRIED_MAX: f64 = 3.0;

/// The old level is uncertain: it is tried in place and at these distances in standard errors, with these weights
/// (Gauss–Hermite).
const DOUBTS: [(f64, f64); 3] =
    [(-1.732_050_8, 1.0 / 6.0), (0.0, 2.0 / 3.0), (1.732_050_8, 1.0 / 6.0)];

/// Densities of all parts of the mixture at one value.
struct Parts {
    usual: [[f64; SCALES]; TAILS.len()],
    spike: [[f64; SCALES]; SIZES.len()],
}

impl Noise {
    /// How many times better a new level since the first of these values explains them than spikes and usual values
    /// around the old level do, whose standard error is `doubt`.
    ///
    /// New levels deviate as far as spikes do. Values around them are distributed like those around the old one.
    #[must_use]
    pub fn ratio(&self, values: &[Value], doubt: f64) -> f64 {
        let ratio = self.of_new_level(values) / self.of_old_level(values, doubt);
        if ratio.is_nan() { 0.0 } else { ratio }
    }

    fn of_old_level(&self, values: &[Value], doubt: f64) -> f64 {
        let densities = Densities::new();
        let mut sum = 0.0;
        for (errors, chance) in DOUBTS {
            let offset = errors * doubt;
            let mut before = 0.0_f64;
            let mut parts = Vec::with_capacity(values.len());
            for value in values {
                let error = value.error.clamp(-SIZE_MAX, SIZE_MAX);
                let alone = densities.parts(error, error - offset, 1.0);
                let carried = value.correlation * before.clamp(-CARRIED_MAX, CARRIED_MAX);
                let rest = (1.0 - value.correlation * value.correlation).sqrt();
                let after = densities.parts(error, error - offset - carried, rest);
                parts.push(self.known(error, alone, &after));
                before = error - offset;
            }
            for (index, row) in self.weights.iter().enumerate() {
                let Kind { tail, share, size } = Kind::at(index);
                for (at, weight) in row.iter().enumerate() {
                    let of = |parts: &Parts| {
                        (1.0 - share) * parts.usual[tail][at] + share * parts.spike[size][at]
                    };
                    sum += chance * weight * parts.iter().map(of).product::<f64>();
                }
            }
        }
        sum
    }

    /// The density of an error under the old level. Spikes are like earlier ones, or new; usual values are independent,
    /// or like the one before, whichever explains them better.
    fn known(&self, error: f64, alone: Parts, after: &Parts) -> Parts {
        let (seen, count) = self.alike(error);
        let Parts { mut usual, spike } = alone;
        for (row, after) in usual.iter_mut().flatten().zip(after.usual.iter().flatten()) {
            *row = row.max(*after);
        }
        Parts { usual, spike: spike.map(|row| row.map(|new| (new + seen) / (1.0 + count))) }
    }

    fn of_new_level(&self, values: &[Value]) -> f64 {
        let densities = Densities::new();
        let errors: Vec<f64> =
            values.iter().map(|value| value.error.clamp(-SIZE_MAX, SIZE_MAX)).collect();
        let mut levels = Vec::new();
        let steps = (AROUND / APART) as i32;
        for error in &errors {
            levels.extend((-steps..=steps).map(|step| error + APART * f64::from(step)));
        }
        levels.sort_unstable_by(f64::total_cmp);
        levels.dedup();
        let gap = |from: Option<&f64>, to: Option<&f64>| match (from, to) {
            (Some(from), Some(to)) => (to - from).min(APART) / 2.0,
            _ => APART / 2.0,
        };
        let mut sum = 0.0;
        for (place, level) in levels.iter().enumerate() {
            let before = place.checked_sub(1).and_then(|before| levels.get(before));
            let width = gap(before, Some(level)) + gap(Some(level), levels.get(place + 1));
            let of = |error: &f64| self.density(&densities, error - level);
            sum += width * densities.change(*level) * errors.iter().map(of).product::<f64>();
        }
        sum
    }

    /// The density of a new value.
    fn density(&self, densities: &Densities, error: f64) -> f64 {
        let mut sum = 0.0;
        for (tail, row) in self.usual.iter().enumerate() {
            for (at, weight) in row.iter().enumerate().filter(|(_, weight)| **weight > WEIGHT_MIN) {
                sum += weight * densities.usual[tail].at(error / densities.scales[at])
                    / densities.scales[at];
            }
        }
        let mut spike = 0.0;
        let mut share = 0.0;
        for (size, row) in self.spike.iter().enumerate() {
            for (at, weight) in row.iter().enumerate().filter(|(_, weight)| **weight > WEIGHT_MIN) {
                let wide = densities.scales[at] * SIZES[size];
                spike += weight * densities.spike.at(error / wide) / wide;
                share += weight;
            }
        }
        let (seen, count) = self.alike(error);
        sum + (spike + share * seen) / (1.0 + count)
    }

    /// The sum of the densities at an error around the past spikes, and their number.
    fn alike(&self, error: f64) -> (f64, f64) {
        let alike = |seen: &f64| normal::density((error - seen) / ALIKE) / ALIKE;
        (self.seen.iter().map(alike).sum(), self.seen.len() as f64)
    }
}

struct Densities {
    usual: [Density; TAILS.len()],
    spike: Density,
    scales: [f64; SCALES],
}

impl Densities {
    fn new() -> Self {
        Self {
            usual: TAILS.map(|(degrees, _)| Density::new(degrees)),
            spike: Density::new(SPIKE_DEGREES),
            scales: std::array::from_fn(scale),
        }
    }

    /// Densities of a spike at `error`, and of a usual value that is `off` from its expected position, with that part
    /// of the usual spread.
    fn parts(&self, error: f64, off: f64, part: f64) -> Parts {
        let scales = &self.scales;
        Parts {
            usual: self.usual.map(|density| {
                std::array::from_fn(|at| {
                    let scale = part * scales[at];
                    density.at(off / scale) / scale
                })
            }),
            spike: SIZES.map(|size| {
                std::array::from_fn(|at| {
                    let wide = size * scales[at];
                    self.spike.at(error / wide) / wide
                })
            }),
        }
    }

    /// The density of the size of a change.
    fn change(&self, error: f64) -> f64 {
        let of = |size: &f64| self.spike.at(error / size) / size;
        SIZES.iter().map(of).sum::<f64>() / SIZES.len() as f64
    }
}

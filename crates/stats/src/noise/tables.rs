//! Densities and tails of the kinds by size, computed once. Histories are counted in size classes, so that weighting
//! the kinds costs the same for any length.

use std::sync::LazyLock;

use super::kinds::{KINDS, Kind, SIZES, SPIKE_DEGREES, TAILS};
use crate::student::{self, Density};

/// Size classes per doubling.
const PER_DOUBLING: usize = 8;

/// The smallest class is 2^−5 spreads, the largest 2^12.
const LEAST: f64 = -5.0;
const CLASSES: usize = 17 * PER_DOUBLING + 1;

/// The true spread may be from 4 times smaller than the computed one to 11 times larger, in steps
/// of √2.
pub(super) const SCALES: usize = 12;
const SMALLER: usize = 4;

/// Number of classes in a step of the scale.
const STEP: usize = PER_DOUBLING / 2;

/// Values closer than a step of the scale are indistinguishable: (ln √2)² ÷ 12.
pub(super) const STEP_VARIANCE: f64 = 0.01;

/// Classes of sizes ÷ scales.
const ALL: usize = CLASSES + (SCALES - 1) * STEP;

/// A function of size ÷ scale, by class.
pub(super) type Table = [f64; ALL];

/// The same, transposed so that the classes a size has with each scale are contiguous: classes one scale step apart are
/// adjacent.
pub(super) type ByStep = [[f64; ALL.div_ceil(STEP)]; STEP];

pub(super) struct Tables {
    /// Per kind, with scale 1.
    pub(super) log_density: Vec<ByStep>,
    /// Probability of a larger size on either side, for usual values by tail.
    pub(super) tail: [Table; TAILS.len()],
    /// The same for spikes, by size.
    pub(super) spike_tail: [Table; SIZES.len()],
}

pub(super) static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let two_sided = |size: f64, degrees: f64| 2.0 * student::cdf(-size, degrees);
    let degrees = |tail: usize| TAILS[tail].0;
    Tables {
        log_density: (0..KINDS)
            .map(|place| {
                let density = Mixed::new(Kind::at(place));
                let at = |class| density.at(size(class)).ln();
                std::array::from_fn(|rest| std::array::from_fn(|steps| at(steps * STEP + rest)))
            })
            .collect(),
        tail: std::array::from_fn(|tail| {
            std::array::from_fn(|class| two_sided(size(class), degrees(tail)))
        }),
        spike_tail: std::array::from_fn(|at| {
            std::array::from_fn(|class| two_sided(size(class) / SIZES[at], SPIKE_DEGREES))
        }),
    }
});

/// The density of a kind.
struct Mixed {
    kind: Kind,
    usual: Density,
    spike: Density,
}

impl Mixed {
    fn new(kind: Kind) -> Self {
        let usual = Density::new(TAILS[kind.tail].0);
        Self { kind, usual, spike: Density::new(SPIKE_DEGREES) }
    }

    fn at(&self, size: f64) -> f64 {
        let Kind { share, size: spike, .. } = self.kind;
        let wide = SIZES[spike];
        let density =
            (1.0 - share) * self.usual.at(size) + share * self.spike.at(size / wide) / wide;
        density.max(f64::MIN_POSITIVE)
    }
}

/// The size ÷ scale of a class.
fn size(class: usize) -> f64 {
    let doublings = (class as f64 - ((SCALES - 1 - SMALLER) * STEP) as f64) / PER_DOUBLING as f64;
    (LEAST + doublings).exp2()
}

/// A factor of the spread.
pub(super) fn scale(at: usize) -> f64 {
    ((at as f64 - SMALLER as f64) / 2.0).exp2()
}

/// Offset from the class of a size to the class of size ÷ scale.
pub(super) fn shift(at: usize) -> usize {
    (SCALES - 1 - at) * STEP
}

/// Log-likelihood of weighted size classes under a density, by scale, without the part that depends on the scale alone.
pub(super) fn log_likelihood(densities: &ByStep, bins: &[(usize, f64)]) -> [f64; SCALES] {
    let mut sums = [0.0; SCALES];
    for &(bin, weight) in bins {
        // The largest scale comes first: it divides sizes by most.
        let row = &densities[bin % STEP][bin / STEP..][..SCALES];
        for (sum, density) in sums.iter_mut().zip(row) {
            *sum += weight * density;
        }
    }
    sums.reverse();
    sums
}

/// The largest place.
pub(super) const LAST: f64 = (CLASSES - 1) as f64;

/// Position of a size among the classes.
pub(super) fn place(size: f64) -> f64 {
    let place = (size.log2() - LEAST) * PER_DOUBLING as f64;
    // Sizes of 0, too.
    place.clamp(0.0, LAST)
}

/// The size at a place.
pub(super) fn size_at(place: f64) -> f64 {
    (LEAST + place / PER_DOUBLING as f64).exp2()
}

/// The value of a table at a place, for one of the scales.
pub(super) fn at(table: &Table, scale: usize, place: f64) -> f64 {
    let class = (place as usize).min(CLASSES - 2);
    let rest = place - class as f64;
    let class = class + shift(scale);
    table[class] * (1.0 - rest) + table[class + 1] * rest
}

/// Weights of sizes by class; a size between two counts for both.
pub(super) fn bins(sizes: impl IntoIterator<Item = (f64, f64)>) -> Vec<(usize, f64)> {
    let mut weights = [0.0; CLASSES];
    for (size, weight) in sizes {
        let place = place(size.abs());
        let class = (place as usize).min(CLASSES - 2);
        let rest = place - class as f64;
        weights[class] += weight * (1.0 - rest);
        weights[class + 1] += weight * rest;
    }
    weights.into_iter().enumerate().filter(|(_, weight)| *weight > 0.0).collect()
}

//! Evidence from raw samples. They show the precision of a run, not the variation between runs: they confirm the
//! history, and decide nothing alone.

use wingbeat_stats::{Sample, rank};

use crate::model::PastPoint;

const SAMPLES_MIN: usize = 10;

/// Maximum number of samples to use on each side, evenly spaced.
const SAMPLES_MAX: usize = 1_000;

/// Significance level: samples with a larger p-value do not differ.
pub(super) const DIFFER_CHANCE: f64 = 0.05;

/// The p-value of a difference between the samples of two runs, and whether the new ones are larger. `None` if there
/// are too few on a side.
pub(super) fn compare(new: &[f64], history: &[&PastPoint], baseline: f64) -> Option<(f64, bool)> {
    let usable = history.iter().filter(|point| point.samples.len() >= SAMPLES_MIN);
    // The most typical run.
    let distance = |point: &PastPoint| (point.value - baseline).abs();
    let reference = usable.min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    if new.len() < SAMPLES_MIN {
        return None;
    }
    let (old, new) = (some(&reference.samples)?, some(new)?);
    let test = rank::mann_whitney(&new, &old);
    let middle = new.len() as f64 * old.len() as f64 / 2.0;
    Some((test.p_value, test.statistic > middle))
}

/// Whether the samples agree with a change of that direction. True for too few samples.
pub(super) fn agree(new: &[f64], history: &[&PastPoint], baseline: f64, is_up: bool) -> bool {
    compare(new, history, baseline)
        .is_none_or(|(p, is_larger)| p <= DIFFER_CHANCE && is_larger == is_up)
}

fn some(samples: &[f64]) -> Option<Sample> {
    let step = samples.len().div_ceil(SAMPLES_MAX);
    Sample::new(samples.iter().step_by(step.max(1)).copied().collect()).ok()
}

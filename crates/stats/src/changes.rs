//! Change points: where the level of a series changes permanently.
//!
//! A series of results over time has levels that last, and noise on top of them: spikes of a few
//! points, heavy tails, two alternating levels, values correlated with their predecessors. The
//! search is for the first point of a new level, and nothing else. Its steps:
//!
//! 1. `clean`: values far from the median of their neighbours are moved towards it, so that spikes
//!    of up to five points have little weight. Steps stay where they are, since running medians
//!    keep edges.
//! 2. `scan`: windows of many lengths slide over the series; where the means of two neighbouring
//!    windows differ most, there may be a change. This proposes far too many places.
//! 3. `noise`: how much do the means of neighbouring windows differ where nothing changes? That is
//!    measured, not derived, so that dependent values and slow drift count as noise.
//! 4. `segments`: the least probable place is removed, its two neighbours are judged again, and so
//!    on, until all that remain pass the test (`evidence`): a t-test with the noise of step 3, and
//!    rules that exclude all but lasting steps of the level. Short absences from a level are
//!    excluded.
//! 5. `settle`: the noise is measured once more, within the levels found, and so on until nothing
//!    changes. That starts once from strong noise and once from independent values; of the two
//!    results, the one with the shorter description of the series is kept (`fit`).
//!
//! The scheme of candidates by moving sums at several scales, which are then pruned together, is that
//! of Cho & Kirch, "Two-stage data segmentation permitting multiscale change points, heavy tails and
//! dependence", Annals of the Institute of Statistical Mathematics 74 (2022).
//!
//! Time and memory are linear in the length of the series, except for one sort of its values: no
//! window is longer than a fixed number of points. Nothing is random.

mod clean;
mod evidence;
mod fit;
mod noise;
mod scan;
mod segments;
mod settle;

use self::clean::Clean;

/// Series with fewer points have no changes.
pub const POINTS_MIN: usize = 2 * END_MIN;

/// Minimum length of a level between two changes, in points; shorter ones are spikes.
const LENGTH_MIN: usize = 6;

/// Minimum length of the first and the last level, in points: they may continue outside the series.
const END_MIN: usize = 4;

/// What counts as a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Probability of a false change in a series without changes, whatever its length: from 0 to 1.
    pub false_alarm_chance: f64,
    /// Minimum change of the level as a share of the level before, without sign; 0 for no minimum.
    pub change_min: f64,
}

/// One series of noise in 1,000; three quarters of a percent.
impl Default for Settings {
    fn default() -> Self {
        Self { false_alarm_chance: 0.001, change_min: 0.0075 }
    }
}

/// A lasting change of the level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The first point of the new level, counted from 0 over all points, gaps included.
    pub index: usize,
    /// Level from the change before, or the beginning, to this one: the mean, with far values
    /// limited.
    pub before: f64,
    /// Level from this change to the next one, or to the end, likewise.
    pub after: f64,
    /// The probability of a step this clear anywhere in a series of this length that has none.
    pub p_value: f64,
}

impl Change {
    /// The change as a share of the level before, `after / before − 1`; `None` if that was 0.
    pub fn relative(&self) -> Option<f64> {
        let share = self.after / self.before - 1.0;
        share.is_finite().then_some(share)
    }
}

/// Finds the changes of a series, in order. Values that are not finite are gaps.
///
/// ```
/// use wingbeat_stats::changes::{Settings, find};
///
/// let level = |i| if i < 40 { 100.0 } else { 110.0 };
/// let series: Vec<f64> = (0..60).map(|i| f64::from(i % 3) + level(i)).collect();
/// let found = find(&series, &Settings::default());
/// assert_eq!(found.len(), 1);
/// assert_eq!((found[0].index, found[0].before.round()), (40, 101.0));
/// ```
pub fn find(series: &[f64], settings: &Settings) -> Vec<Change> {
    let places: Vec<usize> = (0..series.len()).filter(|&at| series[at].is_finite()).collect();
    if places.len() < POINTS_MIN {
        return Vec::new();
    }
    // Scaled by a power of two, which is exact, so that squares of very large values stay finite.
    let scale = scale_of(series);
    let values: Vec<f64> = places.iter().map(|&place| series[place] * scale).collect();
    let Some(clean) = Clean::new(&values) else {
        return Vec::new();
    };
    let candidates = scan::candidates(&clean);
    let found = settle::settle(&clean, &candidates, settings).changes(&clean);
    let in_series = |change: Change| Change {
        index: places[change.index],
        before: change.before / scale,
        after: change.after / scale,
        ..change
    };
    found.into_iter().map(in_series).collect()
}

/// A power of two that brings the largest value near 1.
fn scale_of(series: &[f64]) -> f64 {
    let finite = series.iter().filter(|value| value.is_finite());
    let largest = finite.fold(0.0_f64, |largest, value| largest.max(value.abs()));
    if largest > 0.0 { (-largest.log2()).floor().clamp(-1000.0, 1000.0).exp2() } else { 1.0 }
}

#[cfg(test)]
mod tests;

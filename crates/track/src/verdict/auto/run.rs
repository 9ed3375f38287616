//! Judges the newest reports together: several consecutive values that deviate to the same side by the same amount are
//! a new level rather than spikes.

use std::ops::RangeInclusive;

use wingbeat_stats::{
    noise::{Common, Kinds, Noise, Value},
    robust_level::{Error, RobustLevel},
    spread_prior::SpreadPrior,
};

use super::Case;

/// Numbers of newest reports to judge together. A report that was measured again has several values.
pub(super) const REPORTS: RangeInclusive<usize> = 1..=4;

/// Minimum error of the newest value and of most others, in spreads.
const FROM: f64 = 2.0;

/// Correlation of repeats: the machine's state hardly changes within minutes.
const CORRELATION_OF_REPEATS: f64 = 0.9;

/// The probability of a ratio `r` without a new level is `RATIO_CHANCE` ÷ r^`RATIO_POWER`, by simulation. In theory
/// (Markov) it is at most 1 ÷ r if the noise is one of the assumed kinds; it never is exactly, so large ratios are more
/// frequent.
const RATIO_CHANCE: f64 = 0.02;
const RATIO_POWER: f64 = 0.6;

/// Weights of two values, and of more: two spikes agree far more often than three.
const WEIGHT_OF_TWO: f64 = 0.02;
const WEIGHT_OF_MORE: f64 = 0.5;

/// The newest values, most of them deviating to the same side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NewestRun {
    pub(super) reports: usize,
    /// Whether all values deviate, and not only most of them.
    pub(super) are_all_off: bool,
    pub(super) before: f64,
    /// Their median, and its distance from the level in spreads.
    pub(super) middle: f64,
    pub(super) error: f64,
    /// How many times better a new level explains them than spikes and noise.
    pub(super) ratio: f64,
}

/// A newest value within this distance of its level, in spreads, cannot be [`FROM`] away from a level computed without
/// a few of that many reports.
const NEAR: f64 = 1.0;
const NEAR_VALUES_MIN: usize = 24;

/// The run that a new level explains best, and the probability of any run as good without one.
pub(super) fn find(
    case: &Case<'_>,
    usual: &RobustLevel,
    own: &Kinds,
    others: &Others,
) -> (f64, Option<NewestRun>) {
    let repeats = case.history.series.repeats.len();
    let is_near = usual.error(case.history.series.metric.value).abs() < NEAR;
    if is_near && usual.values >= NEAR_VALUES_MIN {
        return (1.0, None);
    }
    let mut sum = 0.0;
    let mut best: Option<(f64, NewestRun)> = None;
    for reports in REPORTS.filter(|reports| reports + repeats > 1) {
        let run = of_reports(reports, case, own, others);
        let Some(run) = run else { continue };
        let weight = if reports + repeats > 2 { WEIGHT_OF_MORE } else { WEIGHT_OF_TWO };
        sum += weight * run.ratio;
        if best.is_none_or(|(best, _)| weight * run.ratio > best) {
            best = Some((weight * run.ratio, run));
        }
    }
    let chance = RATIO_CHANCE / sum.powf(RATIO_POWER);
    (chance.min(1.0), best.map(|(_, run)| run))
}

fn of_reports(reports: usize, case: &Case<'_>, own: &Kinds, others: &Others) -> Option<NewestRun> {
    let series = case.history.series;
    let pieces = case.pieces.before(reports)?;
    let mut values = case.pieces.newest(reports - 1);
    values.push(series.metric.value);
    values.extend(&series.repeats);
    let usual = RobustLevel::of(&pieces, case.pieces.least)?;
    let errors: Vec<f64> =
        values.iter().map(|value| (value - usual.level) / usual.spread).collect();
    let side = errors.get(reports - 1)?.signum();
    let is_off = |error: &&f64| **error * side >= FROM;
    let off = errors.iter().filter(is_off).count();
    let is_newest_off = errors[reports - 1..].iter().all(|error| is_off(&error));
    if !is_newest_off || 2 * off <= errors.len() {
        return None;
    }
    let correlation =
        Neighbours::of(&usual.errors).correlation_max().max(others.neighbours.correlation_max());
    let all = errors.iter().enumerate().map(|(place, &error)| Value {
        error,
        correlation: if place >= reports { CORRELATION_OF_REPEATS } else { correlation },
    });
    let ratio = others.noise(&usual, own).ratio(&all.collect::<Vec<_>>(), usual.level_doubt());
    let middle = wingbeat_stats::sample::median(values);
    let error = (middle - usual.level) / usual.spread;
    let are_all_off = off == errors.len();
    Some(NewestRun { reports, are_all_off, before: usual.level, middle, error, ratio })
}

/// Information shared between the series of a report: their noise, and the autocorrelation of their errors.
pub(super) struct Others {
    pub(super) expected: Option<SpreadPrior>,
    pub(super) common: Common,
    pub(super) neighbours: Neighbours,
}

impl Others {
    /// The noise of one of the series, whose own kinds are `own`.
    pub(super) fn noise(&self, past: &RobustLevel, own: &Kinds) -> Noise {
        Noise::of(past, &self.common.without(own), self.expected.as_ref())
    }
}

/// Larger errors, in spreads, are clamped to this.
const ERROR_MAX: f64 = 3.0;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Neighbours {
    product: f64,
    square: f64,
    count: f64,
    series: f64,
}

impl Neighbours {
    pub(super) fn of(errors: &[Error]) -> Self {
        let near = |error: Error| error.size.clamp(-ERROR_MAX, ERROR_MAX);
        Self {
            product: errors.windows(2).map(|pair| near(pair[0]) * near(pair[1])).sum(),
            square: errors.iter().map(|&error| near(error).powi(2)).sum(),
            count: errors.len() as f64,
            series: 1.0,
        }
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            product: self.product + other.product,
            square: self.square + other.square,
            count: self.count + other.count,
            series: self.series + other.series,
        }
    }

    /// Upper bound of the correlation: one standard error above the estimate, from 0 to 0.9.
    pub(super) fn correlation_max(&self) -> f64 {
        if self.square == 0.0 {
            return 0.0;
        }
        let seen = self.product / self.square;
        // Errors around a level estimated from the same values underestimate the correlation.
        let hidden = (1.0 + 3.0 * seen.max(0.0)) * self.series / self.count;
        (seen + hidden + 1.0 / self.count.sqrt()).clamp(0.0, 0.9)
    }
}

//! A history cut into levels, with what waits for an answer set aside.

use wingbeat_stats::{
    changes,
    prediction::{decimal_step, smallest_step},
    sample::quantile_of_sorted,
    student,
};

use super::{
    super::level::{FRESH_MAX, least_changes},
    Case, POINTS_MIN, Settings,
};

/// Alerts in a row that are set aside at most; more are a level.
const PENDING_MAX: usize = 4;

/// The spread is at least this part of the smallest step that the values show.
const STEP_PART: f64 = 0.4;

/// So many equal values may still be one step from the next. More of them leave the spread a smaller
/// part of the step, or they would not be equal.
const EQUAL_MAX: f64 = 16.0;

/// Digits suggest no larger step than this share of the level: 100 and 900 are not one step apart.
const DIGITS_MAX: f64 = 0.4;

/// The spread is at least this part of the least change that counts.
const CHANGE_PART: f64 = 0.1;

/// Degrees of freedom that a spread has at least.
const DEGREES_MIN: f64 = 3.0;

/// A level that has become visible with the newest value.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewLevel {
    pub(super) before: f64,
    pub(super) after: f64,
    /// Values at the new level, the newest included.
    pub(super) points: usize,
    /// Values at the level before.
    pub(super) points_before: usize,
    /// Chance in a series without changes.
    pub(super) p_value: f64,
}

/// The levels of a history.
#[derive(Debug)]
pub(super) struct Pieces {
    values: Vec<f64>,
    /// Where pieces begin, in ascending order; the first is 0.
    starts: Vec<usize>,
    new_level: Option<NewLevel>,
    set_aside: usize,
}

impl Pieces {
    pub(super) fn cut(case: &Case<'_>, settings: &Settings) -> Self {
        let mut values = case.history.values();
        let count = values.len();
        let least = least_changes(case.model, settings);
        let asked =
            changes::Settings { change_min: least.0.min(least.1), ..changes::Settings::default() };
        values.push(case.series.metric.value);
        let found = changes::find(&values, &asked);
        values.pop();
        let new_level = found.last().and_then(|last| {
            let points = count + 1 - last.index;
            let was_known = || {
                let before = changes::find(&values, &asked);
                before.last().is_some_and(|known| known.index.abs_diff(last.index) <= POINTS_MIN)
            };
            (points <= FRESH_MAX || !was_known()).then_some(NewLevel {
                before: last.before,
                after: last.after,
                points,
                points_before: last.index - found.iter().rev().nth(1).map_or(0, |one| one.index),
                p_value: last.p_value,
            })
        });
        // A level has to be long enough to predict from; what is shorter waits.
        let mut starts = vec![0];
        starts
            .extend(found.iter().map(|change| change.index).filter(|&at| at + POINTS_MIN <= count));
        let last_start = starts.last().copied().unwrap_or(0);
        let alerts = case.history.points.iter().rev().take_while(|point| point.is_alert).count();
        let alerts = if alerts > PENDING_MAX { 0 } else { alerts };
        let short = found.last().map_or(0, |last| count.saturating_sub(last.index));
        let short = if short < POINTS_MIN { short } else { 0 };
        let kept = count - alerts.max(short);
        let set_aside = if kept >= last_start + POINTS_MIN { count - kept } else { 0 };
        values.truncate(count - set_aside);
        Self { values, starts, new_level, set_aside }
    }

    /// The pieces, the newest last.
    pub(super) fn slices(&self) -> Vec<&[f64]> {
        let ends = self.starts[1..].iter().copied().chain([self.values.len()]);
        self.starts.iter().zip(ends).map(|(&start, end)| &self.values[start..end]).collect()
    }

    /// Whether no value is below 0.
    pub(super) fn are_positive(&self) -> bool {
        self.values.iter().all(|&value| value >= 0.0)
    }

    /// Values that count.
    pub(super) fn count(&self) -> usize {
        self.values.len()
    }

    /// Median of the last piece.
    pub(super) fn level(&self) -> f64 {
        let start = self.starts.last().copied().unwrap_or(0);
        let mut last = self.values[start..].to_vec();
        last.sort_unstable_by(f64::total_cmp);
        quantile_of_sorted(&last, 0.5)
    }

    /// The spread that the values cannot go below: their digits show no less, and nobody asks.
    pub(super) fn least_spread(&self, new: f64, settings: &Settings) -> f64 {
        let level = self.level();
        let by_digits = || {
            let step = decimal_step(level, new).min(DIGITS_MAX * level.abs());
            let are_equal = self.values.iter().all(|&value| value == level);
            let equal = if are_equal { self.values.len() as f64 } else { 1.0 };
            step * (EQUAL_MAX / equal).min(1.0)
        };
        let step = smallest_step(&self.values).unwrap_or_else(by_digits);
        (STEP_PART * step).max(CHANGE_PART * settings.change_min * level.abs())
    }

    pub(super) fn new_level(&self) -> Option<NewLevel> {
        self.new_level
    }

    /// The chance of the new level, 1 if there is none, where neighbours hang together by the
    /// correlation `rho`: then a few values in a row say less.
    pub(super) fn chance_of_new_level(&self, rho: f64, spread: f64) -> f64 {
        let Some(new) = self.new_level else { return 1.0 };
        let (after, before) = (new.points as f64, new.points_before as f64);
        let inflation = (1.0 + rho) / (1.0 - rho);
        let error = spread * ((1.0 / after + 1.0 / before) * inflation).sqrt();
        let t = (new.after - new.before).abs() / error;
        // A variance suffers less from dependent values than a mean does.
        let independent = self.values.len() as f64 * (1.0 - rho * rho) / (1.0 + rho * rho);
        let degrees = (independent - 1.0).max(DEGREES_MIN);
        let places = if new.points <= FRESH_MAX { FRESH_MAX - POINTS_MIN + 1 } else { new.points };
        let chance = 2.0 * student::cdf(-t, degrees) * places as f64;
        chance.max(new.p_value)
    }

    /// Values at the end that wait for an answer and do not count.
    pub(super) fn set_aside(&self) -> usize {
        self.set_aside
    }
}

//! The evidence for a change at a place: a t-test on both sides, and rules that exclude anything but a lasting step.

use super::{END_MIN, LENGTH_MIN, Settings, clean::Clean, noise::Noise};
use crate::student;

/// Maximum number of points used on each side. Steps that need more points to show are too small to matter.
pub(super) const WINDOW: usize = 200;

/// Points on each side of a place that are near it.
const NEAR: usize = 25;

/// Least part of a change that has to happen near its place.
const NEAR_SHARE: f64 = 0.5;

/// Effective number of independent windows tried per point. With this many, series of independent normal values show
/// changes no more often than allowed.
const PLACES_PER_POINT: f64 = 3.0;

/// Least change in standard deviations of single values.
const EFFECT_MIN: f64 = 1.0;

/// Least probability that a value after the change lies on the new side of a value before it.
const BEYOND_MIN: f64 = 0.66;

/// Weight of the surrounding noise relative to a segment's own, in values.
const PRIOR_VALUES: f64 = 6.0;

/// The evidence for a place between two others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Evidence {
    /// Difference of the levels in standard errors.
    pub(super) t: f64,
    /// Degrees of freedom of the test.
    degrees: f64,
    /// Difference of the levels in standard deviations of single values.
    effect: f64,
}

/// Judges places in a series.
#[derive(Debug)]
pub(super) struct Judge<'a> {
    pub(super) clean: &'a Clean,
    noise: &'a Noise,
    settings: Settings,
    /// Places at which a change could have been found.
    places: f64,
}

/// One side of a place.
struct Side {
    mean: f64,
    variance: f64,
    values: usize,
}

/// The range to use: this many points on both sides, as far as the levels reach.
pub(super) fn around(start: usize, place: usize, end: usize, window: usize) -> (usize, usize) {
    (start.max(place.saturating_sub(window)), end.min(place + window))
}

impl<'a> Judge<'a> {
    pub(super) fn new(clean: &'a Clean, noise: &'a Noise, settings: &Settings) -> Self {
        let places = clean.len() as f64 * PLACES_PER_POINT;
        Self { clean, noise, settings: *settings, places }
    }

    fn side(&self, from: usize, to: usize, sigma: f64) -> Side {
        let values = &self.clean.values[from..to];
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let weight = values.len() as f64 - 1.0 + PRIOR_VALUES;
        let variance = (squares + PRIOR_VALUES * sigma * sigma) / weight;
        Side { mean, variance, values: values.len() }
    }

    /// Judges `place` between `start` and `end`.
    pub(super) fn evidence(&self, start: usize, place: usize, end: usize) -> Evidence {
        self.difference((start, place), (place, end))
    }

    /// Whether a later range of places has the level of an earlier one.
    pub(super) fn is_same(&self, before: (usize, usize), after: (usize, usize)) -> bool {
        let evidence = self.difference(before, after);
        evidence.effect < EFFECT_MIN
            || !self.is_significant(&evidence)
            || !self.is_large_enough(before, after)
    }

    /// How the levels of two ranges of places differ, by the points nearest to the other range.
    fn difference(&self, before: (usize, usize), after: (usize, usize)) -> Evidence {
        let (from, place) = (before.0.max(before.1.saturating_sub(WINDOW)), before.1);
        let before = self.side(from, place, self.clean.sigma((from + place) / 2));
        let (place, to) = (after.0, after.1.min(after.0 + WINDOW));
        let after = self.side(place, to, self.clean.sigma((place + to) / 2));
        let error = before.variance * self.noise.variance_of_mean(before.values)
            + after.variance * self.noise.variance_of_mean(after.values);
        let difference = (after.mean - before.mean).abs();
        let spread = ((before.variance + after.variance) / 2.0).sqrt();
        let effective = |side: &Side| 1.0 / self.noise.variance_of_mean(side.values);
        let degrees = effective(&before) + effective(&after) - 2.0 + PRIOR_VALUES;
        Evidence { t: difference / error.sqrt(), degrees, effect: difference / spread }
    }

    /// The probability of finding this anywhere in the series by chance.
    pub(super) fn p_value(&self, evidence: &Evidence) -> f64 {
        let tail = student::cdf(-evidence.t, evidence.degrees);
        (2.0 * tail * self.places).min(1.0)
    }

    /// Whether chance is ruled out as the explanation.
    pub(super) fn is_significant(&self, evidence: &Evidence) -> bool {
        self.p_value(evidence) <= self.settings.false_alarm_chance
    }

    /// Minimum length, in points, of a level whose other end is here.
    fn length_min(&self, end: usize) -> usize {
        if end == 0 || end == self.clean.len() { END_MIN } else { LENGTH_MIN }
    }

    /// Whether it counts as a step, independent of the test.
    pub(super) fn is_step(&self, start: usize, place: usize, end: usize) -> bool {
        place - start >= self.length_min(start)
            && end - place >= self.length_min(end)
            && self.evidence(start, place, end).effect >= EFFECT_MIN
            && self.is_large_enough((start, place), (place, end))
            && self.is_abrupt(start, place, end)
            && self.is_beyond(start, place, end)
    }

    /// Whether the change is as large as requested.
    fn is_large_enough(&self, before: (usize, usize), after: (usize, usize)) -> bool {
        let before = self.clean.mean(before.0, before.1);
        let change = self.clean.mean(after.0, after.1) - before;
        change.abs() >= self.settings.change_min * (before + self.clean.origin).abs()
    }

    /// Whether most of the change happens near the place, and a step fits better than a slope.
    fn is_abrupt(&self, start: usize, place: usize, end: usize) -> bool {
        let difference = |window: usize| {
            let (from, to) = around(start, place, end, window);
            self.clean.mean(place, to) - self.clean.mean(from, place)
        };
        if difference(NEAR) / difference(WINDOW) < NEAR_SHARE {
            return false;
        }
        let (from, to) = around(start, place, end, WINDOW);
        let values = &self.clean.values[from..to];
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let middle = (count - 1.0) / 2.0;
        let moment: f64 = values
            .iter()
            .enumerate()
            .map(|(at, value)| (at as f64 - middle) * (value - mean))
            .sum();
        // The share of the sum of squares explained by a slope and by a step. In the middle of a clear step the step
        // explains 4/3 of the slope's part, in the middle of a slope 3/4.
        let by_slope = moment * moment / (count * (count * count - 1.0) / 12.0);
        let (before, after) = ((place - from) as f64, (to - place) as f64);
        let by_step = difference(WINDOW).powi(2) * before * after / count;
        by_step > by_slope
    }

    /// Whether the values themselves are on the new side, not only their mean.
    fn is_beyond(&self, start: usize, place: usize, end: usize) -> bool {
        let (from, to) = around(start, place, end, WINDOW);
        let mut before = self.clean.values[from..place].to_vec();
        before.sort_unstable_by(f64::total_cmp);
        let after = &self.clean.values[place..to];
        let pairs = (before.len() * after.len()) as f64;
        let beyond: usize = after
            .iter()
            .map(|value| {
                let below = before.partition_point(|other| other < value);
                let up_to = before.partition_point(|other| other <= value);
                // Equal values count half.
                below + up_to
            })
            .sum();
        let share = beyond as f64 / (2.0 * pairs);
        share.max(1.0 - share) >= BEYOND_MIN
    }
}

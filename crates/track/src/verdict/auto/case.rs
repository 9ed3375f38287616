//! A history divided into levels, excluding trailing values that are too few for a level.

use wingbeat_stats::{
    changes,
    drift::{self, Drift},
    noise::Noise,
    quantization::{decimal_step, smallest_step},
    robust_level::RobustLevel,
    sample, student,
};

use super::{
    super::{
        history::History,
        level::{FRESH_MAX, is_reached, least_changes},
    },
    POINTS_MIN, Settings,
};

/// Minimum spread, as a share of the smallest step of the values.
const STEP_PART: f64 = 0.4;

/// A single value contains no information about the spread. After `n` equal values, the next may deviate by this share
/// of the level, divided by `n`.
const EQUAL_PART: f64 = 0.1;

/// Minimum spread, as a share of the minimum change.
const CHANGE_PART: f64 = 0.1;

/// Minimum number of reports of a new level, the newest included. The iterations of a report count once.
const NEW_LEVEL_REPORTS: usize = 4;

const DEGREES_MIN: f64 = 3.0;

/// The last level of a series, if it is not its only one.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewLevel {
    pub(super) at: usize,
    pub(super) before: f64,
    pub(super) after: f64,
    /// Values at the new level, the newest included.
    pub(super) points: usize,
    points_before: usize,
    /// Number of values of the shorter level that are nearer to it than to the other.
    far: usize,
    /// Its p-value in a series without changes.
    p_value: f64,
    /// Whether the newest value is at the new level or beyond.
    pub(super) is_reached: bool,
}

impl NewLevel {
    fn of(values: &[f64], found: &[changes::Change]) -> Option<Self> {
        let last = found.last()?;
        let start = found.iter().rev().nth(1).map_or(0, |one| one.index);
        let (before, after) = (&values[start..last.index], &values[last.index..]);
        let middle = f64::midpoint(last.before, last.after);
        let is_after = |value: &&f64| (**value > middle) == (last.after > last.before);
        let far = match after.len() <= before.len() {
            true => after.iter().filter(is_after).count(),
            false => before.iter().filter(|value| !is_after(value)).count(),
        };
        Some(Self {
            at: last.index,
            before: last.before,
            after: last.after,
            points: after.len(),
            points_before: before.len(),
            far,
            p_value: last.p_value,
            is_reached: is_reached(after, last),
        })
    }
}

#[derive(Debug)]
pub(super) struct Pieces {
    values: Vec<f64>,
    /// The same without values refuted by a repeat. Levels are computed from these.
    settled: Vec<f64>,
    reports: Vec<usize>,
    /// Values that come after the history and are not part of it.
    pushes: Vec<f64>,
    /// Where pieces begin, in ascending order; the first is 0.
    starts: Vec<usize>,
    new_level: Option<NewLevel>,
    /// Drift of the newest values, the judged one included.
    pub(super) drift: Option<Drift>,
    asked: changes::Settings,
    /// Trailing values that may begin a level, but are still too few for one.
    short: usize,
    /// The minimum spread, because values are rounded and small changes do not count.
    pub(super) least: f64,
    /// The clock's assumed resolution, from the digits of values that are all equal. 0 if they differ.
    pub(super) tick: f64,
}

impl Pieces {
    pub(super) fn cut(history: &History<'_>, settings: &Settings) -> Self {
        let values = history.values();
        let mut settled = history.settled_values();
        let count = settled.len();
        let least = least_changes(&history.model, settings);
        let asked =
            changes::Settings { change_min: least.0.min(least.1), ..changes::Settings::default() };
        settled.push(history.series.metric.value);
        let found = changes::find(&settled, &asked);
        let new_level = NewLevel::of(&settled, &found);
        let drift = drift::find(&settled);
        settled.pop();
        let reports = history.report_numbers();
        let reports_since =
            |start: usize| reports[start.min(count)..].chunk_by(PartialEq::eq).count();
        let new_level = new_level.filter(|new| reports_since(new.at) + 1 >= NEW_LEVEL_REPORTS);
        // A level has to be long enough to predict from. Shorter ones have to wait.
        let is_long = |at: usize| reports_since(at) >= POINTS_MIN;
        let mut starts = vec![0];
        starts.extend(found.iter().map(|change| change.index).filter(|&at| is_long(at)));
        let short = found.last().filter(|last| !is_long(last.index));
        let short = short.map_or(0, |last| count.saturating_sub(last.index));
        let least = least_spread(&values, settings);
        let is_equal = smallest_step(&values).is_none();
        let tick = values.first().filter(|_| is_equal).map_or(0.0, |value| decimal_step(*value));
        let pushes = history.series.pushes.clone();
        Self {
            values,
            settled,
            reports,
            pushes,
            starts,
            new_level,
            drift,
            asked,
            short,
            least,
            tick,
        }
    }

    /// The pieces before the newest reports, the newest piece last; `None` if it is too short.
    pub(super) fn before(&self, reports: usize) -> Option<Vec<&[f64]>> {
        let last = *self.starts.last()?;
        let enough = |left_out: usize| {
            let end = self.values.len().checked_sub(left_out)?;
            (end >= last + POINTS_MIN).then_some(end)
        };
        let of_history = (reports - 1).saturating_sub(self.pushes.len());
        let end = match enough(self.short.max(self.values_of_newest(of_history))) {
            None if reports == 1 => self.values.len(),
            end => end?,
        };
        let ends = self.starts[1..].iter().copied().chain([end]);
        Some(self.starts.iter().zip(ends).map(|(&start, end)| &self.values[start..end]).collect())
    }

    fn values_of_newest(&self, reports: usize) -> usize {
        let by_report = self.reports.chunk_by(PartialEq::eq);
        by_report.rev().take(reports).map(<[usize]>::len).sum()
    }

    /// The newest reports, without values refuted by a repeat. Iterations of a report count as one value, their median:
    /// they share the same disturbances.
    pub(super) fn newest(&self, reports: usize) -> Vec<f64> {
        let pushed = self.pushes.len().min(reports);
        let pushes = &self.pushes[self.pushes.len() - pushed..];
        let mut at = self.settled.len() - self.values_of_newest(reports - pushed);
        let by_report = self.reports[at..].chunk_by(PartialEq::eq);
        let medians = by_report.map(|report| {
            let from = at;
            at += report.len();
            sample::median(self.settled[from..at].to_vec())
        });
        medians.chain(pushes.iter().copied()).collect()
    }

    pub(super) fn are_positive(&self) -> bool {
        self.values.iter().all(|&value| value >= 0.0)
    }

    pub(super) fn new_level(&self) -> Option<NewLevel> {
        self.new_level
    }

    /// The last level up to an earlier report with these values.
    pub(super) fn new_level_of(&self, values: &[f64]) -> Option<NewLevel> {
        NewLevel::of(values, &changes::find(values, &self.asked))
    }

    /// The p-value of a new level, given the correlation `rho` of adjacent values, which weakens the evidence of a few
    /// consecutive values.
    pub(super) fn chance_of(
        &self,
        new: &NewLevel,
        rho: f64,
        usual: &RobustLevel,
        noise: &Noise,
    ) -> f64 {
        let (after, before) = (new.points as f64, new.points_before as f64);
        let inflation = (1.0 + rho) / (1.0 - rho);
        let error = usual.spread * ((1.0 / after + 1.0 / before) * inflation).sqrt();
        let t = (new.after - new.before).abs() / error;
        // Correlation affects a variance less than a mean.
        let independent = self.values.len() as f64 * (1.0 - rho * rho) / (1.0 + rho * rho);
        let degrees = (independent - 1.0).max(DEGREES_MIN);
        let places = if new.points <= FRESH_MAX { FRESH_MAX - POINTS_MIN + 1 } else { new.points };
        let by_noise = 2.0 * student::cdf(-t, degrees);
        // Half way to the other level and beyond.
        let far = (new.after - new.before).abs() / (2.0 * usual.spread);
        let each = noise.chance_of_usual(far) + noise.chance_of_spikes(far, 1);
        let by_spikes = at_least(new.far, new.points.min(new.points_before), each.min(1.0));
        (by_noise.max(by_spikes) * places as f64).max(new.p_value)
    }
}

/// The probability of at least `least` out of `count`, each with probability `p`.
fn at_least(least: usize, count: usize, p: f64) -> f64 {
    // In logarithms: the first terms may underflow where later ones do not.
    let none = (-p.min(1.0 - f64::EPSILON)).ln_1p();
    let odds = p.ln() - none;
    let mut chance = 0.0;
    let mut term = count as f64 * none;
    for hits in 0..=count {
        if hits >= least {
            chance += term.exp();
        }
        term += ((count - hits) as f64 / (hits + 1) as f64).ln() + odds;
    }
    chance.min(1.0)
}

/// A share of the step of rounded values, and at least a share of the minimum change.
fn least_spread(values: &[f64], settings: &Settings) -> f64 {
    let level = sample::median(values.to_vec());
    let by_digits = || {
        let equal = values.iter().filter(|&&value| value == level).count().max(1);
        (STEP_PART * decimal_step(level)).min(EQUAL_PART / equal as f64 * level.abs())
    };
    let by_step = smallest_step(values).map_or_else(by_digits, |step| STEP_PART * step);
    by_step.max(CHANGE_PART * settings.change_min * level.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_of_many() {
        let check = |least, count, p, expected: f64| {
            let found = at_least(least, count, p);
            assert!((found - expected).abs() < 1e-6, "{least} of {count}: {found}");
        };
        check(0, 5, 0.3, 1.0);
        check(1, 2, 0.5, 0.75);
        check(2, 2, 0.0, 0.0);
        check(2, 2, 1.0, 1.0);
        // Its first terms underflow.
        check(300, 500, 0.8, 1.0);
    }
}

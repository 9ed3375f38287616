//! Paired comparison of two things: the relative change, and its confidence.
//!
//! Each pair gives the logarithm of its ratio, so that a disturbance longer than a pair cancels out. The verdict
//! follows from the interval of the mean logarithm: docs/judging-appendix.md.

use std::{cmp::Ordering, collections::BTreeMap};

use crate::{Interval, Sample, bootstrap::Bootstrap, power, student};

/// Probability of detecting the smallest visible change.
pub const POWER: f64 = 0.9;

/// Minimum number of pairs for a verdict.
pub const PAIRS_MIN: usize = 6;

/// Beyond this confidence only Student's interval counts: resamples of a few dozen values contain no information about
/// events rarer than one in two thousand.
const BOOTSTRAP_CONFIDENCE_MAX: f64 = 0.9995;

/// The verdict on a difference, in order of importance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PairedVerdict {
    Worse,
    /// It differs, and neither direction is known to be better.
    Changed,
    Better,
    /// Too few pairs for a verdict.
    TooFewPairs,
    /// The values do not form a ratio.
    NotJudged,
    /// No change distinguishable from chance.
    NoChangeSeen,
    /// Both are exactly equal.
    Same,
}

impl PairedVerdict {
    /// The verdict on exact values, by the order of the second relative to the first. `is_less_better` is `None` if
    /// neither direction is known to be better.
    pub fn of_exact(order: Ordering, is_less_better: Option<bool>) -> Self {
        match (order, is_less_better) {
            (Ordering::Equal, _) => Self::Same,
            (_, None) => Self::Changed,
            (Ordering::Less, Some(true)) | (Ordering::Greater, Some(false)) => Self::Better,
            _ => Self::Worse,
        }
    }
}

/// The relative change from the first thing to the second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    pub share: f64,
    /// The interval of the share. `None` for too few pairs.
    pub interval: Option<Interval>,
    /// The smallest share that would have been detected. `None` if all pairs agree: then the clock's resolution hides
    /// their differences.
    pub smallest_visible: Option<f64>,
}

impl Change {
    /// The verdict of the interval. `is_less_better` is `None` if neither direction is known to be better.
    pub fn verdict(&self, is_less_better: Option<bool>) -> PairedVerdict {
        match self.interval {
            None => PairedVerdict::TooFewPairs,
            Some(it) if it.lower > 0.0 => {
                PairedVerdict::of_exact(Ordering::Greater, is_less_better)
            }
            Some(it) if it.upper < 0.0 => PairedVerdict::of_exact(Ordering::Less, is_less_better),
            Some(_) => PairedVerdict::NoChangeSeen,
        }
    }
}

/// The required confidence of verdicts.
#[derive(Debug, Clone, PartialEq)]
pub struct Yardstick {
    confidence: f64,
    bootstrap: Bootstrap,
    /// Whether the wider of the bootstrap's interval and Student's is used.
    is_student_too: bool,
    /// Smallest visible effects in standard errors, by number of pairs.
    effects: BTreeMap<usize, Option<f64>>,
    /// The same for Student's interval alone: never larger, and fast to compute.
    effects_by_t: BTreeMap<usize, Option<f64>>,
}

impl Yardstick {
    /// Uses the bootstrap alone.
    pub fn new(bootstrap: Bootstrap) -> Self {
        Self {
            confidence: bootstrap.confidence,
            bootstrap,
            is_student_too: false,
            effects: BTreeMap::new(),
            effects_by_t: BTreeMap::new(),
        }
    }

    /// For several verdicts that share the probability of a false one (Bonferroni). That confidence is too high for
    /// resampling alone.
    pub fn shared(false_verdicts: f64, verdicts: usize, bootstrap: Bootstrap) -> Self {
        let confidence = 1.0 - false_verdicts / verdicts.max(1) as f64;
        let bootstrap =
            Bootstrap { confidence: confidence.min(BOOTSTRAP_CONFIDENCE_MAX), ..bootstrap };
        Self { confidence, is_student_too: true, ..Self::new(bootstrap) }
    }

    /// The confidence of each interval.
    pub fn confidence(&self) -> f64 {
        self.confidence
    }

    /// Compares by the logarithms of the ratios of all pairs.
    pub fn compare(&mut self, logs: &Sample) -> Change {
        let share = logs.mean().exp_m1();
        let is_enough = logs.len() >= PAIRS_MIN;
        let Some(interval) = self.interval(logs).filter(|_| is_enough) else {
            return Change { share, interval: None, smallest_visible: None };
        };
        let effect = self.smallest_effect(logs.len()).zip(logs.standard_error());
        let smallest = effect.map(|(effect, error)| effect * error);
        Change {
            share,
            interval: Interval::between(interval.lower.exp_m1(), interval.upper.exp_m1()),
            smallest_visible: smallest.filter(|_| interval.width() > 0.0).map(f64::exp_m1),
        }
    }

    /// Whether a change of that share would have been detected. Uses only the scatter of the values and not their
    /// direction, so that stopping on it does not bias the verdict.
    pub fn sees(&mut self, logs: &Sample, share: f64) -> bool {
        let Some(error) = logs.standard_error().filter(|_| logs.len() >= PAIRS_MIN) else {
            return false;
        };
        let is_seen =
            |factor: Option<f64>| factor.is_some_and(|factor| factor * error <= share.ln_1p());
        is_seen(self.smallest_by_t(logs.len())) && is_seen(self.smallest_effect(logs.len()))
    }

    /// The interval of the mean. `None` for fewer than two values.
    pub fn interval(&self, values: &Sample) -> Option<Interval> {
        let bootstrap = self.bootstrap.mean(values)?;
        if !self.is_student_too {
            return Some(bootstrap);
        }
        let student = student::interval_of_mean(values, self.confidence)?;
        Interval::between(bootstrap.lower.min(student.lower), bootstrap.upper.max(student.upper))
    }

    /// The smallest mean of this many values that would have been detected, in standard errors of the mean.
    fn smallest_effect(&mut self, values: usize) -> Option<f64> {
        let by_t = if self.is_student_too { self.smallest_by_t(values)? } else { 0.0 };
        let bootstrap = self.bootstrap;
        // Simulated, which takes a tenth of a second.
        *self
            .effects
            .entry(values)
            .or_insert_with(|| Some(bootstrap.smallest_effect(1.0, values, POWER)?.max(by_t)))
    }

    fn smallest_by_t(&mut self, values: usize) -> Option<f64> {
        let alpha = 1.0 - self.confidence;
        *self.effects_by_t.entry(values).or_insert_with(|| {
            power::smallest_effect(1.0, values.checked_sub(1)? as f64, alpha, POWER)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(changes: impl Iterator<Item = f64>) -> Sample {
        Sample::new(changes.map(f64::ln_1p).collect()).expect("values")
    }

    fn yardsticks() -> [Yardstick; 2] {
        let bootstrap = Bootstrap { confidence: 0.99, resamples: 399, seed: 1 };
        [Yardstick::new(bootstrap), Yardstick::shared(0.01, 1, bootstrap)]
    }

    #[test]
    fn the_interval_decides() {
        let mut yardsticks = yardsticks();
        let mut check = |middle: f64, pairs: i32, is_less_better, expected| {
            for yardstick in &mut yardsticks {
                let changes = (0..pairs).map(|i| middle + f64::from(i % 5 - 2) * 1e-4);
                let found = yardstick.compare(&logs(changes));
                assert_eq!(found.verdict(is_less_better), expected, "{middle} {found:?}");
            }
        };
        check(0.05, 20, Some(true), PairedVerdict::Worse);
        check(0.05, 20, Some(false), PairedVerdict::Better);
        check(0.05, 20, None, PairedVerdict::Changed);
        check(-0.05, 20, Some(true), PairedVerdict::Better);
        check(0.0, 20, Some(true), PairedVerdict::NoChangeSeen);
        check(0.05, 5, Some(true), PairedVerdict::TooFewPairs);
    }

    #[test]
    fn no_change_comes_with_what_would_have_been_seen() {
        let swinging = logs((0..20).map(|i| if i % 2 == 0 { 0.01 } else { -0.01 }));
        let still = logs((0..20).map(|_| 0.02));
        for mut yardstick in yardsticks() {
            let found = yardstick.compare(&swinging).smallest_visible.expect("a smallest change");
            assert!((0.005..0.02).contains(&found), "{found}");
            assert!(yardstick.sees(&swinging, found * 1.01) && !yardstick.sees(&swinging, 0.001));
            let found = yardstick.compare(&still);
            let verdict = (found.verdict(Some(true)), found.smallest_visible);
            assert_eq!(verdict, (PairedVerdict::Worse, None), "{found:?}");
        }
    }
}

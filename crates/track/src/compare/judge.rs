//! Pairs of runs in, verdicts out. Pure. The rule is the part "Comparing two revisions" of
//! `docs/how-numbers-are-judged.md`; this follows it.

mod row;

use std::collections::BTreeMap;

use wingbeat_stats::{bootstrap::Bootstrap, interval::Interval, power, sample::Sample, student};

use super::{
    result::{Row, Unmatched},
    series::Series,
};
use crate::model::Kind;

/// Chance with which the smallest visible change is seen.
pub const POWER: f64 = 0.9;

/// Pairs of runs below which nothing is said of noisy measures. Two runs of each side are enough for
/// exact ones.
pub const PAIRS_MIN: usize = 6;

/// Beyond this confidence Student's interval decides alone: resamples of a few dozen values tell
/// nothing of what happens less often than once in two thousand times.
const BOOTSTRAP_CONFIDENCE_MAX: f64 = 0.9995;

/// Ten for each side of that.
const RESAMPLES: usize = 40_000;

/// What counts as a change, and as narrow enough.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// A change of this share is to be seen in nine of ten comparisons.
    pub precision: f64,
    /// Noisy measures that are worse by more than this share count against the head.
    pub threshold: f64,
    pub threshold_exact: f64,
    /// Chance of any false verdict in a comparison of two revisions that do not differ.
    pub false_verdicts: f64,
}

impl Default for Settings {
    /// 1 %, 1 %, nothing, and 3 in 1,000. The last is less than the 5 in 1,000 that are promised,
    /// because to stop when an interval is narrow is to stop a little too often when it is so by luck.
    fn default() -> Self {
        Self { precision: 0.01, threshold: 0.01, threshold_exact: 0.0, false_verdicts: 0.003 }
    }
}

/// How sure each of several verdicts has to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Yardstick {
    confidence: f64,
    bootstrap: Bootstrap,
    /// Smallest visible effects in standard errors, by number of pairs.
    effects: BTreeMap<usize, Option<f64>>,
    /// The same for Student's interval alone: never more, and quick to find.
    effects_by_t: BTreeMap<usize, Option<f64>>,
}

impl Yardstick {
    /// For so many verdicts, which share the chance of a false one (Bonferroni).
    #[must_use]
    pub fn new(settings: &Settings, verdicts: usize) -> Self {
        let confidence = 1.0 - settings.false_verdicts / verdicts.max(1) as f64;
        let bootstrap = Bootstrap {
            confidence: confidence.min(BOOTSTRAP_CONFIDENCE_MAX),
            resamples: RESAMPLES,
            ..Bootstrap::default()
        };
        let (effects, effects_by_t) = (BTreeMap::new(), BTreeMap::new());
        Self { confidence, bootstrap, effects, effects_by_t }
    }

    /// The share of intervals that are to hold the truth.
    #[must_use]
    pub fn confidence(&self) -> f64 {
        self.confidence
    }

    /// Where the mean of the values lies. `None` for fewer than two.
    #[must_use]
    pub fn interval(&self, values: &Sample) -> Option<Interval> {
        let bootstrap = self.bootstrap.mean(values)?;
        let student = student::interval_of_mean(values, self.confidence)?;
        Interval::between(bootstrap.lower.min(student.lower), bootstrap.upper.max(student.upper))
    }

    /// The smallest mean of so many values that would have been seen, in standard errors of the mean.
    pub fn smallest_effect(&mut self, values: usize) -> Option<f64> {
        let by_t = self.smallest_by_t(values)?;
        let bootstrap = self.bootstrap;
        *self.effects.entry(values).or_insert_with(|| {
            // Simulated, which takes a tenth of a second; as many resamples as it asks for are enough.
            let least = (2.0 / (1.0 - bootstrap.confidence)).ceil() as usize + 1;
            let simulated = Bootstrap { resamples: least.max(999), ..bootstrap };
            Some(simulated.smallest_effect(1.0, values, POWER)?.max(by_t))
        })
    }

    fn smallest_by_t(&mut self, values: usize) -> Option<f64> {
        let alpha = 1.0 - self.confidence;
        *self.effects_by_t.entry(values).or_insert_with(|| {
            power::smallest_effect(1.0, values.checked_sub(1)? as f64, alpha, POWER)
        })
    }

    /// Whether an effect of the wanted size would have been seen.
    pub fn sees(&mut self, values: &Sample, effect: f64) -> bool {
        let Some(error) = values.standard_error() else { return false };
        let is_seen = |factor: Option<f64>| factor.is_some_and(|factor| factor * error <= effect);
        is_seen(self.smallest_by_t(values.len())) && is_seen(self.smallest_effect(values.len()))
    }
}

/// How a series is to be judged.
enum Way {
    /// Each side gave one value, always.
    Exact([f64; 2]),
    /// By the logarithms of ratios.
    Noisy(Vec<f64>),
    NotAtAll,
}

fn way(series: &Series) -> Way {
    match (series.measure.kind, series.exact_values()) {
        (Kind::Exact, Some(values)) => Way::Exact(values),
        // What never differs from 0 has no ratio, and needs none.
        (Kind::Noisy, Some([base, head])) if base == head && base <= 0.0 => {
            Way::Exact([base, head])
        }
        _ => series.log_ratios().map_or(Way::NotAtAll, Way::Noisy),
    }
}

/// Judges all series. The rows stand in the order in which they matter.
#[must_use]
pub fn judge(series: &[Series], settings: &Settings) -> (Vec<Row>, Vec<Unmatched>) {
    let matched = || series.iter().filter(|series| series.only_side().is_none());
    let ways: Vec<(&Series, Way)> =
        matched().filter(|series| !series.pairs.is_empty()).map(|one| (one, way(one))).collect();
    let mut yardstick = Yardstick::new(settings, verdicts(&ways));
    let judged = ways.iter().map(|(series, way)| row::row(series, way, settings, &mut yardstick));
    let mut rows: Vec<Row> = judged.collect();
    let size = |row: &Row| row.change.map_or(f64::INFINITY, f64::abs);
    rows.sort_by(|one, other| {
        let order = |row: &Row| (!row.is_beyond_threshold, row.verdict);
        order(one).cmp(&order(other)).then(size(other).total_cmp(&size(one)))
    });
    (rows, unmatched(series))
}

/// Whether a change of the wanted size would be seen in every noisy series. Knows the scatter of the
/// values, and not which way they lie, so that to stop by it favours no verdict.
#[must_use]
pub fn is_narrow(series: &[Series], settings: &Settings) -> bool {
    let awaited = |one: &&Series| one.only_side().is_none() && !one.is_ignored;
    let ways: Vec<(&Series, Way)> = series.iter().filter(awaited).map(|it| (it, way(it))).collect();
    let mut yardstick = Yardstick::new(settings, verdicts(&ways));
    let effect = settings.precision.ln_1p();
    ways.iter().all(|(series, way)| match way {
        Way::Exact(_) | Way::NotAtAll => !series.pairs.is_empty(),
        Way::Noisy(ratios) => {
            let sample = Sample::new(ratios.clone());
            ratios.len() >= PAIRS_MIN && sample.is_ok_and(|ratios| yardstick.sees(&ratios, effect))
        }
    })
}

/// Whether only exact measures are there, of which two pairs tell all.
#[must_use]
pub fn is_exact(series: &[Series]) -> bool {
    series.iter().all(|one| one.only_side().is_some() || matches!(way(one), Way::Exact(_)))
}

/// Verdicts in which chance has a say.
fn verdicts(ways: &[(&Series, Way)]) -> usize {
    ways.iter().filter(|(one, way)| matches!(way, Way::Noisy(_)) && !one.is_ignored).count()
}

fn unmatched(series: &[Series]) -> Vec<Unmatched> {
    let mut found: Vec<Unmatched> = Vec::new();
    for one in series {
        let Some(side) = one.only_side() else { continue };
        let measure = one.measure.name.to_string();
        let known = found.iter_mut().find(|it| it.side == side && it.benchmark == one.benchmark);
        match known {
            Some(known) => known.measures.push(measure),
            None => found.push(Unmatched {
                side,
                benchmark: one.benchmark.clone(),
                measures: vec![measure],
            }),
        }
    }
    found
}

/// After how many pairs the width of the intervals is looked at: 6, 8, 12, 16, 24, 32, 48 and so on.
/// The fewer looks, the less often luck alone makes an interval narrow.
#[must_use]
pub fn is_look(pairs: usize) -> bool {
    pairs >= PAIRS_MIN && matches!(pairs >> pairs.trailing_zeros(), 1 | 3)
}

#[cfg(test)]
mod tests;

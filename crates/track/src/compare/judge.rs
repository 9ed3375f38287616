//! Computes verdicts from pairs of runs. Pure. Implements the part "Comparing two revisions" of
//! `docs/judging-appendix.md`.

use std::cmp::Ordering;

use wingbeat_stats::{
    bootstrap::Bootstrap,
    paired::{PAIRS_MIN, PairedVerdict, Yardstick},
    sample::Sample,
};

use super::{
    result::{ChangeInterval, ComparedRow, Unmatched},
    series::Series,
};
use crate::model::{Direction, MeasureKind};

/// Enough for ten resamples beyond each side of the widest interval that is resampled.
const RESAMPLES: usize = 40_000;

/// What counts as a change, and as narrow enough.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The size of a change that should be detected in nine of ten comparisons.
    pub precision: f64,
    /// Noisy measures that are worse by more than this share count against the head.
    pub threshold: f64,
    pub threshold_exact: f64,
    /// Probability of any false verdict in a comparison of two equal revisions.
    pub false_verdicts: f64,
}

impl Default for Settings {
    /// 1 %, 1 %, nothing, and 3 in 1,000. The last is less than the guaranteed 5 in 1,000, because stopping when an
    /// interval is narrow stops a little too often when it is narrow by chance.
    fn default() -> Self {
        Self { precision: 0.01, threshold: 0.01, threshold_exact: 0.0, false_verdicts: 0.003 }
    }
}

/// The required confidence of each of that many verdicts.
pub fn yardstick(settings: &Settings, verdicts: usize) -> Yardstick {
    let bootstrap = Bootstrap { resamples: RESAMPLES, ..Bootstrap::default() };
    Yardstick::shared(settings.false_verdicts, verdicts, bootstrap)
}

enum Way {
    Exact([f64; 2]),
    Noisy(Vec<f64>),
    NotAtAll,
}

fn way(series: &Series) -> Way {
    match (series.measure.kind, series.exact_values()) {
        (MeasureKind::Exact, Some(values)) => Way::Exact(values),
        // A series that is constantly 0 has no ratio, and needs none.
        (MeasureKind::Noisy, Some([base, head])) if base == head && base <= 0.0 => {
            Way::Exact([base, head])
        }
        _ => series.log_ratios().map_or(Way::NotAtAll, Way::Noisy),
    }
}

/// Judges all series. Rows are sorted by importance.
pub fn judge(series: &[Series], settings: &Settings) -> (Vec<ComparedRow>, Vec<Unmatched>) {
    let matched = || series.iter().filter(|series| series.only_side().is_none());
    let ways: Vec<(&Series, Way)> =
        matched().filter(|series| !series.pairs.is_empty()).map(|one| (one, way(one))).collect();
    let mut yardstick = yardstick(settings, verdicts(&ways));
    let judged = ways.iter().map(|(series, way)| row(series, way, settings, &mut yardstick));
    let mut rows: Vec<ComparedRow> = judged.collect();
    let size = |row: &ComparedRow| row.change.map_or(f64::INFINITY, f64::abs);
    rows.sort_by(|one, other| {
        let order = |row: &ComparedRow| (!row.is_beyond_threshold, row.verdict);
        order(one).cmp(&order(other)).then(size(other).total_cmp(&size(one)))
    });
    (rows, unmatched(series))
}

/// Whether a change of the requested size would be detected in every noisy series. Uses only the scatter of the values
/// and not their direction, so that stopping on it does not bias the verdict.
pub fn is_narrow(series: &[Series], settings: &Settings) -> bool {
    let awaited = |one: &&Series| one.only_side().is_none() && !one.is_ignored;
    let ways: Vec<(&Series, Way)> = series.iter().filter(awaited).map(|it| (it, way(it))).collect();
    let mut yardstick = yardstick(settings, verdicts(&ways));
    ways.iter().all(|(series, way)| match way {
        Way::Exact(_) | Way::NotAtAll => !series.pairs.is_empty(),
        Way::Noisy(ratios) => {
            let sample = Sample::new(ratios.clone());
            sample.is_ok_and(|ratios| yardstick.sees(&ratios, settings.precision))
        }
    })
}

/// Whether there are only exact measures, for which two pairs suffice.
pub fn is_exact(series: &[Series]) -> bool {
    series.iter().all(|one| one.only_side().is_some() || matches!(way(one), Way::Exact(_)))
}

/// The number of verdicts subject to chance.
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

/// Whether to check the width of the intervals after that many pairs: 6, 8, 12, 16, 24, 32, 48 and so on. Fewer checks
/// mean fewer intervals that are narrow by chance alone.
pub fn is_look(pairs: usize) -> bool {
    pairs >= PAIRS_MIN && matches!(pairs >> pairs.trailing_zeros(), 1 | 3)
}

fn row(series: &Series, way: &Way, settings: &Settings, yardstick: &mut Yardstick) -> ComparedRow {
    let mut row = ComparedRow {
        benchmark: series.benchmark.clone(),
        measure: series.measure.clone(),
        base: median(series, 0),
        head: median(series, 1),
        change: None,
        interval: None,
        smallest_visible: None,
        pairs: series.pairs.len(),
        verdict: PairedVerdict::NotJudged,
        is_beyond_threshold: false,
        note: None,
    };
    let threshold = match way {
        Way::Exact(values) => {
            exact(*values, &mut row);
            settings.threshold_exact
        }
        Way::Noisy(ratios) => {
            noisy(series, ratios, yardstick, &mut row);
            settings.threshold
        }
        Way::NotAtAll => {
            row.note = Some("a value is not above 0, so there is no ratio to judge".to_owned());
            return row;
        }
    };
    let is_beyond = row.change.is_none_or(|change| change.abs() > threshold);
    row.is_beyond_threshold =
        row.verdict == PairedVerdict::Worse && is_beyond && !series.is_ignored;
    if series.is_ignored {
        row.note = Some("asked not to be judged, so it fails nothing".to_owned());
    }
    row
}

fn exact([base, head]: [f64; 2], row: &mut ComparedRow) {
    (row.base, row.head) = (base, head);
    row.change = match base == head {
        true => Some(0.0),
        false => Some((head - base) / base.abs()).filter(|change| change.is_finite()),
    };
    let order = head.partial_cmp(&base).unwrap_or(Ordering::Equal);
    row.verdict = PairedVerdict::of_exact(order, is_less_better(row.measure.direction));
}

fn noisy(series: &Series, ratios: &[f64], yardstick: &mut Yardstick, row: &mut ComparedRow) {
    if series.measure.kind == MeasureKind::Exact {
        let note = "differs between runs of one revision, so it is judged like a time";
        row.note = Some(note.to_owned());
    }
    row.base = geometric_mean(series, 0);
    row.head = geometric_mean(series, 1);
    row.verdict = PairedVerdict::TooFewPairs;
    let Ok(ratios) = Sample::new(ratios.to_vec()) else { return };
    let change = yardstick.compare(&ratios);
    row.change = Some(change.share);
    row.interval = change.interval.map(|interval| ChangeInterval {
        lower: interval.lower,
        upper: interval.upper,
        confidence: yardstick.confidence(),
    });
    row.smallest_visible = change.smallest_visible;
    row.verdict = change.verdict(is_less_better(series.measure.direction));
}

fn is_less_better(direction: Direction) -> Option<bool> {
    match direction {
        Direction::Unknown => None,
        Direction::LowerIsBetter => Some(true),
        Direction::HigherIsBetter => Some(false),
    }
}

fn median(series: &Series, side: usize) -> f64 {
    let values = series.pairs.iter().map(|pair| pair[side]).collect();
    Sample::new(values).map_or(0.0, |values| values.median())
}

/// Chosen so that `head / base − 1` is the change.
fn geometric_mean(series: &Series, side: usize) -> f64 {
    let logs = series.pairs.iter().map(|pair| pair[side].ln()).collect();
    Sample::new(logs).map_or(0.0, |logs| logs.mean().exp())
}

#[cfg(test)]
mod tests;

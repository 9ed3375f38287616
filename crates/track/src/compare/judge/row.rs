//! The verdict on one series.

use std::cmp::Ordering;

use wingbeat_stats::sample::Sample;

use super::{PAIRS_MIN, Settings, Way, Yardstick};
use crate::{
    compare::{
        result::{ChangeInterval, Row, Verdict},
        series::Series,
    },
    model::{Direction, Kind},
};

pub(super) fn row(
    series: &Series,
    way: &Way,
    settings: &Settings,
    yardstick: &mut Yardstick,
) -> Row {
    let mut row = Row {
        benchmark: series.benchmark.clone(),
        measure: series.measure.clone(),
        base: median(series, 0),
        head: median(series, 1),
        change: None,
        interval: None,
        smallest_visible: None,
        pairs: series.pairs.len(),
        verdict: Verdict::NotJudged,
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
    row.is_beyond_threshold = row.verdict == Verdict::Worse && is_beyond && !series.is_ignored;
    if series.is_ignored {
        row.note = Some("asked not to be judged, so it fails nothing".to_owned());
    }
    row
}

fn exact([base, head]: [f64; 2], row: &mut Row) {
    (row.base, row.head) = (base, head);
    row.change = match base == head {
        true => Some(0.0),
        false => Some((head - base) / base.abs()).filter(|change| change.is_finite()),
    };
    row.verdict = match head.partial_cmp(&base) {
        Some(Ordering::Greater) => moved(row.measure.direction, true),
        Some(Ordering::Less) => moved(row.measure.direction, false),
        _ => Verdict::Same,
    };
}

fn noisy(series: &Series, ratios: &[f64], yardstick: &mut Yardstick, row: &mut Row) {
    if series.measure.kind == Kind::Exact {
        let note = "differs between runs of one revision, so it is judged like a time";
        row.note = Some(note.to_owned());
    }
    row.base = geometric_mean(series, 0);
    row.head = geometric_mean(series, 1);
    row.verdict = Verdict::TooFewPairs;
    let Ok(ratios) = Sample::new(ratios.to_vec()) else { return };
    row.change = Some(ratios.mean().exp_m1());
    if ratios.len() < PAIRS_MIN {
        return;
    }
    let Some(interval) = yardstick.interval(&ratios) else { return };
    row.interval = Some(ChangeInterval {
        lower: interval.lower.exp_m1(),
        upper: interval.upper.exp_m1(),
        confidence: yardstick.confidence(),
    });
    let effect = yardstick.smallest_effect(ratios.len());
    let smallest = effect.zip(ratios.standard_error()).map(|(effect, error)| effect * error);
    // Where all pairs say the same it is the clock's steps that hide how they differ.
    row.smallest_visible = smallest.filter(|_| interval.width() > 0.0).map(f64::exp_m1);
    row.verdict = match interval {
        it if it.lower > 0.0 => moved(row.measure.direction, true),
        it if it.upper < 0.0 => moved(row.measure.direction, false),
        _ => Verdict::NoChangeSeen,
    };
}

fn moved(direction: Direction, is_up: bool) -> Verdict {
    match (direction, is_up) {
        (Direction::Unknown, _) => Verdict::Changed,
        (Direction::LowerIsBetter, true) | (Direction::HigherIsBetter, false) => Verdict::Worse,
        (Direction::LowerIsBetter, false) | (Direction::HigherIsBetter, true) => Verdict::Better,
    }
}

fn median(series: &Series, side: usize) -> f64 {
    let values = series.pairs.iter().map(|pair| pair[side]).collect();
    Sample::new(values).map_or(0.0, |values| values.median())
}

/// So that `head / base − 1` is the change.
fn geometric_mean(series: &Series, side: usize) -> f64 {
    let logs = series.pairs.iter().map(|pair| pair[side].ln()).collect();
    Sample::new(logs).map_or(0.0, |logs| logs.mean().exp())
}

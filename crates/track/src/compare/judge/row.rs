//! The verdict on one series.

use std::cmp::Ordering;

use wingbeat_stats::{
    paired::{PairedVerdict, Yardstick},
    sample::Sample,
};

use super::{Settings, Way};
use crate::{
    compare::{
        result::{ChangeInterval, ComparedRow},
        series::Series,
    },
    model::{Direction, MeasureKind},
};

pub(super) fn row(
    series: &Series,
    way: &Way,
    settings: &Settings,
    yardstick: &mut Yardstick,
) -> ComparedRow {
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

//! Detects a new level that begins just before the newest value.

use wingbeat_stats::{changes, robust_level::RobustLevel, sample::median};

use super::{
    Series, Settings,
    history::{History, REPORTS_MIN},
};
use crate::model::{
    Boundary, Change, Limit, MeasureKind, Outcome, PastPoint, Reason, ReasonKind, ThresholdModel,
    Verdict, threshold::Test,
};

/// Maximum length of a new level that `change_point` reports, the newest value included.
pub(super) const FRESH_MAX: usize = 7;

/// Maximum distance between locations of the same change as more values become known.
pub(super) const AGREE: usize = 5;

pub(super) fn is_asked(series: &Series<'_>) -> bool {
    let test = series.model.map(|model| model.test);
    test == Some(Test::ChangePoint)
        && series.measure.kind == MeasureKind::Noisy
        && !series.is_ignored
}

/// Minimum changes that count, downwards and upwards, as shares.
pub(super) fn least_changes(model: &ThresholdModel, settings: &Settings) -> (f64, f64) {
    let or_default = |boundary: Option<f64>| boundary.unwrap_or(settings.change_min);
    (or_default(model.lower_boundary), or_default(model.upper_boundary))
}

/// The limit crossed by a change from `before` to `after`.
pub(super) fn crossed(before: f64, after: f64, least: (f64, f64)) -> Option<Limit> {
    let difference = after - before;
    match () {
        () if difference < 0.0 && -difference >= least.0 * before.abs() => Some(Limit::Lower),
        () if difference > 0.0 && difference >= least.1 * before.abs() => Some(Limit::Upper),
        () => None,
    }
}

/// Judges the metric. `settings` contain its share of the false-positive rate.
pub(super) fn judge(history: &History<'_>, settings: &Settings, verdict: &mut Verdict) {
    let History { series, model, .. } = history;
    let least_points = changes::POINTS_MIN - 1;
    if !history.suffices_in_reports(REPORTS_MIN) {
        return verdict.wait(history.shortage_in_reports(REPORTS_MIN));
    }
    if !history.suffices(least_points) {
        return verdict.wait(history.shortage(least_points));
    }
    let mut values = history.settled_values();
    values.push(series.metric.value);
    let least = least_changes(model, settings);
    let asked = changes::Settings {
        false_alarm_chance: settings.false_alarm_chance,
        change_min: least.0.min(least.1),
    };
    let found = changes::find(&values, &asked);
    let last = found.last();
    let start = last.map_or(0, |change| change.index);
    let fresh = |values: &[f64], found: &[changes::Change]| {
        let change = *found.last()?;
        let is_fresh = values.len() - change.index <= FRESH_MAX;
        (is_fresh && is_reached(&values[change.index..], &change)).then_some(change)
    };
    let crossing = fresh(&values, &found).filter(|change| {
        let is_told = |values: &[f64]| {
            let seen = fresh(values, &changes::find(values, &asked));
            seen.is_some_and(|seen| seen.index.abs_diff(change.index) <= AGREE)
        };
        is_news(history, change.index, change.after > change.before, is_told)
    });
    let crossing = crossing.and_then(|change| {
        crossed(change.before, change.after, least).map(|limit| (change, limit))
    });
    let here = RobustLevel::of(&[&values[start..]], 0.0);
    let baseline =
        crossing.as_ref().map(|(change, _)| change.before).or(here.as_ref().map(|here| here.level));
    verdict.boundary = baseline.map(|baseline| {
        let (below, above) = (least.0 * baseline.abs(), least.1 * baseline.abs());
        Boundary::around(baseline, baseline - below, baseline + above)
    });
    verdict.outcome = Outcome::NoChange;
    let Some((change, limit)) = crossing else {
        verdict.change = here.and_then(|here| Change::exactly(series.metric.value, here.level));
        let points = values.len() - start;
        verdict.reason = ReasonKind::OneLevel { points, is_all: last.is_none() }.into();
        return;
    };
    verdict.cross(limit, series.measure.direction);
    verdict.change = Change::exactly(series.metric.value, change.before);
    verdict.p = Some(change.p_value);
    let points = values.len() - change.index;
    let reason = reason_of_level(change.before, change.after, points, change.p_value);
    verdict.reason = Reason::from(reason).with_news(history.news);
}

/// The reason for a new level. The verdict's own change is that of the value, and this one that of the level.
pub(super) fn reason_of_level(before: f64, after: f64, points: usize, p: f64) -> ReasonKind {
    let change = Change::exactly(after, before).map(|change| change.relative);
    ReasonKind::NewLevel { change, points, p }
}

/// How much better than the median of a level one of its values may be, as a share of the step.
const BETTER_MAX: f64 = 0.125;

/// Whether the newest value of a level is hardly better than its median, and not better than all of those just before.
/// Only such a value raises the alert about the level.
pub(super) fn is_reached(level: &[f64], change: &changes::Change) -> bool {
    let Some((newest, before)) = level.split_last() else { return false };
    let step = change.after - change.before;
    let beyond = |value: f64| (newest - value) * step.signum();
    let is_better = |value: &f64| beyond(*value) < 0.0;
    let just_before = &before[before.len().saturating_sub(AGREE)..];
    beyond(median(level.to_vec())) >= -BETTER_MAX * step.abs()
        && (just_before.is_empty() || !just_before.iter().all(is_better))
}

/// Whether a new level has not been reported yet. It is not news if a report since then stated that change, or if
/// `is_told` holds for the values up to that report.
pub(super) fn is_news(
    history: &History<'_>,
    at: usize,
    is_up: bool,
    is_told: impl Fn(&[f64]) -> bool,
) -> bool {
    let limit = if is_up { Limit::Upper } else { Limit::Lower };
    let change = Outcome::beyond(limit, history.series.measure.direction);
    let is_marked = |point: &&PastPoint| {
        point.outcome.is_some_and(|it| it == change || it == Outcome::MovedTogether)
    };
    if history.points.iter().skip(at.saturating_sub(AGREE)).any(is_marked) {
        return false;
    }
    let (settled, reports) = (history.settled_values(), history.report_numbers());
    let is_end = |end: &usize| reports.get(*end) != reports.get(end - 1);
    !(at + 1..=settled.len()).rev().filter(is_end).any(|end| is_told(&settled[..end]))
}

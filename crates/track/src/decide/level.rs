//! Whether a new level begins just before the newest value.

use wingbeat_stats::{changes, usual::Usual};

use super::{
    Series, Settings,
    history::{History, REPORTS_MIN},
    words::{self, chance},
};
use crate::model::{
    Boundary, Change, Limit, MeasureKind, Outcome, ThresholdModel, Verdict, threshold::Test,
};

/// Maximum length of a new level that is still news, including the newest value.
pub(super) const FRESH_MAX: usize = 7;

pub(super) fn is_asked(series: &Series<'_>) -> bool {
    let test = series.model.map(|model| model.test);
    test == Some(Test::ChangePoint)
        && series.measure.kind == MeasureKind::Noisy
        && !series.is_ignored
}

/// Least changes that count, downwards and upwards, as shares.
pub(super) fn least_changes(model: &ThresholdModel, settings: &Settings) -> (f64, f64) {
    let or_default = |boundary: Option<f64>| boundary.unwrap_or(settings.change_min);
    (or_default(model.lower_boundary), or_default(model.upper_boundary))
}

/// The limit that a change from `before` to `after` crosses.
pub(super) fn crossed(before: f64, after: f64, least: (f64, f64)) -> Option<Limit> {
    let difference = after - before;
    match () {
        () if difference < 0.0 && -difference >= least.0 * before.abs() => Some(Limit::Lower),
        () if difference > 0.0 && difference >= least.1 * before.abs() => Some(Limit::Upper),
        () => None,
    }
}

/// `settings` contain this metric's share of the false-positive rate.
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
    let fresh = last.filter(|change| values.len() - change.index <= FRESH_MAX);
    let crossing = fresh.and_then(|change| {
        crossed(change.before, change.after, least).map(|limit| (change, limit))
    });
    let here = Usual::of(&[&values[start..]], 0.0);
    let baseline =
        crossing.map(|(change, _)| change.before).or(here.as_ref().map(|here| here.level));
    verdict.boundary = baseline.map(|baseline| {
        let (below, above) = (least.0 * baseline.abs(), least.1 * baseline.abs());
        Boundary::around(baseline, baseline - below, baseline + above)
    });
    verdict.outcome = Outcome::NoChange;
    let Some((change, limit)) = crossing else {
        verdict.change = here.and_then(|here| Change::exactly(series.metric.value, here.level));
        let (which, points) =
            (if last.is_none() { "all" } else { "the last" }, values.len() - start);
        verdict.reason =
            format!("one level over {which} {points} points; one value is no new level");
        return;
    };
    verdict.cross(limit, series.measure.direction);
    verdict.change = Change::exactly(change.after, change.before);
    verdict.p = Some(change.p_value);
    let (length, p) = (values.len() - change.index, chance(change.p_value));
    let reason = format!("a new level since {length} points, this one included ({p})");
    verdict.reason = words::with_news(reason, history.news);
}

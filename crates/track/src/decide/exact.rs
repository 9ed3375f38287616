//! Exact measures: compared with the last value, without statistics.

use super::{history::History, words};
use crate::model::{Boundary, Change, Limit, Outcome, Verdict};

pub(super) fn judge(history: &History<'_>, verdict: &mut Verdict) {
    let History { series, model, .. } = history;
    let Some(last) = history.points.last().filter(|_| history.suffices(1)) else {
        return verdict.wait(history.shortage(1));
    };
    let (value, before) = (series.metric.value, last.value);
    let (below, above) = (model.lower_boundary.unwrap_or(0.0), model.upper_boundary.unwrap_or(0.0));
    let (lower, upper) = (before - below * before.abs(), before + above * before.abs());
    verdict.boundary = Some(Boundary::around(before, lower, upper));
    verdict.change = Change::exactly(value, before);
    verdict.smallest_visible = (before != 0.0).then_some(below.max(above));
    let crossed = match () {
        () if value < lower => Some(Limit::Lower),
        () if value > upper => Some(Limit::Upper),
        () => None,
    };
    let commit = history.at_commit(last);
    let Some(limit) = crossed else {
        verdict.outcome = Outcome::NoChange;
        verdict.reason = match value == before {
            true => format!("exactly as before{commit}"),
            false => format!("within what is tolerated beside the last value{commit}"),
        };
        return;
    };
    verdict.cross(limit, series.measure.direction);
    let scale = series.measure.scale(before, Some(value));
    let [last, difference] = [before, value - before].map(|number| scale.with_unit(number));
    let reason = format!("an exact measure that was {last}{commit} differs by {difference}");
    verdict.reason = words::with_news(reason, history.news);
}

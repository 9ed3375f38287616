//! Exact measures: compared with the last value, no statistics.

use super::{Boundary, Change, Outcome, Series, Verdict, history::History, words};
use crate::{
    model::{Limit, ThresholdModel},
    output::{number::Scale, short_hash},
};

pub(super) fn judge(
    series: &Series<'_>,
    model: &ThresholdModel,
    history: &History<'_>,
    verdict: &mut Verdict,
) {
    let Some(last) = history.points.last().filter(|_| history.suffices(1)) else {
        verdict.outcome = Outcome::TooLittleHistory;
        verdict.reason = history.shortage(1);
        return;
    };
    let (value, before) = (series.metric.value, last.value);
    let (below, above) = (model.lower_boundary.unwrap_or(0.0), model.upper_boundary.unwrap_or(0.0));
    let (lower, upper) = (before - below * before.abs(), before + above * before.abs());
    verdict.boundary = Some(Boundary {
        baseline: Some(before),
        lower_limit: Some(lower),
        upper_limit: Some(upper),
    });
    verdict.change = Change::exactly(value, before);
    verdict.smallest_visible = (before != 0.0).then_some(below.max(above));
    let crossed = match () {
        () if value < lower => Some(Limit::Lower),
        () if value > upper => Some(Limit::Upper),
        () => None,
    };
    let commit = last.hash.map(|hash| format!(" at {}", short_hash(hash)));
    let commit = commit.unwrap_or_default();
    let Some(limit) = crossed else {
        verdict.outcome = Outcome::NoChange;
        verdict.reason = match value == before {
            true => format!("exactly as before{commit}"),
            false => format!("within what is tolerated beside the last value{commit}"),
        };
        return;
    };
    verdict.cross(limit, series);
    let scale = Scale::of(series.measure, before, Some(value));
    let [last, difference] = [before, value - before].map(|number| scale.with_unit(number));
    let reason = format!("an exact measure that was {last}{commit} is off by {difference}");
    verdict.reason = words::with_news(reason, &history.news);
}

//! Exact measures: compared with the last value, without statistics.

use super::history::History;
use crate::model::{
    Boundary, Change, Limit, Outcome, Reason, ReasonKind, Verdict, reason::finite, short_hash,
};

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
    let commit = history.hash(last.report).map(|hash| short_hash(hash).to_owned());
    let Some(limit) = crossed else {
        verdict.outcome = Outcome::NoChange;
        verdict.reason = match value == before {
            true => ReasonKind::Same { commit }.into(),
            false => ReasonKind::WithinTolerance { commit }.into(),
        };
        return;
    };
    verdict.cross(limit, series.measure.direction);
    let difference = finite(value - before);
    let reason = ReasonKind::Differs { before, difference, commit };
    verdict.reason = Reason::from(reason).with_news(history.news);
}

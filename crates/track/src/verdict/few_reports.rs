//! Histories of fewer than five reports. They do not show the variation between runs, and raw samples even less so:
//! each run has its own memory layout, and its own conditions on the machine. So nothing is decided, and no alert
//! raised. Metrics that look changed by their samples are listed for the caller, who can measure them again,
//! alternating with the commit of a report of the history.

use wingbeat_stats::sample::median;

use super::{
    Look, Settings,
    history::{History, REPORTS_MIN},
    level::{crossed, least_changes},
    samples,
};
use crate::model::{Change, Limit, Outcome, ReasonNote, Verdict};

/// Minimum relative difference to consider: runs of the same program on a shared machine differ as much.
const RUN_TO_RUN: f64 = 0.2;

/// Writes the verdicts, and lists the metrics that look changed.
pub(super) fn judge(
    histories: &[History<'_>],
    settings: &Settings,
    verdicts: &mut [Verdict],
) -> Vec<Look> {
    let looks = histories.iter().filter_map(|history| {
        let verdict = &mut verdicts[history.index];
        verdict.wait(history.shortage_in_reports(REPORTS_MIN));
        look(history, settings, verdict)
    });
    looks.collect()
}

/// How the metric looks, if it looks changed. Writes the change into the verdict.
fn look(history: &History<'_>, settings: &Settings, verdict: &mut Verdict) -> Option<Look> {
    let History { index, series, model, .. } = history;
    let values = history.values();
    if values.is_empty() {
        return None;
    }
    let baseline = median(values);
    let change = Change::exactly(series.metric.value, baseline)?;
    verdict.change = Some(change);
    let least = least_changes(model, settings);
    let large = (least.0.max(RUN_TO_RUN), least.1.max(RUN_TO_RUN));
    let limit = crossed(baseline, series.metric.value, large)?;
    // Nothing to measure again with enough reports, or with fewer points than the threshold requires.
    if history.reports() >= REPORTS_MIN || !history.suffices(0) {
        return None;
    }
    let (p, is_larger) = samples::compare(&series.metric.samples, &history.points, baseline)?;
    let is_up = limit == Limit::Upper;
    if p > samples::DIFFER_CHANCE || is_larger != is_up || series.is_ignored {
        return None;
    }
    verdict.reason.notes.push(ReasonNote::SamplesDiffer { p });
    Some(Look {
        place: *index,
        outcome: Outcome::beyond(limit, series.measure.direction),
        limit,
        change: change.relative,
        change_min: if is_up { least.1 } else { least.0 },
        reports: history.reports(),
    })
}

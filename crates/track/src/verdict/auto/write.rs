//! Creates the verdict about one metric.

use super::{
    super::{
        history::History,
        level::{AGREE, crossed, least_changes, reason_of_level},
        samples,
    },
    Case, Settings, corrected,
    evidence::Evidence,
    run::{self, NewestRun},
};
use crate::model::{
    Boundary, Change, Limit, Outcome, Reason, ReasonKind, ReasonNote, Verdict, reason::finite,
    short_hash,
};

/// With a spread below this fraction of [`VISIBLE_MAX`], more points of history would make the metric judgeable.
const SPREADS_OF_MANY: f64 = 10.0;

/// If the smallest visible change is above this share of the level, nothing can be judged.
const VISIBLE_MAX: f64 = 1.0;

/// Writes the verdict. `share` is this metric's part of the false-positive rate.
pub(super) fn write(
    case: &Case<'_>,
    evidence: &Evidence,
    share: &Settings,
    judged_count: usize,
    verdict: &mut Verdict,
) {
    let history = &case.history;
    let Evidence { usual, value, limit, .. } = evidence;
    let least = least_changes(&history.model, share);
    let (level, scale) = (usual.level, usual.scale());
    let bound = |level: f64, limit: f64| {
        let distance = |least: f64| (limit * scale).max(least * level.abs());
        Boundary::around(level, level - distance(least.0), level + distance(least.1))
    };
    verdict.boundary = Some(bound(level, *limit));
    verdict.change = evidence.change(*value >= 0.0 && case.pieces.are_positive());
    let visible = (limit + evidence.one_side) * scale / level.abs();
    let visible = visible.is_finite().then(|| visible.max(least.0.min(least.1)));
    verdict.smallest_visible = visible;
    let p = evidence.p_value.min(evidence.p_run).min(evidence.p_level);
    let p = corrected(p, judged_count);
    verdict.p = Some(p);
    verdict.outcome = Outcome::NoChange;

    let reason = judge(case, evidence, share, (p, judged_count), &bound, verdict);
    verdict.reason = match verdict.limit {
        Some(_) => reason.with_news(history.news),
        None => reason,
    };
}

/// Sets the outcome, and returns the reason.
fn judge(
    case: &Case<'_>,
    evidence: &Evidence,
    share: &Settings,
    (p, judged_count): (f64, usize),
    bound: &impl Fn(f64, f64) -> Boundary,
    verdict: &mut Verdict,
) -> Reason {
    let history = &case.history;
    let History { series, model, .. } = history;
    let Evidence { usual, value, limit, .. } = evidence;
    let least = least_changes(model, share);
    let level = usual.level;
    let is_rare = |p: f64| p <= share.false_alarm_chance;
    let side = crossed(level, *value, least);
    let disagree = |limit: Limit, baseline| {
        let is_up = limit == Limit::Upper;
        !samples::agree(&series.metric.samples, &history.points, baseline, is_up)
    };
    let run = evidence.run.filter(|_| is_rare(evidence.p_run));
    let run = run.and_then(|run| Some((run, crossed(run.before, run.middle, least)?)));
    let new = evidence.new.and_then(|new| Some((new, crossed(new.before, new.after, least)?)));
    // A value that returned when measured again is not part of a new level.
    let new = new.filter(|(new, _)| {
        let recurs = |value: &f64| (value - new.after).abs() < (value - new.before).abs();
        series.repeats.iter().all(recurs)
    });
    match (side.filter(|_| is_rare(evidence.p_usual)), run, new) {
        (Some(side), ..) if disagree(side, level) => ReasonKind::SamplesAlike.into(),
        (Some(side), ..) if is_rare(evidence.p_value) => {
            verdict.cross(side, series.measure.direction);
            let spreads = finite(evidence.error.abs());
            ReasonKind::FarFromLevel { spreads, limit: finite(*limit), p }.into()
        }
        (_, Some((run, side)), _) if !disagree(side, run.before) => {
            verdict.cross(side, series.measure.direction);
            verdict.boundary = Some(bound(run.before, 0.0));
            if run.reports > 1 {
                // The change of the displayed value. The reason contains the median of all of them.
                verdict.change = Change::exactly(series.metric.value, run.before);
            }
            reason_of_run(&run, series.repeats.len(), p).into()
        }
        (_, _, Some((new, side))) if !disagree(side, new.before) => {
            verdict.cross(side, series.measure.direction);
            verdict.change = Change::exactly(series.metric.value, new.before);
            verdict.boundary = Some(bound(new.before, 0.0));
            reason_of_level(new.before, new.after, new.points, p).into()
        }
        (Some(side), ..) => {
            verdict.suspect(side, series.measure.direction);
            reason_of_suspect(evidence, series.repeats.len()).into()
        }
        _ => {
            let mut reason = reason_of_quiet(evidence, (least, judged_count), verdict);
            if verdict.outcome == Outcome::NoChange && evidence.value != series.metric.value {
                reason.notes.push(ReasonNote::MeasuredAgain { value: evidence.value });
            }
            // Limits widened by a drift are explained.
            reason.notes.extend(case.pieces.drift.map(|drift| ReasonNote::Drift {
                change: finite(drift.relative()),
                reports: drift.points,
            }));
            reason
        }
    }
}

/// The reason of a value that is neither rare nor suspect: quiet, or too noisy to be judged.
fn reason_of_quiet(
    evidence: &Evidence,
    (least, judged_count): ((f64, f64), usize),
    verdict: &mut Verdict,
) -> Reason {
    if verdict.smallest_visible.is_some_and(|visible| visible > VISIBLE_MAX) {
        verdict.outcome = Outcome::TooNoisy;
        verdict.smallest_visible = None;
        return reason_of_noise(evidence, judged_count).into();
    }
    quiet_reason(evidence, least).into()
}

impl Evidence {
    /// The change from the level to the value, with the interval of this metric alone: at most 5 of 100 values deviate
    /// by more than its half width. Positive values lose at most 100 %.
    fn change(&self, is_positive: bool) -> Option<Change> {
        let level = self.usual.level;
        let half_width = self.half_width * self.usual.scale() / level.abs();
        let change = Change::exactly(self.value, level)?;
        let (lower, upper) = (change.relative - half_width, change.relative + half_width);
        let lower = if is_positive { lower.max(-1.0) } else { lower };
        // From almost nothing, a share may overflow.
        (lower.is_finite() && upper.is_finite()).then_some(Change {
            lower: Some(lower),
            upper: Some(upper),
            ..change
        })
    }
}

fn reason_of_run(run: &NewestRun, repeats: usize, p: f64) -> ReasonKind {
    ReasonKind::NewestDeviate {
        reports: run.reports,
        repeats,
        is_all: run.are_all_off,
        spreads: finite(run.error.abs()),
        ratio: finite(run.ratio),
        p,
    }
}

fn reason_of_suspect(evidence: &Evidence, repeats: usize) -> ReasonKind {
    ReasonKind::PossibleSpike {
        spreads: finite(evidence.error.abs()),
        limit: finite(evidence.limit),
        spikes: evidence.usual.spikes,
        points: evidence.usual.errors.len(),
        repeats,
    }
}

fn reason_of_noise(evidence: &Evidence, metrics: usize) -> ReasonKind {
    let spread = finite(evidence.usual.spread / evidence.usual.level.abs());
    let (spikes, points) = (evidence.usual.spikes, evidence.usual.errors.len());
    match spikes == 0 && SPREADS_OF_MANY * spread <= VISIBLE_MAX {
        true => ReasonKind::TooFewForAll { spread, points, metrics },
        false => ReasonKind::Noisy { spread, spikes, points },
    }
}

fn quiet_reason(evidence: &Evidence, least: (f64, f64)) -> ReasonKind {
    let (error, limit) = (evidence.error.abs(), evidence.limit);
    if error > limit {
        let is_down = evidence.value < evidence.usual.level;
        return ReasonKind::BelowLeastChange { least: if is_down { least.0 } else { least.1 } };
    }
    ReasonKind::NearLevel {
        spreads: finite(error),
        points: evidence.usual.values,
        limit: finite(limit),
        is_beyond_interval: error > evidence.half_width,
    }
}

/// The commit that already raised the alert about this value: later commits that keep it are not to blame. It is the
/// one that became as bad as this one, if all reports since agree. If only four reports together show it, as
/// after a spike, some of those before may be usual.
///
/// A value that deviates further than that by more than noise is news. So is one without a known commit, and a repeated
/// measurement of the commit itself.
pub(super) fn earlier_alert(
    case: &Case<'_>,
    evidence: &Evidence,
    share: &Settings,
    verdict: &Verdict,
) -> Option<String> {
    if !matches!(verdict.outcome, Outcome::Worse | Outcome::Changed) {
        return None;
    }
    let history = &case.history;
    let side = if verdict.limit? == Limit::Upper { 1.0 } else { -1.0 };
    let baseline = verdict.boundary?.baseline?;
    let is_sudden = evidence.p_value <= share.false_alarm_chance;
    let is_slow = evidence
        .run
        .is_some_and(|run| run.reports == *run::REPORTS.end() && run.are_all_off && !is_sudden);
    let together = if is_slow { run::REPORTS.end() - 1 + AGREE } else { 0 };
    let by_report = history.points.chunk_by(|one, next| one.report == next.report);
    let off = by_report.rev().map(|report| {
        let said = report.iter().filter(|point| point.outcome == Some(verdict.outcome));
        let off = said.map(|point| (point.value - baseline) * side).filter(|&off| off > 0.0);
        Some((report.first()?.report, off.reduce(f64::max)?))
    });
    let since = off.enumerate().take_while(|(ago, off)| off.is_some() || *ago < together);
    let (first, off) = since.filter_map(|(_, off)| off).last()?;
    let hash = history.hash(first).filter(|&hash| history.commit.is_some_and(|it| it != hash))?;
    // Noise grows with the level.
    let usual = &evidence.usual;
    let noise = evidence.limit * usual.scale() * (1.0 + off / usual.level.abs());
    ((evidence.value - baseline) * side <= off + noise).then(|| short_hash(hash).to_owned())
}

//! Creates the verdict about one metric.

use wingbeat_text::{grouped, plural, share};

use super::{
    super::{
        Series,
        history::History,
        level::{crossed, least_changes, reason_of_level},
        samples,
        words::{chance, in_spreads, with_news},
    },
    Case, Settings, corrected,
    evidence::Evidence,
    run::NewestRun,
};
use crate::model::{Boundary, Change, Limit, Outcome, Verdict, notice::drift_words};

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
        Some(_) => with_news(reason, history.news),
        None => reason,
    };
}

/// The outcome, and the prefix of the reason.
fn judge(
    case: &Case<'_>,
    evidence: &Evidence,
    share: &Settings,
    (p, judged_count): (f64, usize),
    bound: &impl Fn(f64, f64) -> Boundary,
    verdict: &mut Verdict,
) -> String {
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
        (Some(side), ..) if disagree(side, level) => {
            "the value is beyond the limit, but the raw samples of the runs do not differ so: a few wild \
             samples made it"
                .to_owned()
        }
        (Some(side), ..) if is_rare(evidence.p_value) => {
            verdict.cross(side, series.measure.direction);
            let (error, needed) = (in_spreads(evidence.error.abs()), in_spreads(*limit));
            format!("{error} spreads from the usual level, where {needed} are needed ({})", chance(p))
        }
        (_, Some((run, side)), _) if !disagree(side, run.before) => {
            verdict.cross(side, series.measure.direction);
            verdict.boundary = Some(bound(run.before, 0.0));
            if run.reports > 1 {
                // The change of the displayed value. The reason contains the median of all of them.
                verdict.change = Change::exactly(series.metric.value, run.before);
            }
            reason_of_run(&run, series.repeats.len(), p)
        }
        (_, _, Some((new, side))) if !disagree(side, new.before) => {
            verdict.cross(side, series.measure.direction);
            verdict.change = Change::exactly(series.metric.value, new.before);
            verdict.boundary = Some(bound(new.before, 0.0));
            reason_of_level(new.before, new.after, new.points, p)
        }
        (Some(side), ..) => {
            verdict.suspect(side, series.measure.direction);
            reason_of_suspect(evidence, series.repeats.len())
        }
        _ => {
            let reason = reason_of_quiet(evidence, series, (least, judged_count), verdict);
            // Limits widened by a drift are explained.
            let drift = case.pieces.drift.map(|drift| drift_words(drift.relative(), drift.points));
            reason + &drift.map_or_else(String::new, |drift| format!("; it {drift}, which widens the limits"))
        }
    }
}

/// The reason of a value that is neither rare nor suspect: quiet, or too noisy to be judged.
fn reason_of_quiet(
    evidence: &Evidence,
    series: &Series<'_>,
    (least, judged_count): ((f64, f64), usize),
    verdict: &mut Verdict,
) -> String {
    if verdict.smallest_visible.is_some_and(|visible| visible > VISIBLE_MAX) {
        verdict.outcome = Outcome::TooNoisy;
        verdict.smallest_visible = None;
        return reason_of_noise(evidence, judged_count);
    }
    let value = evidence.value;
    if value == series.metric.value {
        return quiet_reason(evidence, least);
    }
    let again = series.measure.scale(value, None).with_unit(value);
    format!("measured again it was {again}; {}", quiet_reason(evidence, least))
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

    /// `3 of 20 points are spikes`; `None` without spikes.
    fn spikes(&self) -> Option<String> {
        let (spikes, points) = (self.usual.spikes, self.usual.errors.len());
        match spikes {
            0 => None,
            1 => Some(format!("1 of {points} points is a spike")),
            _ => Some(format!("{spikes} of {points} points are spikes")),
        }
    }
}

fn reason_of_run(run: &NewestRun, repeats: usize, p: f64) -> String {
    let what = match (run.reports, repeats) {
        (1, 1) => "measured twice, it is off".to_owned(),
        (1, _) => format!("measured {} times, it is off", 1 + repeats),
        (reports, _) if run.are_all_off => format!("the newest {reports} reports deviate"),
        (reports, _) => format!("most of the newest {reports} reports deviate"),
    };
    let ratio = match run.ratio {
        ratio if ratio < 1e6 => grouped(ratio as usize),
        _ => "a million".to_owned(),
    };
    format!(
        "{what} to the same side, by {} spreads in the median: a new level explains that {ratio} times \
         better than spikes do ({})",
        in_spreads(run.error.abs()),
        chance(p)
    )
}

fn reason_of_suspect(evidence: &Evidence, repeats: usize) -> String {
    let why = match evidence.spikes() {
        Some(spikes) => format!("{spikes}, so this may be one"),
        None => {
            let points = evidence.usual.errors.len();
            format!("a history of {points} points cannot rule out a spike")
        }
    };
    let next = if repeats == 0 { "" } else { ", even measured again" };
    format!(
        "{} spreads from the usual level, more than the {} that noise explains; but {why}{next}: the next \
         report decides",
        in_spreads(evidence.error.abs()),
        in_spreads(evidence.limit)
    )
}

fn reason_of_noise(evidence: &Evidence, judged_count: usize) -> String {
    let spread = evidence.usual.spread / evidence.usual.level.abs();
    let points = evidence.usual.errors.len();
    let Some(spikes) = evidence.spikes() else {
        if SPREADS_OF_MANY * spread > VISIBLE_MAX {
            let differ =
                format!("the {points} points differ by {} from run to run", share::size(spread));
            return format!("history too noisy to judge: {differ}; --confirm or more iterations");
        }
        let metrics = plural(judged_count, "metric");
        return format!(
            "{points} points are too few to judge {metrics} at once: they differ by {} from run to run, which \
             does not show how rarely by more; later reports will be judged",
            share::size(spread)
        );
    };
    format!("history too noisy to judge: {spikes}; --confirm or more iterations")
}

fn quiet_reason(evidence: &Evidence, least: (f64, f64)) -> String {
    let (error, needed) = (evidence.error.abs(), evidence.limit);
    if error > needed {
        let is_down = evidence.value < evidence.usual.level;
        let asked = share::size(if is_down { least.0 } else { least.1 });
        return format!(
            "more than chance explains, but below the least change that counts, {asked}"
        );
    }
    // The limit is for the whole report, the interval for this metric alone.
    let apart = match error > evidence.half_width {
        true => "; by chance alone 1 in 20 intervals leaves out 0, as this one does",
        false => "",
    };
    format!(
        "{} spreads from the level of {} points, where {} would be a change{apart}",
        in_spreads(error),
        evidence.usual.values,
        in_spreads(needed)
    )
}

//! The noisy measures of a report, judged together: they share one budget of false alarms, and tell each
//! other how far off values get without a cause.

mod case;

use std::collections::HashSet;

use wingbeat_stats::{
    prediction::{Correction, Expected, Prediction, errors, spread},
    tail::Tail,
};

use self::case::Pieces;
use super::{
    Boundary, Change, Outcome, Series, Settings, Verdict,
    history::History,
    level::{crossed, least_changes},
    samples,
    words::{self, chance, in_spreads},
};
use crate::{
    model::{Limit, ThresholdModel},
    output::number,
};

/// Points of history without which there is no verdict about a value.
const POINTS_MIN: usize = 5;

/// Share of the budget that goes to the error of the new value; the rest goes to new levels.
const VALUE_SHARE: f64 = 0.75;

/// A thread is not worth its start for fewer cases.
const THREAD_CASES_MIN: usize = 64;

/// A metric that is to be judged.
pub(super) struct Case<'a> {
    /// Place of its verdict.
    pub(super) index: usize,
    pub(super) series: &'a Series<'a>,
    pub(super) model: &'a ThresholdModel,
    pub(super) history: History<'a>,
}

/// How far a metric that had enough history moved.
pub(super) struct Judged<'a> {
    /// Place of its verdict.
    pub(super) index: usize,
    pub(super) series: &'a Series<'a>,
    /// Logarithm of value ÷ baseline.
    pub(super) log_ratio: f64,
    /// Spread as a share of the baseline.
    pub(super) log_spread: f64,
    /// Distance from the baseline in spreads.
    pub(super) error: f64,
    /// Whether it may be a spike of a kind that history is too short to know.
    pub(super) is_suspect: bool,
    /// What is new about the environment.
    pub(super) news: Vec<String>,
}

/// A case with its history cut into levels.
struct Ready<'a> {
    case: &'a Case<'a>,
    pieces: Pieces,
    /// Whether it is the first iteration of its series: the others have the same history.
    is_first: bool,
}

/// What was found for one metric.
struct Finding {
    prediction: Prediction,
    /// The value that is judged.
    value: f64,
    error: f64,
    /// Error from which on a value is beyond the limits.
    limit_error: f64,
    /// Errors that 95 and 90 of 100 values stay below, the second on one side only. The first is never
    /// above the limit.
    usual: f64,
    usual_one_side: f64,
    /// Chance of the new value, of the same if it may be a spike of a kind that history has not shown
    /// yet, and of the new level where there is one, each by its share.
    p_value: f64,
    p_maybe_spike: f64,
    p_level: f64,
}

impl Finding {
    /// The change of the level behind the value, with the interval of this metric by itself: values are
    /// off by as much as its half width 95 times in 100 at most. What is positive loses no more than all
    /// of it.
    fn change(&self, is_positive: bool) -> Option<Change> {
        let level = self.prediction.level;
        let half_width = self.usual * self.prediction.scale() / level.abs();
        let change = Change::exactly(self.value, level)?;
        let (lower, upper) = (change.relative - half_width, change.relative + half_width);
        let lower = if is_positive { lower.max(-1.0) } else { lower };
        // From next to nothing, a share may be too large for a number.
        (lower.is_finite() && upper.is_finite()).then_some(Change {
            lower: Some(lower),
            upper: Some(upper),
            ..change
        })
    }
}

/// Judges all cases, and says how far those moved that had enough history.
pub(super) fn judge<'a>(
    cases: &'a [Case<'a>],
    settings: &Settings,
    verdicts: &mut [Verdict],
) -> Vec<Judged<'a>> {
    let (enough, short): (Vec<_>, Vec<_>) =
        cases.iter().partition(|case| case.history.suffices(POINTS_MIN));
    let mut seen = HashSet::new();
    let ready: Vec<Ready<'_>> = enough
        .iter()
        .zip(cut_all(&enough, settings))
        .map(|(case, pieces)| {
            let is_first = seen.insert((case.series.benchmark, &case.series.measure.slug));
            Ready { case, pieces, is_first }
        })
        .collect();
    let counts = |case: &Case<'_>| usize::from(!case.series.is_ignored);
    let judged_count = ready.iter().map(|ready| counts(ready.case)).sum::<usize>()
        + short.iter().map(|case| counts(case)).sum::<usize>();
    let share = settings.share(judged_count);
    for case in short {
        judge_short(case, &share, judged_count, &mut verdicts[case.index]);
    }
    let findings = find(&ready, &share, settings);
    let mut judged = Vec::with_capacity(ready.len());
    for (ready, finding) in ready.iter().zip(&findings) {
        let case = ready.case;
        let is_suspect = write(ready, finding, &share, judged_count, &mut verdicts[case.index]);
        let ratio = finding.value / finding.prediction.level;
        if !case.series.is_ignored {
            judged.push(Judged {
                index: case.index,
                series: case.series,
                // Without a ratio it is in no crowd.
                log_ratio: if ratio > 0.0 && ratio.is_finite() { ratio.ln() } else { 0.0 },
                log_spread: finding.prediction.scale() / finding.prediction.level.abs(),
                error: finding.error * finding.prediction.level.signum(),
                is_suspect,
                news: case.history.news.clone(),
            });
        }
    }
    judged
}

/// Cuts all histories, which is most of the work; large reports in several threads.
fn cut_all(cases: &[&Case<'_>], settings: &Settings) -> Vec<Pieces> {
    let cut = |cases: &[&Case<'_>]| -> Vec<Pieces> {
        cases.iter().map(|case| Pieces::cut(case, settings)).collect()
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let part = cases.len().div_ceil(threads).max(THREAD_CASES_MIN);
    if cases.len() <= part {
        return cut(cases);
    }
    let mut pieces = Vec::with_capacity(cases.len());
    std::thread::scope(|scope| {
        let started: Vec<_> =
            cases.chunks(part).map(|cases| (cases, scope.spawn(move || cut(cases)))).collect();
        for (cases, thread) in started {
            // What panicked there panics again here, where it is seen.
            pieces.extend(thread.join().unwrap_or_else(|_| cut(cases)));
        }
    });
    pieces
}

/// Predicts all values, and looks up their errors in those of history.
fn find(ready: &[Ready<'_>], share: &Settings, settings: &Settings) -> Vec<Finding> {
    let firsts = || ready.iter().filter(|ready| ready.is_first);
    let expected = Expected::from_shares(firsts().map(|ready| {
        let pieces = ready.pieces.slices();
        (spread(&pieces) / ready.pieces.level().abs(), ready.pieces.count())
    }));
    let correction = |ready: &Ready<'_>| {
        let least = ready.pieces.least_spread(ready.case.series.metric.value, settings);
        Correction { least, expected }
    };
    let past: Vec<Vec<f64>> =
        ready.iter().map(|ready| errors(&ready.pieces.slices(), &correction(ready))).collect();
    let of_firsts = ready.iter().zip(&past).filter(|(ready, _)| ready.is_first);
    let whole = Tail::of(of_firsts.flat_map(|(_, errors)| errors.iter().copied()));
    let is_alone = firsts().count() < 2;
    let of_firsts = ready.iter().zip(&past).filter(|(ready, _)| ready.is_first);
    let common = of_firsts
        .map(|(_, errors)| Neighbours::of(errors))
        .fold(Neighbours::default(), Neighbours::and);
    let value_chance = VALUE_SHARE * share.false_alarm_chance;
    let whole_limit = whole.size(value_chance);
    let spiky = ready.iter().zip(&past).filter(|(ready, errors)| {
        ready.is_first && errors.iter().any(|&error| Tail::is_spike(error))
    });
    let spiky_share = (spiky.count() as f64 + 0.5) / (firsts().count() as f64 + 1.0);
    ready
        .iter()
        .zip(&past)
        .filter_map(|(ready, past)| {
            let series = ready.case.series;
            let pieces = ready.pieces.slices();
            let prediction = Prediction::from_pieces(&pieces, &correction(ready))?;
            let values = series.repeats.iter().copied().chain([series.metric.value]);
            let distance = |value: &f64| (value - prediction.level).abs();
            let value = values.min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
            let error = prediction.error(value);
            let own = (!is_alone).then(|| whole.of_part(past.iter().copied(), spiky_share));
            let tails = || [&whole].into_iter().chain(&own);
            let largest = |chance: &dyn Fn(&Tail) -> f64| tails().map(chance).fold(0.0, f64::max);
            let repeats = series.repeats.len();
            let p_value = largest(&|tail| tail.chance(error.abs()));
            let p_spike = largest(&|tail| tail.chance_of_unseen(error.abs(), repeats));
            let limit_error =
                own.as_ref().map_or(0.0, |own| own.size(value_chance)).max(whole_limit);
            let rho = common.correlation_max(1.5).max(Neighbours::of(past).correlation_max(1.0));
            let p_level = ready.pieces.chance_of_new_level(rho, prediction.spread);
            Some(Finding {
                prediction,
                value,
                error,
                limit_error,
                // Whatever is beyond the limit has an interval without 0.
                usual: whole.usual(0.95, 1.96).min(limit_error),
                usual_one_side: whole.usual(0.8, 1.2816),
                p_value: p_value / VALUE_SHARE,
                p_maybe_spike: (p_value + p_spike) / VALUE_SHARE,
                p_level: p_level / (1.0 - VALUE_SHARE),
            })
        })
        .collect()
}

/// How much errors hang together with their predecessors.
#[derive(Debug, Clone, Copy, Default)]
struct Neighbours {
    /// Sum of the products of neighbours.
    product: f64,
    /// Sum of squares.
    square: f64,
    /// Number of errors.
    count: f64,
    /// Number of series.
    series: f64,
}

/// Larger errors count as if they were this one.
const ERROR_MAX: f64 = 3.0;

impl Neighbours {
    fn of(errors: &[f64]) -> Self {
        let near = |error: f64| error.clamp(-ERROR_MAX, ERROR_MAX);
        Self {
            product: errors.windows(2).map(|pair| near(pair[0]) * near(pair[1])).sum(),
            square: errors.iter().map(|&error| near(error).powi(2)).sum(),
            count: errors.len() as f64,
            series: 1.0,
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            product: self.product + other.product,
            square: self.square + other.square,
            count: self.count + other.count,
            series: self.series + other.series,
        }
    }

    /// What the correlation is at most, by so many standard errors; from 0 to 0.9.
    fn correlation_max(&self, standard_errors: f64) -> f64 {
        if self.square == 0.0 {
            return 0.0;
        }
        let seen = self.product / self.square;
        // Errors around a level of their own values seem less correlated than they are.
        let hidden = (1.0 + 3.0 * seen.max(0.0)) * self.series / self.count;
        (seen + hidden + standard_errors / self.count.sqrt()).clamp(0.0, 0.9)
    }
}

/// Writes the verdict, and says whether the metric is a suspect. `share` holds what of the budget is
/// this metric's.
fn write(
    ready: &Ready<'_>,
    finding: &Finding,
    share: &Settings,
    judged_count: usize,
    verdict: &mut Verdict,
) -> bool {
    let Case { series, model, history, .. } = ready.case;
    let least = least_changes(model, share);
    let Prediction { level, .. } = finding.prediction;
    let (value, scale) = (finding.value, finding.prediction.scale());
    let distance = |least: f64| (finding.limit_error * scale).max(least * level.abs());
    verdict.boundary = Some(Boundary {
        baseline: Some(level),
        lower_limit: Some(level - distance(least.0)),
        upper_limit: Some(level + distance(least.1)),
    });
    let is_positive = value >= 0.0 && ready.pieces.are_positive();
    verdict.change = finding.change(is_positive);
    let visible = (finding.limit_error + finding.usual_one_side) * scale / level.abs();
    verdict.smallest_visible = visible.is_finite().then(|| visible.max(least.0.min(least.1)));
    let p = corrected(finding.p_value.min(finding.p_level), judged_count);
    verdict.p = Some(p);
    verdict.outcome = Outcome::NoChange;

    let is_rare = |p: f64| p <= share.false_alarm_chance;
    let limit = crossed(level, value, least);
    let by_value = limit.filter(|_| is_rare(finding.p_value));
    let new_level = ready.pieces.new_level().filter(|_| is_rare(finding.p_level));
    if let Some(limit) = by_value {
        let is_up = limit == Limit::Upper;
        let (error, needed) = (finding.error.abs(), finding.limit_error);
        if samples::agree(&series.metric.samples, &history.points, level, is_up) {
            verdict.cross(limit, series);
            let repeated = ready.pieces.set_aside();
            let also = match repeated {
                0 => String::new(),
                1 => ", as was the one before".to_owned(),
                _ => format!(", as were the {repeated} before"),
            };
            let is_suspect = !is_rare(finding.p_maybe_spike);
            let doubt = match (is_suspect, series.repeats.len()) {
                (false, _) => "",
                (true, 0) => {
                    "; history is short, and one run cannot tell a spike from a change: --confirm 1 \
                     measures again"
                }
                (true, _) => {
                    "; history is short, and even so it may be spikes: measure again to be sure"
                }
            };
            let reason = format!(
                "{} spreads from the usual level{also}, where {} are needed ({}){doubt}",
                in_spreads(error),
                in_spreads(needed),
                chance(p)
            );
            verdict.reason = words::with_news(reason, &history.news);
            return is_suspect;
        } else {
            "the value is beyond the limit, but the raw samples of the runs do not differ so: a few wild \
             samples made it"
                .clone_into(&mut verdict.reason);
        }
    } else if let Some((new, limit)) =
        new_level.and_then(|new| crossed(new.before, new.after, least).map(|limit| (new, limit)))
    {
        verdict.cross(limit, series);
        verdict.change = Change::exactly(new.after, new.before);
        if let Some(boundary) = &mut verdict.boundary {
            boundary.baseline = Some(new.before);
        }
        let reason =
            format!("a new level since {} points, this one included ({})", new.points, chance(p));
        verdict.reason = words::with_news(reason, &history.news);
    } else {
        verdict.reason = quiet_reason(finding, value, least);
    }
    false
}

/// Why there is no change.
fn quiet_reason(finding: &Finding, value: f64, least: (f64, f64)) -> String {
    let (error, needed) = (finding.error.abs(), finding.limit_error);
    let Prediction { level, values, .. } = finding.prediction;
    if error > needed {
        let asked = number::size(if value < level { least.0 } else { least.1 });
        return format!(
            "more than chance explains, but below the least change that counts, {asked}"
        );
    }
    // The limit is for the whole report, the interval for this metric.
    let apart = match error > finding.usual {
        true => "; by chance alone 1 in 20 intervals leaves out 0, as this one does",
        false => "",
    };
    format!(
        "{} spreads from the level of {values} points, where {} would be a change{apart}",
        in_spreads(error),
        in_spreads(needed)
    )
}

/// The chance that any of so many metrics shows this.
fn corrected(p: f64, count: usize) -> f64 {
    let p = p.min(1.0);
    // 1 − (1 − p)^B, also where that is tiny.
    -(count as f64 * (-p).ln_1p()).exp_m1()
}

/// A history that does not tell how much runs differ: raw samples decide about large changes only.
fn judge_short(case: &Case<'_>, share: &Settings, judged_count: usize, verdict: &mut Verdict) {
    let Case { series, model, history, .. } = case;
    verdict.outcome = Outcome::TooLittleHistory;
    verdict.reason = history.shortage(POINTS_MIN);
    if history.points.is_empty() {
        return;
    }
    let mut values = history.values();
    values.sort_unstable_by(f64::total_cmp);
    let baseline = wingbeat_stats::sample::quantile_of_sorted(&values, 0.5);
    let value = series.metric.value;
    verdict.change = Change::exactly(value, baseline);
    let least = least_changes(model, share);
    let least = (least.0.max(samples::RUN_TO_RUN_MAX), least.1.max(samples::RUN_TO_RUN_MAX));
    let Some(limit) = crossed(baseline, value, least) else { return };
    let samples = samples::compare(&series.metric.samples, &history.points, baseline);
    let Some((p, is_larger)) = samples else { return };
    verdict.p = Some(corrected(p, judged_count));
    if p <= share.false_alarm_chance && is_larger == (limit == Limit::Upper) {
        verdict.cross(limit, series);
        let reason = format!(
            "{}; the raw samples differ ({}), by more than runs usually do on a shared machine ({})",
            verdict.reason,
            chance(corrected(p, judged_count)),
            number::size(samples::RUN_TO_RUN_MAX)
        );
        verdict.reason = words::with_news(reason, &history.news);
    }
}

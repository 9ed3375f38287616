//! The evidence of a metric's newest values, as probabilities.

use wingbeat_stats::{
    noise::{Common, Kinds, Noise},
    robust_level::RobustLevel,
    spread_prior::SpreadPrior,
};

use super::{
    super::level::{AGREE, is_news},
    Case, Settings,
    case::NewLevel,
    in_threads,
    run::{self, Neighbours, NewestRun, Others},
};

/// Shares of the false-positive rate: for the newest value, for the newest values together, for a new level.
const VALUE_SHARE: f64 = 0.35;
const RUN_SHARE: f64 = 0.5;
const LEVEL_SHARE: f64 = 0.15;

/// A single value within this many ticks of a history of equal values is not an alert.
const TICKS: f64 = 1.5;

pub(super) struct Evidence {
    /// Level and spread of its history.
    pub(super) usual: RobustLevel,
    /// The judged value: the newest, or the repeated one that is nearest to the level.
    pub(super) value: f64,
    pub(super) error: f64,
    /// Error from which on a value is unusual.
    pub(super) limit: f64,
    /// Error that 95 of 100 values stay below, at most the limit; and the one-sided error that 90 stay below.
    pub(super) half_width: f64,
    pub(super) one_side: f64,
    /// p-values of a usual value this far off; including spikes; of the newest values together; of the new level. The
    /// latter are weighted by their shares, so that the smallest counts.
    pub(super) p_usual: f64,
    pub(super) p_value: f64,
    pub(super) p_run: f64,
    pub(super) p_level: f64,
    /// The newest values that deviate to the same side, if a new level explains them best.
    pub(super) run: Option<NewestRun>,
    /// A new level that is significant and not reported yet.
    pub(super) new: Option<NewLevel>,
}

pub(super) fn weigh(cases: &[Case<'_>], share: &Settings) -> Vec<Option<Evidence>> {
    let usual = |case: &Case<'_>| {
        let pieces = case.pieces.before(1)?;
        RobustLevel::of(&pieces, case.pieces.least)
    };
    let usual: Vec<Option<RobustLevel>> =
        in_threads(cases, &|part| part.iter().map(usual).collect());
    let firsts = || {
        let all = cases.iter().zip(&usual).filter(|(case, _)| case.is_first);
        all.filter_map(|(_, usual)| usual.as_ref())
    };
    let share_of_level = |usual: &RobustLevel| (usual.spread / usual.level, usual.errors.len());
    let expected = SpreadPrior::from_shares(firsts().map(share_of_level));
    // Each by itself at first, then as one of the others.
    let prior = Kinds::default();
    let noise =
        |usual: &Option<RobustLevel>| Some(Noise::of(usual.as_ref()?, &prior, expected.as_ref()));
    let alone: Vec<Option<Noise>> = in_threads(&usual, &|part| part.iter().map(noise).collect());
    let own: Vec<Option<Kinds>> = alone.iter().map(|noise| Some(noise.as_ref()?.kinds())).collect();
    let kinds = cases.iter().zip(&own).filter(|(case, _)| case.is_first);
    let kinds: Vec<&Kinds> = kinds.filter_map(|(_, kinds)| kinds.as_ref()).collect();
    let others = Others {
        expected,
        common: Common::of(&kinds),
        neighbours: firsts()
            .map(|usual| Neighbours::of(&usual.errors))
            .fold(Neighbours::default(), Neighbours::and),
    };
    let places: Vec<usize> = (0..cases.len()).collect();
    let one = |&at: &usize| {
        let (usual, own, alone) = (usual[at].clone()?, own[at].as_ref()?, alone[at].as_ref()?);
        let is_one_of_many = others.common.count() >= 2;
        let shared = is_one_of_many.then(|| alone.with_kinds(&prior, &others.common.without(own)));
        Some(of_one(&cases[at], usual, shared.as_ref().unwrap_or(alone), own, &others, share))
    };
    in_threads(&places, &|part| part.iter().map(one).collect())
}

fn of_one(
    case: &Case<'_>,
    usual: RobustLevel,
    noise: &Noise,
    own: &Kinds,
    others: &Others,
    share: &Settings,
) -> Evidence {
    let series = case.history.series;
    let values = series.repeats.iter().copied().chain([series.metric.value]);
    let distance = |value: &f64| (value - usual.level).abs();
    let value =
        values.min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(series.metric.value);
    let error = usual.error(value);
    let limit = noise.limit(share.false_alarm_chance);
    let p_usual = noise.chance_of_usual(error);
    // With such a coarse clock, one more tick may come and go, however uniform the history is.
    let is_near = (value - usual.level).abs() <= TICKS * case.pieces.tick;
    let is_tick = is_near && series.repeats.is_empty();
    let p_spike = noise.chance_of_spikes(error, 1 + series.repeats.len());
    let p_value = if is_tick { 1.0 } else { p_usual + p_spike };
    let correlation =
        Neighbours::of(&usual.errors).correlation_max().max(others.neighbours.correlation_max());
    let chance =
        |new: &NewLevel| case.pieces.chance_of(new, correlation, &usual, noise) / LEVEL_SHARE;
    let is_rare = |new: &NewLevel| chance(new) <= share.false_alarm_chance;
    let new = case.pieces.new_level().filter(is_rare).filter(|new| new.is_reached);
    let new = new.filter(|new| {
        let is_told = |values: &[f64]| {
            let seen = case.pieces.new_level_of(values);
            let is_same = |seen: &NewLevel| seen.at.abs_diff(new.at) <= AGREE && seen.is_reached;
            seen.is_some_and(|seen| is_same(&seen) && is_rare(&seen))
        };
        is_news(&case.history, new.at, new.after > new.before, is_told)
    });
    let (p_run, run) = run::find(case, &usual, own, others);
    Evidence {
        value,
        error,
        limit,
        half_width: seen(&usual, 0.95).max(noise.limit(0.05)).min(limit),
        one_side: noise.limit(0.2),
        p_usual,
        p_value: p_value / VALUE_SHARE,
        p_run: p_run / RUN_SHARE,
        p_level: new.as_ref().map_or(1.0, chance),
        new,
        run,
        usual,
    }
}

/// The quantile of the past errors' sizes at this share.
fn seen(usual: &RobustLevel, share: f64) -> f64 {
    let mut sizes: Vec<f64> = usual.errors.iter().map(|error| error.size.abs()).collect();
    let at = (share * (sizes.len() as f64 + 1.0)).ceil() as usize;
    let at = at.saturating_sub(1).min(sizes.len().saturating_sub(1));
    if sizes.is_empty() {
        return 0.0;
    }
    *sizes.select_nth_unstable_by(at, f64::total_cmp).1
}

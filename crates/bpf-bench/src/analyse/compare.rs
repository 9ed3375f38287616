//! Compares measurements and derives verdicts. The rule is documented in docs/judging-appendix.md.

use wingbeat_stats::{
    bootstrap::Bootstrap,
    paired::{PairedVerdict, Yardstick},
    rank::mann_whitney,
    sample::Sample,
};

use crate::result::{
    BenchReport, Case, CaseComparison, ChangeInterval, Comparison, Failure, MeasureComparison,
    Method, RunCounts, SCHEMA_VERSION, Size, Verified, Verifier,
};

/// Confidence level of the deciding interval: at most one false verdict in a hundred comparisons.
pub const CONFIDENCE: f64 = 0.99;

/// Confidence level for counts that vary. Runs are cheap, so more of them make up for it.
const COUNTS_CONFIDENCE: f64 = 0.999;

/// Minimum runs of each side for a verdict on varying counts.
const COUNTS_MIN: usize = 20;

/// Times per run of one pair of loads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    pub before_ns: f64,
    pub after_ns: f64,
}

/// Results of two alternating programs.
#[derive(Debug, Clone, PartialEq)]
pub struct Contested {
    pub name: String,
    pub method: Method,
    /// Why the times are not from bursts; `None` if they are.
    pub no_bursts: Option<String>,
    pub pairs: Vec<Pair>,
    /// Executed instructions of alternating runs, if they may vary.
    pub counts: [Vec<u64>; 2],
}

/// Relative changes that count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    pub time: f64,
    pub exact: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { time: 0.01, exact: 0.0 }
    }
}

/// Builds a comparison.
pub fn comparison(
    report: BenchReport,
    against: String,
    before: &[Case],
    contested: &[Contested],
    unmatched: Vec<Failure>,
    thresholds: Thresholds,
    seed: u64,
) -> Comparison {
    let cases = report
        .cases
        .iter()
        .filter_map(|case| {
            let old = before.iter().find(|old| old.name == case.name)?;
            let contested = contested.iter().find(|it| it.name == case.name);
            let pairs = contested.map_or(&[][..], |it| &it.pairs);
            let mut time = time(pairs, thresholds.time, seed);
            withhold(&mut time, [old, case]);
            let mut measures = vec![time];
            let counts = contested.map(|it| &it.counts);
            measures.extend(exact(old, case, counts, thresholds.exact));
            let reason = contested.and_then(|it| it.no_bursts.clone());
            let method = contested.map(|it| it.method);
            Some(CaseComparison { name: case.name.clone(), method, reason, measures })
        })
        .collect();
    Comparison {
        schema_version: SCHEMA_VERSION,
        report,
        against,
        cases,
        unmatched,
        time_threshold: thresholds.time,
        exact_threshold: thresholds.exact,
    }
}

/// Withdraws a "no change seen" verdict if runs depend on map contents: timed runs differ from the
/// first run, whose count may have changed. If later runs have changed, that is a change.
fn withhold(time: &mut MeasureComparison, cases: [&Case; 2]) {
    let is_fed = |case: &Case| {
        let counts = case.counts.measured();
        counts.is_some_and(|counts| counts.steady_instructions.is_some())
            || case.outcome.later_return_value.is_some()
    };
    if time.verdict == PairedVerdict::NoChangeSeen && cases.into_iter().any(is_fed) {
        time.verdict = PairedVerdict::NotJudged;
    }
}

/// Judges time by pairs of loads.
pub fn time(pairs: &[Pair], threshold: f64, seed: u64) -> MeasureComparison {
    let is_sound = |pair: &&Pair| pair.before_ns > 0.0 && pair.after_ns > 0.0;
    let sound: Vec<&Pair> = pairs.iter().filter(is_sound).collect();
    let median = |of: fn(&Pair) -> f64| {
        Sample::new(sound.iter().map(|pair| of(pair)).collect()).map_or(0.0, |it| it.median())
    };
    let mut found = MeasureComparison {
        measure: "latency".to_owned(),
        unit: "ns".to_owned(),
        before: median(|pair| pair.before_ns),
        after: median(|pair| pair.after_ns),
        change: None,
        interval: None,
        verdict: PairedVerdict::TooFewPairs,
        is_beyond_threshold: false,
        runs: None,
    };
    let logs = sound.iter().map(|pair| (pair.after_ns / pair.before_ns).ln()).collect();
    let Ok(logs) = Sample::new(logs) else { return found };
    let bootstrap = Bootstrap { confidence: CONFIDENCE, seed, ..Bootstrap::default() };
    let change = Yardstick::new(bootstrap).compare(&logs);
    found.change = Some(change.share);
    // Uses the paired change: the medians of all pairs may be apart by a different amount.
    found.after = found.before * (1.0 + change.share);
    found.interval = change.interval.map(|interval| ChangeInterval {
        lower: interval.lower,
        upper: interval.upper,
        confidence: CONFIDENCE,
        pairs: logs.len(),
        smallest_visible: change.smallest_visible,
    });
    found.verdict = change.verdict(Some(true));
    // Uses the whole interval: users disable a gate that trips on random changes.
    let is_beyond = found.interval.is_some_and(|interval| interval.lower > threshold);
    found.is_beyond_threshold = found.verdict == PairedVerdict::Worse && is_beyond;
    found
}

/// A measure of a program known without running it: its name (that of Bencher Metric Format, if any), unit and value.
pub(crate) type LoadedMeasure = (&'static str, &'static str, fn(&Verifier, &Size) -> Option<u64>);

/// The only such measure whose increase can fail a run.
pub(crate) const PROCESSED: LoadedMeasure =
    ("verified-instructions", "instructions", |it, _| it.processed_instructions);
pub(crate) const STATES: LoadedMeasure = ("verifier-states", "states", |it, _| it.total_states);
pub(crate) const STACK: LoadedMeasure =
    ("stack-depth", "bytes", |it, _| Some(it.stack_depth_bytes.into()));
pub(crate) const JITED: LoadedMeasure =
    ("jited-size", "bytes", |_, size| Some(size.jited_bytes.into()));

/// Compares exact measures, and counts that may vary by the counts of many runs. Executed and
/// verified instructions can fail a run; sizes and states are reported but not judged.
pub fn exact(
    old: &Case,
    new: &Case,
    counts: Option<&[Vec<u64>; 2]>,
    threshold: f64,
) -> Vec<MeasureComparison> {
    let executed = |case: &Case| case.counts.measured().map(|counts| counts.instructions);
    let may_vary = |case: &Case| case.counts.measured().is_some_and(RunCounts::may_vary);
    let calls = |case: &Case| {
        let counts = case.counts.measured()?;
        Some(counts.calls.iter().map(|calls| calls.calls).sum::<u64>())
    };
    let of_run = |measure, before: Option<u64>, after: Option<u64>| {
        Some(exact_measure(measure, measure, before?, after?, Some(threshold)))
    };
    let run = match (may_vary(old) || may_vary(new)) && executed(old).and(executed(new)).is_some() {
        false => [
            of_run("instructions", executed(old), executed(new)),
            of_run("calls", calls(old), calls(new)),
        ],
        true => {
            let counts = counts.map_or([&[][..], &[]], |counts| counts.each_ref().map(|it| &**it));
            [Some(varying("instructions", counts, threshold)), None]
        }
    };
    let has_one_answer = [old, new].iter().all(|case| case.outcome.other_return_values.is_empty());
    let loaded = of_loaded((&old.verifier, &old.size), (&new.verifier, &new.size), threshold);
    let [before, after] = [old, new].map(|case| case.outcome.return_value.into());
    let outcome = exact_measure("return-value", "value", before, after, None);
    let outcome = has_one_answer.then_some(outcome);
    run.into_iter().flatten().chain(loaded).chain(outcome).collect()
}

/// Compares counts of many runs: exactly if each side is constant, else by rank.
pub fn varying(measure: &str, counts: [&[u64]; 2], threshold: f64) -> MeasureComparison {
    let runs = counts.map(<[u64]>::len).into_iter().min().unwrap_or(0);
    let only = |counts: &[u64]| {
        let first = *counts.first()?;
        counts.iter().all(|count| *count == first).then_some(first)
    };
    let [before, after] = counts;
    if let (Some(before), Some(after), COUNTS_MIN..) = (only(before), only(after), runs) {
        return exact_measure(measure, measure, before, after, Some(threshold));
    }
    let sample = |counts: &[u64]| Sample::new(counts.iter().map(|&it| it as f64).collect()).ok();
    let mut found = MeasureComparison {
        measure: measure.to_owned(),
        unit: measure.to_owned(),
        before: 0.0,
        after: 0.0,
        change: None,
        interval: None,
        verdict: PairedVerdict::TooFewPairs,
        is_beyond_threshold: false,
        runs: Some(runs),
    };
    let Some((before, after)) = sample(before).zip(sample(after)) else { return found };
    let change = after.mean() / before.mean() - 1.0;
    (found.before, found.after) = (before.mean(), after.mean());
    found.change = Some(change).filter(|change| change.is_finite());
    if runs < COUNTS_MIN {
        return found;
    }
    let test = mann_whitney(&before, &after);
    let above = test.statistic.total_cmp(&(before.len() as f64 * after.len() as f64 / 2.0));
    let is_more = after.mean().total_cmp(&before.mean());
    found.verdict = match test.p_value < 1.0 - COUNTS_CONFIDENCE {
        false => PairedVerdict::NoChangeSeen,
        // Rank test and mean disagree about the direction.
        true if above == is_more => PairedVerdict::Changed,
        true => PairedVerdict::of_exact(is_more, Some(true)),
    };
    found.is_beyond_threshold =
        found.verdict == PairedVerdict::Worse && found.change.is_none_or(|it| it > threshold);
    found
}

/// Compares programs that cannot be run, by verifier statistics.
pub fn verified(old: &[Verified], new: &[Verified], threshold: f64) -> Vec<CaseComparison> {
    let compared = |new: &Verified| {
        let old = old.iter().find(|old| old.name == new.name)?;
        let (old, now) = ((&old.verifier, &old.size), (&new.verifier, &new.size));
        let measures = of_loaded(old, now, threshold).collect();
        Some(CaseComparison { name: new.name.clone(), method: None, reason: None, measures })
    };
    new.iter().filter_map(compared).collect()
}

/// Compares the measures known without running the program.
fn of_loaded(
    old: (&Verifier, &Size),
    new: (&Verifier, &Size),
    threshold: f64,
) -> impl Iterator<Item = MeasureComparison> {
    let compared = move |(measure, unit, figure): LoadedMeasure| {
        let threshold = (measure == PROCESSED.0).then_some(threshold);
        Some(exact_measure(measure, unit, figure(old.0, old.1)?, figure(new.0, new.1)?, threshold))
    };
    [PROCESSED, STATES, STACK, JITED].into_iter().filter_map(compared)
}

/// Compares one exact measure; `threshold` is `None` for measures that never fail a run.
pub fn exact_measure(
    measure: &str,
    unit: &str,
    before: u64,
    after: u64,
    threshold: Option<f64>,
) -> MeasureComparison {
    let change = match (before, after) {
        (0, 0) => Some(0.0),
        (0, _) => None,
        _ => Some(after as f64 / before as f64 - 1.0),
    };
    let is_less_better = (measure != "return-value").then_some(true);
    let verdict = PairedVerdict::of_exact(after.cmp(&before), is_less_better);
    let is_beyond = |threshold: f64| change.is_none_or(|change| change > threshold);
    MeasureComparison {
        measure: measure.to_owned(),
        unit: unit.to_owned(),
        before: before as f64,
        after: after as f64,
        change,
        interval: None,
        verdict,
        is_beyond_threshold: verdict == PairedVerdict::Worse && threshold.is_some_and(is_beyond),
        runs: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(changes: &[f64]) -> Vec<Pair> {
        let pair = |change| Pair { before_ns: 50.0, after_ns: 50.0 * (1.0 + change) };
        changes.iter().map(|&change| pair(change)).collect()
    }

    #[test]
    fn time_is_judged_by_the_interval_and_then_by_the_threshold() {
        let check = |changes: &[f64], verdict, is_beyond| {
            let found = time(&pairs(changes), 0.01, 1);
            assert_eq!(
                (found.verdict, found.is_beyond_threshold),
                (verdict, is_beyond),
                "{changes:?}"
            );
        };
        let around =
            |middle: f64| (-8..=8).map(|i| middle + f64::from(i) * 1e-4).collect::<Vec<_>>();
        let wide = |middle: f64| (-8..=8).map(|i| middle + f64::from(i) * 3e-3).collect::<Vec<_>>();
        check(&around(0.05), PairedVerdict::Worse, true);
        check(&around(0.005), PairedVerdict::Worse, false);
        // Certainly slower, but perhaps by less than the threshold.
        check(&wide(0.015), PairedVerdict::Worse, false);
        check(&wide(0.04), PairedVerdict::Worse, true);
        check(&around(-0.05), PairedVerdict::Better, false);
        check(&around(0.0), PairedVerdict::NoChangeSeen, false);
        check(&around(0.05)[..5], PairedVerdict::TooFewPairs, false);
        check(&[], PairedVerdict::TooFewPairs, false);
    }

    #[test]
    fn after_is_before_and_the_change() {
        // The machine slows down from pair to pair, and one side is disturbed in the middle.
        let pair = |number: u32| {
            let before_ns = 50.0 + f64::from(number);
            Pair { before_ns, after_ns: before_ns * if number < 7 { 0.9 } else { 1.3 } }
        };
        let found = time(&(0..12).map(pair).collect::<Vec<_>>(), 0.01, 1);
        let change = found.change.expect("a change");
        assert!((found.after / found.before - 1.0 - change).abs() < 1e-9, "{found:?}");
        assert!((found.before - 55.5).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn pairs_that_all_say_the_same_claim_nothing_of_small_changes() {
        let check = |change, verdict, is_beyond| {
            let found = time(&pairs(&[change; 12]), 0.01, 1);
            let interval = found.interval.expect("an interval");
            assert!((interval.lower, interval.smallest_visible) == (interval.upper, None));
            assert_eq!(
                (found.verdict, found.is_beyond_threshold),
                (verdict, is_beyond),
                "{change}"
            );
        };
        check(0.0, PairedVerdict::NoChangeSeen, false);
        check(0.02, PairedVerdict::Worse, true);
        check(-0.02, PairedVerdict::Better, false);
    }

    #[test]
    fn counts_that_vary() {
        let check = |before: &[u64], after: &[u64], threshold, verdict, is_beyond| {
            let found = varying("instructions", [before, after], threshold);
            let expected = (verdict, is_beyond);
            assert_eq!(
                (found.verdict, found.is_beyond_threshold),
                expected,
                "{before:?} {after:?}"
            );
        };
        let coin =
            |most: u64| (0..100).map(|run| if run % 2 == 0 { 9 } else { most }).collect::<Vec<_>>();
        let once = |rest: u64| [vec![900], vec![rest; 99]].concat();
        check(&coin(611), &coin(611), 0.0, PairedVerdict::NoChangeSeen, false);
        check(&[611; 100], &[611; 100], 0.0, PairedVerdict::Same, false);
        // Constant sides are compared exactly.
        check(&[611; 100], &[612; 100], 0.0, PairedVerdict::Worse, true);
        check(&[611; 100], &[612; 100], 0.01, PairedVerdict::Worse, false);
        check(&[612; 100], &[611; 100], 0.0, PairedVerdict::Better, false);
        // A rare path is not a change and does not hide one.
        check(&[611; 100], &once(611), 0.0, PairedVerdict::NoChangeSeen, false);
        check(&once(611), &[611; 100], 0.0, PairedVerdict::NoChangeSeen, false);
        check(&[611; 100], &once(620), 0.0, PairedVerdict::Worse, true);
        check(&[620; 100], &once(611), 0.0, PairedVerdict::Better, false);
        check(&coin(611), &[611; 100], 0.0, PairedVerdict::Worse, true);
        // Higher rank, lower mean.
        check(&once(10)[..], &[11; 100], 0.0, PairedVerdict::Changed, false);
        check(&coin(611)[..10], &[611; 10], 0.0, PairedVerdict::TooFewPairs, false);
        check(&[], &[], 0.0, PairedVerdict::TooFewPairs, false);
    }

    #[test]
    fn exact_measures() {
        let check = |before, after, threshold, verdict, is_beyond| {
            let found = exact_measure("instructions", "instructions", before, after, threshold);
            assert_eq!((found.verdict, found.is_beyond_threshold), (verdict, is_beyond));
        };
        check(100, 100, Some(0.0), PairedVerdict::Same, false);
        check(100, 101, Some(0.0), PairedVerdict::Worse, true);
        check(100, 101, Some(0.02), PairedVerdict::Worse, false);
        check(100, 101, None, PairedVerdict::Worse, false);
        check(100, 99, Some(0.0), PairedVerdict::Better, false);
        check(0, 1, Some(0.5), PairedVerdict::Worse, true);
        check(0, 0, Some(0.0), PairedVerdict::Same, false);
    }
}

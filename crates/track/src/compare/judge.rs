//! Computes verdicts from pairs of runs. Pure. Implements the part "Comparing two revisions" of
//! `docs/judging-appendix.md`.

use std::cmp::Ordering;

use wingbeat_stats::{
    bootstrap::Bootstrap,
    paired::{PAIRS_MIN, PairedVerdict, Yardstick},
    sample::Sample,
};

use super::{
    result::{ChangeInterval, ComparedRow, Unmatched},
    series::Series,
};
use crate::model::{Direction, MeasureKind};

/// Enough for ten resamples beyond each side of the widest interval that is resampled.
const RESAMPLES: usize = 40_000;

/// What counts as a change, and as narrow enough.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The size of a change that should be detected in nine of ten comparisons.
    pub precision: f64,
    /// Noisy measures that are worse by more than this share count against the head.
    pub threshold: f64,
    pub threshold_exact: f64,
    /// Probability of any false verdict in a comparison of two equal revisions.
    pub false_verdicts: f64,
}

impl Default for Settings {
    /// 1 %, 1 %, nothing, and 3 in 1,000. The last is less than the guaranteed 5 in 1,000, because stopping when an
    /// interval is narrow stops a little too often when it is narrow by chance.
    fn default() -> Self {
        Self { precision: 0.01, threshold: 0.01, threshold_exact: 0.0, false_verdicts: 0.003 }
    }
}

/// The required confidence of each of that many verdicts.
pub fn yardstick(settings: &Settings, verdicts: usize) -> Yardstick {
    let bootstrap = Bootstrap { resamples: RESAMPLES, ..Bootstrap::default() };
    Yardstick::shared(settings.false_verdicts, verdicts, bootstrap)
}

enum Way {
    Exact([f64; 2]),
    Noisy(Vec<f64>),
    NotAtAll,
}

fn way(series: &Series) -> Way {
    match (series.measure.kind, series.exact_values()) {
        (MeasureKind::Exact, Some(values)) => Way::Exact(values),
        // A series that is constantly 0 has no ratio, and needs none.
        (MeasureKind::Noisy, Some([base, head])) if base == head && base <= 0.0 => {
            Way::Exact([base, head])
        }
        _ => series.log_ratios().map_or(Way::NotAtAll, Way::Noisy),
    }
}

/// Judges all series. Rows are sorted by importance.
pub fn judge(series: &[Series], settings: &Settings) -> (Vec<ComparedRow>, Vec<Unmatched>) {
    let matched = || series.iter().filter(|series| series.only_side().is_none());
    let ways: Vec<(&Series, Way)> =
        matched().filter(|series| !series.pairs.is_empty()).map(|one| (one, way(one))).collect();
    let mut yardstick = yardstick(settings, verdicts(&ways));
    let judged = ways.iter().map(|(series, way)| row(series, way, settings, &mut yardstick));
    let mut rows: Vec<ComparedRow> = judged.collect();
    let size = |row: &ComparedRow| row.change.map_or(f64::INFINITY, f64::abs);
    rows.sort_by(|one, other| {
        let order = |row: &ComparedRow| (!row.is_beyond_threshold, row.verdict);
        order(one).cmp(&order(other)).then(size(other).total_cmp(&size(one)))
    });
    (rows, unmatched(series))
}

/// Whether a change of the requested size would be detected in every noisy series. Uses only the scatter of the values
/// and not their direction, so that stopping on it does not bias the verdict.
pub fn is_narrow(series: &[Series], settings: &Settings) -> bool {
    let awaited = |one: &&Series| one.only_side().is_none() && !one.is_ignored;
    let ways: Vec<(&Series, Way)> = series.iter().filter(awaited).map(|it| (it, way(it))).collect();
    let mut yardstick = yardstick(settings, verdicts(&ways));
    ways.iter().all(|(series, way)| match way {
        Way::Exact(_) | Way::NotAtAll => !series.pairs.is_empty(),
        Way::Noisy(ratios) => {
            let sample = Sample::new(ratios.clone());
            sample.is_ok_and(|ratios| yardstick.sees(&ratios, settings.precision))
        }
    })
}

/// Whether there are only exact measures, for which two pairs suffice.
pub fn is_exact(series: &[Series]) -> bool {
    series.iter().all(|one| one.only_side().is_some() || matches!(way(one), Way::Exact(_)))
}

/// The number of verdicts subject to chance.
fn verdicts(ways: &[(&Series, Way)]) -> usize {
    ways.iter().filter(|(one, way)| matches!(way, Way::Noisy(_)) && !one.is_ignored).count()
}

fn unmatched(series: &[Series]) -> Vec<Unmatched> {
    let mut found: Vec<Unmatched> = Vec::new();
    for one in series {
        let Some(side) = one.only_side() else { continue };
        let measure = one.measure.name.to_string();
        let known = found.iter_mut().find(|it| it.side == side && it.benchmark == one.benchmark);
        match known {
            Some(known) => known.measures.push(measure),
            None => found.push(Unmatched {
                side,
                benchmark: one.benchmark.clone(),
                measures: vec![measure],
            }),
        }
    }
    found
}

/// Whether to check the width of the intervals after that many pairs: 6, 8, 12, 16, 24, 32, 48 and so on. Fewer checks
/// mean fewer intervals that are narrow by chance alone.
pub fn is_look(pairs: usize) -> bool {
    pairs >= PAIRS_MIN && matches!(pairs >> pairs.trailing_zeros(), 1 | 3)
}

fn row(series: &Series, way: &Way, settings: &Settings, yardstick: &mut Yardstick) -> ComparedRow {
    let mut row = ComparedRow {
        benchmark: series.benchmark.clone(),
        measure: series.measure.clone(),
        base: median(series, 0),
        head: median(series, 1),
        change: None,
        interval: None,
        smallest_visible: None,
        pairs: series.pairs.len(),
        verdict: PairedVerdict::NotJudged,
        is_beyond_threshold: false,
        note: None,
    };
    let threshold = match way {
        Way::Exact(values) => {
            exact(*values, &mut row);
            settings.threshold_exact
        }
        Way::Noisy(ratios) => {
            noisy(series, ratios, yardstick, &mut row);
            settings.threshold
        }
        Way::NotAtAll => {
            row.note = Some("a value is not above 0, so there is no ratio to judge".to_owned());
            return row;
        }
    };
    let is_beyond = row.change.is_none_or(|change| change.abs() > threshold);
    row.is_beyond_threshold =
        row.verdict == PairedVerdict::Worse && is_beyond && !series.is_ignored;
    if series.is_ignored {
        row.note = Some("asked not to be judged, so it fails nothing".to_owned());
    }
    row
}

fn exact([base, head]: [f64; 2], row: &mut ComparedRow) {
    (row.base, row.head) = (base, head);
    row.change = match base == head {
        true => Some(0.0),
        false => Some((head - base) / base.abs()).filter(|change| change.is_finite()),
    };
    let order = head.partial_cmp(&base).unwrap_or(Ordering::Equal);
    row.verdict = PairedVerdict::of_exact(order, is_less_better(row.measure.direction));
}

fn noisy(series: &Series, ratios: &[f64], yardstick: &mut Yardstick, row: &mut ComparedRow) {
    if series.measure.kind == MeasureKind::Exact {
        let note = "differs between runs of one revision, so it is judged like a time";
        row.note = Some(note.to_owned());
    }
    row.base = geometric_mean(series, 0);
    row.head = geometric_mean(series, 1);
    row.verdict = PairedVerdict::TooFewPairs;
    let Ok(ratios) = Sample::new(ratios.to_vec()) else { return };
    let change = yardstick.compare(&ratios);
    row.change = Some(change.share);
    row.interval = change.interval.map(|interval| ChangeInterval {
        lower: interval.lower,
        upper: interval.upper,
        confidence: yardstick.confidence(),
    });
    row.smallest_visible = change.smallest_visible;
    row.verdict = change.verdict(is_less_better(series.measure.direction));
}

fn is_less_better(direction: Direction) -> Option<bool> {
    match direction {
        Direction::Unknown => None,
        Direction::LowerIsBetter => Some(true),
        Direction::HigherIsBetter => Some(false),
    }
}

fn median(series: &Series, side: usize) -> f64 {
    let values = series.pairs.iter().map(|pair| pair[side]).collect();
    Sample::new(values).map_or(0.0, |values| values.median())
}

/// Chosen so that `head / base − 1` is the change.
fn geometric_mean(series: &Series, side: usize) -> f64 {
    let logs = series.pairs.iter().map(|pair| pair[side].ln()).collect();
    Sample::new(logs).map_or(0.0, |logs| logs.mean().exp())
}

#[cfg(test)]
mod tests {
    use wingbeat_stats::{normal, paired::PairedVerdict, random::Random};

    use super::*;
    use crate::{
        compare::result::SideName,
        model::{BenchmarkName, Direction, Measure},
    };

    fn series(measure: Measure, pairs: &[[f64; 2]]) -> Series {
        Series::new(BenchmarkName::new("a").expect("a name"), measure, pairs.to_vec())
    }

    /// Sixteen pairs of values near 1,000 that differ by that share, give or take 0.1 %.
    fn pairs(change: f64) -> Vec<[f64; 2]> {
        let noise = |at: usize| 1.0 + 1e-3 * [0.3, -0.9, 0.8, -0.1, 0.5, -0.6][at % 6];
        (0..16).map(|at| [1000.0, 1000.0 * (1.0 + change) * noise(at)]).collect()
    }

    fn only(series: Series) -> ComparedRow {
        let (mut rows, _) = judge(&[series], &Settings::default());
        assert_eq!(rows.len(), 1);
        rows.remove(0)
    }

    #[test]
    fn the_direction_makes_a_change_worse_or_better() {
        let check = |direction, change, verdict, is_beyond| {
            let measure = Measure { direction, ..Measure::latency() };
            let row = only(series(measure, &pairs(change)));
            assert_eq!((row.verdict, row.is_beyond_threshold), (verdict, is_beyond), "{change}");
            let found = row.change.expect("a change");
            assert!((found - change).abs() < 1e-3, "{found}");
            assert!((row.head / row.base - 1.0 - found).abs() < 1e-9);
        };
        let (lower, higher) = (Direction::LowerIsBetter, Direction::HigherIsBetter);
        check(lower, 0.03, PairedVerdict::Worse, true);
        check(lower, 0.005, PairedVerdict::Worse, false);
        check(lower, -0.03, PairedVerdict::Better, false);
        check(lower, 0.0, PairedVerdict::NoChangeSeen, false);
        check(higher, 0.03, PairedVerdict::Better, false);
        check(higher, -0.03, PairedVerdict::Worse, true);
        check(Direction::Unknown, 0.03, PairedVerdict::Changed, false);
    }

    #[test]
    fn few_pairs_get_no_verdict() {
        let check = |count: usize, expected| {
            let row = only(series(Measure::latency(), &pairs(0.5)[..count]));
            assert_eq!((row.verdict, row.interval.is_some()), expected, "{count}");
        };
        check(1, (PairedVerdict::TooFewPairs, false));
        check(5, (PairedVerdict::TooFewPairs, false));
        check(6, (PairedVerdict::Worse, true));
    }

    #[test]
    fn exact_measures_are_compared_exactly_unless_they_vary() {
        let exact = || Measure { kind: MeasureKind::Exact, ..Measure::latency() };
        let check = |pairs: &[[f64; 2]], verdict, is_beyond, has_note| {
            let row = only(series(exact(), pairs));
            assert_eq!((row.verdict, row.is_beyond_threshold), (verdict, is_beyond), "{pairs:?}");
            assert_eq!(row.note.is_some(), has_note, "{pairs:?}");
        };
        check(&[[100.0, 100.0]; 2], PairedVerdict::Same, false, false);
        check(&[[100.0, 101.0]; 2], PairedVerdict::Worse, true, false);
        check(&[[100.0, 99.0]; 2], PairedVerdict::Better, false, false);
        check(&[[0.0, 1.0]; 2], PairedVerdict::Worse, true, false);
        check(&[[0.0, 0.0]; 2], PairedVerdict::Same, false, false);
        check(&[[100.0, 101.0], [100.0, 102.0]], PairedVerdict::TooFewPairs, false, true);
        check(&pairs(0.03), PairedVerdict::Worse, true, true);
    }

    #[test]
    fn what_has_no_ratio_is_not_judged() {
        let check = |pairs: &[[f64; 2]], verdict| {
            assert_eq!(only(series(Measure::latency(), pairs)).verdict, verdict, "{pairs:?}");
        };
        check(&[[0.0, 0.0]; 8], PairedVerdict::Same);
        check(&[[0.0, 1.0]; 8], PairedVerdict::NotJudged);
        check(&[[-1.0, 1.0], [2.0, 3.0]], PairedVerdict::NotJudged);
    }

    #[test]
    fn who_asked_not_to_be_judged_fails_nothing() {
        let ignored = Series { is_ignored: true, ..series(Measure::latency(), &pairs(0.03)) };
        let row = only(ignored);
        assert_eq!((row.verdict, row.is_beyond_threshold), (PairedVerdict::Worse, false));
    }

    #[test]
    fn what_only_one_side_has_is_named() {
        let lost = |measure| Series { seen: [6, 0], ..series(measure, &[]) };
        let lost = [lost(Measure::latency()), lost(Measure::throughput())];
        let (rows, unmatched) = judge(&lost, &Settings::default());
        assert!(rows.is_empty());
        let expected = Unmatched {
            side: SideName::Base,
            benchmark: BenchmarkName::new("a").expect("a name"),
            measures: vec!["Latency".to_owned(), "Throughput".to_owned()],
        };
        assert_eq!(unmatched, [expected]);
    }

    #[test]
    fn what_matters_stands_first() {
        let with = |name: &str, change| {
            let benchmark = BenchmarkName::new(name).expect("a name");
            Series { benchmark, ..series(Measure::latency(), &pairs(change)) }
        };
        let all = [with("same", 0.0), with("good", -0.2), with("bad", 0.03), with("worst", 0.1)];
        let (rows, _) = judge(&all, &Settings::default());
        let names: Vec<&str> = rows.iter().map(|row| row.benchmark.as_str()).collect();
        assert_eq!(names, ["worst", "bad", "good", "same"]);
    }

    /// Measured by the example `compare_power`. This only detects large errors.
    #[test]
    fn equal_revisions_are_hardly_ever_called_different() {
        let mut random = Random::new(1);
        let mut run = || 1e6 * (0.01 * normal::quantile(random.unit().max(f64::EPSILON))).exp();
        // `judge` also computes the smallest visible change, which is slow.
        let yardstick = yardstick(&Settings::default(), 3);
        let mut is_moved = || {
            let ratios = (0..8).map(|_| (run() / run()).ln()).collect();
            let ratios = Sample::new(ratios).expect("finite");
            !yardstick.interval(&ratios).expect("an interval").contains(0.0)
        };
        // Twenty comparisons of three benchmarks: 0.06 are expected, and two occur for about 2 in 1,000 seeds.
        let false_ones = (0..60).filter(|_| is_moved()).count();
        assert!(false_ones < 2, "{false_ones}");
    }

    /// The more verdicts, the wider each interval.
    #[test]
    fn verdicts_share_the_chance_of_a_false_one() {
        let mut width = 0.0;
        for verdicts in [1, 10, 100, 1000] {
            let mut yardstick = yardstick(&Settings::default(), verdicts);
            let sample =
                Sample::new(pairs(0.0).iter().map(|[base, head]| (head / base).ln()).collect());
            let change = yardstick.compare(&sample.expect("a sample"));
            let interval = change.interval.expect("an interval");
            assert!(interval.width() > width, "{verdicts}");
            width = interval.width();
            let error = (1.0 - yardstick.confidence()) * verdicts as f64;
            assert!((error - 0.003).abs() < 1e-12, "{error}");
        }
    }

    #[test]
    fn narrow_is_what_shows_the_wanted_change() {
        let check = |precision, series: &[Series], expected| {
            let settings = Settings { precision, ..Settings::default() };
            assert_eq!(is_narrow(series, &settings), expected, "{precision}");
        };
        let calm = series(Measure::latency(), &pairs(0.0));
        check(0.01, std::slice::from_ref(&calm), true);
        check(0.000_1, std::slice::from_ref(&calm), false);
        // The direction of the values does not matter.
        check(0.01, &[series(Measure::latency(), &pairs(0.5))], true);
        check(0.000_1, &[series(Measure::latency(), &pairs(0.5))], false);
        check(0.01, &[series(Measure::latency(), &pairs(0.0)[..5])], false);
        let wild: Vec<[f64; 2]> = (0..16).map(|at| [100.0, [90.0, 115.0][at % 2]]).collect();
        check(0.01, &[calm.clone(), series(Measure::latency(), &wild)], false);
        check(
            0.01,
            &[calm, Series { is_ignored: true, ..series(Measure::latency(), &wild) }],
            true,
        );
    }

    #[test]
    fn looks_become_rare() {
        let looks: Vec<usize> = (0..=200).filter(|&pairs| is_look(pairs)).collect();
        assert_eq!(looks, [6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192]);
    }
}

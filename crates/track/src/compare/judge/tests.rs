//! Verdicts on simulated pairs.

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
    check(0.01, &[calm, Series { is_ignored: true, ..series(Measure::latency(), &wild) }], true);
}

#[test]
fn looks_become_rare() {
    let looks: Vec<usize> = (0..=200).filter(|&pairs| is_look(pairs)).collect();
    assert_eq!(looks, [6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192]);
}

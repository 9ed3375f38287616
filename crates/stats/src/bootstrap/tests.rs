//! The bootstrap against exact enumeration, its documented guarantees, and a reduced simulation of coverage (the full
//! one is `examples/coverage.rs`).

use std::cell::Cell;

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{
    power,
    random::Random,
    sample::{mean_of, quantile_of_sorted, tests::sample},
    student,
};

fn median_of(sorted: &[f64]) -> f64 {
    quantile_of_sorted(sorted, 0.5)
}

fn settings(resamples: usize, confidence: f64) -> Bootstrap {
    Bootstrap { resamples, confidence, seed: 42 }
}

#[test]
fn resamples_are_sorted_and_fair() {
    let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let mut resampler = Resampler::new(&values, 1);
    let (mut ones, mut alike) = (0, 0);
    for _ in 0..60_000 {
        let resample = resampler.draw();
        assert!(resample.len() == 6 && resample.is_sorted(), "{resample:?}");
        ones += resample.iter().filter(|value| **value == 1.0).count();
        alike += usize::from(resample[0] == resample[5]);
    }
    // 60,000 ± 224; and 60,000 · 6⁻⁵ = 7.7 resamples of one value only.
    assert!(ones.abs_diff(60_000) < 800, "{ones}");
    assert!((1..20).contains(&alike), "{alike}");
}

/// A value drawn more often than the length of a burst.
#[test]
fn many_of_one_value() {
    let mut resampler = Resampler::new(&[1.0, 2.0], 1);
    for _ in 0..100 {
        assert_eq!(resampler.draw().len(), 2);
    }
    let values: Vec<f64> = (0..3).map(f64::from).collect();
    let mut resampler = Resampler::new(&values, 3);
    let seen: Vec<Vec<f64>> = (0..200).map(|_| resampler.draw().to_vec()).collect();
    assert!(seen.contains(&vec![0.0; 3]) && seen.contains(&vec![2.0; 3]));
}

#[test]
fn what_cannot_be_told() {
    let two = sample(&[1.0, 2.0]);
    let check = |sample: &Sample, resamples, confidence, expected: bool| {
        let bootstrap = settings(resamples, confidence);
        let found = [
            bootstrap.percentile(sample, mean_of),
            bootstrap.studentized(sample),
            bootstrap.mean(sample),
        ];
        assert!(found.iter().all(|found| found.is_some() == expected), "{bootstrap:?} {found:?}");
    };
    check(&two, 100, 0.95, true);
    check(&two, 39, 0.95, true);
    check(&two, 38, 0.95, false);
    check(&two, 199, 0.99, true);
    check(&two, 198, 0.99, false);
    check(&two, 0, 0.5, false);
    check(&two, 100, 1.0, false);
    check(&two, 100, 0.0, false);
    check(&two, 100, f64::NAN, false);
    check(&sample(&[1.0]), 100, 0.95, false);
    let sometimes = Cell::new(0);
    let statistic = |_: &[f64]| {
        sometimes.set(sometimes.get() + 1);
        if sometimes.get() == 77 { f64::NAN } else { 1.0 }
    };
    assert_eq!(settings(100, 0.95).percentile(&two, statistic), None);
}

#[test]
fn equal_values_have_no_width() {
    let equal = sample(&[0.1; 7]);
    let bootstrap = Bootstrap::default();
    let expected = Interval::between(0.1, 0.1);
    assert_eq!(bootstrap.studentized(&equal), expected);
    assert_eq!(bootstrap.mean(&equal), expected);
    assert_eq!(bootstrap.percentile(&equal, median_of), expected);
}

#[test]
fn seeds_decide() {
    let values = sample(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]);
    let found = |seed| {
        let bootstrap = Bootstrap { resamples: 999, seed, ..Bootstrap::default() };
        [bootstrap.percentile(&values, mean_of), bootstrap.mean(&values)]
    };
    assert_eq!(found(1), found(1));
    assert_ne!(found(1), found(2));
}

/// Of three values there are 27 resamples, so the replicates' distribution is known: the mean of
/// 0, 3, 9 has its 2.5 % quantile at 0 (1 of 27) and its 97.5 % quantile at 9.
#[test]
fn enumerated_replicates() {
    let values = sample(&[0.0, 3.0, 9.0]);
    let bootstrap = settings(50_000, 0.95);
    assert_eq!(bootstrap.percentile(&values, mean_of), Interval::between(0.0, 9.0));
    // 10 of 27 means are at most 3: 0 once, 1 and 3 and 2 …; at 80 % the tails begin at 1 and 7.
    let mut means = Vec::new();
    for a in [0.0, 3.0, 9.0] {
        for b in [0.0, 3.0, 9.0] {
            means.extend([0.0, 3.0, 9.0].map(|c| (a + b + c) / 3.0));
        }
    }
    means.sort_unstable_by(f64::total_cmp);
    let expected = Interval::between(means[2], means[24]);
    assert_eq!(settings(50_000, 0.8).percentile(&values, mean_of), expected);
}

/// Nine replicates cut the range into ten equal shares.
#[test]
fn shares_of_replicates() {
    let replicates: Vec<f64> = (1..=9).map(f64::from).collect();
    let check = |p, expected: f64| {
        let found = share(&replicates, p);
        assert!((found - expected).abs() < 1e-12, "{p}: {found}");
    };
    check(0.1, 1.0);
    check(0.25, 2.5);
    check(0.5, 5.0);
    check(0.9, 9.0);
    check(0.0, 1.0);
    check(1.0, 9.0);
}

/// Of −1, 0, 1 (mean 0, standard error 1/√3) a resample is 1, 1, 1 in 1 of 27 cases: `se*` would be 0,
/// and is a quarter of 1/√3; so t = 4 √3 and the bound 4. In 3 of 27 it is two 1 and a 0: t = 2.
#[test]
fn enumerated_pivots() {
    let values = sample(&[-1.0, 0.0, 1.0]);
    let check = |confidence, expected: f64| {
        let found = settings(50_000, confidence).studentized(&values).expect("an interval");
        assert!((found.upper - expected).abs() < 1e-9, "{confidence}: {found:?}");
        assert!((found.lower + expected).abs() < 1e-9, "{confidence}: {found:?}");
    };
    check(0.96, 4.0);
    check(0.8, 2.0 / 3_f64.sqrt());
}

/// The outer bound of two, on each side.
#[test]
fn the_interval_for_verdicts_holds_both() {
    for values in [vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], vec![0.0, 0.0, 0.1, 0.1, 0.2, 9.0]] {
        let values = sample(&values);
        let bootstrap = settings(2_000, 0.99);
        let [cautious, plain] = [bootstrap.mean(&values), bootstrap.studentized(&values)]
            .map(|interval| interval.expect("an interval"));
        let student = student::interval_of_mean(&values, 0.99).expect("an interval");
        assert_eq!(cautious.lower, plain.lower.min(student.lower));
        assert_eq!(cautious.upper, plain.upper.max(student.upper));
    }
}

/// Skewness shifts the interval towards the long tail, where Student's stays symmetric.
#[test]
fn skewness_is_followed() {
    let values: Vec<f64> = (1..=20).map(|k| -(1.0 - f64::from(k) / 21.0).ln()).collect();
    let values = sample(&values);
    let found = settings(10_000, 0.95).studentized(&values).expect("an interval");
    let (below, above) = (values.mean() - found.lower, found.upper - values.mean());
    assert!(above > 1.3 * below, "{found:?}");
}

/// Percentage of `runs` intervals for the mean of values drawn by `draw` that contain 0.
fn coverage(n: usize, runs: u32, draw: fn(&mut Random) -> f64) -> f64 {
    let mut random = Random::new(7);
    let held = (0..runs).filter(|seed| {
        let values = sample(&(0..n).map(|_| draw(&mut random)).collect::<Vec<_>>());
        let bootstrap = Bootstrap { resamples: 399, confidence: 0.99, seed: u64::from(*seed) };
        bootstrap.mean(&values).is_some_and(|interval| interval.contains(0.0))
    });
    100.0 * held.count() as f64 / f64::from(runs)
}

/// Fixed seeds, so this is deterministic. The standard deviation over seeds is 0.3 points.
#[test]
fn coverage_is_honest() {
    let check = |n, draw, least: f64| {
        let found = coverage(n, 1_000, draw);
        assert!(found >= least, "{n}: {found} %, at least {least} % expected");
    };
    let wild = |random: &mut Random| {
        let scale = if random.unit() < 0.1 { 10.0 } else { 1.0 };
        scale * random.normal()
    };
    let skewed = |random: &mut Random| -(1.0 - random.unit()).ln() - 1.0;
    for n in [6, 20] {
        check(n, Random::normal, 98.6);
        check(n, wild, 98.6);
        check(n, skewed, 96.8);
    }
}

/// The smallest detectable effect grows with the spread. It exceeds the t-test's, by less the more values there are.
#[test]
fn smallest_effects() {
    let bootstrap = settings(399, 0.99);
    let ratio = |n: usize| {
        let tried = bootstrap.smallest_effect(3.0, n, 0.9).expect("valid arguments");
        let by_t = power::smallest_effect(3.0, (n - 1) as f64, 0.01, 0.9).expect("valid arguments");
        tried / by_t
    };
    let (few, some, many) = (ratio(6), ratio(20), ratio(101));
    assert!((1.25..1.6).contains(&few), "{few}");
    assert!((1.01..1.15).contains(&some), "{some}");
    assert!((many - 1.0).abs() < 1e-9, "{many}");
    let check = |bootstrap: Bootstrap, standard_error, n, power, expected: Option<f64>| {
        let found = bootstrap.smallest_effect(standard_error, n, power);
        assert_eq!(found, expected, "{bootstrap:?} {standard_error} {n} {power}");
    };
    check(bootstrap, 0.0, 6, 0.9, Some(0.0));
    check(bootstrap, -1.0, 6, 0.9, None);
    check(bootstrap, f64::NAN, 6, 0.9, None);
    check(bootstrap, 1.0, 0, 0.9, None);
    check(bootstrap, 1.0, 1, 0.9, None);
    check(bootstrap, 1.0, 6, 1.0, None);
    check(bootstrap, 1.0, 6, 0.01, None);
    check(settings(100, 0.99), 1.0, 6, 0.9, None);
    check(settings(100, 1.5), 1.0, 6, 0.9, None);
    check(settings(100, f64::NAN), 1.0, 6, 0.9, None);
}

/// Effects of the size that 90 % should detect, in fresh normal values.
#[test]
fn smallest_effects_are_seen() {
    let (n, bootstrap) = (10, settings(399, 0.99));
    let effect = bootstrap.smallest_effect(1.0, n, 0.9).expect("valid arguments");
    let mut random = Random::new(99);
    let seen = (0..600).filter(|seed| {
        let values: Vec<f64> =
            (0..n).map(|_| random.normal() + effect / (n as f64).sqrt()).collect();
        let found = Bootstrap { seed: *seed, ..bootstrap }.mean(&sample(&values));
        !found.expect("an interval").contains(0.0)
    });
    // Standard deviation 1.2 %, and 1 % for the simulated effect.
    let share = seen.count() as f64 / 600.0;
    assert!((0.86..0.94).contains(&share), "{share}");
}

proptest! {
    #[test]
    fn intervals_move_and_grow_with_the_values(
        values in vec(-1e3..1e3, 3..12), shift in -1e3..1e3, scale in 0.01..100.0,
    ) {
        let moved: Vec<f64> = values.iter().map(|x| (x + shift) * scale).collect();
        let (values, moved) = (sample(&values), sample(&moved));
        let bootstrap = settings(199, 0.9);
        let all = |sample: &Sample| {
            [
                bootstrap.percentile(sample, median_of),
                bootstrap.studentized(sample),
                bootstrap.mean(sample),
            ]
            .map(|interval| interval.expect("three values"))
        };
        for (before, after) in all(&values).into_iter().zip(all(&moved)) {
            let tolerance = 1e-7 * scale * (1e3 + before.width());
            let lower: f64 = (before.lower + shift) * scale;
            let upper: f64 = (before.upper + shift) * scale;
            prop_assert!((lower - after.lower).abs() < tolerance);
            prop_assert!((upper - after.upper).abs() < tolerance);
        }
    }

    #[test]
    fn intervals_lie_about_the_mean(values in vec(-1e3..1e3, 2..30), seed: u64) {
        let values = sample(&values);
        let found = Bootstrap { resamples: 199, confidence: 0.95, seed }.mean(&values);
        prop_assert!(found.expect("two values").contains(values.mean()));
    }

    #[test]
    fn more_confidence_is_wider(values in vec(-1e3..1e3, 2..20), seed: u64) {
        let values = sample(&values);
        let with = |confidence| {
            let bootstrap = Bootstrap { resamples: 399, confidence, seed };
            let plain = bootstrap.percentile(&values, mean_of);
            [plain, bootstrap.mean(&values)].map(|interval| interval.expect("two values"))
        };
        for (narrow, wide) in with(0.8).into_iter().zip(with(0.99)) {
            prop_assert!(wide.lower <= narrow.lower && narrow.upper <= wide.upper);
        }
    }
}

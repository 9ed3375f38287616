//! Golden cases, cases that must never alarm, and invariance to units and direction.

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::random::Random;

/// Standard normal noise.
pub(super) fn noise(points: usize, seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed);
    (0..points).map(|_| random.normal()).collect()
}

/// Noise of standard deviation 1 around 100, with steps of these sizes at these places.
fn stepped(points: usize, steps: &[(usize, f64)], seed: u64) -> Vec<f64> {
    let level = |at| steps.iter().filter(|(place, _)| *place <= at).map(|(_, by)| by).sum::<f64>();
    let noise = noise(points, seed).into_iter().enumerate();
    noise.map(|(at, value)| 100.0 + value + level(at)).collect()
}

fn indexes(series: &[f64]) -> Vec<usize> {
    let found = find(series, &Settings::default());
    found.iter().map(|change| change.index).collect()
}

#[test]
fn clear_steps_are_found_at_their_place() {
    let check = |steps: &[(usize, f64)]| {
        let expected: Vec<usize> = steps.iter().map(|(place, _)| *place).collect();
        for seed in 0..5 {
            let found = indexes(&stepped(300, steps, seed));
            assert_eq!(found, expected, "{steps:?}, seed {seed}");
        }
    };
    check(&[]);
    check(&[(150, 6.0)]);
    check(&[(150, -6.0)]);
    check(&[(20, 10.0)]);
    check(&[(280, -10.0)]);
    check(&[(100, 8.0), (200, -8.0)]);
    check(&[(100, 8.0), (140, 8.0), (200, -30.0)]);
    check(&[(150, 900.0)]);
}

#[test]
fn levels_and_chance() {
    let series = stepped(200, &[(120, 10.0)], 7);
    let found = find(&series, &Settings::default());
    let [Change { index: 120, before, after, p_value }] = *found else {
        panic!("{found:?}");
    };
    assert!((before - 100.0).abs() < 0.3, "{before}");
    assert!((after - 110.0).abs() < 0.4, "{after}");
    assert!(p_value < 1e-20, "{p_value}");
    let share = found[0].relative().expect("before is not 0");
    assert!((share - (after / before - 1.0)).abs() < 1e-12);
}

#[test]
fn shares_of_a_level() {
    let check = |before, after, expected: Option<f64>| {
        let change = Change { index: 1, before, after, p_value: 0.0 };
        assert_eq!(change.relative(), expected, "{before} → {after}");
    };
    check(100.0, 150.0, Some(0.5));
    check(4.0, 1.0, Some(-0.75));
    check(-1.0, -2.0, Some(1.0));
    check(0.0, 1.0, None);
    check(0.0, 0.0, None);
}

/// Series without what people would call a change.
#[test]
fn no_alarm() {
    let check = |name: &str, series: Vec<f64>| {
        assert_eq!(indexes(&series), [0; 0], "{name}");
    };
    check("nothing", vec![]);
    check("one", vec![1.0]);
    check("four", vec![1.0, 1.0, 9.0, 9.0]);
    check("constant", vec![5.0; 500]);
    check("zeros", vec![0.0; 500]);
    check("constant but for rounding", (0..500).map(|i| 0.1 + f64::from(i % 3) * 1e-17).collect());
    check("gaps only", vec![f64::NAN; 50]);
    check("infinite", vec![f64::INFINITY; 50]);
    check("zero mean", noise(1000, 3));
    check("quantised", noise(1000, 4).iter().map(|value| value.round()).collect());
    let with = |change: fn(usize, f64) -> f64| -> Vec<f64> {
        let noise = noise(600, 5).into_iter().enumerate();
        noise.map(|(at, value)| change(at, 100.0 + value)).collect()
    };
    check("a spike", with(|at, value| if at == 300 { 900.0 } else { value }));
    check("spikes", with(|at, value| if at % 17 == 0 { value + 30.0 } else { value }));
    check("five points", with(|at, value| if (300..305).contains(&at) { 150.0 } else { value }));
    check("the last point", with(|at, value| if at == 599 { 200.0 } else { value }));
    check("the last three", with(|at, value| if at >= 597 { 200.0 } else { value }));
    check("slow drift", with(|at, value| value + at as f64 * 0.01));
    check(
        "more noise",
        with(|at, value| if at >= 300 { 100.0 + 3.0 * (value - 100.0) } else { value }),
    );
    check("by turns", with(|at, value| if at % 2 == 0 { value + 20.0 } else { value }));
}

#[test]
fn steps_without_noise() {
    let check = |series: &[f64], expected: &[usize]| {
        assert_eq!(indexes(series), expected, "{series:?}");
    };
    let levels = |runs: &[(usize, f64)]| -> Vec<f64> {
        runs.iter().flat_map(|&(points, level)| std::iter::repeat_n(level, points)).collect()
    };
    check(&levels(&[(5, 1.0), (5, 2.0)]), &[5]);
    check(&levels(&[(40, 1024.0), (40, 1040.0), (40, 1024.0)]), &[40, 80]);
    check(&levels(&[(40, 1e6), (4, 2e6)]), &[40]);
    check(&levels(&[(40, 1e6), (3, 2e6)]), &[]);
    check(&levels(&[(40, 0.0), (40, 1.0)]), &[40]);
    check(&levels(&[(40, -3.0), (40, 0.0)]), &[40]);
}

/// Alternating steps up and down at a fixed distance.
fn turns(points: usize, every: usize, by: f64) -> Vec<(usize, f64)> {
    let places = (1..).map(|at| at * every).take_while(|place| place + every <= points);
    places.enumerate().map(|(at, place)| (place, if at % 2 == 0 { by } else { -by })).collect()
}

/// Such steps are never found from noise that is too strong: they are measured as noise.
#[test]
fn levels_that_alternate_are_found() {
    for (every, by) in [(10, 8.0), (12, 8.0), (15, 6.0), (20, 6.0), (25, 5.0), (40, 5.0)] {
        let steps = turns(300, every, by);
        let expected: Vec<usize> = steps.iter().map(|(place, _)| *place).collect();
        let is_found = |seed: &u64| {
            let found = indexes(&stepped(300, &steps, 200 + seed));
            expected.iter().all(|place| found.iter().any(|index| index.abs_diff(*place) <= 2))
        };
        let found = (0..20).filter(is_found).count();
        assert!(found >= 19, "every {every}, by {by}: {found} of 20");
    }
}

#[test]
fn levels_that_alternate_too_fast_are_noise() {
    for every in 2..=8 {
        for by in [3.0, 8.0, 40.0] {
            for seed in 0..5 {
                let found = indexes(&stepped(300, &turns(300, every, by), 300 + seed));
                assert_eq!(found, [0; 0], "every {every}, by {by}, seed {seed}");
            }
        }
    }
}

#[test]
fn outages_are_no_levels() {
    let check = |steps: &[(usize, f64)], expected: &[usize]| {
        for seed in 0..5 {
            let found = indexes(&stepped(300, steps, 400 + seed));
            assert_eq!(found, expected, "{steps:?}, seed {seed}");
        }
    };
    for points in 1..=8 {
        check(&[(150, 15.0), (150 + points, -15.0)], &[]);
        check(&[(150, -40.0), (150 + points, 40.0), (200, 9.0)], &[200]);
    }
    check(&[(150, 15.0), (160, -15.0)], &[150, 160]);
    // Steps that do not return are levels.
    check(&[(150, 15.0), (158, 15.0)], &[150, 158]);
    check(&[(150, 30.0), (158, -15.0)], &[150, 158]);
    // At the end it is too early to know.
    check(&[(294, 15.0)], &[294]);
}

#[test]
fn an_outage_is_no_level_for_a_step_that_nobody_asked_for() {
    // A return to within a quarter of a percent, a difference that is real and negligible.
    let level = |at: usize| match at {
        0..100 => 1000.0,
        100..108 => 1200.0,
        _ => 1002.5,
    };
    let noise = noise(200, 1).into_iter().enumerate();
    let series: Vec<f64> = noise.map(|(at, value)| level(at) + 0.2 * value).collect();
    let check = |change_min, expected: &[usize]| {
        let found = find(&series, &Settings { change_min, ..Settings::default() });
        let found: Vec<usize> = found.iter().map(|change| change.index).collect();
        assert_eq!(found, expected, "{change_min}");
    };
    check(0.01, &[]);
    check(0.001, &[100, 108]);
}

#[test]
fn gaps_are_counted_but_are_no_values() {
    let mut series = stepped(200, &[(100, 8.0)], 1);
    for at in [0, 3, 50, 51, 52, 150, 199] {
        series[at] = f64::NAN;
    }
    series[60] = f64::INFINITY;
    assert_eq!(indexes(&series), [100]);
    series[100] = f64::NAN;
    assert_eq!(indexes(&series), [101]);
}

#[test]
fn the_least_change_is_heeded() {
    let series = stepped(300, &[(150, 6.0)], 2);
    let check = |change_min, expected| {
        let settings = Settings { change_min, ..Settings::default() };
        assert_eq!(find(&series, &settings).len(), expected, "{change_min}");
    };
    check(0.0, 1);
    check(0.055, 1);
    check(0.065, 0);
    check(f64::INFINITY, 0);
}

#[test]
fn extreme_values_do_no_harm() {
    let check = |unit: f64| {
        let series = stepped(100, &[(60, 9.0)], 3);
        let series: Vec<f64> = series.iter().map(|value| value * unit).collect();
        let found = find(&series, &Settings::default());
        assert_eq!(found.len(), 1, "{unit:e}");
        assert_eq!(found[0].index, 60, "{unit:e}");
        assert!((found[0].before / unit - 100.0).abs() < 1.0, "{unit:e}: {}", found[0].before);
    };
    check(1e300);
    check(1e-300);
    let mixed = [f64::MAX, f64::MIN, 0.0, f64::MIN_POSITIVE, 1.0, 5e-324, -1.0, 2.0, 3.0, 4.0];
    for change in find(&mixed.repeat(5), &Settings::default()) {
        assert!(change.before.is_finite() && change.after.is_finite(), "{change:?}");
    }
}

/// One series of noise in 1,000 may alarm. Of 2,000 series that is 2, and with that mean 9 or more have a probability
/// of 1 in 4,000.
#[test]
fn noise_alarms_as_seldom_as_promised() {
    let alarms = (0..2000).filter(|&seed| !indexes(&noise(100, seed)).is_empty()).count();
    assert!(alarms < 9, "{alarms} of 2,000");
}

/// Autocorrelated normal noise of the first order.
pub(super) fn leaning(points: usize, rho: f64, seed: u64) -> Vec<f64> {
    let fresh = noise(points, seed).into_iter();
    let next = fresh.scan(0.0, |last, fresh| {
        *last = rho * *last + (1.0 - rho * rho).sqrt() * fresh;
        Some(*last)
    });
    next.collect()
}

/// Short series alarm more often, because the correlation is estimated from them.
#[test]
fn leaning_noise_alarms_seldom() {
    for (points, rho, most) in [(50, 0.3, 10), (50, 0.5, 14), (105, 0.3, 10), (105, 0.5, 10)] {
        let alarms = |seed: &u64| {
            let values = leaning(points, rho, 9_000 + seed).into_iter();
            !indexes(&values.map(|value| 100.0 + 2.0 * value).collect::<Vec<_>>()).is_empty()
        };
        let alarms = (0..1_000).filter(alarms).count();
        assert!(alarms <= most, "{points} points, ρ {rho}: {alarms} of 1,000");
    }
}

/// Undetected steps must not count as noise, which would hide them.
#[test]
fn two_steps_in_leaning_noise_are_found() {
    for rho in [0.0, 0.3, 0.5] {
        let is_found = |seed: &u64| {
            let level = |at: usize| {
                if at < 30 {
                    50.0
                } else if at < 65 {
                    42.0
                } else {
                    30.0
                }
            };
            let values = leaning(105, rho, 500 + seed).into_iter().enumerate();
            let series: Vec<f64> = values.map(|(at, value)| level(at) + 1.8 * value).collect();
            let found = indexes(&series);
            [30, 65].iter().all(|place| found.iter().any(|index| index.abs_diff(*place) <= 5))
        };
        let found = (0..100).filter(is_found).count();
        assert!(found >= 95, "ρ {rho}: {found} of 100");
    }
}

/// Noise estimated from few values must not hide obvious steps.
#[test]
fn clear_steps_of_short_series_are_found() {
    for (rho, least) in [(0.0, 98), (0.3, 95), (0.5, 88)] {
        let is_found = |seed: &u64| {
            let values = leaning(30, rho, 800 + seed).into_iter().enumerate();
            let series: Vec<f64> =
                values.map(|(at, it)| if at < 15 { 50.0 } else { 41.0 } + 1.8 * it).collect();
            indexes(&series).iter().any(|index| index.abs_diff(15) <= 5)
        };
        let found = (0..100).filter(is_found).count();
        assert!(found >= least, "ρ {rho}: {found} of 100");
    }
}

/// Results of a public benchmark, brainfuck_fib of rune, in millions of nanoseconds.
const PUBLIC: &[f64] = &[
    48.6, 48.6, 48.7, 51.7, 52.6, 49.9, 49.7, 52.5, 48.0, 48.4, 50.6, 50.7, 52.2, 49.2, 50.4, 50.4,
    49.3, 51.7, 50.1, 52.0, 50.0, 50.7, 50.6, 52.1, 53.6, 53.9, 53.4, 40.4, 41.8, 41.5, 41.9, 46.6,
    42.5, 43.3, 43.1, 45.4, 51.7, 43.9, 45.6, 48.9, 36.6, 38.6, 36.1, 36.1, 37.1, 35.5, 38.2, 37.7,
    35.5, 41.5, 47.5, 41.5, 42.8, 41.7, 46.0, 42.6, 41.6, 39.9, 42.8, 40.5, 38.3, 44.6, 36.0, 36.0,
    34.2, 31.7, 28.7, 29.6, 30.3, 29.5, 29.0, 29.9, 31.5, 30.6, 31.1, 29.8, 29.4, 30.8, 30.4, 28.9,
    29.9, 28.9, 27.8, 28.7, 28.6, 28.5, 29.7, 28.1, 28.0, 29.2, 29.5, 36.4, 33.6, 30.1, 32.9, 30.8,
    31.0, 33.5, 31.1, 30.0, 29.1, 29.8, 26.4, 29.3, 25.2, 25.4, 28.9, 29.2, 28.6, 21.1, 32.4, 33.4,
    31.1,
];

/// What is reported with a lower probability than requested is also reported when that lower one is requested.
#[test]
fn probabilities_and_what_was_asked_for_agree() {
    let found = |series: &[f64], chance: f64| {
        find(series, &Settings { false_alarm_chance: chance, ..Settings::default() })
    };
    let check = |series: &[f64], what: &str| {
        for chance in [1e-4, 0.001, 0.002] {
            let severe = found(series, chance);
            assert!(severe.iter().all(|it| it.p_value <= chance), "{what}: {severe:?}");
            for lax in [0.002, 0.005, 0.05] {
                for one in found(series, lax).iter().filter(|it| it.p_value <= chance) {
                    let is_same = |it: &Change| it.index.abs_diff(one.index) <= 5;
                    assert!(severe.iter().any(is_same), "{what}: {one:?} at {chance}: {severe:?}");
                }
            }
        }
    };
    for chance in [5e-4, 0.001, 0.002, 0.005, 0.01] {
        let places: Vec<usize> = found(PUBLIC, chance).iter().map(|it| it.index).collect();
        assert_eq!(places, [27, 64], "{chance}");
    }
    check(PUBLIC, "public");
    for seed in 0..40 {
        let rho = [0.0, 0.3, 0.5, 0.7][seed as usize % 4];
        let level = |at: usize| 100.0 + (at / 30) as f64 * 4.0;
        let values = leaning(120, rho, 700 + seed).into_iter().enumerate();
        let series: Vec<f64> = values.map(|(at, value)| level(at) + 2.0 * value).collect();
        check(&series, &format!("seed {seed}"));
    }
}

#[test]
fn two_sigmas_are_found() {
    let is_found = |seed: &u64| {
        let found = indexes(&stepped(300, &[(150, 2.0)], 100 + seed));
        found.iter().any(|index| index.abs_diff(150) <= 5)
    };
    let found = (0..100).filter(is_found).count();
    assert!(found >= 90, "{found} of 100");
}

/// Steps and noise from numbers that shrink well: levels of at least six points, and any noise.
fn any_series() -> impl Strategy<Value = Vec<f64>> {
    vec((6_usize..60, -20_i32..20), 1..6).prop_flat_map(|levels| {
        let points = levels.iter().map(|(points, _)| points).sum::<usize>();
        vec(-1.0..1.0, points).prop_map(move |noise| {
            let level = levels.iter().flat_map(|&(n, by)| std::iter::repeat_n(f64::from(by), n));
            level.zip(noise).map(|(level, noise)| 500.0 + 3.0 * level + noise).collect()
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// By powers of two, which are exact.
    #[test]
    fn units_do_not_matter(series in any_series(), exponent in -40..40) {
        let factor = 2.0_f64.powi(exponent);
        let scaled: Vec<f64> = series.iter().map(|value| value * factor).collect();
        prop_assert_eq!(indexes(&series), indexes(&scaled));
    }

    #[test]
    fn the_zero_does_not_matter(series in any_series(), shift in -1000_i32..1000) {
        let settings = Settings { change_min: 0.0, ..Settings::default() };
        // Sixteenths, so that sums are exact.
        let series: Vec<f64> = series.iter().map(|value| (value * 16.0).round() / 16.0).collect();
        let shifted: Vec<f64> = series.iter().map(|value| value + f64::from(shift)).collect();
        let found = |series: &[f64]| -> Vec<usize> {
            find(series, &settings).iter().map(|change| change.index).collect()
        };
        prop_assert_eq!(found(&series), found(&shifted));
    }

    #[test]
    fn up_is_as_good_as_down(series in any_series()) {
        let settings = Settings { change_min: 0.0, ..Settings::default() };
        let flipped: Vec<f64> = series.iter().map(|value| -value).collect();
        let (found, mirrored) = (find(&series, &settings), find(&flipped, &settings));
        let indexes = |found: &[Change]| found.iter().map(|it| it.index).collect::<Vec<_>>();
        prop_assert_eq!(indexes(&found), indexes(&mirrored));
    }

    #[test]
    fn clear_steps_are_found_from_both_ends(
        lengths in vec(20_usize..60, 2..6),
        noise in vec(-1.0..1.0, 300),
    ) {
        let level = lengths.iter().enumerate();
        let level = level.flat_map(|(at, &n)| std::iter::repeat_n((at % 2) as f64 * 30.0, n));
        let series: Vec<f64> = level.zip(&noise).map(|(level, noise)| 100.0 + level + noise).collect();
        let reversed: Vec<f64> = series.iter().rev().copied().collect();
        let steps = lengths.iter().scan(0, |at, length| {
            *at += length;
            Some(*at)
        });
        let (there, back) = (indexes(&series), indexes(&reversed));
        // Others may be found too: one series of noise in 1,000 shows a change.
        for step in steps.take(lengths.len() - 1) {
            prop_assert!(there.contains(&step), "{step} in {there:?}");
            let from_end = series.len() - step;
            prop_assert!(back.contains(&from_end), "{from_end} in {back:?}");
        }
        prop_assert!(there.len() <= lengths.len() && back.len() <= lengths.len());
    }

    #[test]
    fn anything_goes(
        series in vec(prop_oneof![any::<f64>(), -1.0..1.0, Just(0.0), Just(f64::NAN)], 0..200),
        false_alarm_chance in 0.0..=1.0,
        change_min in 0.0..2.0,
    ) {
        let found = find(&series, &Settings { false_alarm_chance, change_min });
        prop_assert!(found.is_sorted_by(|a, b| a.index < b.index));
        for change in found {
            prop_assert!(series[change.index].is_finite());
            prop_assert!(change.before.is_finite() && change.after.is_finite());
            prop_assert!((0.0..=1.0).contains(&change.p_value), "{}", change.p_value);
        }
    }
}

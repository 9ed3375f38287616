//! `auto` on noisy measures, one benchmark or a few.

use super::*;

fn check(history: &[f64], value: f64, expected: Outcome) -> Verdict {
    let found = verdict(latency(history, value));
    let points = history.len();
    assert_eq!(found.outcome, expected, "{points} points, {value}: {}", found.why());
    found
}

#[test]
fn large_changes_are_found_and_noise_is_not() {
    let history = noise(100, 100.0, 2.0, 1);
    check(&history, 102.0, Outcome::NoChange);
    check(&history, 120.0, Outcome::Worse);
    check(&history, 80.0, Outcome::Better);
    check(&history[..4], 1_000.0, Outcome::TooLittleHistory);
    check(&history[..5], 200.0, Outcome::MaybeWorse);
    check(&[], 1.0, Outcome::TooLittleHistory);
}

#[test]
fn verdicts_tell_what_they_rest_on() {
    let found = check(&noise(100, 100.0, 2.0, 1), 120.0, Outcome::Worse);
    let change = found.change.expect("a change");
    let (lower, upper) = (change.lower.expect("a bound"), change.upper.expect("a bound"));
    assert!(lower > 0.1 && lower < change.relative && change.relative < upper, "{change:?}");
    assert!(found.p.is_some_and(|p| p < 0.005), "{:?}", found.p);
    assert!(found.smallest_visible.is_some_and(|share| (0.05..0.15).contains(&share)));
    let boundary = found.boundary.expect("a boundary");
    assert!(boundary.upper_limit < Some(120.0) && boundary.lower_limit > Some(80.0));
    assert_eq!(found.points, 100);
    let spreads = found.why().split_once(" spreads").and_then(|(count, _)| count.parse().ok());
    assert!(spreads.is_some_and(|count: f64| (7.0..13.0).contains(&count)), "{}", found.why());
}

/// A dozen reports of five benchmarks with a spread of a few percent, one of which takes twice as long: shown at once,
/// and an alert when it recurs.
#[test]
fn twice_as_slow_after_a_dozen_reports_is_seen() {
    for slow in 0..5_u64 {
        let report = |older: &[f64], repeats: &[f64]| {
            let of = |i| {
                let mut history = noise(12, 100.0, 4.0, 20 + i);
                history.extend(older.iter().map(|&value| if i == slow { value } else { 100.0 }));
                let value = if i == slow { 200.0 } else { 100.0 };
                let repeats = if i == slow { repeats.to_vec() } else { Vec::new() };
                Made { name: format!("b{i}"), repeats, ..latency(&history, value) }
            };
            judge(&(0..5).map(of).collect::<Vec<_>>())
        };
        let shown = report(&[], &[]);
        assert_eq!(shown.verdicts[slow as usize].outcome, Outcome::MaybeWorse, "{shown:?}");
        assert!(shown.alerts.is_empty());
        assert_eq!(report(&[203.0], &[]).alerts, [slow as usize]);
        assert_eq!(report(&[], &[203.0]).alerts, [slow as usize]);
        assert!(report(&[], &[101.0]).alerts.is_empty());
    }
}

#[test]
fn changes_from_nothing_have_no_size() {
    for history in [vec![0.0; 30], vec![0.0; 3], [vec![0.0; 20], vec![5.0; 4]].concat()] {
        for measure in [Measure::latency(), Measure::named("instructions")] {
            let made = Made { measure, ..latency(&history, 5.0) };
            let found = verdict(made);
            let change = found.change.map(|change| change.relative);
            assert!(change.is_none_or(f64::is_finite), "{found:?}");
            assert!(found.smallest_visible.is_none_or(f64::is_finite), "{found:?}");
            let json = serde_json::to_string(&found).expect("JSON");
            assert_eq!(serde_json::from_str::<Verdict>(&json).ok(), Some(found));
        }
    }
}

#[test]
fn one_boundary_is_one_side() {
    let check = |direction, sides: (bool, bool), value, outcome, alerts: usize| {
        for (kind, history) in
            [(MeasureKind::Noisy, noise(100, 100.0, 2.0, 1)), (MeasureKind::Exact, vec![100.0; 20])]
        {
            let measure = Measure::custom("score", "points", direction, kind);
            let (lower, upper) = (sides.0.then_some(0.05), sides.1.then_some(0.05));
            let made = under(Test::Auto, lower, upper, &history, value);
            let found = judge(&[Made { measure, ..made }]);
            let about = format!("{direction:?} {kind:?} {sides:?} {value}: {found:?}");
            assert_eq!(
                (found.verdicts[0].outcome, found.alerts.len()),
                (outcome, alerts),
                "{about}"
            );
            let says = found.verdicts[0].why().contains("no limit on this side");
            assert_eq!(says, alerts == 0 && outcome != Outcome::Better, "{about}");
        }
    };
    let (none, lower, upper, both) = ((false, false), (true, false), (false, true), (true, true));
    use Direction::{LowerIsBetter, Unknown};
    check(Unknown, none, 50.0, Outcome::Changed, 1);
    check(Unknown, upper, 50.0, Outcome::Changed, 0);
    check(Unknown, upper, 150.0, Outcome::Changed, 1);
    check(Unknown, lower, 50.0, Outcome::Changed, 1);
    check(Unknown, lower, 150.0, Outcome::Changed, 0);
    check(Unknown, both, 50.0, Outcome::Changed, 1);
    check(LowerIsBetter, none, 50.0, Outcome::Better, 0);
    check(LowerIsBetter, upper, 50.0, Outcome::Better, 0);
    check(LowerIsBetter, upper, 150.0, Outcome::Worse, 1);
    check(LowerIsBetter, lower, 150.0, Outcome::Worse, 0);
    check(LowerIsBetter, both, 50.0, Outcome::Better, 1);
}

#[test]
fn small_changes_do_not_count() {
    let history = noise(100, 100.0, 0.01, 4);
    check(&history, 100.9, Outcome::NoChange);
    check(&history, 101.1, Outcome::Worse);
    let check = |upper, value, expected| {
        let found = verdict(under(Test::Auto, None, Some(upper), &history, value));
        assert_eq!(found.outcome, expected, "{upper} {value}: {}", found.why());
    };
    check(0.05, 104.0, Outcome::NoChange);
    check(0.05, 106.0, Outcome::Worse);
}

#[test]
fn equal_values_are_neither_silent_nor_a_trap() {
    check(&[100.0; 30], 100.0, Outcome::NoChange);
    check(&[100.0; 8], 130.0, Outcome::MaybeWorse);
    check(&[100.0; 100], 900.0, Outcome::Worse);
    // The clock has a resolution of whole milliseconds: one tick more may come and go.
    check(&[2e6; 15], 3e6, Outcome::MaybeWorse);
    check(&[&[2e6; 15][..], &[3e6; 2]].concat(), 3e6, Outcome::Worse);
    check(&[0.0; 30], 0.0, Outcome::NoChange);
}

/// Whatever the digits are, and among noisy benchmarks too: shown, and an alert when it recurs.
#[test]
fn a_tenth_more_after_forty_equal_values_is_seen() {
    for (level, others) in [(1.0, 0), (10.0, 0), (20.0, 0), (50.0, 0), (100.0, 9), (1e6, 99)] {
        let report = |repeats: &[f64]| {
            let mut all =
                vec![Made { repeats: repeats.to_vec(), ..latency(&[level; 40], 1.1 * level) }];
            all.extend((0..others).map(|i| {
                let history = noise(40, 100.0, 3.0, i);
                Made { name: format!("b{i}"), ..latency(&history, 100.0) }
            }));
            judge(&all)
        };
        let found = report(&[]).verdicts[0].outcome;
        assert!(matches!(found, Outcome::MaybeWorse | Outcome::Worse), "{level}: {found:?}");
        let found = report(&[1.1 * level; 2]);
        assert_eq!(found.alerts, [0], "{level} {others}: {:?}", found.verdicts[0]);
    }
}

/// The interval is that of one metric alone; the limit is for the whole report.
#[test]
fn intervals_and_verdicts_do_not_contradict_each_other() {
    let apart = "1 in 20 intervals leaves out 0";
    for seed in 0..40 {
        let history = noise(5 + seed as usize, 100.0, 20.0, seed);
        for value in [2.0, 40.0, 60.0, 100.0, 140.0, 160.0, 250.0] {
            let found = verdict(latency(&history, value));
            let change = found.change.expect("a change");
            // A level change has no interval.
            let Some((lower, upper)) = change.lower.zip(change.upper) else { continue };
            assert!(lower >= -1.0 && lower <= change.relative, "{found:?}");
            let is_away = lower > 0.0 || upper < 0.0;
            let is_told = found.why().contains(apart);
            let is_quiet = matches!(found.outcome, Outcome::NoChange | Outcome::TooNoisy);
            assert!(
                !is_away || is_told || !is_quiet || found.outcome == Outcome::TooNoisy,
                "{found:?}"
            );
            assert!(is_away || is_quiet, "{found:?}");
        }
    }
    let falling = verdict(latency(&noise(60, 0.0, 1.0, 1), -2.0)).change.expect("a change");
    assert!(falling.lower.is_some_and(|lower| lower < -1.0), "{falling:?}");
}

#[test]
fn a_new_level_is_found_late_and_becomes_the_baseline() {
    let mut history = noise(60, 100.0, 2.0, 5);
    history.extend(noise(4, 106.5, 2.0, 6));
    let found = check(&history, 106.5, Outcome::Worse);
    assert!(found.why().contains("the newest 4 reports deviate"), "{}", found.why());
    history.extend(noise(20, 106.5, 2.0, 7));
    let found = check(&history, 106.5, Outcome::NoChange);
    let baseline = found.boundary.and_then(|boundary| boundary.baseline).expect("a baseline");
    assert!((105.0..108.0).contains(&baseline), "{baseline}");
}

#[test]
fn samples_confirm_and_hardly_ever_decide() {
    let (slow, fast) = (noise(30, 130.0, 5.0, 10), noise(30, 100.0, 5.0, 11));
    let mut wild = fast.clone();
    wild[7] = 1_000.0;
    let check = |points, value, new: &[f64], expected| {
        let history = noise(points, 100.0, 2.0, 9);
        let samples = (fast.clone(), new.to_vec());
        let found = verdict(Made { samples, ..latency(&history, value) });
        assert_eq!(found.outcome, expected, "{points} {value}: {}", found.why());
    };
    check(60, 130.0, &slow, Outcome::Worse);
    check(60, 130.0, &wild, Outcome::NoChange);
    check(60, 130.0, &slow[..5], Outcome::Worse);
}

/// A hundred benchmarks are judged more strictly than one, without requiring less noise.
#[test]
fn the_report_shares_one_budget() {
    let limit = |count: u64| {
        let all: Vec<Made> = (0..count)
            .map(|i| Made { name: format!("b{i}"), ..latency(&noise(100, 100.0, 2.0, i), 100.0) })
            .collect();
        let boundary = judge(&all).verdicts[0].boundary.expect("a boundary");
        boundary.upper_limit.expect("a limit")
    };
    let (one, many) = (limit(1), limit(100));
    assert!(one < many && many < 120.0, "{one} {many}");
}

#[test]
fn change_point_wants_a_level() {
    let check = |later: &[f64], value, expected| {
        let mut history = noise(40, 100.0, 2.0, 13);
        history.extend(later);
        let model = Some(ThresholdModel::new(Test::ChangePoint));
        let found = verdict(Made { model, ..latency(&history, value) });
        assert_eq!(found.outcome, expected, "{later:?} {value}: {}", found.why());
    };
    check(&[], 150.0, Outcome::NoChange);
    check(&[119.0, 121.0, 120.0, 122.0], 120.0, Outcome::Worse);
    check(&[79.0, 81.0, 80.0, 82.0], 80.0, Outcome::Better);
    check(&noise(20, 120.0, 2.0, 14), 120.0, Outcome::NoChange);
}

/// Noise is not what prevents a verdict.
#[test]
fn few_points_of_many_benchmarks_say_so() {
    let made = |i: u64, sigma: f64| {
        let history = noise(6, 100.0, sigma, i);
        Made { name: format!("b{i}"), ..latency(&history, 100.0) }
    };
    let all: Vec<Made> = (0..300).map(|i| made(i, if i < 30 { 5.0 } else { 0.3 })).collect();
    let found = judge(&all).verdicts;
    let noisy: Vec<&Verdict> =
        found.iter().filter(|one| one.outcome == Outcome::TooNoisy).collect();
    assert!(!noisy.is_empty());
    for one in noisy {
        let expected = "6 points are too few to judge 300 metrics at once: they differ by ";
        assert!(one.why().starts_with(expected), "{}", one.why());
    }
}

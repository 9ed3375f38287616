//! Histories with spikes, which must neither hide changes nor count as such.

use super::*;
use wingbeat_stats::random::Random;

/// Noise of 1 % with spikes of +20 % to +60 % at these places.
fn spiky(count: usize, spikes: &[usize], seed: u64) -> Vec<f64> {
    let mut values = noise(count, 100.0, 1.0, seed);
    let mut random = Random::new(seed + 1_000);
    spikes.iter().for_each(|&at| values[at] += 20.0 + 40.0 * random.unit());
    values
}

fn is_shown(found: &Verdict) -> bool {
    matches!(found.outcome, Outcome::Worse | Outcome::MaybeWorse)
}

/// Verdicts on that many consecutive reports with that value plus noise.
fn lasting(history: &[f64], value: f64, reports: usize, seed: u64) -> Vec<Verdict> {
    let new = noise(reports, value, value / 100.0, seed);
    let all = [history, &new].concat();
    let judged = |at: usize| verdict(latency(&all[..at], all[at]));
    (history.len()..all.len()).map(judged).collect()
}

/// Two spikes among eight points hid a factor of five.
#[test]
fn a_factor_of_five_after_two_spikes_is_shown() {
    let history = spiky(8, &[2, 5], 1);
    let found = verdict(latency(&history, 500.0));
    assert_eq!(found.outcome, Outcome::Worse, "none of its spikes comes near: {}", found.why());
    let found = verdict(latency(&history, 180.0));
    assert_eq!(found.outcome, Outcome::MaybeWorse, "{}", found.why());
    assert!(found.why().contains("2 of 8 points are spikes"), "{}", found.why());
    assert!(found.smallest_visible.is_some_and(|visible| visible < 0.3), "{found:?}");
    let again = verdict(Made { repeats: vec![498.0, 505.0], ..latency(&history, 500.0) });
    assert_eq!(again.outcome, Outcome::Worse, "{}", again.why());
    let gone = verdict(Made { repeats: vec![101.0], ..latency(&history, 500.0) });
    assert_eq!(gone.outcome, Outcome::NoChange, "{}", gone.why());
    assert_eq!(lasting(&history, 500.0, 3, 2)[2].outcome, Outcome::Worse);
}

#[test]
fn half_more_after_one_spike_of_six_is_shown() {
    let mut history = noise(6, 100.0, 1.0, 3);
    history[3] = 135.0;
    let found = verdict(latency(&history, 155.0));
    assert!(is_shown(&found), "{}", found.why());
    assert_eq!(lasting(&history, 155.0, 3, 4)[2].outcome, Outcome::Worse);
}

/// A fifth more with about one spike in twenty values: shown at once, an alert by the third report, and not absorbed
/// afterwards.
#[test]
fn a_fifth_more_is_an_alert_by_the_third_report() {
    let (mut shown, mut alerts, mut all) = (0, 0, 0);
    for (count, spikes) in [
        (20, &[7][..]),
        (20, &[3, 11]),
        (50, &[5, 30]),
        (50, &[4, 22, 41]),
        (100, &[50]),
        (100, &[10, 30, 55, 70, 90]),
    ] {
        for seed in 0..10 {
            let found = lasting(&spiky(count, spikes, 10 + seed), 120.0, 3, 50 + seed);
            shown += usize::from(is_shown(&found[0]));
            alerts += usize::from(found.iter().any(|one| one.outcome == Outcome::Worse));
            all += 1;
        }
    }
    assert!(shown >= all - 1 && alerts >= all - 1, "{shown} and {alerts} of {all}");
}

/// A value refuted by a repeat does not count as evidence in the next report.
#[test]
fn a_refuted_value_is_not_the_first_of_a_new_level() {
    let mut history = noise(12, 100.0, 1.0, 8);
    history.push(140.0);
    let next = || latency(&history, 140.5);
    assert_eq!(verdict(next()).outcome, Outcome::Worse);
    let repeats_before = |again: f64| [vec![Vec::new(); 12], vec![vec![again]]].concat();
    let refuted = verdict(Made { repeats_before: repeats_before(100.5), ..next() });
    assert_eq!(refuted.outcome, Outcome::MaybeWorse, "{}", refuted.why());
    let recurred = verdict(Made { repeats_before: repeats_before(139.0), ..next() });
    assert_eq!(recurred.outcome, Outcome::Worse, "{}", recurred.why());
}

/// Iterations of a report count as one report, since they share the machine's state.
#[test]
fn iterations_are_not_so_many_reports() {
    let mut history = noise(24, 100.0, 1.0, 9);
    history.extend([111.0, 111.4, 110.8]);
    let iterations = verdict(Made { points_per_report: 3, ..latency(&history, 111.2) });
    assert!(iterations.why().contains("newest 2 reports"), "{}", iterations.why());
    let reports = verdict(latency(&history, 111.2));
    assert_eq!(reports.outcome, Outcome::Worse, "{}", reports.why());
    assert!(reports.why().contains("newest 4 reports"), "{}", reports.why());
    history.extend([111.1, 110.9, 111.3]);
    let three = verdict(Made { points_per_report: 3, ..latency(&history, 111.2) });
    assert_eq!(three.outcome, Outcome::Worse, "{}", three.why());
    assert!(three.why().contains("newest 3 reports"), "{}", three.why());
}

/// An alert is repeated while the new level is new. Then it becomes the baseline.
#[test]
fn a_new_level_is_not_absorbed_unseen() {
    let history = spiky(40, &[8, 29], 5);
    let found = lasting(&history, 120.0, 16, 6);
    let alerts: Vec<bool> = found.iter().map(|one| one.outcome == Outcome::Worse).collect();
    assert!(alerts[1..5].iter().all(|is_alert| *is_alert), "{alerts:?}");
    let last = found.last().expect("one");
    assert_eq!(last.outcome, Outcome::NoChange, "{}", last.why());
    let baseline = last.boundary.and_then(|boundary| boundary.baseline).expect("a baseline");
    assert!((118.0..122.0).contains(&baseline), "{baseline}");
}

/// The history of a Criterion benchmark: an increase by half passed as "no change ≥ 3,455 %".
#[test]
fn nothing_is_promised_that_cannot_be_seen() {
    let history = [61.2, 60.9, 1_480.0, 61.5, 60.7, 2_250.0, 61.1, 61.0];
    let found = verdict(latency(&history, 94.6));
    assert!(is_shown(&found), "{found:?}");
    assert!(found.change.is_some_and(|change| (change.relative - 0.547).abs() < 0.02));
    let wild = [10.0, 55.0, 3.0, 120.0, 31.0, 8.0];
    let found = verdict(latency(&wild, 60.0));
    assert_eq!(found.outcome, Outcome::TooNoisy, "{found:?}");
    assert_eq!(found.smallest_visible, None);
    assert!(found.why().starts_with("history too noisy to judge: "), "{}", found.why());
    assert!(found.why().ends_with("; --confirm or more iterations"), "{}", found.why());
}

/// A machine alternating between two levels has not changed, however well its values agree.
#[test]
fn spikes_of_one_size_agree_without_being_a_level() {
    let mut wrong = 0;
    for seed in 0..40 {
        let mut history = noise(60, 100.0, 1.0, 100 + seed);
        history.iter_mut().skip(2).step_by(6).for_each(|value| *value += 10.0);
        *history.last_mut().expect("one") = 110.0 + 0.02 * seed as f64;
        wrong += usize::from(verdict(latency(&history, 110.3)).outcome == Outcome::Worse);
    }
    assert_eq!(wrong, 0);
}

/// Possible spikes raise no alert, and improvements are only measured again if a limit is set.
#[test]
fn suspects_are_no_alerts() {
    let decision = judge(&[latency(&noise(12, 100.0, 2.0, 3), 60.0)]);
    assert_eq!(decision.verdicts[0].outcome, Outcome::MaybeBetter);
    assert!(decision.verdicts[0].outcome.is_suspect() && decision.alerts.is_empty());
    assert!(decision.verdicts[0].why().ends_with("the next report decides"));
}

/// Consecutive spikes, each of which was gone when measured again, are not a new level.
#[test]
fn spikes_that_do_not_recur_are_no_level() {
    let mut history = noise(15, 1_000.0, 10.0, 3);
    for report in 0..6 {
        let again = Made { repeats: vec![1_001.0], ..latency(&history, 2_000.0) };
        let found = verdict(again);
        assert_eq!(found.outcome, Outcome::NoChange, "{report}: {}", found.why());
        history.push(2_000.0);
    }
}

/// A branch is compared with its start point, and its own pushes confirm each other.
#[test]
fn pushes_that_deviate_alike_are_no_spikes() {
    let history = noise(12, 100.0, 1.0, 3);
    let check = |pushes: &[f64], value, expected| {
        let found = verdict(Made { pushes: pushes.to_vec(), ..latency(&history, value) });
        assert_eq!(found.outcome, expected, "{pushes:?} {value}: {}", found.why());
    };
    check(&[], 112.0, Outcome::MaybeWorse);
    check(&[112.2], 112.0, Outcome::Worse);
    check(&[112.2, 111.9, 112.1], 112.0, Outcome::Worse);
    check(&[112.2, 111.9, 112.1], 100.3, Outcome::NoChange);
    check(&[100.3], 112.0, Outcome::MaybeWorse);
    check(&[88.0], 112.0, Outcome::MaybeWorse);
    check(&[112.2, 100.1], 112.0, Outcome::MaybeWorse);
    check(&[100.5, 99.0, 100.2], 101.0, Outcome::NoChange);
    // They do not become usual.
    check(&[150.0; 3], 150.0, Outcome::Worse);
}

/// Twelve reports with a spread of 1 % and no spikes: spikes of half the value are unlikely.
#[test]
fn a_value_that_no_spike_comes_near_is_an_alert_at_once() {
    for seed in 0..40 {
        let history = noise(12, 100.0, 1.0, seed);
        let check = |value: f64, expected| {
            let found = verdict(latency(&history, value));
            assert_eq!(found.outcome, expected, "{seed} {value}: {}", found.why());
        };
        check(108.0, Outcome::MaybeWorse);
        check(150.0, Outcome::Worse);
        check(200.0, Outcome::Worse);
    }
    // With spikes in the history, it is a spike.
    let spiky = spiky(12, &[3, 8], 1);
    assert_eq!(verdict(latency(&spiky, 150.0)).outcome, Outcome::MaybeWorse);
}

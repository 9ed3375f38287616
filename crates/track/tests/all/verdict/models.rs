//! What each test of a threshold says: the seven with a formula, exact measures, and which points count.

use super::*;

/// 25 values with mean 100 and standard deviation 10, both exactly.
fn worked_example() -> Vec<f64> {
    let mut values = vec![100.0];
    values.extend([90.0; 12]);
    values.extend([110.0; 12]);
    values
}

#[test]
fn boundaries() {
    let check = |test, lower, upper, history: &[f64], expected: [Option<f64>; 3]| {
        let found = verdict(under(test, lower, upper, history, 1.0)).boundary;
        let Some(Boundary { baseline, lower_limit, upper_limit }) = found else {
            assert_eq!(expected, [None; 3], "{test}: {found:?}");
            return;
        };
        let found = [lower_limit, baseline, upper_limit];
        for (found, expected) in found.iter().zip(expected) {
            let is_close = match (found, expected) {
                (Some(found), Some(expected)) => (found - expected).abs() < 0.005,
                (found, expected) => *found == expected,
            };
            assert!(is_close, "{test}: {found:?}, not {expected:?}");
        }
    };
    let example = worked_example();
    let p = Some(0.977);
    check(Test::TTest, p, p, &example, [Some(78.54), Some(100.0), Some(121.46)]);
    check(Test::TTest, None, p, &example, [None, Some(100.0), Some(121.46)]);
    check(Test::ZScore, p, p, &example, [Some(80.046), Some(100.0), Some(119.954)]);
    let steps = [10.0, 20.0, 30.0, 40.0, 100.0];
    check(Test::Percentage, Some(0.1), Some(0.2), &steps, [Some(36.0), Some(40.0), Some(48.0)]);
    check(Test::Iqr, Some(1.0), Some(2.0), &steps, [Some(10.0), Some(30.0), Some(70.0)]);
    // Newest first: 100 → 40, 40 → 30, 30 → 20, 20 → 10 are steps of 0.6, 0.25, 0.333, 0.5.
    let d = (0.525 - 0.3125) * 30.0;
    let one = Some(1.0);
    check(Test::DeltaIqr, one, one, &steps, [30.0 - d, 30.0, 30.0 + d].map(Some));
    // Logarithms 1 and 3: m = 2, d = √2.
    let e = std::f64::consts::E;
    let (middle, upper) = (e.powi(2), (2.0 + 2.0_f64.sqrt() * 1.281_551_565_5).exp());
    let (p9, limits) = (Some(0.9), [2.0 * middle - upper, middle, upper].map(Some));
    check(Test::LogNormal, p9, p9, &[e, e.powi(3)], limits);
    check(Test::LogNormal, None, Some(0.9), &[1.0, -1.0], [None; 3]);
    check(Test::Static, Some(2.0), Some(3.0), &[], [Some(2.0), None, Some(3.0)]);
    check(Test::TTest, None, p, &[5.0], [None; 3]);
    check(Test::TTest, None, None, &example, [None; 3]);
}

#[test]
fn outcomes() {
    let check = |test, upper, history: &[f64], value, expected| {
        let found = verdict(under(test, None, Some(upper), history, value));
        assert_eq!(found.outcome, expected, "{test} {value}: {}", found.why());
    };
    use Outcome::{NoChange, TooLittleHistory, Worse};
    check(Test::Static, 5.0, &[], 5.1, Worse);
    check(Test::Static, 5.0, &[], 5.0, NoChange);
    check(Test::Percentage, 0.1, &[100.0], 110.0, NoChange);
    check(Test::Percentage, 0.1, &[100.0], 110.1, Worse);
    check(Test::Percentage, 0.1, &[], 110.1, TooLittleHistory);
    check(Test::Iqr, 3.0, &[100.0], 101.0, Worse);
    check(Test::ZScore, 0.99, &[100.0], 900.0, TooLittleHistory);
    for test in [Test::TTest, Test::ZScore, Test::LogNormal, Test::Iqr, Test::DeltaIqr] {
        let upper = 0.99;
        check(test, upper, &[0.1; 7], 0.1, NoChange);
        check(test, upper, &[0.1; 7], 0.11, Worse);
        check(test, upper, &[100.0; 4], 900.0, Worse);
    }
}

#[test]
fn directions() {
    let check = |direction, value, limit, outcome, is_alert| {
        let measure = Measure::custom("speed", "m/s", direction, MeasureKind::Noisy);
        let made = under(Test::Percentage, None, Some(0.1), &[100.0; 3], value);
        let model = ThresholdModel { lower_boundary: Some(0.1), ..made.model.expect("one") };
        let decision = judge(&[Made { measure, model: Some(model), ..made }]);
        let found = &decision.verdicts[0];
        assert_eq!((found.outcome, found.limit), (outcome, limit), "{direction:?} {value}");
        assert_eq!(!decision.alerts.is_empty(), is_alert, "{direction:?} {value}");
    };
    use Direction::{HigherIsBetter, LowerIsBetter, Unknown};
    check(LowerIsBetter, 120.0, Some(Limit::Upper), Outcome::Worse, true);
    check(LowerIsBetter, 80.0, Some(Limit::Lower), Outcome::Better, true);
    check(HigherIsBetter, 120.0, Some(Limit::Upper), Outcome::Better, true);
    check(HigherIsBetter, 80.0, Some(Limit::Lower), Outcome::Worse, true);
    check(Unknown, 80.0, Some(Limit::Lower), Outcome::Changed, true);
    check(Unknown, 100.0, None, Outcome::NoChange, false);
}

#[test]
fn who_is_not_judged() {
    let none = Made { model: None, ..latency(&[1.0; 20], 900.0) };
    assert_eq!(verdict(none).outcome, Outcome::NotJudged);
    let ignored = under(Test::Percentage, None, Some(0.1), &[1.0; 20], 900.0);
    let decision = judge(&[Made { is_ignored: true, ..ignored }]);
    assert_eq!(decision.verdicts[0].outcome, Outcome::NotJudged);
    assert!(decision.verdicts[0].boundary.is_some() && decision.alerts.is_empty());
}

#[test]
fn any_change_is_a_change() {
    let check = |history: &[f64], value, tolerance, expected| {
        let measure = Measure::named("instructions");
        let made = under(Test::Auto, None, tolerance, history, value);
        let found = verdict(Made { measure, ..made });
        assert_eq!(found.outcome, expected, "{history:?} {value}: {}", found.why());
        assert_eq!(found.p, None);
    };
    check(&[], 55.0, None, Outcome::TooLittleHistory);
    check(&[55.0], 55.0, None, Outcome::NoChange);
    check(&[55.0], 56.0, None, Outcome::Worse);
    check(&[55.0], 54.0, None, Outcome::Better);
    // The last value counts, whatever came before.
    check(&[55.0, 55.0, 55.0, 56.0], 56.0, None, Outcome::NoChange);
    check(&[100.0], 102.0, Some(0.02), Outcome::NoChange);
    check(&[100.0], 103.0, Some(0.02), Outcome::Worse);
    check(&[0.0], 1.0, Some(0.02), Outcome::Worse);
    check(&[0.0], 0.0, None, Outcome::NoChange);
}

#[test]
fn what_is_better_is_an_alert_only_where_a_limit_is_set() {
    let check = |lower_boundary, expected| {
        let measure = Measure::named("instructions");
        let made = under(Test::Auto, lower_boundary, None, &[55.0], 50.0);
        let decision = judge(&[Made { measure, ..made }]);
        assert_eq!(decision.alerts.len(), expected);
    };
    check(None, 0);
    check(Some(0.0), 1);
}

#[test]
fn the_reason_names_the_commit_and_the_difference() {
    let measure = Measure::named("instructions");
    let found = verdict(Made { measure: measure.clone(), ..latency(&[55.0], 56.0) });
    assert_eq!(
        found.reason.text(&measure),
        "an exact measure that was 55 at 0123456789 differs by 1"
    );
}

#[test]
fn sizes_and_windows() {
    let check = |least, most, window_days: Option<u32>, points| {
        let model = ThresholdModel {
            min_sample_size: least,
            max_sample_size: most,
            window: window_days.map(|days| days * 86_400),
            upper_boundary: Some(0.5),
            ..ThresholdModel::new(Test::Percentage)
        };
        let found =
            verdict(Made { model: Some(model), ..latency(&noise(30, 100.0, 1.0, 1), 900.0) });
        let is_short = least.is_some_and(|least| points < least as usize);
        assert_eq!(found.points, points);
        assert_eq!(found.outcome == Outcome::TooLittleHistory, is_short, "{}", found.why());
    };
    check(None, None, None, 30);
    check(None, Some(8), None, 8);
    check(None, None, Some(10), 10);
    check(Some(10), None, Some(10), 10);
    check(Some(11), None, Some(10), 10);
}

#[test]
fn the_newest_count() {
    let mut history = vec![10.0; 20];
    history.extend([100.0; 5]);
    let model = ThresholdModel {
        max_sample_size: Some(5),
        upper_boundary: Some(0.1),
        ..ThresholdModel::new(Test::Percentage)
    };
    let found = verdict(Made { model: Some(model), ..latency(&history, 105.0) });
    assert_eq!(found.outcome, Outcome::NoChange, "{}", found.why());
}

#[test]
fn other_machines_and_other_kernels() {
    let machine = |cpu: &str, kernel: &str| Environment {
        cpu_model: Some(cpu.to_owned()),
        kernel: Some(kernel.to_owned()),
        ..Environment::default()
    };
    let check = |old: Environment, points, outcome, words: &str| {
        let mut history = noise(50, 100.0, 1.0, 2);
        history.extend(noise(20, 150.0, 1.0, 3));
        let mut environments = vec![old; 50];
        environments.extend(vec![machine("EPYC", "6.18"); 20]);
        history.truncate(67);
        let made = Made { environments, ..latency(&history, 165.0) };
        let decision = judge_in(&[made], &machine("EPYC", "6.19"));
        let found = &decision.verdicts[0];
        assert_eq!((found.points, found.outcome), (points, outcome), "{}", found.why());
        assert!(found.why().contains(words), "{}", found.why());
    };
    check(machine("Xeon", "6.18"), 17, Outcome::MaybeWorse, "kernel 6.18 → 6.19");
    check(machine("EPYC", "6.1"), 67, Outcome::Worse, "kernel 6.18 → 6.19");
    check(Environment::default(), 67, Outcome::Worse, "kernel 6.18 → 6.19");
}

#[test]
fn a_machine_without_history() {
    let cpu =
        |name: &str| Environment { cpu_model: Some(name.to_owned()), ..Environment::default() };
    let environments = vec![cpu("Xeon"); 50];
    let made = Made { environments, ..latency(&noise(50, 100.0, 1.0, 2), 200.0) };
    let decision = judge_in(&[made], &cpu("EPYC"));
    let found = &decision.verdicts[0];
    assert_eq!(found.outcome, Outcome::TooLittleHistory);
    assert!(found.why().contains("50 more were measured on another machine"), "{}", found.why());
    assert_eq!(decision.notices.len(), 1);
}

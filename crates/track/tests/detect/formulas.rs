//! The seven tests with a formula.

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

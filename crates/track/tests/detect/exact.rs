//! Exact measures: any change beyond the tolerance, from the second report on.

use super::*;

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

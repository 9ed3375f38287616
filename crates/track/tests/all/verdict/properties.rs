//! Properties that hold for all values.

use super::*;
use proptest::prelude::*;

fn settings(test: Test) -> Option<f64> {
    Some(match test {
        Test::Percentage | Test::Auto => 0.1,
        Test::Iqr | Test::DeltaIqr => 2.0,
        _ => 0.95,
    })
}

fn on_both_sides(test: Test, history: &[f64], value: f64) -> Verdict {
    verdict(under(test, settings(test), settings(test), history, value))
}

fn flipped(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Worse => Outcome::Better,
        Outcome::Better => Outcome::Worse,
        Outcome::MaybeWorse => Outcome::MaybeBetter,
        Outcome::MaybeBetter => Outcome::MaybeWorse,
        same => same,
    }
}

const SCALING: [Test; 7] = [
    Test::Percentage,
    Test::ZScore,
    Test::TTest,
    Test::LogNormal,
    Test::Iqr,
    Test::DeltaIqr,
    Test::Auto,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn units_do_not_matter(
        history in prop::collection::vec(50.0..150.0_f64, 5..40),
        value in 20.0..400.0_f64,
        exponent in -8..12_i32,
    ) {
        let scale = 2_f64.powi(exponent);
        let scaled: Vec<f64> = history.iter().map(|value| value * scale).collect();
        for test in SCALING {
            let (plain, other) =
                (on_both_sides(test, &history, value), on_both_sides(test, &scaled, value * scale));
            prop_assert_eq!(plain.outcome, other.outcome, "{}", test);
        }
    }

    #[test]
    fn directions_flip_the_outcome(
        history in prop::collection::vec(50.0..150.0_f64, 5..40),
        value in 1.0..900.0_f64,
    ) {
        let outcome = |direction| {
            let measure = Measure::custom("m", "u", direction, MeasureKind::Noisy);
            verdict(Made { measure, ..latency(&history, value) }).outcome
        };
        use Direction::{HigherIsBetter, LowerIsBetter, Unknown};
        let [lower, higher, unknown] = [LowerIsBetter, HigherIsBetter, Unknown].map(outcome);
        prop_assert_eq!(higher, flipped(lower));
        let is_change = matches!(lower, Outcome::Worse | Outcome::Better);
        prop_assert_eq!(unknown == Outcome::Changed, is_change);
        prop_assert_eq!(unknown.is_suspect(), lower.is_suspect());
    }

    #[test]
    fn mirrored_values_swap_the_limits(
        history in prop::collection::vec(50.0..150.0_f64, 5..40),
        value in 20.0..400.0_f64,
    ) {
        let mirrored: Vec<f64> = history.iter().map(|value| -value).collect();
        for test in [Test::Percentage, Test::ZScore, Test::TTest, Test::Iqr, Test::DeltaIqr, Test::Auto] {
            let (plain, other) =
                (on_both_sides(test, &history, value), on_both_sides(test, &mirrored, -value));
            prop_assert_eq!(other.outcome, flipped(plain.outcome), "{}", test);
        }
    }

    /// Whatever the values are, nothing panics and all numbers are finite.
    #[test]
    fn any_values(
        history in prop::collection::vec(prop_oneof![
            Just(0.0), Just(1.0), -1e300..1e300_f64, -1.0..1.0_f64, Just(f64::MIN_POSITIVE),
        ], 0..30),
        value in prop_oneof![Just(0.0), -1e300..1e300_f64, Just(1.0)],
    ) {
        for test in Test::ALL {
            let found = on_both_sides(test, &history, value);
            let boundary = found.boundary.unwrap_or_default();
            let change = found.change;
            let numbers = [
                boundary.baseline, boundary.lower_limit, boundary.upper_limit, found.p,
                found.smallest_visible, change.map(|change| change.relative),
                change.and_then(|change| change.lower), change.and_then(|change| change.upper),
            ];
            prop_assert!(numbers.iter().flatten().all(|number| number.is_finite()), "{found:?}");
            let json = serde_json::to_string(&found).expect("JSON");
            prop_assert_eq!(&serde_json::from_str::<Verdict>(&json).expect(&json), &found);
            prop_assert!(!found.why().is_empty());
        }
    }
}

/// Larger values never get milder verdicts: none, then possibly, then certainly worse. Also if all values were equal,
/// whatever their digits are.
#[test]
fn verdicts_are_monotonic() {
    let rank = |history: &[f64], value| match verdict(latency(history, value)).outcome {
        Outcome::Worse => 2,
        Outcome::MaybeWorse => 1,
        _ => 0,
    };
    let spiky = [noise(30, 100.0, 2.0, 1), vec![130.0, 140.0], noise(10, 100.0, 2.0, 2)].concat();
    for history in [noise(40, 100.0, 2.0, 1), noise(200, 100.0, 2.0, 1), spiky, vec![100.0; 8]] {
        let ranks: Vec<u8> = (100..400).map(|value| rank(&history, f64::from(value))).collect();
        assert!(ranks.is_sorted() && ranks.last() > ranks.first(), "{ranks:?}");
    }
}

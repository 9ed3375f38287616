//! Fewer than five reports of history: nothing is decided, and metrics that look changed are listed.

use super::*;

/// A report whose samples are around its value, with a history whose samples are around 100.
fn made(points: usize, value: f64) -> Made {
    let samples = (noise(30, 100.0, 2.0, 1), noise(30, value, 2.0, 2));
    Made { samples, ..latency(&noise(points, 100.0, 1.0, 3), value) }
}

/// Checks that nothing was decided, and returns how it looks.
fn look(made: Made) -> Option<Look> {
    let Decision { verdicts, alerts, looks, .. } = judge(&[made]);
    assert_eq!(verdicts[0].outcome, Outcome::TooLittleHistory, "{}", verdicts[0].why());
    assert_eq!((verdicts[0].limit, alerts.len()), (None, 0));
    assert!(verdicts[0].why().contains("of the 5 reports that are needed"));
    assert!(looks.len() <= 1);
    looks.first().copied()
}

#[test]
fn samples_raise_no_alert() {
    for points in 1..=4 {
        let found = look(made(points, 500.0)).expect("it looks worse");
        assert_eq!((found.outcome, found.limit), (Outcome::Worse, Limit::Upper));
        assert_eq!((found.place, found.reports, found.change_min), (0, points, 0.01));
        assert!((3.8..4.2).contains(&found.change), "{}", found.change);
    }
    let better = look(made(2, 50.0)).expect("it looks better");
    assert_eq!((better.outcome, better.limit), (Outcome::Better, Limit::Lower));
    let measure = Measure { direction: Direction::Unknown, ..Measure::latency() };
    let changed = look(Made { measure, ..made(2, 200.0) }).expect("it looks changed");
    assert_eq!(changed.outcome, Outcome::Changed);
}

#[test]
fn what_is_not_worth_a_look() {
    assert_eq!(look(made(0, 500.0)), None, "there is no history");
    assert_eq!(look(made(2, 115.0)), None, "runs differ by as much");
    // Without samples, with few of them, with one outlier.
    assert_eq!(look(Made { samples: Default::default(), ..made(2, 500.0) }), None);
    let few = (noise(30, 100.0, 2.0, 1), noise(9, 500.0, 2.0, 2));
    assert_eq!(look(Made { samples: few, ..made(2, 500.0) }), None);
    let mut wild = noise(30, 100.0, 2.0, 4);
    wild[7] = 1_000.0;
    let wild = (noise(30, 100.0, 2.0, 1), wild);
    assert_eq!(look(Made { samples: wild, ..made(2, 130.0) }), None);
    let boundary = ThresholdModel { upper_boundary: Some(5.0), ..ThresholdModel::new(Test::Auto) };
    assert_eq!(look(Made { model: Some(boundary), ..made(2, 500.0) }), None);
}

/// With a threshold that requires more points, nothing is repeated before they exist.
#[test]
fn a_threshold_that_asks_for_more_points_is_heard() {
    for (points, least, expected) in [
        (3, 4, "history has 3 of the 5 reports"),
        (8, 9, "history has 8 of the 9 points"),
        (10, 20, "history has 10 of the 20 points"),
    ] {
        let model =
            ThresholdModel { min_sample_size: Some(least), ..ThresholdModel::new(Test::Auto) };
        let decision = judge(&[Made { model: Some(model), ..made(points, 500.0) }]);
        assert_eq!((&*decision.looks, &*decision.alerts), (&[][..], &[][..]), "{points}");
        let found = &decision.verdicts[0];
        assert_eq!(found.outcome, Outcome::TooLittleHistory);
        assert!(found.why().starts_with(expected), "{}", found.why());
    }
}

/// Iterations of a report share the machine's state.
#[test]
fn reports_count_and_not_points() {
    let with = |points, points_per_report| Made { points_per_report, ..made(points, 500.0) };
    assert_eq!(look(with(5, 5)).map(|look| look.reports), Some(1));
    assert_eq!(look(with(20, 5)).map(|look| look.reports), Some(4));
    let decided = judge(&[with(25, 5)]);
    assert_eq!((decided.verdicts[0].outcome, decided.alerts.len()), (Outcome::Worse, 1));
    assert_eq!(decided.looks, []);
    let model = Some(ThresholdModel::new(Test::ChangePoint));
    let levels = [noise(5, 100.0, 1.0, 1), noise(5, 300.0, 1.0, 2)].concat();
    let found = judge(&[Made { model, points_per_report: 5, ..latency(&levels, 300.0) }]);
    assert_eq!(found.verdicts[0].outcome, Outcome::TooLittleHistory);
}

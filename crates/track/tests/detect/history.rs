//! Which points count.

use super::*;

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

//! Many benchmarks that move alike become one notice.

use super::*;

/// A report of that many benchmarks, each of which moved by its factor.
fn report(factors: &[f64]) -> Vec<Made> {
    factors
        .iter()
        .enumerate()
        .map(|(i, factor)| {
            let level = 10.0_f64.powi(i as i32 % 4);
            let history = noise(300, level, 0.02 * level, i as u64);
            Made { name: format!("b{i}"), ..latency(&history, level * factor) }
        })
        .collect()
}

fn kernel(kernel: &str) -> Environment {
    Environment { kernel: Some(kernel.to_owned()), ..Environment::default() }
}

fn check(factors: &[f64], together: usize, alerts: usize) {
    let decision = judge_in(&report(factors), &Environment::default());
    let moved = |outcome| outcome == Outcome::MovedTogether;
    let found = decision.verdicts.iter().filter(|verdict| moved(verdict.outcome)).count();
    assert_eq!((found, decision.alerts.len()), (together, alerts), "{factors:?}");
    let is_crowd = |notice: &Notice| matches!(notice.kind, NoticeKind::MovedTogether { .. });
    assert_eq!(decision.notices.iter().any(is_crowd), together > 0, "{factors:?}");
}

#[test]
fn crowds() {
    check(&[1.3; 6], 6, 0);
    check(&[0.7; 6], 6, 0);
    check(&[1.3; 4], 0, 4);
    check(&[1.3, 1.35, 1.25, 1.3, 1.4, 1.3, 1.0, 1.3], 7, 0);
    check(&[1.3, 1.0, 1.0, 1.3, 1.0, 1.0, 1.0, 1.0], 0, 2);
    // The noise of the unchanged ones has the same direction by chance.
    check(&[2.0, 2.0, 2.0, 2.0, 1.03, 1.03], 0, 4);
    // One moved far more than the others.
    check(&[1.3, 1.3, 1.3, 1.3, 1.3, 3.0], 5, 1);
}

#[test]
fn higher_is_better() {
    let mut all = report(&[0.5; 6]);
    all.iter_mut().for_each(|made| made.measure = Measure::throughput());
    let decision = judge_in(&all, &Environment::default());
    let is_down = decision.verdicts.iter().all(|verdict| verdict.limit == Some(Limit::Lower));
    assert!(is_down && decision.alerts.is_empty());
}

#[test]
fn the_notice_names_what_is_new() {
    let mut all = report(&[1.3; 6]);
    all.iter_mut().for_each(|made| made.environments = vec![kernel("6.12"); 300]);
    let decision = judge_in(&all, &kernel("6.18"));
    let [
        Notice { kind: NoticeKind::EnvironmentChanged { changes }, .. },
        Notice { kind: NoticeKind::MovedTogether { environment, .. }, text },
    ] = decision.notices.as_slice()
    else {
        panic!("{:?}", decision.notices);
    };
    assert_eq!(changes, environment);
    assert_eq!(text.next_step, "new since then: kernel 6.12 → 6.18");
}

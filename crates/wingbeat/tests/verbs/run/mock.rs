//! `wingbeat mock`: made-up results.

use serde_json::Value;

use crate::{
    ran::Ran,
    repository::{Repository, WINGBEAT},
};

fn mock(arguments: &[&str]) -> Ran {
    let repository = Repository::new();
    Ran::of(repository.wingbeat(&["mock"]).args(arguments))
}

#[test]
fn a_seed_makes_it_stable() {
    let seeded = |seed: &str| mock(&["--seed", seed]).stdout;
    assert_eq!(seeded("1"), seeded("1"));
    assert_ne!(seeded("1"), seeded("2"));
    assert_ne!(mock(&[]).stdout, mock(&[]).stdout, "without one each is another");
}

#[test]
fn numbers_and_measures() {
    let check = |arguments: &[&str], benchmarks, measures| {
        let ran = mock(arguments).ended_with(0);
        let Value::Object(found) = ran.json() else { panic!("{}", ran.stdout) };
        assert_eq!(found.len(), benchmarks, "{arguments:?}");
        assert!(found.values().all(|it| it.as_object().is_some_and(|it| it.len() == measures)));
    };
    check(&[], 5, 1);
    check(&["--count", "12"], 12, 1);
    check(&["--count", "0"], 0, 0);
    check(&["--measure", "latency", "--measure", "x", "--pow", "-3"], 5, 2);
}

#[test]
fn failures() {
    let failed = mock(&["--seed", "1", "--fail"]);
    assert_eq!((failed.code, failed.json().is_object()), (Some(1), true), "results come first");
    let codes = |seed: u32| mock(&["--flaky", "--seed", &seed.to_string()]).code;
    let codes: Vec<_> = (0..16).map(codes).collect();
    assert!(codes.contains(&Some(0)) && codes.contains(&Some(1)), "{codes:?}");
    for wrong in [["--pow", "400"], ["--noise", "100"], ["--slower", "-100"], ["--slower", "much"]]
    {
        assert_eq!(mock(&wrong).code, Some(2), "{wrong:?}");
    }
}

#[test]
fn a_dozen_runs_of_it_and_a_candidate_that_is_slower() {
    let repository = Repository::new();
    let measure = ["mock", "--measure", "instructions", "--seed"];
    let run = |branch: &[&str], seed: &str| {
        let fixed = ["--err", WINGBEAT];
        let arguments = [branch, &fixed, &measure, &[seed]].concat();
        repository.run(&arguments).code
    };
    for _ in 0..12 {
        assert_eq!(run(&["--branch", "main"], "1"), Some(0));
    }
    let candidate = ["--branch", "candidate", "--start-point", "main"];
    assert_eq!(run(&candidate, "1"), Some(0));
    assert_eq!(run(&candidate, "2"), Some(1));
}

#[test]
fn a_walkthrough_with_noise_ends_with_one_alert() {
    let repository = Repository::new();
    let run = |flags: &[&str], mock: &[&str]| {
        let fixed = ["--err", WINGBEAT, "mock", "--noise", "2"];
        repository.run(&[flags, &fixed, mock].concat())
    };
    for seed in 1..=12 {
        let seed = seed.to_string();
        assert_eq!(run(&["--branch", "main"], &["--seed", &seed]).code, Some(0), "{seed}");
    }
    let candidate = ["--branch", "candidate", "--start-point", "main"];
    run(&candidate, &["--seed", "13"]).ended_with(0);
    // Once, it may be a spike. Remeasured, it is an alert.
    let not_confirmed = [&candidate[..], &["--confirm", "0"]].concat();
    let once = run(&not_confirmed, &["--seed", "13", "--slower", "20"]).ended_with(0);
    assert!(once.stdout.contains("worse, spike?"), "{}", once.stdout);
    let slower = run(&candidate, &["--seed", "13", "--slower", "20"]).ended_with(1);
    assert!(
        slower.stdout.contains("1 of 5 metrics is worse: bencher::mock_4"),
        "{}",
        slower.stdout
    );
}

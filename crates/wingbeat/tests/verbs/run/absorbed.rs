//! Unanswered alerts become the new level, and slow drifts are reported once.

use crate::{
    ran::Ran,
    repository::{Repository, latency},
};

fn notices(ran: &Ran, code: &str) -> Vec<String> {
    let json = ran.json();
    let all = json["wingbeat"]["notices"].as_array().expect("notices");
    let ours = all.iter().filter(|notice| notice["code"] == code);
    ours.map(|notice| notice["cause"].as_str().expect("a cause").to_owned()).collect()
}

const USUAL: &str = "alert-is-usual";

/// The sixtieth report of a benchmark that becomes slower by half a percent each time.
#[test]
fn a_slow_drift_is_told() {
    let repository = Repository::new();
    let level = |at: i32| 100.0 * 1.005_f64.powi(at) * (1.0 + f64::from(at * 7 % 5) / 200.0);
    repository.history(&(0..59).map(level).collect::<Vec<_>>());
    let run = |at| {
        let line = latency(level(at));
        repository.run(&["--project", "p", "--err", "--format", "json", &line]).ended_with(0)
    };
    let ran = run(59);
    let cause = "a slow drift: a latency has risen by 28.3 % over 50 reports";
    assert_eq!(notices(&ran, "drifted"), [cause], "{}", ran.stdout);
    let json = ran.json();
    let all = json["wingbeat"]["notices"].as_array().expect("notices");
    let metric = all.iter().find_map(|notice| notice["metrics"].get(0)).expect("a metric");
    assert_eq!((&metric["benchmark"], &metric["reports"]), (&"a".into(), &50.into()), "{metric}");
    assert_eq!(notices(&run(60), "drifted"), [""; 0]);
}

#[test]
fn it_is_told_once() {
    let repository = Repository::new();
    let history: Vec<f64> = (0..40).map(|at| 100.0 + f64::from(at * 7 % 5)).collect();
    repository.history(&history);
    let hash = repository.git(&["rev-parse", "HEAD"]);
    let run = |at: u32| {
        let line = latency(150.0 + f64::from(at * 3 % 5));
        repository.run(&["--project", "p", "--err", "--format", "json", &line])
    };
    let mut at = 0;
    let first_quiet = loop {
        let ran = run(at);
        if ran.code == Some(0) {
            break ran;
        }
        assert_eq!(notices(&ran, USUAL), Vec::<String>::new());
        at += 1;
        assert!(at < 12, "it never becomes the usual level");
    };
    assert!(at >= 4, "a level takes some reports: {at}");
    let [notice] = &notices(&first_quiet, USUAL)[..] else { panic!("{}", first_quiet.stdout) };
    let expected = format!("open for a long time: a latency +49.0 % since {}", &hash[..10]);
    assert!(notice.ends_with(&expected), "{notice}");
    let next = run(at + 1);
    assert_eq!((next.code, notices(&next, USUAL)), (Some(0), Vec::new()), "{}", next.stderr);
}

#[test]
fn a_commit_that_did_nothing_passes() {
    let repository = Repository::new();
    repository.history(&(0..40).map(|at| 100.0 + f64::from(at * 7 % 5)).collect::<Vec<_>>());
    let run = |value: f64, more: &[&str]| {
        let line = latency(value);
        let shared = ["--project", "p", "--err", "--format", "json", &line];
        repository.run(&[more, &shared[..]].concat())
    };
    let commit = || repository.git(&["commit", "-q", "--allow-empty", "-m", "next"]);
    commit();
    let hash = repository.git(&["rev-parse", "HEAD"]);
    run(150.0, &[]).ended_with(1);
    commit();
    let expected =
        format!("earlier commits raised alerts about a latency (+49.0 % since {})", &hash[..10]);
    let of_earlier = |ran: &Ran| notices(ran, "alert-of-earlier");
    let next = run(152.0, &[]).ended_with(0);
    assert_eq!(of_earlier(&next), [expected], "{}", next.stdout);
    // So does a branch from there, but a much larger regression fails.
    commit();
    let branch = ["--branch", "pull/1", "--start-point", "main"];
    let pull = run(151.0, &branch).ended_with(0);
    assert_eq!(of_earlier(&pull).len(), 1, "{}", pull.stdout);
    assert_eq!(of_earlier(&run(250.0, &branch).ended_with(1)), [""; 0]);
}

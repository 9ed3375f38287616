//! Behaviour of `--err` by itself: it repeats measurements, pools pushes of a branch, and detects missing benchmarks.

use crate::repository::{Repository, latency, metric};

/// Twelve reports of `main` with a spread of 1 %, and a branch that starts there.
fn story() -> Repository {
    let repository = Repository::new();
    let history: Vec<f64> = (1..=12).map(|at| f64::from(985 + at * 7 % 31)).collect();
    repository.history(&history);
    repository.branch("slow");
    repository.commit();
    repository
}

const PUSH: [&str; 5] = ["--project", "p", "--start-point", "main", "--err"];

/// Reports of a job whose command prints the next of these values on each run.
fn job(repository: &Repository, flags: &[&str], values: &[f64]) -> crate::ran::Ran {
    let lines: Vec<String> = values.iter().map(|value| latency(*value)).collect();
    repository.write("n", "");
    let script = format!(
        "printf x >> n; case $(wc -c < n) in {} esac",
        lines.iter().zip(1..).map(|(line, at)| format!("{at}) {line};; ")).collect::<String>()
    );
    repository.run(&[&PUSH, flags, &[&script]].concat())
}

#[test]
fn a_suspect_is_measured_again_by_itself() {
    let check = |flags: &[&str], values: &[f64], code, said: &str| {
        let repository = story();
        let ran = job(&repository, flags, values).ended_with(code).prints(said);
        let runs = std::fs::read(repository.path().join("n")).expect("it ran").len();
        assert_eq!(runs, values.len(), "{}", ran.stdout);
    };
    check(&[], &[1080.0, 1082.0], 1, "a ran again once: what recurred is an alert");
    check(&[], &[1080.0, 1001.0], 0, "a ran again once: none recurred");
    check(&[], &[1005.0], 0, "no alert in 1 metric");
    check(&["--confirm", "0"], &[1080.0], 0, "cannot rule out a spike");
}

#[test]
fn without_err_nothing_runs_twice() {
    let repository = story();
    let ran = repository.run(&["--project", "p", "--start-point", "main", &latency(1200.0)]);
    ran.ended_with(0).prints("--err, or --confirm 1, measures a again at once");
    assert_eq!(repository.reports().len(), 13);
}

/// Exact counts do not vary by chance.
#[test]
fn exact_measures_are_not_measured_again() {
    let repository = Repository::new();
    let line =
        |value: u32| format!("echo run >> n; {}", crate::repository::instructions(value.into()));
    repository.run(&["--err", &line(100)]).ended_with(0);
    repository.run(&["--err", &line(101)]).ended_with(1);
    assert_eq!(std::fs::read_to_string(repository.path().join("n")).expect("it ran"), "run\nrun\n");
}

/// A second run without the suspect decides nothing.
#[test]
fn a_suspect_without_a_second_result_fails() {
    let check = |second: &str, said: &str| {
        let repository = story();
        let first = latency(1200.0);
        let line = format!("if test -e n; then {second}; else touch n; {first}; fi");
        let ran = repository.run(&[&PUSH[..], &[line.as_str()]].concat()).ended_with(1);
        ran.tells("ran again without a result").prints(said);
        assert!(repository.reports().len() >= 13, "what was measured is stored");
    };
    check("exit 1", "did not run again to confirm: it failed with status 1");
    check(&several(&["b"]), "had no result of a");
}

/// A deviation in the second run alone does not confirm another in the first.
#[test]
fn two_spikes_of_two_benchmarks_are_no_alert() {
    let repository = Repository::new();
    let both = |a: f64, b: f64| {
        format!(
            "echo '{{\"a\": {{\"latency\": {{\"value\": {a}}}}}, \"b\": {{\"latency\": {{\"value\": {b}}}}}}}'"
        )
    };
    for at in 0..12 {
        let value = 985.0 + f64::from(at * 7 % 31);
        repository.run(&[&both(value, value)]).ended_with(0);
    }
    let (first, second) = (both(1080.0, 1000.0), both(1001.0, 1080.0));
    let line = format!("if test -e n; then {second}; else touch n; {first}; fi");
    repository.run(&["--err", &line]).ended_with(0).prints("a ran again once: none recurred");
}

/// Files cannot be remeasured. A second push with the same deviation is not a spike.
#[test]
fn pushes_that_deviate_alike_confirm_each_other() {
    let check = |pushes: &[(f64, i32)]| {
        let repository = story();
        for &(value, code) in pushes {
            repository.commit();
            repository.write("r.json", metric("latency", value));
            repository.run(&[&PUSH[..], &["--file", "r.json"]].concat()).ended_with(code);
        }
    };
    check(&[(1080.0, 0), (1081.0, 1), (1079.0, 1), (1000.0, 0)]);
    check(&[(1080.0, 0), (1001.0, 0), (1003.0, 0), (1080.0, 0)]);
    check(&[(1080.0, 0), (920.0, 0)]);
    check(&[(1300.0, 0), (1301.0, 1)]);
    check(&[(1500.0, 1)]);
    check(&[(2000.0, 1)]);
}

fn several(names: &[&str]) -> String {
    let one = |name: &&str| format!("\"{name}\": {{\"latency\": {{\"value\": 10}}}}");
    format!("echo '{{{}}}'", names.iter().map(one).collect::<Vec<_>>().join(", "))
}

#[test]
fn benchmarks_that_vanish_are_listed_and_one_has_to_be_left() {
    let check = |before: &[&[&str]], now: &[&str], flags: &[&str], code, said: Option<&str>| {
        let repository = Repository::new();
        for names in before {
            repository.run(&[&several(names)]).ended_with(0);
            repository.commit();
        }
        let fixed = ["--err", "--format", "json", "--confirm", "0"];
        let ran = repository.run(&[&fixed[..], flags, &[&several(now)]].concat()).ended_with(code);
        let notices = ran.json()["wingbeat"]["notices"].to_string();
        match said {
            Some(said) => assert!(notices.contains(said), "{notices}"),
            None => assert!(!notices.contains("missing"), "{notices}"),
        }
    };
    let abc = &["a", "b", "c/d"][..];
    check(&[abc], abc, &[], 0, None);
    check(&[abc], &["a", "b2", "c/d"], &[], 0, Some("1 of 3 benchmarks of the last report"));
    check(&[abc], &["zzz"], &[], 1, Some("3 of 3 benchmarks of the last report"));
    check(&[abc], &["zzz"], &["--allow-missing"], 0, Some("were they renamed?"));
    // Jobs that share a branch and report different benchmarks.
    check(&[abc, &["x", "y"]], abc, &[], 0, None);
    check(&[abc, &["x", "y"]], &["x"], &[], 0, Some("1 of 2 benchmarks of the last report"));
    check(&[], &["a"], &[], 0, None);
}

/// A new suite in another step of the same job is not the old one renamed.
#[test]
fn what_another_report_of_the_commit_has_is_not_missing() {
    let repository = Repository::new();
    repository.run(&["--err", &several(&["a", "b"])]).ended_with(0);
    repository.commit();
    repository.run(&["--err", &several(&["a", "b"])]).ended_with(0);
    repository.run(&["--err", &several(&["new"])]).ended_with(0);
    repository.commit();
    repository.run(&["--err", &several(&["newer"])]).ended_with(1);
}

/// Against its start point, a branch has no missing benchmarks of its own.
#[test]
fn a_branch_misses_what_its_start_point_has() {
    let repository = Repository::new();
    repository.run(&[&several(&["a", "b"])]).ended_with(0);
    repository.branch("side");
    repository.commit();
    let push =
        |names: &[&str]| repository.run(&["--start-point", "main", "--err", &several(names)]);
    for _ in 0..2 {
        push(&["a"]).ended_with(0).prints("1 of 2 benchmarks of the last report");
    }
    repository.commit();
    push(&["c"]).ended_with(1);
}

/// The job of an old commit runs again after `main` became faster.
#[test]
fn an_old_commit_is_judged_by_what_came_before_it() {
    let repository = Repository::new();
    let commits: Vec<String> = (0..14).map(|_| repository.commit()).collect();
    for (at, commit) in commits.iter().enumerate() {
        let value = if at < 13 { 2000 + at * 7 % 31 } else { 1000 };
        let line = latency(value as f64);
        repository.run(&["--err", "--project", "p", "--hash", commit, &line]).ended_with(0);
    }
    let again = |value| {
        let line = latency(value);
        repository.run(&["--err", "--project", "p", "--hash", &commits[12], &line])
    };
    again(2010.0).ended_with(0).prints("which was measured before");
    let reports = repository.reports();
    let newest = reports.last().and_then(|report| report.hash.clone());
    assert_eq!(newest.as_ref(), commits.last(), "it is not the newest of history");
    again(4020.0).ended_with(1);
}

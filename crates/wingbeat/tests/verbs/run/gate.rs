//! Behaviour of `--err` by itself: it repeats measurements, pools pushes of a branch, and detects missing benchmarks.

use crate::{
    ran::Ran,
    repository::{Repository, latency, metric, values},
};

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
fn job(repository: &Repository, flags: &[&str], values: &[f64]) -> Ran {
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

// `--confirm`: a spike is not an alert, a change is, and all measurements are kept.

/// A command line that prints the next of these values on each run, and the last one from then on.
fn one_after_another(values: &[f64]) -> String {
    let list: Vec<String> = values.iter().map(f64::to_string).collect();
    let last = list.last().expect("a value").clone();
    format!(
        "set -- {}; n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n; \
         while [ $n -gt 0 ] && [ $# -gt 0 ]; do shift; n=$((n - 1)); done; \
         echo \"{{\\\"a\\\": {{\\\"latency\\\": {{\\\"value\\\": ${{1:-{last}}}}}}}}}\"",
        list.join(" ")
    )
}

/// A stable history, and then a run with `--confirm`.
fn confirmed(test: &[&str], times: &str, measured: &[f64]) -> (Repository, Ran) {
    let repository = Repository::new();
    let history: Vec<f64> = (0..60).map(|at| 100.0 + f64::from(at * 7 % 5)).collect();
    repository.history(&history);
    let line = one_after_another(measured);
    let flags = ["--project", "p", "--err", "--format", "json", "--confirm", times];
    let ran = repository.run(&[&flags, test, &[line.as_str()]].concat());
    (repository, ran)
}

const T_TEST: [&str; 6] = [
    "--threshold-measure",
    "latency",
    "--threshold-test",
    "t_test",
    "--threshold-upper-boundary",
    "0.99",
];

#[test]
fn what_recurs_is_an_alert_and_a_spike_is_none() {
    let check = |test: &[&str], times: &str, measured: &[f64], code, repeats: &[f64]| {
        let (repository, ran) = confirmed(test, times, measured);
        assert_eq!(ran.code, Some(code), "{measured:?}: {}{}", ran.stdout, ran.stderr);
        let reports = repository.reports();
        let (found, again): (Vec<_>, Vec<_>) =
            reports[60..].iter().partition(|report| report.confirms.is_none());
        assert_eq!(found.len(), 1);
        assert_eq!(values(found[0]), measured[..1]);
        assert_eq!(found[0].alerts.len(), usize::from(code == 1));
        let told: Vec<f64> = again.iter().flat_map(|report| values(report)).collect();
        assert_eq!(told, repeats, "{measured:?}");
        assert!(again.iter().all(|report| report.confirms == Some(found[0].uuid)));
        assert!(again.iter().all(|report| report.alerts.is_empty()));
    };
    for test in [&[][..], &T_TEST] {
        check(test, "1", &[102.0], 0, &[]);
        check(test, "1", &[300.0, 101.0], 0, &[101.0]);
        check(test, "1", &[300.0, 299.0], 1, &[299.0]);
        check(test, "3", &[300.0, 301.0, 102.0], 0, &[301.0, 102.0]);
        check(test, "2", &[300.0, 301.0, 302.0], 1, &[301.0, 302.0]);
        check(test, "0", &[300.0, 101.0], 1, &[]);
    }
}

#[test]
fn what_was_measured_to_confirm_is_no_history() {
    let (repository, ran) = confirmed(&T_TEST, "1", &[300.0, 101.0, 101.0]);
    ran.remarks_on("a ran again once: none recurred");
    let line = one_after_another(&[101.0]);
    let flags = ["--project", "p", "--format", "json"];
    let ran = repository.run(&[&flags[..], &T_TEST, &[&line]].concat());
    let points = ran.json()["results"][0][0]["measures"][0]["wingbeat"]["points"].clone();
    assert_eq!(points, 61);
}

#[test]
fn a_count_that_is_not_exact() {
    let repository = Repository::new();
    let line = |values: &[f64]| one_after_another(values).replace("latency", "instructions");
    repository.run(&[&line(&[100.0])]).ended_with(0);
    let run = |values: &[f64]| {
        repository.write("n", "0");
        repository.run(&["--err", "--dry-run", "--confirm", "1", &line(values)]).code
    };
    assert_eq!(run(&[105.0, 105.0]), Some(1));
    assert_eq!(run(&[105.0, 100.0]), Some(0));
}

#[test]
fn results_without_a_command() {
    let repository = Repository::new();
    repository.history(&[100.0, 101.0, 100.0]);
    repository.write("results", metric("latency", 300.0));
    let flags =
        ["--project", "p", "--err", "--format", "json", "--confirm", "2", "--file", "results"];
    repository.run(&[&flags[..], &T_TEST].concat()).ended_with(1).remarks_on("without a command");
}

// Unanswered alerts become the new level, and slow drifts are reported once.

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

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

/// A command line that prints the next of these values on each run, of which the file `n` has the number.
fn next_of(repository: &Repository, values: &[f64]) -> String {
    repository.write("n", "");
    let line = |(at, value): (usize, &f64)| format!("{}) {};; ", at + 1, latency(*value));
    let lines: String = values.iter().enumerate().map(line).collect();
    format!("printf x >> n; case $(wc -c < n) in {lines} esac")
}

/// A job whose command prints the next of these values on each run.
fn job(repository: &Repository, flags: &[&str], values: &[f64]) -> Ran {
    let line = next_of(repository, values);
    repository.run(&[&PUSH, flags, &[&line]].concat())
}

const T_TEST: [&str; 3] =
    ["--threshold-measure=latency", "--threshold-test=t_test", "--threshold-upper-boundary=0.99"];

/// All measurements are kept: a repeat is a report that confirms another.
#[test]
fn a_suspect_is_measured_again_by_itself() {
    let check = |flags: &[&str], measured: &[f64], code, said: &str| {
        let repository = story();
        let ran = job(&repository, flags, measured).ended_with(code).prints(said);
        let runs = std::fs::read(repository.path().join("n")).expect("it ran").len();
        assert_eq!(runs, measured.len(), "{ran}");
        let reports = repository.reports();
        let [found, again @ ..] = &reports[12..] else { panic!("nothing was stored: {ran}") };
        assert_eq!((found.confirms, values(found)), (None, measured[..1].to_vec()));
        assert_eq!(found.alerts.len(), usize::from(code == 1), "{ran}");
        let repeats: Vec<f64> = again.iter().flat_map(values).collect();
        assert_eq!(repeats, measured[1..]);
        for repeat in again {
            assert_eq!((repeat.confirms, repeat.alerts.len()), (Some(found.uuid), 0));
        }
    };
    check(&[], &[1080.0, 1082.0], 1, "a ran again once: what recurred is an alert");
    check(&[], &[1080.0, 1001.0], 0, "a ran again once: none recurred");
    check(&[], &[1005.0], 0, "no alert in 1 metric");
    check(&["--confirm", "0"], &[1080.0], 0, "cannot rule out a spike");
    check(&["--confirm", "2"], &[1080.0, 1082.0, 1079.0], 1, "what recurred is an alert");
    check(&["--confirm", "3"], &[1080.0, 1082.0, 1001.0], 0, "none recurred");
    let t_test = |times| [&T_TEST[..], &["--confirm", times]].concat();
    check(&t_test("1"), &[1005.0], 0, "no alert in 1 metric");
    check(&t_test("1"), &[3000.0, 2990.0], 1, "what recurred is an alert");
    check(&t_test("1"), &[3000.0, 1001.0], 0, "none recurred");
    check(&t_test("0"), &[3000.0], 1, "1 of 1 metric is worse");
    // Without --err, nothing runs twice.
    let repository = story();
    let ran = repository.run(&["--project", "p", "--start-point", "main", &latency(1200.0)]);
    ran.ended_with(0).prints("--err, or --confirm 1, measures a again at once");
    assert_eq!(repository.reports().len(), 13);
}

/// Exact counts do not vary by chance, unless asked.
#[test]
fn exact_measures_are_measured_again_on_request() {
    let repository = Repository::new();
    let run = |flags: &[&str], counts: &[f64], code, runs: usize| {
        let line = next_of(&repository, counts).replace("latency", "instructions");
        repository.run(&[&["--err"], flags, &[&line]].concat()).ended_with(code);
        let ran = std::fs::read(repository.path().join("n")).expect("it ran");
        assert_eq!(ran.len(), runs, "{flags:?} {counts:?}");
    };
    run(&[], &[100.0], 0, 1);
    run(&["--dry-run"], &[105.0], 1, 1);
    let confirm = ["--dry-run", "--confirm", "1"];
    run(&confirm, &[105.0, 105.0], 1, 2);
    run(&confirm, &[105.0, 100.0], 0, 2);
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
    let repository = story();
    for (value, code) in [(1080.0, 0), (1081.0, 1), (1079.0, 1), (1000.0, 0), (1500.0, 1)] {
        repository.commit();
        repository.write("r.json", metric("latency", value));
        let flags = ["--format", "json", "--confirm", "2", "--file", "r.json"];
        let ran = repository.run(&[&PUSH[..], &flags].concat()).ended_with(code);
        if value != 1000.0 {
            ran.remarks_on("without a command");
        }
    }
}

fn several(names: &[&str]) -> String {
    let one = |name: &&str| format!("\"{name}\": {{\"latency\": {{\"value\": 10}}}}");
    format!("echo '{{{}}}'", names.iter().map(one).collect::<Vec<_>>().join(", "))
}

#[test]
fn benchmarks_that_vanish_are_listed_and_one_has_to_be_left() {
    let repository = Repository::new();
    repository.run(&[&several(&["a", "b", "c/d"])]).ended_with(0);
    repository.commit();
    let check = |names: &[&str], flags: &[&str], code, said: &str| {
        let line = several(names);
        let ran = repository.run(&[&["--err", "--dry-run"], flags, &[&line]].concat());
        ran.ended_with(code).prints(said);
    };
    check(&["a", "b2", "c/d"], &[], 0, "1 of 3 benchmarks of the last report");
    check(&["zzz"], &[], 1, "3 of 3 benchmarks of the last report");
    check(&["zzz"], &["--allow-missing"], 0, "are missing: a, b, c/d; were they");
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

// Unanswered alerts become the new level, and slow drifts are reported once.

fn notices(ran: &Ran, code: &str) -> Vec<String> {
    let json = ran.json();
    let all = json["wingbeat"]["notices"].as_array().expect("notices");
    let ours = all.iter().filter(|notice| notice["code"] == code);
    ours.map(|notice| notice["cause"].as_str().expect("a cause").to_owned()).collect()
}

fn json(repository: &Repository, flags: &[&str], value: f64) -> Ran {
    let line = latency(value);
    repository.run(&[&["--project", "p", "--err", "--format", "json"], flags, &[&line]].concat())
}

/// The sixtieth report of a benchmark that becomes slower by half a percent each time.
#[test]
fn a_slow_drift_is_told() {
    let repository = Repository::new();
    let level = |at: i32| 100.0 * 1.005_f64.powi(at) * (1.0 + f64::from(at * 7 % 5) / 200.0);
    repository.history(&(0..59).map(level).collect::<Vec<_>>());
    let ran = json(&repository, &[], level(59)).ended_with(0);
    let cause = "a slow drift: a latency has risen by 28.3 % over 50 reports";
    assert_eq!(notices(&ran, "drifted"), [cause], "{ran}");
    let ran = json(&repository, &[], level(60)).ended_with(0);
    assert_eq!(notices(&ran, "drifted"), [""; 0]);
}

fn forty_quiet() -> Repository {
    let repository = Repository::new();
    repository.history(&(0..40).map(|at| 100.0 + f64::from(at * 7 % 5)).collect::<Vec<_>>());
    repository
}

#[test]
fn an_alert_that_became_the_level_is_told_once() {
    let repository = forty_quiet();
    let hash = repository.git(&["rev-parse", "HEAD"]);
    let told: Vec<_> = (0..12)
        .map(|at| json(&repository, &[], 150.0 + f64::from(at * 3 % 5)))
        .map(|ran| (ran.code, notices(&ran, "alert-is-usual")))
        .collect();
    let alerts = told.iter().take_while(|(code, _)| *code == Some(1)).count();
    assert!((4..11).contains(&alerts), "a level takes some reports: {told:?}");
    let expected = format!("open for a long time: a latency +49.0 % since {}", &hash[..10]);
    for (at, (_, notices)) in told.iter().enumerate() {
        let is_told = notices.iter().any(|notice| notice.ends_with(&expected));
        assert_eq!((is_told, notices.len()), (at == alerts, usize::from(is_told)), "{told:?}");
    }
}

#[test]
fn a_commit_that_did_nothing_passes() {
    let repository = forty_quiet();
    let hash = repository.commit();
    json(&repository, &[], 150.0).ended_with(1);
    repository.commit();
    let of_earlier = |ran: &Ran| notices(ran, "alert-of-earlier");
    let next = json(&repository, &[], 152.0).ended_with(0);
    let expected =
        format!("earlier commits raised alerts about a latency (+49.0 % since {})", &hash[..10]);
    assert_eq!(of_earlier(&next), [expected], "{next}");
    // So does a branch from there, but a much larger regression fails.
    repository.commit();
    let branch = ["--branch", "pull/1", "--start-point", "main"];
    let pull = json(&repository, &branch, 151.0).ended_with(0);
    assert_eq!(of_earlier(&pull).len(), 1, "{pull}");
    assert_eq!(of_earlier(&json(&repository, &branch, 250.0).ended_with(1)), [""; 0]);
}

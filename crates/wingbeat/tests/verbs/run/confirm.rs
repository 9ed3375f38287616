//! `--confirm`: a spike is not an alert, a change is, and all measurements are kept.

use crate::{
    ran::Ran,
    repository::{Repository, metric, values},
};

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
fn a_command_that_fails_the_second_time_leaves_the_alert() {
    let repository = Repository::new();
    repository.history(&[100.0, 101.0, 100.0]);
    let line = format!("{}; test ! -e failed && touch failed", one_after_another(&[300.0]));
    let flags = ["--project", "p", "--err", "--format", "json", "--confirm", "2"];
    let ran = repository.run(&[&flags[..], &T_TEST, &[&line]].concat()).ended_with(1);
    let remarks = ran.remarks();
    assert!(remarks.contains("did not run again to confirm: it failed with status 1"), "{remarks}");
    assert_eq!(repository.reports().len(), 4);
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

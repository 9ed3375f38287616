//! The article's two jobs on recorded benchmark output: a regression fails at each push, its fix passes, and unchanged
//! code raises no alert. `recorded/README.md` describes the recording.

use serde_json::{Value, json};

use crate::repository::Repository;

const GOOD: &str = include_str!("recorded/profiler.txt");
const OOPS: &str = include_str!("recorded/profiler-oops.txt");
const FIXED: &str = include_str!("recorded/profiler-fixed.txt");

/// Relative noise of equal runs on a quiet machine, including a slow one.
const NOISE: [f64; 12] = [1.0, 1.02, 0.98, 1.01, 1.05, 0.97, 1.03, 0.99, 1.12, 1.0, 0.96, 1.04];

/// The same output with all times multiplied by a factor.
fn slower(output: &str, factor: f64) -> String {
    let line = |line: &str| {
        let Some((head, rest)) = line.split_once("time:   [") else { return format!("{line}\n") };
        let words: Vec<&str> = rest.trim_end_matches(']').split(' ').collect();
        let time = |pair: &[&str]| {
            let value: f64 = pair[0].parse().expect("a time");
            format!("{:.3} {}", value * factor, pair[1])
        };
        let times: Vec<String> = words.chunks(2).map(time).collect();
        format!("{head}time:   [{}]\n", times.join(" "))
    };
    output.lines().map(line).collect()
}

/// Runs a job on the benchmark output of a new commit; returns the exit code and the report.
fn job(repository: &Repository, flags: &[&str], output: &str) -> (i32, String) {
    repository.commit();
    repository.write("output", output);
    let fixed = ["--project", "simple-profiler", "--testbed", "ci-runner", "--err"];
    let ran = repository.run(&[flags, &fixed, &["cat", "output"]].concat());
    (ran.code.expect("an exit code"), ran.stdout + &ran.stderr)
}

#[test]
fn times_are_scaled() {
    let check = |factor, expected: &str| {
        let text = slower(GOOD, factor);
        assert_eq!(text.lines().next(), Some(expected));
        assert_eq!(text.lines().count(), GOOD.lines().count());
    };
    check(1.0, "process_sample          time:   [46.551 ns 48.565 ns 50.894 ns]");
    check(2.0, "process_sample          time:   [93.102 ns 97.130 ns 101.788 ns]");
}

#[test]
fn the_jobs_of_the_article() {
    let repository = Repository::new();
    for factor in NOISE {
        let (code, told) = job(&repository, &["--branch", "main"], &slower(GOOD, factor));
        assert_eq!(code, 0, "{told}");
    }
    let base = repository.git(&["rev-parse", "HEAD"]);
    repository.branch("candidate");
    let candidate = ["--branch", "candidate", "--branch-start-point", "main"];
    let candidate = [&candidate[..], &["--branch-start-point-hash", &base]].concat();
    let check = |output: &str, expected: i32| {
        let (code, told) = job(&repository, &candidate, output);
        assert_eq!(code, expected, "{told}");
        assert_eq!(told.contains("\nalert "), expected == 1, "{told}");
        let report = repository.first_reports().pop().expect("a report");
        assert_eq!(report.active_alerts(), usize::try_from(expected).expect("no signal"));
        assert_eq!(report.verdicts[0].points, NOISE.len(), "its own pushes are no history");
    };
    for factor in [1.0, 1.04, 0.97] {
        check(&slower(GOOD, factor), 0);
    }
    check(OOPS, 1);
    check(&slower(OOPS, 1.8), 1);
    check(FIXED, 0);
}

#[test]
fn the_start_point_is_in_the_json() {
    let repository = Repository::new();
    assert_eq!(job(&repository, &[], GOOD).0, 0);
    assert_eq!(job(&repository, &[], GOOD).0, 0);
    let base = repository.git(&["rev-parse", "HEAD"]);
    repository.branch("candidate");
    repository.commit();
    repository.write("output", GOOD);
    let check = |branch: &[&str], expected: &str| {
        let flags = ["--project", "simple-profiler", "--testbed", "ci-runner", "--format", "json"];
        let json = repository.run(&[&flags, branch, &["cat", "output"]].concat()).json();
        let version = &json["branch"]["head"]["start_point"]["version"];
        assert_eq!(version.to_string(), expected, "{json}");
    };
    let version = format!("{{\"hash\":\"{base}\",\"number\":1}}");
    check(&["--start-point", "main"], &version);
    check(&["--start-point", "main", "--dry-run"], &version);
    check(&["--branch", "main"], "null");
}

#[test]
fn the_json_names_the_commit_that_stood_in() {
    let repository = Repository::new();
    assert_eq!(job(&repository, &[], GOOD).0, 0);
    let measured = repository.git(&["rev-parse", "HEAD"]);
    repository.commit();
    let parted = repository.git(&["rev-parse", "HEAD"]);
    repository.branch("candidate");
    repository.commit();
    repository.write("output", GOOD);
    let flags = ["--project", "simple-profiler", "--testbed", "ci-runner", "--format", "json"];
    let json = repository.run(&[&flags[..], &["--start-point", "main", "cat", "output"]].concat());
    let start = &json.json()["branch"]["head"]["start_point"];
    let check = |member: &Value, expected: Value| assert_eq!(*member, expected, "{start}");
    check(&start["version"], json!({ "hash": measured, "number": 0 }));
    check(&start["wingbeat"], json!({ "asked_hash": parted }));
}

//! Invalid results are not stored, with a reason in one sentence.

use crate::repository::{Repository, instructions};

#[test]
fn nothing_is_stored() {
    let repository = Repository::new();
    repository.run(&[&instructions(1)]).ended_with(0);
    let check = |arguments: &[&str], expected: &str| {
        let ran = repository.run(arguments).ended_with(1).prints_nothing().tells(expected);
        assert_eq!(ran.stderr.matches("error:").count(), 1, "{}", ran.stderr);
        assert_eq!(repository.reports().len(), 1, "{arguments:?}");
    };
    let killed = format!("{}; kill -9 $$", instructions(2));
    check(&[&killed], "was killed by signal 9; nothing was stored");
    let failed = format!("{}; exit 3", instructions(2));
    check(&[&failed], "failed with status 3; nothing was stored");
    check(&[&failed], "; --allow-failure keeps the results of 1 benchmark that it printed");
    check(&["--allow-failure", "exit 3"], "`exit 3` failed with status 3, and printed no result");
    check(&["no-such-command"], "failed with status 127");
    check(&["no-such-command", "x"], "cannot run `no-such-command`: No such file");
    check(&["--shell", "/no/sh", "true"], "cannot run `/no/sh`: No such file");
    check(&["true"], "found no result in this output");
    check(&["--adapter", "go_bench", &instructions(2)], "the adapter go_bench found no result");
    check(&["--adapter", "json", "echo {"], "json");
    check(&["echo {}"], "found no result");
}

#[test]
fn nothing_to_run() {
    let repository = Repository::new();
    // Assert_cmd passes an empty stdin by default.
    repository.run(&[]).ended_with(1).tells("no results came on stdin");
}

#[test]
fn a_benchmark_that_failed_inside_a_good_run_is_told_and_not_recorded_as_fast() {
    let repository = Repository::new();
    let hyperfine = r#"{"results": [
        {"command": "good", "mean": 0.5, "stddev": 0.01, "median": 0.5, "user": 0.1, "system": 0.1,
         "min": 0.4, "max": 0.6, "times": [0.4, 0.5, 0.6], "exit_codes": [0, 0, 0]},
        {"command": "bad", "mean": 0.001, "stddev": 0.0001, "median": 0.001, "user": 0, "system": 0,
         "min": 0.001, "max": 0.001, "times": [0.001, 0.001], "exit_codes": [1, 1]}
    ]}"#;
    repository.write("results.json", hyperfine);
    let check = |flags: &[&str], expected| {
        let fixed = ["--adapter", "shell_hyperfine", "--file", "results.json"];
        let ran = repository.run(&[&fixed, flags].concat()).ended_with(expected).prints("bad");
        let is_told = ran.stderr.contains("error: 1 benchmark failed\n");
        assert_eq!(is_told, expected == 1, "{}", ran.stderr);
    };
    check(&[], 0);
    check(&["--err"], 1);
    let results = &repository.reports()[0].iterations[0];
    let names: Vec<&str> = results.benchmarks.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["good"]);
    assert_eq!(results.failures[0].name.as_str(), "bad");
}

#[test]
fn outside_of_a_repository() {
    let repository = Repository::new();
    std::fs::remove_dir_all(repository.path().join(".git")).expect("removed");
    repository.run(&["--start-point", "main", &instructions(1)]).ended_with(0);
    let report = &repository.reports()[0];
    assert_eq!((report.branch.as_str(), report.hash.as_deref()), ("main", None));
}

#[test]
fn too_many_files() {
    let repository = Repository::new();
    let flags: Vec<&str> = std::iter::repeat_n(["--file", "x"], 256).flatten().collect();
    repository.run(&[&flags[..], &["true"]].concat()).ended_with(1).tells("256 files are too many");
}

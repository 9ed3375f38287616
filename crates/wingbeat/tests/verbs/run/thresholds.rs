//! Thresholds by flags: the n-th of each belongs to the n-th measure.

use wingbeat_track::model::Report;

use crate::{
    ran::Ran,
    repository::{Repository, instructions, latency},
};

#[test]
fn a_threshold_that_judges_nothing_or_is_in_the_wrong_unit_is_told() {
    let repository = Repository::new();
    let check = |flags: &[&str], expected: &str| {
        let ran = repository.run(&[flags, &[&latency(200.0)]].concat()).ended_with(0);
        let told = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains(expected), "{ran}");
    };
    check(&["--threshold-measure", "latncy"], "the threshold for latncy judges nothing");
    let latency = ["--threshold-measure", "latency", "--threshold-test", "percentage"];
    let upper = [&latency[..], &["--threshold-upper-boundary", "10"]].concat();
    check(&upper, "write 0.1 if you mean 10 %");
}

// Precedence of settings: flags, variables, `wingbeat.toml`, the repository.

/// Project, branch and testbed.
fn names(report: &Report) -> [String; 3] {
    [report.project.to_string(), report.branch.to_string(), report.testbed.to_string()]
}

#[test]
fn flags_before_variables_before_the_file() {
    let line = instructions(1);
    let check = |is_file: bool, variables: &[(&str, &str)], flags: &[&str], expected: [&str; 3]| {
        let repository = Repository::new();
        repository.branch("feature");
        if is_file {
            repository.write("wingbeat.toml", "project = 'of-file'\ntestbed = 'of-file'\n");
        }
        let mut command = repository.wingbeat(&["run"]);
        command.args(flags).arg(&line).envs(variables.iter().copied());
        Ran::of(&mut command).ended_with(0);
        assert_eq!(names(&repository.reports()[0]), expected, "{variables:?} {flags:?}");
    };
    check(true, &[], &[], ["of-file", "feature", "of-file"]);
    let bencher =
        [("BENCHER_PROJECT", "of-b"), ("BENCHER_BRANCH", "of-b"), ("BENCHER_TESTBED", "of-b")];
    check(true, &bencher, &[], ["of-b", "of-b", "of-b"]);
    let both: Vec<_> = bencher.into_iter().chain([("WINGBEAT_PROJECT", "of-w")]).collect();
    check(true, &both, &[], ["of-w", "of-b", "of-b"]);
    check(true, &both, &["--project", "of-flag"], ["of-flag", "of-b", "of-b"]);
    check(false, &[("WINGBEAT_PROJECT", "")], &["--project", "p"], ["p", "feature", "Linux"]);
    let pull_request = [("GITHUB_HEAD_REF", "pr"), ("GITHUB_REF_NAME", "7/merge")];
    check(true, &pull_request, &[], ["of-file", "pr", "of-file"]);
    let push = [("GITHUB_HEAD_REF", ""), ("GITHUB_REF_NAME", "main")];
    check(true, &push, &[], ["of-file", "feature", "of-file"]);
    check(true, &[("CI_COMMIT_BRANCH", "gitlab")], &[], ["of-file", "gitlab", "of-file"]);
}

#[test]
fn a_detached_head_is_told() {
    let check = |flags: &[&str], variables: &[(&str, &str)], branch: &str, is_told: bool| {
        let repository = Repository::new();
        repository.git(&["checkout", "-q", "--detach"]);
        let mut command = repository.wingbeat(&["run", "--format", "json"]);
        let ran = Ran::of(command.args(flags).arg(instructions(1)).envs(variables.iter().copied()))
            .ended_with(0);
        assert_eq!(repository.reports()[0].branch.as_str(), branch);
        let told = "no branch is checked out (detached HEAD), so the report is of branch main; \
                    --branch NAME sets another";
        assert_eq!(ran.remarks() == told, is_told, "{}", ran.remarks());
    };
    check(&[], &[], "main", true);
    check(&["--branch", "b"], &[], "b", false);
    check(&[], &[("GITHUB_REF_NAME", "d")], "d", false);
}

#[test]
fn a_command_and_an_adapter_by_variable() {
    let repository = Repository::new();
    let run = |adapter: &str| {
        let mut command = repository.wingbeat(&["run"]);
        command.env("BENCHER_CMD", "echo 'test a ... bench: 12 ns/iter (+/- 1)'");
        Ran::of(command.env("WINGBEAT_ADAPTER", adapter))
    };
    run("rust_bench").ended_with(0);
    assert_eq!(repository.reports()[0].adapter.to_string(), "rust_bench");
    assert_eq!(run("json").code, Some(1), "that is no JSON");
    run("rust_bunch").ended_with(2);
}

#[test]
fn thresholds_of_the_file_act_by_measure_and_glob() {
    let repository = Repository::new();
    let file = "
        [[threshold]]
        measure = 'latency'
        test = 'static'
        upper-boundary = 50
        [[threshold]]
        measure = 'latency'
        benchmark = 'par*'
        test = 'static'
        upper-boundary = 500
    ";
    repository.write("wingbeat.toml", file);
    let line = |name: &str| format!("echo '{{\"{name}\": {{\"latency\": {{\"value\": 100}}}}}}'");
    let check = |name: &str, flags: &[&str], expected| {
        repository.run(&[&["--err"], flags, &[&line(name)]].concat()).ended_with(expected);
    };
    check("other", &[], 1);
    check("parse", &[], 0);
    // A measure on the command line overrides the file's whole threshold for it.
    let flags = ["--threshold-measure", "latency", "--threshold-test", "static"];
    let upper = |value| [&flags[..], &["--threshold-upper-boundary", value]].concat();
    check("parse", &upper("99"), 1);
    check("other", &upper("101"), 0);
    let of_other_measure = ["--threshold-measure", "x"];
    check("other", &of_other_measure, 1);
}

#[test]
fn a_file_that_is_not_understood_is_wrong_usage() {
    let repository = Repository::new();
    let check = |file: &str, expected: &str| {
        repository.write("wingbeat.toml", file);
        repository.run(&["touch ran"]).ended_with(2).tells(expected);
        assert!(!repository.path().join("ran").exists(), "the command is not run");
    };
    check("projekt = 'x'", "unknown field `projekt`");
    check("project = [", "wingbeat.toml");
}

#[test]
fn least_change_of_auto() {
    let repository = Repository::new();
    repository.history(&[100.0; 40]);
    let check = |share: &str, expected| {
        repository.write("wingbeat.toml", format!("project = 'p'\n[auto]\nmin-change = {share}\n"));
        repository.run(&["--err", "--dry-run", &latency(200.0)]).ended_with(expected);
    };
    check("0.01", 1);
    check("1.5", 0);
}

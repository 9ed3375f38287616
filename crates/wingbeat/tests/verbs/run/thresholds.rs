//! Thresholds by flags: the n-th of each belongs to the n-th measure.

use wingbeat_track::model::Report;

use crate::{
    ran::Ran,
    repository::{Repository, instructions, latency},
};

#[test]
fn a_limit_is_told_once() {
    let repository = Repository::new();
    repository.history(&[100.0; 4]);
    let flags = ["--threshold-measure", "latency", "--threshold-test", "percentage"];
    let check = |boundary: [&str; 2], value: f64, expected: &str| {
        let line = latency(value);
        let fixed = ["--project", "p", "--dry-run"];
        let ran = repository.run(&[&fixed[..], &flags, &boundary, &[&line]].concat());
        let alert = ran.stdout.split("alert ").nth(1).unwrap_or_default();
        let alert: String = alert.lines().take_while(|line| !line.is_empty()).collect();
        let alert = alert.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(alert.starts_with(expected), "{}", ran.stdout);
        assert_eq!(alert.matches("limit").count(), 1, "{alert}");
    };
    let upper = ["--threshold-upper-boundary", "0.1"];
    check(upper, 200.0, "a latency: 200.0 ns is above the upper limit of 110.0 ns");
    let lower = ["--threshold-lower-boundary", "0.25"];
    check(lower, 50.0, "a latency: 50.00 ns is below the lower limit of 75.00 ns");
}

#[test]
fn a_threshold_that_judges_nothing_is_told() {
    let check = |flags: &[&str], file: &str, expected: &[&str]| {
        let repository = Repository::new();
        repository.write("wingbeat.toml", file);
        let line = latency(200.0);
        let arguments = [&["--format", "json"], flags, &[&line]].concat();
        let ran = repository.run(&arguments).ended_with(0);
        let notices = ran.json()["wingbeat"]["notices"].clone();
        let told: Vec<String> = notices
            .as_array()
            .expect("notices")
            .iter()
            .filter(|notice| notice["code"] == "idle-threshold")
            .map(|notice| {
                let part = |name: &str| notice[name].as_str().expect("a text").to_owned();
                [part("cause"), part("effect"), part("next_step")].join("; ")
            })
            .collect();
        assert_eq!(told.len(), expected.len(), "{told:?}");
        for (told, expected) in told.iter().zip(expected) {
            assert!(told.contains(expected), "{told}");
        }
    };
    let latency = ["--threshold-measure", "latency"];
    check(&[], "", &[]);
    check(&latency, "", &[]);
    let typo = ["--threshold-measure", "latncy"];
    check(
        &typo,
        "",
        &["the threshold for latncy judges nothing; use a measure of the results: latency"],
    );
    let open = [&latency[..], &["--threshold-test", "t_test"]].concat();
    check(
        &open,
        "",
        &["t_test needs a boundary; the threshold for latency judges nothing; set the upper"],
    );
    let of = |glob: &str| format!("[[threshold]]\nmeasure = 'latency'\nbenchmark = '{glob}'\n");
    check(&[], &of("a*"), &[]);
    check(&[], &of("b*"), &["the measure latency matches \"b*\""]);
    let two = [&latency[..], &typo].concat();
    check(&two, "", &["the threshold for latncy"]);
}

/// Fractions that look like percentages.
#[test]
fn a_boundary_in_the_wrong_unit_is_told() {
    let repository = Repository::new();
    let check = |test: &str, side: &str, boundary: &str, expected: &str| {
        let flag = format!("--threshold-{side}-boundary");
        let flags = ["--threshold-measure", "latency", "--threshold-test", test, &flag, boundary];
        let ran = repository.run(&[&["--format", "json"], &flags[..], &[&latency(1.0)]].concat());
        let notices = ran.ended_with(0).json()["wingbeat"]["notices"].to_string();
        let is_told = notices.contains("wide-threshold");
        assert_eq!(is_told, !expected.is_empty(), "{notices}");
        assert!(notices.contains(expected), "{notices}");
    };
    check("percentage", "upper", "10", "write 0.1 if you mean 10 %");
    check("percentage", "lower", "1", "the lower boundary 1 ");
    check("auto", "upper", "5", "write 0.05");
    check("percentage", "upper", "1", "");
    check("percentage", "upper", "0.1", "");
    check("static", "upper", "10", "");
    check("iqr", "upper", "10", "");
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
    check(&[], &[("CI_COMMIT_BRANCH", "c")], "c", false);
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

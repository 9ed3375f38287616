//! The history that a branch is compared with.

use serde_json::json;

use crate::{
    ran::Ran,
    repository::{Repository, instructions},
};

/// Runs on a branch; returns the exit code with the JSON report.
fn run(repository: &Repository, flags: &[&str], count: u64) -> Ran {
    let line = instructions(count);
    let fixed = ["--project", "p", "--err", "--format", "json"];
    repository.run(&[&fixed, flags, &[&line]].concat())
}

/// A repository whose branch `main` is measured: 100 instructions.
fn measured() -> Repository {
    let repository = Repository::new();
    run(&repository, &[], 100).ended_with(0);
    repository
}

/// Creates a branch with its own commit.
fn start_candidate(repository: &Repository) {
    repository.branch("candidate");
    repository.commit();
}

/// Start point of the newest report's branch: commit, and whether it has a report.
fn start_of_newest(repository: &Repository) -> (Option<String>, bool) {
    let report = repository.reports().pop().expect("a report");
    let start = report.start_point.expect("a start point");
    (start.hash, start.until.is_some())
}

#[test]
fn the_merge_base() {
    let repository = Repository::new();
    let base = repository.commit();
    run(&repository, &[], 100).ended_with(0);
    start_candidate(&repository);
    repository.git(&["checkout", "-q", "main"]);
    repository.commit();
    assert_eq!(run(&repository, &[], 50).code, Some(0), "main became better meanwhile");
    repository.git(&["checkout", "-q", "candidate"]);
    let ran = run(&repository, &["--start-point", "main"], 100);
    assert_eq!((ran.code, ran.remarks().as_str()), (Some(0), ""), "as it was where it began");
    assert_eq!(start_of_newest(&repository), (Some(base), true));
    run(&repository, &["--start-point", "main"], 101).ended_with(1);
}

#[test]
fn a_commit_without_a_report_stands_for_the_nearest_before_it() {
    let repository = Repository::new();
    let measured = repository.commit();
    run(&repository, &[], 100).ended_with(0);
    let unmeasured = repository.commit();
    start_candidate(&repository);
    let ran = run(&repository, &["--start-point", "main"], 101).ended_with(1);
    let remark = ran.remarks();
    assert!(remark.contains(&format!("no report of commit {}", &unmeasured[..10])), "{remark}");
    assert!(remark.contains(&format!("nearest one before it, {}", &measured[..10])), "{remark}");
    let start = &ran.json()["branch"]["head"]["start_point"];
    assert_eq!(start["version"], json!({ "hash": measured, "number": 0 }), "{start}");
    assert_eq!(start["wingbeat"], json!({ "asked_hash": unmeasured }), "{start}");
    // An unknown commit: the latest version.
    let unknown = "0123456789abcdef0123456789abcdef01234567";
    let flags = ["--start-point", "main", "--start-point-hash", unknown];
    let ran = run(&repository, &flags, 101).ended_with(1);
    let expected = format!("the latest one, {}", &measured[..10]);
    assert!(ran.remarks().contains(&expected), "{}", ran.remarks());
}

#[test]
fn a_start_point_that_is_not_there() {
    let repository = Repository::new();
    repository.branch("candidate");
    let check = |flags: &[&str], code, remark: &str| {
        run(&repository, flags, 101).ended_with(code).remarks_on(remark);
    };
    check(&["--start-point", "main"], 0, "the start point main has no report");
    let elsewhere = ["--start-point", "no/such", "--testbed", "t"];
    check(&elsewhere, 0, "no report on testbed t");
    // As outside a pull request.
    check(&["--start-point", "", "--start-point-hash", ""], 0, "");
    // Without a common commit, it is the latest.
    run(&repository, &["--branch", "main"], 100).ended_with(0);
    repository.git(&["checkout", "-q", "--orphan", "stranger"]);
    repository.commit();
    check(&["--start-point", "main"], 1, "git cannot find where");
}

/// Later results of `main` do not affect a branch until it is moved, and its own pushes hide nothing.
#[test]
fn a_branch_remembers_where_it_comes_from() {
    let repository = measured();
    start_candidate(&repository);
    let start = ["--start-point", "main", "--start-point-max-versions", "9"];
    run(&repository, &start, 100).ended_with(0);
    let stored = repository.reports().pop().and_then(|report| report.start_point);
    assert_eq!(stored.map(|start| start.max_versions), Some(9));
    run(&repository, &[], 101).ended_with(1);
    run(&repository, &[], 101).ended_with(1);
    repository.git(&["checkout", "-q", "main"]);
    let base = repository.commit();
    assert_eq!(run(&repository, &[], 200).code, Some(1), "main became worse");
    repository.git(&["checkout", "-q", "candidate"]);
    repository.git(&["rebase", "-q", "main"]);
    run(&repository, &[], 200).ended_with(0);
    assert_eq!(start_of_newest(&repository), (Some(base.clone()), true));
    // If git no longer knows it.
    repository.git(&["branch", "-D", "-q", "main"]);
    run(&repository, &[], 201).ended_with(1);
    assert_eq!(start_of_newest(&repository), (Some(base), true));
}

#[test]
fn a_remembered_start_point_is_looked_for_on_each_testbed() {
    let repository = Repository::new();
    for (testbed, count) in [("one", 100), ("two", 50)] {
        run(&repository, &["--testbed", testbed], count).ended_with(0);
    }
    start_candidate(&repository);
    let first = ["--start-point", "main", "--testbed", "one"];
    run(&repository, &first, 100).ended_with(0);
    run(&repository, &["--testbed", "two"], 100).ended_with(1);
}

#[test]
fn a_merge_base_that_is_measured_later_counts() {
    let repository = measured();
    let base = repository.commit();
    start_candidate(&repository);
    run(&repository, &["--start-point", "main"], 100).remarks_on("the nearest one before it");
    repository.git(&["checkout", "-q", "main"]);
    assert_eq!(run(&repository, &[], 90).code, Some(0), "the merge base is better than before");
    repository.git(&["checkout", "-q", "candidate"]);
    let ran = run(&repository, &[], 100);
    assert_eq!((ran.code, ran.remarks().as_str()), (Some(1), ""));
    assert_eq!(start_of_newest(&repository), (Some(base), true));
}

#[test]
fn a_reset_begins_anew() {
    let repository = measured();
    assert_eq!(run(&repository, &["--start-point-reset"], 101).code, Some(0), "no history");
    run(&repository, &[], 101).ended_with(0);
    run(&repository, &[], 102).ended_with(1);
    run(&repository, &["--branch-reset"], 200).ended_with(0);
    let epochs: Vec<u32> = repository.reports().iter().map(|report| report.epoch).collect();
    assert_eq!(epochs, [0, 1, 1, 1, 2]);
}

//! The history that a branch is compared with.

use crate::{
    ran::Ran,
    repository::{Repository, instructions, latency},
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
fn the_branch_of_the_remote_counts() {
    let upstream = Repository::new();
    upstream.commit();
    let repository = Repository::new();
    repository.git(&["remote", "add", "origin", upstream.path().to_str().expect("UTF-8")]);
    repository.git(&["fetch", "-q", "origin"]);
    repository.git(&["checkout", "-q", "--detach", "origin/main"]);
    let base = repository.git(&["rev-parse", "HEAD"]);
    run(&repository, &["--branch", "main"], 100).ended_with(0);
    repository.commit();
    let flags = ["--branch", "candidate", "--start-point", "main"];
    run(&repository, &flags, 101).ended_with(1);
    assert_eq!(start_of_newest(&repository), (Some(base), true));
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
    run(&repository, &["--start-point", "main"], 1)
        .ended_with(0)
        .remarks_on("the start point main has no report");
    let elsewhere = ["--start-point", "no/such", "--testbed", "t"];
    run(&repository, &elsewhere, 1).remarks_on("no report on testbed t");
    // As outside a pull request.
    let empty = ["--start-point", "", "--start-point-hash", ""];
    run(&repository, &empty, 1).ended_with(0);
}

#[test]
fn without_a_common_commit_it_is_the_latest_and_that_is_told() {
    let repository = measured();
    repository.git(&["checkout", "-q", "--orphan", "stranger"]);
    repository.commit();
    run(&repository, &["--start-point", "main"], 101)
        .ended_with(1)
        .remarks_on("git cannot find where");
}

#[test]
fn a_branch_remembers_where_it_comes_from() {
    let repository = measured();
    start_candidate(&repository);
    run(&repository, &["--start-point", "main"], 100).ended_with(0);
    run(&repository, &[], 101).ended_with(1);
    assert_eq!(run(&repository, &[], 101).code, Some(1), "its own pushes do not hide it");
}

#[test]
fn a_remembered_start_point_moves_with_the_branch() {
    let repository = measured();
    start_candidate(&repository);
    run(&repository, &["--start-point", "main"], 100).ended_with(0);
    repository.git(&["checkout", "-q", "main"]);
    let base = repository.commit();
    assert_eq!(run(&repository, &[], 200).code, Some(1), "main became worse");
    repository.git(&["checkout", "-q", "candidate"]);
    repository.git(&["rebase", "-q", "main"]);
    // Later results of main do not affect the branch.
    run(&repository, &[], 200).ended_with(0);
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
fn where_git_knows_no_merge_base_the_remembered_one_counts() {
    let repository = Repository::new();
    let base = repository.git(&["rev-parse", "HEAD"]);
    run(&repository, &[], 100).ended_with(0);
    repository.branch("candidate");
    run(&repository, &["--start-point", "main"], 100).ended_with(0);
    repository.git(&["branch", "-D", "-q", "main"]);
    run(&repository, &[], 101).ended_with(1);
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

#[test]
fn testbeds_and_projects_do_not_mix() {
    let repository = Repository::new();
    run(&repository, &["--testbed", "one"], 100).ended_with(0);
    run(&repository, &["--testbed", "two"], 200).ended_with(0);
    run(&repository, &["--testbed", "one"], 200).ended_with(1);
    let line = instructions(300);
    repository.run(&["--project", "other", "--err", &line]).ended_with(0);
}

#[test]
fn the_newest_versions_of_the_start_point_count() {
    let repository = Repository::new();
    repository.history(&[100.0, 100.0, 100.0, 200.0]);
    repository.branch("candidate");
    let check = |versions: &str, expected| {
        let line = latency(200.0);
        let test = ["--threshold-test", "percentage", "--threshold-upper-boundary", "0.1"];
        let flags = ["--project", "p", "--err", "--dry-run", "--threshold-measure", "latency"];
        let start = ["--start-point", "main", "--start-point-max-versions", versions];
        repository.run(&[&flags[..], &test, &start, &[&line]].concat()).ended_with(expected);
    };
    // All reports are of one commit, which is one version.
    check("1", 1);
}

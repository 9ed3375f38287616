//! Verdicts and exit codes.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::support::{printing, script};
use crate::repository::Repository;

#[test]
fn a_slowdown_of_the_working_tree_is_found() {
    let repository = Repository::with_script(&script(1000));
    repository.write("bench.sh", script(1050));
    let ran = repository.compare(&["--base", "main"], &["./bench.sh"]).ended_with(0);
    let ran = ran
        .prints(" with uncommitted changes) against main (")
        .prints("pairs of runs, alternating, in");
    assert!(ran.stdout.starts_with("working tree ("), "{ran}");
    assert!(ran.stdout.ends_with("  worse\n\n1 worse of 1 result\n"), "{ran}");
    repository.assert_no_worktrees();
}

/// File times have a resolution of seconds, so that an edit right after a commit may differ only in content.
#[test]
fn an_edit_in_the_second_of_the_commit_is_found() {
    let repository = Repository::with_script(&script(1000));
    let at_once = |path: &str| {
        let path = repository.path().join(path);
        let file = std::fs::File::options().write(true).open(path).expect("a file");
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30)).expect("set");
    };
    repository.git(&["config", "core.trustctime", "false"]);
    at_once("bench.sh");
    repository.git(&["update-index", "--refresh"]);
    repository.write("bench.sh", script(1050));
    at_once("bench.sh");
    at_once(".git/index");
    let ran = repository.compare(&["--base", "main"], &["./bench.sh"]).ended_with(0);
    ran.prints(" with uncommitted changes) against main (");
}

#[test]
fn exit_codes() {
    let repository = Repository::with_script(&script(1000));
    repository.write("bench.sh", script(1050));
    repository.commit_all();
    let check = |flags: &[&str], expected| {
        repository.compare(flags, &["./bench.sh"]).ended_with(expected);
    };
    let (old, new) = ("HEAD~1", "HEAD");
    check(&["--base", old], 0);
    check(&["--base", old, "--err"], 1);
    check(&["--base", old, "--err", "--threshold", "20"], 0);
    check(&["--base", new, "--head", old, "--err"], 0);
    // A/A: the noise is smaller than the threshold, so that chance cannot fail it.
    check(&["--base", new, "--err"], 0);
    check(&["--base", old, "--head", old, "--err"], 0);
    check(&["--err"], 2);
    check(&["--base", old, "--precision", "0"], 2);
    check(&["--base", old, "--threshold", "-1"], 2);
    check(&["--base", old, "--adapter", "none"], 2);
    repository.assert_no_worktrees();
}

#[test]
fn exact_measures_need_four_runs_and_no_statistics() {
    let count = "echo >> \"$CARGO_TARGET_DIR/runs\"";
    let exact = |value| printing(count, "loop", "instructions", value);
    let repository = Repository::with_script(&exact("1000"));
    repository.write("bench.sh", exact("1001"));
    let flags = ["--base", "main", "--err", "--format", "json"];
    let found = repository.compare(&flags, &["./bench.sh"]).ended_with(1).json();
    assert_eq!(found["pairs"], 2);
    let row = &found["rows"][0];
    assert_eq!((&row["verdict"], &row["interval"]), (&Value::from("worse"), &Value::Null));
    assert_eq!(row["change"], 0.001);
    let flags = ["--base", "main", "--err", "--threshold-exact", "1"];
    repository.compare(&flags, &["./bench.sh"]).ended_with(0);
}

#[test]
fn exact_measures_that_differ_from_run_to_run_are_judged_like_times() {
    // Successive runs differ, but both sides have the same mean.
    let count = "runs=$CARGO_TARGET_DIR/runs; echo >> \"$runs\"; n=$(wc -l < \"$runs\")";
    let repository =
        Repository::with_script(&printing(count, "a", "instructions", "$((1000 + n * 5 % 9))"));
    let flags = ["--base", "main", "--err", "--seed", "1"];
    let ran = repository.compare(&flags, &["./bench.sh"]).ended_with(0);
    ran.prints("differs between runs of one revision");
}

#[test]
fn json_and_markdown() {
    let repository = Repository::with_script(&script(1000));
    repository.write("bench.sh", script(1050));
    repository.commit_all();
    let flags = ["--base", "HEAD~1", "--format", "json"];
    let found = repository.compare(&flags, &["./bench.sh"]).json();
    assert_eq!(found["base"]["asked"], "HEAD~1");
    assert_eq!(found["head"]["has_uncommitted_changes"], false);
    assert_eq!(found["end"], "precise");
    let row = &found["rows"][0];
    assert_eq!((&row["benchmark"], &row["is_beyond_threshold"]), (&"loop".into(), &true.into()));
    let change = row["change"].as_f64().expect("a number");
    assert!((0.04..0.06).contains(&change), "{change}");
    let (lower, upper) = (row["interval"]["lower"].as_f64(), row["interval"]["upper"].as_f64());
    assert!(lower < Some(change) && upper > Some(change));
    let flags = ["--base", "HEAD~1", "--format", "markdown", "-o", "comment.md"];
    repository.compare(&flags, &["./bench.sh"]).ended_with(0).prints_nothing();
    let comment = std::fs::read_to_string(repository.path().join("comment.md")).expect("a file");
    assert!(
        comment.starts_with("<strong>1 worse of 1 result</strong>\n\n| benchmark |"),
        "{comment}"
    );
}

#[test]
fn benchmarks_of_one_side_are_named() {
    let both = |name: &str| {
        let value = "{\"latency\": {\"value\": 5}}";
        format!("#!/bin/sh\necho '{{\"same\": {value}, \"{name}\": {value}}}'\n")
    };
    let repository = Repository::with_script(&both("old"));
    repository.write("bench.sh", both("new"));
    let ran = repository.compare(&["--base", "main"], &["./bench.sh"]);
    ran.prints("only in base: old (Latency)\n").prints("only in head: new (Latency)\n");
}

//! Errors: one clear sentence, exit code 1, and nothing left behind.

use std::fs;

use super::support::script;
use crate::{ran::Ran, repository::Repository};

fn check(repository: &Repository, flags: &[&str], command: &[&str], expected: &str) {
    repository.compare(flags, command).ended_with(1).prints_nothing().tells(expected);
    repository.assert_no_worktrees();
}

#[test]
fn revisions_that_are_not_there() {
    let repository = Repository::with_script(&script(1000));
    let bench = ["./bench.sh"];
    check(&repository, &["--base", "nowhere"], &bench, "there is no commit \"nowhere\"");
    check(&repository, &["--base=--all"], &bench, "there is no commit \"--all\"");
    let flags = ["--base", "main", "--head", "main~9"];
    check(&repository, &flags, &bench, "there is no commit \"main~9\"");
}

#[test]
fn outside_of_a_repository() {
    let repository = Repository::with_script(&script(1000));
    let mut wingbeat = repository.comparing(&["--base", "main"], &["./bench.sh"]);
    let ran = Ran::of(wingbeat.current_dir(repository.temporary()));
    ran.ended_with(1).tells("is not in a git working tree");
    assert!(!repository.temporary().join(".wingbeat").exists());
}

#[test]
fn commands_that_fail_on_one_side() {
    let repository = Repository::with_script(&script(1000));
    repository.write("bench.sh", "#!/bin/sh\necho out\necho 'no such flag' >&2\nexit 3\n");
    let expected =
        "\"./bench.sh\" exited with 3 in head; its last lines were:\n  out\n  no such flag";
    check(&repository, &["--base", "main"], &["./bench.sh"], expected);
    let flags = ["--base", "main", "--build", "test ! -e broken || exit 4"];
    repository.write("broken", "");
    check(&repository, &flags, &["./bench.sh"], "exited with 4 in head and printed nothing");
    check(&repository, &["--base", "main"], &["./none", "a"], "cannot start \"./none a\"");
}

#[test]
fn flags_behind_a_line() {
    let repository = Repository::with_script(&script(1000));
    let expected = "--err follows the command \"./bench.sh fast\"";
    check(&repository, &["--base", "main"], &["./bench.sh fast", "--err"], expected);
}

#[test]
fn outputs_without_results() {
    let repository = Repository::with_script(&script(1000));
    let expected = "the output of base: the adapter magic found no result in this output";
    check(&repository, &["--base", "main"], &["echo", "hello"], expected);
    repository.write("bench.sh", "#!/bin/sh\necho '{\"b\": {\"latency\": {\"value\": 5}}}'\n");
    let flags = ["--base", "main", "--time", "1s"];
    check(&repository, &flags, &["./bench.sh"], "have no benchmark in common");
}

#[test]
fn folders_that_one_side_lacks() {
    let repository = Repository::with_script(&script(1000));
    repository.write("inner/bench.sh", script(1000));
    let mut wingbeat = repository.comparing(&["--base", "main"], &["./bench.sh"]);
    let wingbeat = wingbeat.current_dir(repository.path().join("inner"));
    Ran::of(wingbeat).tells("main has no folder \"inner/\"");
    repository.assert_no_worktrees();
}

#[test]
fn a_temporary_folder_of_somebody_else() {
    let repository = Repository::with_script(&script(1000));
    let user = rustix::process::geteuid().as_raw();
    let link = repository.temporary().join(format!("wingbeat-compare-{user}"));
    let elsewhere = repository.temporary().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a folder");
    std::os::unix::fs::symlink(&elsewhere, &link).expect("a link");
    let ran = repository.compare(&["--base", "main"], &["./bench.sh"]).ended_with(1);
    ran.tells("belongs to another user or is not a folder");
    assert_eq!(fs::read_dir(&elsewhere).expect("a folder").count(), 0);
}

//! Contents of each side's copy, and location of its build output.

use std::fs;

use super::support::{lines_of, printing, script};
use crate::{ran::Ran, repository::Repository};

/// A script that prints the size of a file as a latency, 1 if absent.
fn size_of(file: &str) -> String {
    let line = format!("size=$(cat {file} 2>/dev/null | wc -c); [ $size -gt 0 ] || size=1");
    printing(&line, "size", "latency", "$size")
}

/// Values of base and head in the table.
fn values(repository: &Repository, flags: &[&str], command: &[&str]) -> (f64, f64) {
    let flags = [&["--base", "main", "--format", "json"], flags].concat();
    let found = repository.compare(&flags, command).json();
    let value = |side: &str| found["rows"][0][side].as_f64().expect("a number").round();
    (value("base"), value("head"))
}

#[test]
fn the_working_tree_is_taken_as_it_is_and_left_alone() {
    let repository = Repository::with_script(&size_of("data"));
    repository.write("staged", "x");
    repository.git(&["add", "staged"]);
    repository.write("data", "12345");
    let before = repository.git(&["status", "--porcelain"]);
    assert_eq!(values(&repository, &[], &["./bench.sh"]), (1.0, 5.0));
    assert_eq!(repository.git(&["status", "--porcelain"]), before);
    // Changed and removed files, too.
    repository.commit_all();
    repository.write("data", "123");
    assert_eq!(values(&repository, &[], &["./bench.sh"]), (5.0, 3.0));
    fs::remove_file(repository.path().join("data")).expect("removed");
    assert_eq!(values(&repository, &[], &["./bench.sh"]), (5.0, 1.0));
    // Neither includes files ignored by git.
    repository.write(".gitignore", "ignored\n");
    repository.write("ignored", "1234567");
    assert_eq!(
        values(&repository, &[], &["cp bench.sh b.sh; sed -i s/data/ignored/ b.sh; ./b.sh"]),
        (1.0, 1.0)
    );
    repository.assert_no_worktrees();
}

#[test]
fn the_command_runs_in_the_same_folder() {
    let repository = Repository::with_script(&script(1));
    repository.write("inner/bench.sh", size_of("data"));
    repository.write("inner/data", "1234");
    repository.commit_all();
    let mut wingbeat =
        repository.comparing(&["--base", "main", "--format", "json"], &["./bench.sh"]);
    let found = Ran::of(wingbeat.current_dir(repository.path().join("inner"))).json();
    assert_eq!(found["rows"][0]["benchmark"], "size");
}

#[test]
fn submodules_are_checked_out_as_each_side_has_them() {
    let inner = Repository::with_script("");
    inner.write("data", "12");
    inner.commit_all();
    let repository = Repository::with_script(&size_of("inner/data"));
    let url = inner.path().display().to_string();
    let local = ["-c", "protocol.file.allow=always", "submodule", "--quiet"];
    repository.git(&[&local[..], &["add", &url, "inner"]].concat());
    repository.commit_all();
    inner.write("data", "1234567");
    inner.commit_all();
    repository.git(&[&local[..], &["update", "--remote"]].concat());
    repository.git(&["checkout", "--quiet", "-b", "newer"]);
    repository.commit_all();
    assert_eq!(values(&repository, &[], &["./bench.sh"]), (2.0, 7.0));
    repository.assert_no_worktrees();
}

#[test]
fn what_was_built_is_kept_for_each_side() {
    let keep = printing("echo >> \"$CARGO_TARGET_DIR/runs\"", "loop", "instructions", "7");
    let repository = Repository::with_script(&keep);
    repository.write("new", "x");
    let built = repository.path().join(".wingbeat/compare/working-tree-0/target/runs");
    for runs in [3, 6] {
        values(&repository, &[], &["./bench.sh"]);
        // One build, and one run in each of two pairs.
        assert_eq!(lines_of(&built), runs);
    }
    let caches = fs::read_dir(repository.path().join(".wingbeat/compare")).expect("a folder");
    assert_eq!(caches.flatten().filter(|entry| entry.path().is_dir()).count(), 2);
    assert!(!repository.git(&["status", "--porcelain"]).contains(".wingbeat"));
}

#[test]
fn a_build_is_made_once_for_each_side() {
    let repository = Repository::with_script(&printing("", "loop", "instructions", "$(cat built)"));
    let flags = ["--build", "pwd >> ../builds; echo 7 > built"];
    // The folder above both is deleted afterwards, so it is inspected from inside.
    let command = ["wc -l < ../builds >&2; cp ../builds \"$CARGO_TARGET_DIR\"; ./bench.sh"];
    assert_eq!(values(&repository, &flags, &command), (7.0, 7.0));
    let caches = repository.path().join(".wingbeat/compare");
    let copies = fs::read_dir(caches).expect("a folder").flatten();
    let lines: Vec<usize> = copies
        .map(|entry| entry.path().join("target/builds"))
        .filter(|path| path.exists())
        .map(|path| lines_of(&path))
        .collect();
    assert_eq!(lines, [2, 2]);
}

#[test]
fn files_of_a_commit_have_its_time() {
    let line = "age=$(( $(date +%s) - $(stat -c %Y bench.sh) ))";
    let repository =
        Repository::with_script(&printing(line, "loop", "instructions", "$(( age > 5000 ))"));
    let date = "2001-02-03T04:05:06Z";
    let mut git = repository.command("git");
    git.args(["commit", "--quiet", "--amend", "--no-edit"]).env("GIT_COMMITTER_DATE", date);
    let amended = git.status();
    assert!(amended.expect("git runs").success());
    repository.write("new", "x");
    // With changes the timestamp is now, so that they are always rebuilt.
    assert_eq!(values(&repository, &[], &["./bench.sh"]), (1.0, 0.0));
}

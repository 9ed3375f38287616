//! `wingbeat compare` on real git repositories, with benchmarks that are shell scripts. Needs no privileges.

use std::{
    fs,
    path::Path,
    process::Child,
    time::{Duration, SystemTime},
};

use rustix::process::Signal;
use serde_json::Value;

use crate::{
    ran::{Ran, started, stopped, wait_for},
    repository::Repository,
};

// Benchmarks that are shell scripts.

/// A script that prints a nearly constant latency: up to 0.6 % more.
pub(crate) fn script(latency: u32) -> String {
    let value = format!("$(( {latency} + ${{noise:-0}} % 7 ))");
    printing("noise=$(date +%N | sed 's/^0*//')", "loop", "latency", &value)
}

/// A script that runs a line, then prints one value of a measure.
pub(crate) fn printing(line: &str, name: &str, measure: &str, value: &str) -> String {
    format!(
        "#!/bin/sh\n{line}\n\
         echo \"{{\\\"{name}\\\": {{\\\"{measure}\\\": {{\\\"value\\\": {value}}}}}}}\"\n"
    )
}

pub(crate) fn lines_of(path: &Path) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

// Verdicts and exit codes.

#[test]
fn a_slowdown_of_the_working_tree_is_found_in_each_form() {
    let repository = Repository::with_script(&script(1000));
    repository.write("bench.sh", script(1050));
    let ran = repository.compare(&["--base", "main"], &["./bench.sh"]).ended_with(0);
    let ran = ran
        .prints(" with uncommitted changes) against main (")
        .prints("pairs of runs, alternating, in");
    assert!(ran.stdout.starts_with("working tree ("), "{ran}");
    assert!(ran.stdout.ends_with("  worse\n\n1 worse of 1 result\n"), "{ran}");
    repository.assert_no_worktrees();
    repository.commit_all();
    let check = |flags: &[&str], expected| {
        repository.compare(flags, &["./bench.sh"]).ended_with(expected);
    };
    let (old, new) = ("HEAD~1", "HEAD");
    check(&["--base", old, "--err"], 1);
    check(&["--base", old, "--err", "--threshold", "20"], 0);
    check(&["--base", new, "--head", old, "--err"], 0);
    // A/A: the noise is smaller than the threshold, so that chance cannot fail it.
    check(&["--base", new, "--err"], 0);
    let flags = ["--base", old, "--format", "json"];
    let found = repository.compare(&flags, &["./bench.sh"]).json();
    assert_eq!((&found["base"]["asked"], &found["end"]), (&old.into(), &"precise".into()));
    assert_eq!(found["head"]["has_uncommitted_changes"], false);
    let row = &found["rows"][0];
    let change = row["change"].as_f64().expect("a number");
    assert!((0.04..0.06).contains(&change), "{change}");
    let (lower, upper) = (row["interval"]["lower"].as_f64(), row["interval"]["upper"].as_f64());
    assert!(lower < Some(change) && upper > Some(change));
    let flags = ["--base", old, "--format", "markdown", "-o", "comment.md"];
    repository.compare(&flags, &["./bench.sh"]).ended_with(0).prints_nothing();
    let comment = fs::read_to_string(repository.path().join("comment.md")).expect("a file");
    assert!(comment.starts_with("<strong>1 worse of 1 result</strong>\n\n|"), "{comment}");
}

/// File times have a resolution of seconds, so that an edit right after a commit may differ only in content.
#[test]
fn an_edit_in_the_second_of_the_commit_is_found() {
    let repository = Repository::with_script(&script(1000));
    let at_once = |path: &str| {
        let path = repository.path().join(path);
        let file = fs::File::options().write(true).open(path).expect("a file");
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

// Contents of each side's copy, and location of its build output.

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
fn what_was_built_once_for_each_side_is_kept() {
    let keep = printing("echo >> \"$CARGO_TARGET_DIR/runs\"", "loop", "instructions", "7");
    let repository = Repository::with_script(&keep);
    repository.write("new", "x");
    let caches = repository.path().join(".wingbeat/compare");
    let lines = |name: &str| -> Vec<usize> {
        let caches = fs::read_dir(&caches).expect("a folder").flatten().map(|entry| entry.path());
        let caches = caches.filter(|path| path.is_dir());
        caches.map(|path| lines_of(&path.join("target").join(name))).collect()
    };
    for runs in [3, 6] {
        values(&repository, &[], &["./bench.sh"]);
        // One build, and one run in each of two pairs.
        assert_eq!(lines("runs"), [runs, runs]);
    }
    assert!(!repository.git(&["status", "--porcelain"]).contains(".wingbeat"));
    let build = ["--build", "echo >> \"$CARGO_TARGET_DIR/builds\"; echo 7 > built"];
    values(&repository, &build, &["test -e built && ./bench.sh"]);
    assert_eq!(lines("builds"), [1, 1]);
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

// Early ends of a comparison: signals, kills, and leftovers.

fn start(repository: &Repository, flags: &[&str], command: &[&str]) -> Child {
    started(repository.comparing(flags, command))
}

#[test]
fn ctrl_c_leaves_no_worktree_and_no_process() {
    for signal in [Signal::INT, Signal::TERM] {
        let repository =
            Repository::with_script("#!/bin/sh\necho $$ > \"$CARGO_TARGET_DIR/pid\"\nsleep 600\n");
        let child = start(&repository, &["--base", "main"], &["./bench.sh"]);
        let pid = || {
            let caches = fs::read_dir(repository.path().join(".wingbeat/compare")).ok()?;
            let found = caches.flatten().map(|entry| entry.path().join("target/pid"));
            found.into_iter().find_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok())
        };
        wait_for("the first run", || pid().is_some());
        assert_eq!(repository.worktrees().len(), 2);
        let ran = stopped(child, signal).ended_with(1).prints_nothing();
        ran.tells("stopped before both revisions were run");
        repository.assert_no_worktrees();
        let pid: u32 = pid().expect("a process");
        wait_for("its end", || {
            let state = fs::read_to_string(format!("/proc/{pid}/stat"));
            state.map_or(true, |state| state.contains(") Z "))
        });
    }
}

#[test]
fn what_was_measured_before_a_signal_is_told() {
    let count = "echo >> \"$CARGO_TARGET_DIR/runs\"; n=$(date +%N | sed 's/^0*//')";
    let repository =
        Repository::with_script(&printing(count, "a", "latency", "$((500 + n % 900))"));
    let flags = ["--base", "main", "--err", "--precision", "0.001"];
    let child = start(&repository, &flags, &["./bench.sh"]);
    let runs = || {
        let caches = fs::read_dir(repository.path().join(".wingbeat/compare"));
        let caches = caches.into_iter().flatten().flatten();
        caches.map(|entry| lines_of(&entry.path().join("target/runs"))).sum::<usize>()
    };
    wait_for("three pairs", || runs() >= 8);
    let ran = stopped(child, Signal::INT).prints(", until it was stopped\n");
    assert!(matches!(ran.code, Some(0 | 1)), "{ran}");
    repository.assert_no_worktrees();
}

#[test]
fn two_at_once_are_refused_and_what_a_killed_one_left_is_removed() {
    let repository = Repository::with_script(&script(1000));
    let mine = repository.temporary().join("mine");
    let path = mine.display().to_string();
    repository.git(&["worktree", "add", "--quiet", "--detach", &path]);
    let mut child = start(&repository, &["--base", "main"], &["sleep 5; ./bench.sh"]);
    wait_for("the worktrees", || repository.worktrees().len() == 2);
    let ran = repository.compare(&["--base", "main"], &["./bench.sh"]).ended_with(1);
    ran.tells("another `wingbeat compare` is running");
    assert_eq!(repository.worktrees().len(), 2);
    child.kill().expect("killed");
    child.wait().expect("it ends");
    assert!(!repository.worktrees().is_empty());
    repository.compare(&["--base", "main"], &["./bench.sh"]).ended_with(0);
    assert!(mine.join("bench.sh").exists());
    repository.git(&["worktree", "remove", &path]);
    repository.assert_no_worktrees();
}

#[test]
fn six_pairs_are_run_even_if_time_is_up() {
    let repository = Repository::with_script(&printing(
        "sleep 0.1; n=$(date +%N | sed 's/^0*//')",
        "a",
        "latency",
        "$((500 + n % 900))",
    ));
    let flags = ["--base", "main", "--time", "100ms", "--format", "json"];
    let ran = repository.compare(&flags, &["./bench.sh"]).tells("which is more than --time");
    let found = ran.json();
    assert_eq!((&found["pairs"], &found["end"]), (&6.into(), &"time-spent".into()));
}

/// One clear sentence, and nothing left behind.
#[test]
fn errors() {
    let repository = Repository::with_script(&script(1000));
    let failed = |ran: Ran, expected: &str| {
        ran.ended_with(1).prints_nothing().tells(expected);
        repository.assert_no_worktrees();
    };
    let check = |flags: &[&str], command: &[&str], expected: &str| {
        failed(repository.compare(flags, command), expected);
    };
    let (main, bench) = (["--base", "main"], ["./bench.sh"]);
    check(&["--base=--all"], &bench, "there is no commit \"--all\"");
    check(&["--base", "main", "--head", "main~9"], &bench, "there is no commit \"main~9\"");
    let expected = "the output of base: the adapter magic found no result in this output";
    check(&main, &["echo", "hello"], expected);
    repository.write("bench.sh", "#!/bin/sh\necho out\necho 'no such flag' >&2\nexit 3\n");
    let expected =
        "\"./bench.sh\" failed with status 3 in head; its last lines were:\n  out\n  no such flag";
    check(&main, &bench, expected);
    repository.write("broken", "");
    let build = ["--base", "main", "--build", "test ! -e broken || exit 4"];
    check(&build, &bench, "failed with status 4 in head and printed nothing");
    check(&main, &["./none", "a"], "cannot start \"./none a\"");
    repository.write("bench.sh", printing("", "b", "latency", "5"));
    check(&["--base", "main", "--time", "1s"], &bench, "have no benchmark in common");
    // In a folder that one side lacks, and outside of the repository.
    repository.write("inner/bench.sh", script(1000));
    let at = |folder| Ran::of(repository.comparing(&main, &bench).current_dir(folder));
    failed(at(repository.path().join("inner")), "main has no folder \"inner/\"");
    failed(at(repository.temporary()), "is not in a git working tree");
    assert!(!repository.temporary().join(".wingbeat").exists());
}

//! The article's two jobs on recorded benchmark output: a regression fails at each push, its fix passes, and unchanged
//! code raises no alert. `recorded/README.md` describes the recording.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command, thread};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    ran::Ran,
    repository::{Repository, WINGBEAT, instructions, remove_foreign_variables, reports},
};

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

/// A repository with a `cargo` that prints the file `output`.
fn with_cargo() -> Repository {
    let repository = Repository::new();
    repository.write("cargo", "#!/bin/sh\ntest \"$1\" = bench && cat output\n");
    repository
}

/// Runs a job on the benchmark output of a new commit.
fn job(repository: &Repository, flags: &[&str], output: &str) -> Ran {
    repository.commit();
    repository.write("output", output);
    let fixed = ["run", "--project", "simple-profiler", "--token", "x.y.z"];
    let mut command = repository.wingbeat(&[&fixed, flags].concat());
    command.args(["--testbed", "ci-runner", "--err", "cargo", "bench"]);
    let path = std::env::var("PATH").expect("PATH");
    Ran::of(command.env("PATH", format!("{}:{path}", repository.path().display())))
}

/// In all spellings.
#[test]
fn the_jobs_of_the_article() {
    let repository = with_cargo();
    for factor in NOISE {
        // The output is shown.
        let ran = job(&repository, &["--branch", "main"], &slower(GOOD, factor));
        ran.ended_with(0).tells("time:   [");
    }
    let report = repository.reports().pop().expect("a report");
    let names = (report.project.as_str(), report.branch.as_str(), report.testbed.as_str());
    assert_eq!(names, ("simple-profiler", "main", "ci-runner"));
    let base = repository.git(&["rev-parse", "HEAD"]);
    assert_eq!((report.hash.as_ref(), &report.start_point), (Some(&base), &None));
    repository.branch("candidate");
    let candidate = ["--branch", "candidate", "--branch-start-point", "main"];
    let candidate = [&candidate[..], &["--branch-start-point-hash", &base]].concat();
    let check = |flags: &[&str], output: &str, expected: i32| {
        let ran = job(&repository, flags, output).ended_with(expected);
        assert_eq!(ran.stdout.contains("\nalert "), expected == 1, "{ran}");
        let report = repository.first_reports().pop().expect("a report");
        assert_eq!(report.active_alerts(), usize::try_from(expected).expect("no signal"));
        assert_eq!(report.verdicts[0].points, NOISE.len(), "its own pushes are no history");
        let start = report.start_point.expect("a start point");
        assert_eq!((start.branch.as_str(), start.hash.as_ref()), ("main", Some(&base)));
    };
    for factor in [1.0, 1.04, 0.97] {
        check(&candidate, &slower(GOOD, factor), 0);
    }
    check(&candidate, OOPS, 1);
    check(&candidate, &slower(OOPS, 1.8), 1);
    let talk = ["--if-branch", "candidate", "--else-if-branch", "main", "--else-branch"];
    check(&talk, OOPS, 1);
    check(&talk, FIXED, 0);
}

#[test]
fn results_of_mock() {
    let repository = Repository::new();
    let mock = |arguments: &[&str]| Ran::of(repository.wingbeat(&["mock"]).args(arguments));
    let check = |arguments: &[&str], benchmarks, measures| {
        let ran = mock(arguments).ended_with(0);
        let Value::Object(found) = ran.json() else { panic!("{ran}") };
        assert_eq!(found.len(), benchmarks, "{arguments:?}");
        assert!(found.values().all(|it| it.as_object().is_some_and(|it| it.len() == measures)));
    };
    check(&[], 5, 1);
    check(&["--count", "12"], 12, 1);
    check(&["--count", "0"], 0, 0);
    check(&["--measure", "latency", "--measure", "x", "--pow", "-3"], 5, 2);
    let printed = |arguments: &[&str]| mock(arguments).stdout;
    let noisy = ["--seed", "1", "--noise", "2"];
    assert_eq!(printed(&noisy), printed(&noisy));
    assert_ne!(printed(&noisy), printed(&[&noisy[..], &["--slower", "20"]].concat()));
    assert_ne!(printed(&[]), printed(&[]), "without a seed each is another");
    // Results come first.
    assert!(mock(&["--seed", "1", "--fail"]).ended_with(1).json().is_object());
    let codes = |seed: u32| mock(&["--flaky", "--seed", &seed.to_string()]).code;
    let codes: Vec<_> = (0..16).map(codes).collect();
    assert!(codes.contains(&Some(0)) && codes.contains(&Some(1)), "{codes:?}");
}

#[test]
fn an_alert_is_a_failure_on_request_even_if_nobody_reads_it() {
    let repository = Repository::new();
    repository.run(&[&instructions(5)]).ended_with(0);
    let ran = repository.run(&["--format", "json", &instructions(6)]).ended_with(0);
    assert_eq!(ran.json()["counts"]["alerts"]["active"], 1);
    assert_eq!(repository.reports()[1].active_alerts(), 1);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = repository.wingbeat(&["run", "--err", &instructions(7)]);
    let status = command.stdout(writer).stderr(std::process::Stdio::null()).status();
    assert_eq!(status.expect("it runs").code(), Some(1));
}

// A history in a git branch, tested literally from the docs: runs the snippets of `docs/store.md` and `docs/ci.md`,
// several jobs at once, against a bare remote.

/// Concurrent jobs.
const JOBS: usize = 3;

fn doc(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    fs::read_to_string(path).expect("a page of the docs")
}

/// The n-th code block below a line that contains this text.
fn fenced(page: &str, below: &str, at: usize) -> String {
    let (_, rest) = page.split_once(below).expect("the line");
    let block = rest.split("```").skip(1).step_by(2).nth(at).expect("a block");
    let (_language, script) = block.split_once('\n').expect("lines");
    script.to_owned()
}

/// Script of the first workflow step with this name.
fn step(page: &str, name: &str) -> String {
    let (_, rest) = page.split_once(&format!("- name: {name}\n")).expect("the step");
    let (_, script) = rest.split_once("run: |\n").expect("a script");
    let lines = script.lines().take_while(|line| line.starts_with("          "));
    lines.map(|line| format!("{}\n", line.trim())).collect()
}

/// Runs a script in a clone, with these tools, like a GitHub step: it stops at the first failing command.
fn run(clone: &Path, tools: &Path, script: &str) {
    let mut command = Command::new("bash");
    command.args(["-e", "-c", script]).current_dir(clone);
    remove_foreign_variables(&mut command);
    let path = std::env::var("PATH").expect("PATH");
    command.env("PATH", format!("{}:{path}", tools.display()));
    command.env("RUNNER_TEMP", clone.parent().expect("a folder")).env("GITHUB_SHA", "0123456789");
    let output = command.output().expect("bash runs");
    assert!(output.status.success(), "{script}\n{output:?}");
}

/// `wingbeat`, and a `cargo` that prints a result.
fn tools() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(WINGBEAT, folder.path().join("wingbeat")).expect("a link");
    let cargo = folder.path().join("cargo");
    fs::write(&cargo, format!("#!/bin/sh\n{}\n", instructions(5))).expect("written");
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("set");
    folder
}

/// Creates the branch with `begin` and runs the steps in several clones at once; asserts that all reports arrive.
fn race(begin: &str, steps: &[String]) {
    let (folder, tools) = (tempfile::tempdir().expect("a folder"), tools());
    let upstream = Repository::new();
    let bare = folder.path().join("bare.git");
    let bare = bare.to_str().expect("UTF-8");
    upstream.git(&["clone", "-q", "--bare", ".", bare]);
    // Each clone has its own folder: the steps put the history next to it.
    let clone = |name: &str| {
        let path = folder.path().join(name).join("clone");
        let to = path.to_str().expect("UTF-8");
        upstream.git(&["clone", "-q", bare, to]);
        upstream.git(&["-C", to, "config", "user.name", "t"]);
        upstream.git(&["-C", to, "config", "user.email", "t@example.org"]);
        path
    };
    let run = |clone: &Path, script: &str| run(clone, tools.path(), script);
    run(&clone("first"), begin);
    let clones: Vec<_> = (0..JOBS).map(|at| clone(&format!("job{at}"))).collect();
    thread::scope(|scope| {
        for path in &clones {
            scope.spawn(|| steps.iter().for_each(|script| run(path, script)));
        }
    });
    let files = upstream.git(&["--git-dir", bare, "ls-tree", "--name-only", "benchmarks"]);
    assert_eq!(files.lines().count(), JOBS, "{files}");
    // The next job finds them.
    let path = clone("next");
    for script in steps {
        run(&path, script);
    }
    assert_eq!(reports(&path.join(".wingbeat/results.db")).len(), JOBS + 1);
}

#[test]
fn as_the_pages_say() {
    let (page, below) = (doc("store.md"), "To keep the history in its own branch");
    race(&fenced(&page, below, 0), &[fenced(&page, below, 1)]);
    let page = doc("ci.md");
    let steps = [step(&page, "Benchmarks"), step(&page, "Keep the history")];
    race(&fenced(&page, "### The history in a branch", 0), &steps);
}

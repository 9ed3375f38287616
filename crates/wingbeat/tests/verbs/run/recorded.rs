//! The article's two jobs on recorded benchmark output: a regression fails at each push, its fix passes, and unchanged
//! code raises no alert. `recorded/README.md` describes the recording.

use std::{fs, path::Path, process::Command, thread};

use serde_json::{Value, json};
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

/// Runs a job on the benchmark output of a new commit; returns the exit code and the report.
fn job(repository: &Repository, flags: &[&str], output: &str) -> (i32, String) {
    repository.commit();
    repository.write("output", output);
    let fixed = ["--project", "simple-profiler", "--testbed", "ci-runner", "--err"];
    let ran = repository.run(&[flags, &fixed, &["cat", "output"]].concat());
    (ran.code.expect("an exit code"), ran.stdout + &ran.stderr)
}

#[test]
fn the_jobs_of_the_article() {
    let repository = Repository::new();
    for factor in NOISE {
        let (code, told) = job(&repository, &["--branch", "main"], &slower(GOOD, factor));
        assert_eq!(code, 0, "{told}");
    }
    let base = repository.git(&["rev-parse", "HEAD"]);
    repository.branch("candidate");
    let candidate = ["--branch", "candidate", "--branch-start-point", "main"];
    let candidate = [&candidate[..], &["--branch-start-point-hash", &base]].concat();
    let check = |output: &str, expected: i32| {
        let (code, told) = job(&repository, &candidate, output);
        assert_eq!(code, expected, "{told}");
        assert_eq!(told.contains("\nalert "), expected == 1, "{told}");
        let report = repository.first_reports().pop().expect("a report");
        assert_eq!(report.active_alerts(), usize::try_from(expected).expect("no signal"));
        assert_eq!(report.verdicts[0].points, NOISE.len(), "its own pushes are no history");
    };
    for factor in [1.0, 1.04, 0.97] {
        check(&slower(GOOD, factor), 0);
    }
    check(OOPS, 1);
    check(&slower(OOPS, 1.8), 1);
    check(FIXED, 0);
}

#[test]
fn the_json_names_the_commit_that_stood_in() {
    let repository = Repository::new();
    assert_eq!(job(&repository, &[], GOOD).0, 0);
    let measured = repository.git(&["rev-parse", "HEAD"]);
    repository.commit();
    let parted = repository.git(&["rev-parse", "HEAD"]);
    repository.branch("candidate");
    repository.commit();
    repository.write("output", GOOD);
    let flags = ["--project", "simple-profiler", "--testbed", "ci-runner", "--format", "json"];
    let json = repository.run(&[&flags[..], &["--start-point", "main", "cat", "output"]].concat());
    let start = &json.json()["branch"]["head"]["start_point"];
    let check = |member: &Value, expected: Value| assert_eq!(*member, expected, "{start}");
    check(&start["version"], json!({ "hash": measured, "number": 0 }));
    check(&start["wingbeat"], json!({ "asked_hash": parted }));
}

// `wingbeat mock`: made-up results.

fn mock(arguments: &[&str]) -> Ran {
    let repository = Repository::new();
    Ran::of(repository.wingbeat(&["mock"]).args(arguments))
}

#[test]
fn numbers_and_measures() {
    let check = |arguments: &[&str], benchmarks, measures| {
        let ran = mock(arguments).ended_with(0);
        let Value::Object(found) = ran.json() else { panic!("{}", ran.stdout) };
        assert_eq!(found.len(), benchmarks, "{arguments:?}");
        assert!(found.values().all(|it| it.as_object().is_some_and(|it| it.len() == measures)));
    };
    check(&[], 5, 1);
    check(&["--count", "12"], 12, 1);
    check(&["--count", "0"], 0, 0);
    check(&["--measure", "latency", "--measure", "x", "--pow", "-3"], 5, 2);
    let printed = |arguments: &[&str]| mock(arguments).stdout;
    assert_eq!(printed(&["--seed", "1"]), printed(&["--seed", "1"]));
    assert_ne!(printed(&[]), printed(&[]), "without a seed each is another");
}

#[test]
fn failures() {
    let failed = mock(&["--seed", "1", "--fail"]);
    assert_eq!((failed.code, failed.json().is_object()), (Some(1), true), "results come first");
    let codes = |seed: u32| mock(&["--flaky", "--seed", &seed.to_string()]).code;
    let codes: Vec<_> = (0..16).map(codes).collect();
    assert!(codes.contains(&Some(0)) && codes.contains(&Some(1)), "{codes:?}");
}

#[test]
fn a_walkthrough_with_noise_ends_with_one_alert() {
    let repository = Repository::new();
    let run = |flags: &[&str], mock: &[&str]| {
        let fixed = ["--err", WINGBEAT, "mock", "--noise", "2"];
        repository.run(&[flags, &fixed, mock].concat())
    };
    for seed in 1..=12 {
        let seed = seed.to_string();
        assert_eq!(run(&["--branch", "main"], &["--seed", &seed]).code, Some(0), "{seed}");
    }
    let candidate = ["--branch", "candidate", "--start-point", "main"];
    run(&candidate, &["--seed", "13"]).ended_with(0);
    // Once, it may be a spike. Remeasured, it is an alert.
    let not_confirmed = [&candidate[..], &["--confirm", "0"]].concat();
    let once = run(&not_confirmed, &["--seed", "13", "--slower", "20"]).ended_with(0);
    assert!(once.stdout.contains("worse, spike?"), "{}", once.stdout);
    let slower = run(&candidate, &["--seed", "13", "--slower", "20"]).ended_with(1);
    assert!(
        slower.stdout.contains("1 of 5 metrics is worse: bencher::mock_4"),
        "{}",
        slower.stdout
    );
}

// The article's two jobs in all spellings, and their purpose: a regression fails, its fix passes, and unchanged code raises no alert.

/// Output of `cargo bench` with Criterion.
fn criterion(time_ns: f64) -> String {
    let (low, high) = (time_ns * 0.98, time_ns * 1.02);
    format!("process_sample          time:   [{low:.3} ns {time_ns:.3} ns {high:.3} ns]\n")
}

/// A repository with a `cargo` that prints the file `output`.
fn with_cargo() -> Repository {
    let repository = Repository::new();
    repository.write("cargo", "#!/bin/sh\ntest \"$1\" = bench && cat output\n");
    repository.write("output", criterion(45.0));
    repository
}

#[test]
fn the_job_of_the_default_branch() {
    let repository = with_cargo();
    let path = format!("{}:{}", repository.path().display(), std::env::var("PATH").expect("PATH"));
    for _ in 0..2 {
        let mut command = repository.wingbeat(&["run", "--project", "simple-profiler", "--token"]);
        command.args(["x.y.z", "--branch", "main", "--testbed", "ci-runner", "--err"]);
        command.args(["cargo", "bench"]).env("PATH", &path);
        // The output is shown.
        Ran::of(&mut command).ended_with(0).tells("process_sample ");
    }
    let reports = repository.reports();
    assert_eq!(reports.len(), 2);
    let report = &reports[1];
    let names = (report.project.as_str(), report.branch.as_str(), report.testbed.as_str());
    assert_eq!(names, ("simple-profiler", "main", "ci-runner"));
    assert_eq!(report.hash.as_deref(), Some(repository.git(&["rev-parse", "HEAD"]).as_str()));
    assert_eq!(report.start_point, None);
    let benchmark = &report.iterations[0].benchmarks[0];
    assert_eq!((benchmark.name.as_str(), benchmark.metrics[0].1.value), ("process_sample", 45.0));
}

#[test]
fn the_job_of_candidates_catches_a_regression_and_lets_the_fix_pass() {
    let repository = Repository::new();
    let base = repository.git(&["rev-parse", "HEAD"]);
    let job = |flags: &[&str], count| {
        let fixed = ["--project", "simple-profiler", "--testbed", "ci-runner", "--err"];
        repository.run(&[&fixed, flags, &[&instructions(count)]].concat()).code
    };
    assert_eq!(job(&["--branch", "main"], 1000), Some(0));
    assert_eq!(job(&["--branch", "main"], 1000), Some(0), "the same code is no change");
    repository.branch("candidate");
    repository.commit();
    let of_start = ["--branch-start-point", "main", "--branch-start-point-hash", &base];
    let candidate = [&["--branch", "candidate"], &of_start[..]].concat();
    assert_eq!(job(&candidate, 1001), Some(1), "one instruction more");
    repository.commit();
    assert_eq!(job(&candidate, 1001), Some(1), "its own first push does not hide it");
    repository.commit();
    assert_eq!(job(&candidate, 1000), Some(0), "mended");
    assert_eq!(job(&candidate, 999), Some(0), "better is no alert");
    // The spelling of the talk.
    let talk = ["--if-branch", "candidate", "--else-if-branch", "main", "--else-branch"];
    assert_eq!(job(&talk, 1001), Some(1));
    assert_eq!(job(&talk, 1000), Some(0));

    let reports = repository.reports();
    assert_eq!(reports.len(), 8);
    let alerts: Vec<usize> = reports.iter().map(|report| report.alerts.len()).collect();
    assert_eq!(alerts, [0, 0, 1, 1, 0, 0, 1, 0]);
    for report in &reports[2..] {
        let start = report.start_point.as_ref().expect("a start point");
        assert_eq!((start.branch.as_str(), start.hash.as_deref()), ("main", Some(base.as_str())));
    }
}

#[test]
fn without_err_an_alert_is_told_and_no_failure() {
    let repository = Repository::new();
    repository.run(&[&instructions(5)]).ended_with(0);
    let ran = repository.run(&["--format", "json", &instructions(6)]);
    assert_eq!((ran.code, ran.json()["counts"]["alerts"]["active"].as_u64()), (Some(0), Some(1)));
    assert_eq!(repository.reports()[1].active_alerts(), 1);
}

#[test]
fn a_reader_that_has_seen_enough_does_not_hide_an_alert() {
    let repository = Repository::new();
    repository.run(&[&instructions(5)]).ended_with(0);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = repository.wingbeat(&["run", "--err", &instructions(6)]);
    let status = command.stdout(writer).stderr(std::process::Stdio::null()).status();
    assert_eq!(status.expect("it runs").code(), Some(1));
}

// A history in a git branch, tested literally from the docs: runs the snippets of `docs/store.md` and `docs/ci.md`, several jobs at once, against a bare remote.

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
    let wingbeat = WINGBEAT;
    std::os::unix::fs::symlink(wingbeat, folder.path().join("wingbeat")).expect("a link");
    let cargo = folder.path().join("cargo");
    let result = r#"{"a": {"instructions": {"value": 5}}}"#;
    fs::write(&cargo, format!("#!/bin/sh\necho '{result}'\n")).expect("written");
    let status = Command::new("chmod").arg("+x").arg(cargo).status().expect("chmod runs");
    assert!(status.success());
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
fn as_the_page_about_the_store_tells() {
    let page = doc("store.md");
    let below = "To keep the history in its own branch";
    race(&fenced(&page, below, 0), &[fenced(&page, below, 1)]);
}

#[test]
fn as_the_page_about_ci_tells() {
    let page = doc("ci.md");
    let steps = [step(&page, "Benchmarks"), step(&page, "Keep the history")];
    race(&fenced(&page, "### The history in a branch", 0), &steps);
}

//! A history in a git branch, tested literally from the docs: runs the snippets of `docs/store.md` and `docs/ci.md`,
//! several jobs at once, against a bare remote.

use std::{fs, path::Path, process::Command, thread};

use tempfile::TempDir;

use crate::repository::{Repository, WINGBEAT, remove_foreign_variables, reports};

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

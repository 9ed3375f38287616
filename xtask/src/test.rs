//! `cargo xtask test`: all tests, on the real kernel.
//!
//! Cargo builds the test programs, and they run two at a time: kernel tests mostly wait for timers, and leave a
//! processor to the others. A test that requires a quiet machine prints [`QUIET`]; if it fails it runs once more,
//! alone, and the report names those that passed only then. Other tests are not retried.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};

use anyhow::ensure;
use serde_json::Value;
use xtask::{
    command::{Rights, Steps, captured, cargo, display, logged, repository},
    folders,
};

use crate::{setup, vm::kernel_programs};

/// Printed by tests, which have their own copy: they do not depend on `xtask`.
const QUIET: &str = "[this test needs a quiet machine]";
/// Prefix of the line appended to the output of a failed program.
const ENDED: &str = "ended with ";
/// Folder of the programs' output.
const OUTPUT: &str = "target/test-output";

/// The builds, with cargo arguments. Excludes benchmarks and examples: clippy compiles them, and they measure nothing
/// here.
const BUILDS: [(&str, &[&str]); 2] = [
    ("the tests", &["--tests"]),
    // The article's regression and the heap profiler, which are off by default.
    (
        "the tests of examples/profiler with its features",
        &["--test", "profiler", "--features", "profiler/oops,profiler/dhat-heap"],
    ),
];

/// Runs setup and the tests whose names contain `filter`.
pub(crate) fn run(filter: Option<&str>) -> anyhow::Result<()> {
    let rights = Rights::required()?;
    let mut steps = Steps::default();
    steps.time("cargo xtask setup", |_| setup::run())?;
    // Tests of `wingbeat` profile this one, built as users build it.
    steps.run(cargo().args(["build", "--release", "-p", "amicable"]))?;
    // A separate package: it pulls in an HTTP stack that nothing else needs.
    let client =
        ["build", "--locked", "--manifest-path", "crates/server/tests/clients/rust/Cargo.toml"];
    steps.run(cargo().args(client).args(["--target-dir", "target"]))?;

    folders::fresh(&repository().join(OUTPUT))?;
    let mut verdict = Verdict::default();
    for (name, arguments) in BUILDS {
        let programs = steps.time(&format!("build {name}"), |_| {
            let built = build_tests(arguments.iter().copied())?;
            Ok(in_order(built, &kernel_programs().collect::<Vec<_>>()))
        })?;
        // Before the next build, which replaces a program that tests start.
        steps.time(&format!("run {name}: {} programs", programs.len()), |_| {
            run_all(&programs, filter, rights, &mut verdict);
            Ok(())
        })?;
    }
    let mut examples = cargo();
    // Without features of their own, so that nothing is rebuilt.
    examples.args(["test", "--profile", "quick", "--workspace", "--doc", "--quiet"]);
    let examples = steps.run(examples.args(filter.map(|_| "--")).args(filter));
    steps.report();
    eprintln!("{}", verdict.report());
    examples?;
    ensure!(!verdict.is_failure(), "not all tests passed");
    Ok(())
}

/// A program built by cargo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Artifact {
    /// Folder of its package, in which cargo runs tests.
    pub(crate) folder: PathBuf,
    pub(crate) target: String,
    /// Cargo's name: `bin`, `lib` for unit tests, `test` for integration tests.
    pub(crate) kind: String,
    pub(crate) is_test: bool,
    pub(crate) program: PathBuf,
}

impl Artifact {
    fn read(line: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(line).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some(Self {
            folder: Path::new(message["manifest_path"].as_str()?).parent()?.to_owned(),
            target: text(&message["target"]["name"])?,
            kind: text(&message["target"]["kind"][0])?,
            is_test: message["profile"]["test"] == true,
            program: message["executable"].as_str()?.into(),
        })
    }

    pub(crate) fn name(&self) -> String {
        name(&self.folder, &self.target)
    }
}

/// Name of a target, given the folder of its package: `wingbeat/recordings`.
pub(crate) fn name(folder: &Path, target: &str) -> String {
    format!("{}/{target}", folder.file_name().unwrap_or_default().to_string_lossy())
}

/// Programs in the JSON messages of cargo.
pub(crate) fn artifacts(messages: &str) -> Vec<Artifact> {
    messages.lines().filter_map(Artifact::read).collect()
}

/// Builds tests, in the profile of all tests, and the programs that they start.
///
/// Always builds the whole workspace: with fewer packages their dependencies get other features, and everything is
/// recompiled.
pub(crate) fn build_tests<'a>(
    arguments: impl IntoIterator<Item = &'a str>,
) -> anyhow::Result<Vec<Artifact>> {
    let mut command = cargo();
    command.args(["test", "--profile", "quick", "--workspace", "--no-run"]);
    command.args(["--message-format", "json-render-diagnostics"]).args(arguments);
    eprintln!("==> {}", display(&command));
    Ok(artifacts(&captured(&mut command)?))
}

/// The test programs. Those of `of_kernel` come first, the last of them leading: it begins with the quick ones.
fn in_order(mut built: Vec<Artifact>, of_kernel: &[String]) -> Vec<Artifact> {
    built.retain(|it| it.is_test);
    let rank = |it: &Artifact| of_kernel.iter().rev().position(|name| *name == it.name());
    built.sort_by_key(|it| rank(it).unwrap_or(usize::MAX));
    built
}

/// Runs the tests whose names contain `filter`: one lane from the first program on, with the kernel tests, and one from
/// the last.
fn run_all(programs: &[Artifact], filter: Option<&str>, rights: Rights, verdict: &mut Verdict) {
    let run = |program: &Artifact, words: &[&str]| run_program(program, words, rights);
    let waiting = Mutex::new(programs.iter());
    let outcomes = Mutex::new(Vec::new());
    let lane = |from_end: bool| {
        loop {
            let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let next = if from_end { waiting.next_back() } else { waiting.next() };
            drop(waiting);
            let Some(program) = next else { break };
            let start = Instant::now();
            let text = run(program, filter.as_slice());
            let outcome = Outcome::read(&text);
            let is_good = outcome.failed.is_empty();
            let word = if is_good { "ok" } else { "FAILED" };
            let (seconds, passed) = (start.elapsed().as_secs_f64(), outcome.passed);
            eprintln!("{word:<6} {seconds:>6.1} s  {passed:>4} passed  {}", program.name());
            if !is_good {
                eprintln!("{text}");
            }
            outcomes.lock().unwrap_or_else(PoisonError::into_inner).push((program, outcome));
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| lane(false));
        lane(true);
    });
    for (program, outcome) in outcomes.into_inner().unwrap_or_else(PoisonError::into_inner) {
        verdict.add(&program.name(), &outcome, |test| {
            eprintln!("once more, alone: {} {test}", program.name());
            Outcome::read(&run(program, &["--exact", test])).failed.is_empty()
        });
    }
}

/// Combined stdout and stderr of a program with these harness arguments.
fn run_program(program: &Artifact, words: &[&str], rights: Rights) -> String {
    let mut command = rights.command(program.program.as_os_str());
    command.args(words).current_dir(&program.folder);
    // Variables that cargo sets for a test.
    command.env("CARGO_MANIFEST_DIR", &program.folder);
    let client = repository().join("target/debug/wingbeat-rust-client");
    command.env("WINGBEAT_RUST_CLIENT", client);
    let log = format!("{OUTPUT}/{}.log", program.name().replace('/', "-"));
    match logged(&mut command, &repository().join(log)) {
        Ok((status, text)) if status.success() => text,
        Ok((status, text)) => format!("{text}\n{ENDED}{status}\n"),
        Err(error) => format!("{ENDED}no start: {error}\n"),
    }
}

/// What a program's output says.
#[derive(Debug)]
struct Outcome {
    passed: u64,
    /// Failed tests, and whether each may run once more: it requires a quiet machine. A program that did not end by
    /// itself has such an entry, too.
    failed: Vec<(String, bool)>,
}

impl Outcome {
    fn read(text: &str) -> Self {
        let of = |line: &str, what: &str| -> Option<u64> {
            line.split_once(what)?.0.rsplit([' ', ';']).next()?.parse().ok()
        };
        let results: Vec<_> =
            text.lines().filter(|line| line.starts_with("test result: ")).collect();
        let sum = |what| results.iter().filter_map(|line| of(line, what)).sum::<u64>();
        let (passed, failures) = (sum(" passed"), sum(" failed"));
        // libtest's `---- NAME stdout ----` and what follows.
        let sections =
            text.split("\n---- ").skip(1).filter_map(|it| it.split_once(" stdout ----\n"));
        let mut failed: Vec<_> =
            sections.map(|(test, it)| (test.to_owned(), it.contains(QUIET))).collect();
        // Custom harnesses fail by exit code alone.
        let is_bad = text.lines().any(|line| line.starts_with(ENDED));
        let is_counted = if results.is_empty() { !is_bad } else { failures == failed.len() as u64 };
        if !is_counted || (is_bad && failures == 0) {
            failed.iter_mut().for_each(|(_, may_run_again)| *may_run_again = false);
            failed.push(("did not end by itself".to_owned(), false));
        }
        Self { passed, failed }
    }
}

/// Outcome of all programs.
#[derive(Debug, Default)]
struct Verdict {
    passed: u64,
    only_alone: Vec<String>,
    failed: Vec<String>,
}

impl Verdict {
    /// Adds a program. `alone` reruns one of its tests, and returns whether it passed.
    fn add(&mut self, program: &str, outcome: &Outcome, mut alone: impl FnMut(&str) -> bool) {
        self.passed += outcome.passed;
        for (test, may_run_again) in &outcome.failed {
            let name = format!("{program} {test}");
            if *may_run_again && alone(test) {
                self.passed += 1;
                self.only_alone.push(name);
            } else {
                self.failed.push(name);
            }
        }
    }

    fn is_failure(&self) -> bool {
        !self.failed.is_empty() || self.passed == 0
    }

    fn report(&self) -> String {
        let alone = self.only_alone.iter().map(|name| format!("\n  passed only alone: {name}"));
        let failed = self.failed.iter().map(|name| format!("\n  FAILED: {name}"));
        let names: String = alone.chain(failed).collect();
        format!("{} tests passed, {} failed{names}", self.passed, self.failed.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "running 2 tests\ntest a ... ok\ntest b ... ok\n\n\
        test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n";

    fn bad(output: &str) -> String {
        format!(
            "running 2 tests\ntest a ... ok\ntest m::b ... FAILED\n\nfailures:\n\n---- m::b stdout ----\n{output}\n\n\
             failures:\n    m::b\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored\n\n{ENDED}exit status: 101\n"
        )
    }

    /// Checks a program's summary, whose tests pass alone or fail.
    #[track_caller]
    fn check(text: &str, passes_alone: bool, expected: &str) {
        let mut verdict = Verdict::default();
        verdict.add("p", &Outcome::read(text), |_| passes_alone);
        assert_eq!(verdict.report(), expected);
        assert_eq!(verdict.is_failure(), expected.contains("FAILED"));
    }

    #[test]
    fn only_what_asks_for_a_quiet_machine_runs_twice() {
        check(GOOD, false, "2 tests passed, 0 failed");
        let failed = "1 tests passed, 1 failed\n  FAILED: p m::b";
        check(&bad("it panicked"), true, failed);
        check(&bad(QUIET), false, failed);
        check(&bad(QUIET), true, "2 tests passed, 0 failed\n  passed only alone: p m::b");
        let copy = include_str!("../../crates/wingbeat/tests/common/ran.rs");
        assert!(copy.contains(&format!("const QUIET: &str = \"{QUIET}\";")));
    }

    #[test]
    fn a_program_that_is_cut_off_fails() {
        let failed = "0 tests passed, 1 failed\n  FAILED: p did not end by itself";
        check(&format!("running 2 tests\n{ENDED}signal: 9\n"), true, failed);
        check(&format!("{ENDED}no start: gone\n"), true, failed);
        let late = format!("{GOOD}{ENDED}signal: 11\n");
        check(&late, true, "2 tests passed, 1 failed\n  FAILED: p did not end by itself");
    }

    #[test]
    fn programs_of_the_kernel_come_first() {
        let built = |(package, target, is_test): (&str, &str, bool)| Artifact {
            folder: Path::new("/r/crates").join(package),
            target: target.to_owned(),
            kind: "test".to_owned(),
            is_test,
            program: PathBuf::new(),
        };
        let built =
            [("track", "all", true), ("w", "live", true), ("w", "w", false), ("w", "heap", true)]
                .map(built);
        let found = in_order(built.into(), &["w/live", "w/heap"].map(str::to_owned));
        let names: Vec<_> = found.iter().map(Artifact::name).collect();
        assert_eq!(names, ["w/heap", "w/live", "track/all"]);
    }
}

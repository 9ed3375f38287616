//! Parses a test program's output and decides on retries.
//!
//! A test that requires a quiet machine prints [`QUIET`]. If it fails it runs once more, alone, after all others; the
//! report names those that passed only then. Other tests are not retried.

use std::{fmt, time::Duration};

/// Printed by such a test. Tests have their own copy: they do not depend on `xtask`.
const QUIET: &str = "[this test needs a quiet machine]";

/// Prefix of the line appended to the output of a failed program.
pub(super) const ENDED: &str = "ended with ";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    name: String,
    took: Duration,
    passed: u64,
    /// Failed tests, and whether each requires a quiet machine.
    failed: Vec<(String, bool)>,
    /// Whether the harness printed its summary, and no signal ended it.
    is_whole: bool,
    text: String,
}

impl Outcome {
    pub(super) fn read(name: &str, text: &str, took: Duration) -> Self {
        let of = |line: &str, what: &str| -> Option<u64> {
            let (before, _) = line.split_once(what)?;
            before.rsplit([' ', ';']).next()?.parse().ok()
        };
        let results: Vec<_> =
            text.lines().filter(|line| line.starts_with("test result: ")).collect();
        let passed = results.iter().filter_map(|line| of(line, " passed")).sum();
        let failures: u64 = results.iter().filter_map(|line| of(line, " failed")).sum();
        let failed: Vec<_> =
            sections(text).map(|(test, said)| (test.to_owned(), said.contains(QUIET))).collect();
        // Custom harnesses fail by exit code alone.
        let is_bad = text.lines().any(|line| line.starts_with(ENDED));
        let is_whole = if results.is_empty() { !is_bad } else { failures == failed.len() as u64 };
        let is_whole = is_whole && (!is_bad || failures > 0);
        Self { name: name.to_owned(), took, passed, failed, is_whole, text: text.to_owned() }
    }

    pub(super) fn is_good(&self) -> bool {
        self.is_whole && self.failed.is_empty()
    }

    /// A summary line; on failure, the whole output.
    pub(super) fn say(&self) {
        let word = if self.is_good() { "ok" } else { "FAILED" };
        let (seconds, name) = (self.took.as_secs_f64(), &self.name);
        eprintln!("{word:<6} {seconds:>6.1} s  {:>4} passed  {name}", self.passed);
        if !self.is_good() {
            eprintln!("{}", self.text);
        }
    }
}

/// Output of each failed test: libtest's `---- NAME stdout ----` and what follows.
fn sections(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("\n---- ").skip(1).filter_map(|section| section.split_once(" stdout ----\n"))
}

/// Outcome of all programs.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    passed: u64,
    /// Tests that passed only when run alone.
    only_alone: Vec<String>,
    failed: Vec<String>,
}

impl Verdict {
    /// Adds a program. `alone` reruns one of its tests, and returns whether it passed.
    pub(super) fn add(&mut self, outcome: &Outcome, mut alone: impl FnMut(&str) -> bool) {
        self.passed += outcome.passed;
        for (test, is_disturbed) in &outcome.failed {
            let name = format!("{} {test}", outcome.name);
            if *is_disturbed && outcome.is_whole && alone(test) {
                self.passed += 1;
                self.only_alone.push(name);
            } else {
                self.failed.push(name);
            }
        }
        if !outcome.is_whole {
            self.failed.push(format!("{}, which did not end by itself", outcome.name));
        }
    }

    pub(super) fn is_failure(&self) -> bool {
        !self.failed.is_empty() || self.passed == 0
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tests passed, {} failed", self.passed, self.failed.len())?;
        for name in &self.only_alone {
            write!(f, "\n  passed only alone: {name}")?;
        }
        for name in &self.failed {
            write!(f, "\n  FAILED: {name}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "running 2 tests\ntest a ... ok\ntest b ... ok\n\n\
        test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n";

    fn bad(said: &str) -> String {
        format!(
            "running 2 tests\ntest a ... ok\ntest m::b ... FAILED\n\nfailures:\n\n---- m::b stdout ----\n{said}\n\n\
             failures:\n    m::b\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored\n\n{ENDED}exit status: 101\n"
        )
    }

    /// Checks a program's summary, whose tests pass alone or fail.
    #[track_caller]
    fn check(text: &str, passes_alone: bool, expected: &str) {
        let mut verdict = Verdict::default();
        verdict.add(&Outcome::read("p", text, Duration::ZERO), |_| passes_alone);
        assert_eq!(verdict.to_string(), expected);
        assert_eq!(verdict.is_failure(), expected.contains("FAILED"));
    }

    #[test]
    fn only_what_asks_for_a_quiet_machine_runs_twice() {
        check(GOOD, false, "2 tests passed, 0 failed");
        let failed = "1 tests passed, 1 failed\n  FAILED: p m::b";
        check(&bad("it panicked"), true, failed);
        check(&bad(QUIET), false, failed);
        check(&bad(QUIET), true, "2 tests passed, 0 failed\n  passed only alone: p m::b");
    }

    #[test]
    fn tests_say_it_in_these_words() {
        let said = include_str!("../../../crates/wingbeat/tests/common/ran.rs");
        assert!(said.contains(&format!("const QUIET: &str = \"{QUIET}\";")));
    }

    #[test]
    fn a_program_that_is_cut_off_fails() {
        let failed = "0 tests passed, 1 failed\n  FAILED: p, which did not end by itself";
        check(&format!("running 2 tests\n{ENDED}signal: 9\n"), true, failed);
        check("cannot run p: gone\nended with nothing\n", true, failed);
        let late = format!("{GOOD}{ENDED}signal: 11\n");
        check(&late, true, "2 tests passed, 1 failed\n  FAILED: p, which did not end by itself");
    }
}

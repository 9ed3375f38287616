//! The verdict: what ran on which kernel, in a table, and the exit code.

use std::process::ExitCode;

use super::{
    boot::{Accelerator, Ending},
    console::Run,
    suites::is_of_times,
};

/// A kernel's run.
#[derive(Debug)]
pub(super) struct Report {
    kernel: String,
    accelerator: Accelerator,
    ending: Ending,
    /// What differs from the record for the worse.
    pub(super) regressions: Vec<String>,
}

impl Report {
    /// The run of the kernel with this name.
    pub(super) fn new(kernel: &str, accelerator: Accelerator, ending: Ending) -> Self {
        Self { kernel: kernel.to_owned(), accelerator, ending, regressions: Vec::new() }
    }

    /// Whether everything ran and passed.
    fn passed(&self) -> bool {
        self.ending.trouble.is_none()
            && self.regressions.is_empty()
            && self.ending.console.runs.iter().all(|run| self.counts_as_passed(run))
    }

    /// Whether it passed but for tests that emulation cannot do justice to.
    fn counts_as_passed(&self, run: &Run) -> bool {
        match run.code {
            Some(0) => true,
            Some(_) => {
                !run.failed.is_empty() && run.failed.iter().all(|test| self.is_told(run, test))
            }
            None => false,
        }
    }

    fn is_told(&self, run: &Run, test: &str) -> bool {
        self.accelerator == Accelerator::Emulation && is_of_times(&run.name, test)
    }

    /// Prints it for people.
    pub(super) fn say(&self) {
        eprintln!("\n{}", self.text());
    }

    fn text(&self) -> String {
        let console = &self.ending.console;
        let release = console.release.as_deref().unwrap_or("not booted");
        let took_s = self.ending.took.as_secs();
        let mut text = format!("{} ({release}), {took_s} s", self.kernel);
        for run in &console.runs {
            let code = match run.code {
                Some(_) if self.counts_as_passed(run) => "passed".to_owned(),
                Some(code) => format!("FAILED, exit code {code}"),
                None => "NOT FINISHED".to_owned(),
            };
            text += &format!("\n  {:24} {:4} tests  {code}", run.name, run.passed);
            for name in &run.failed {
                let note = match self.is_told(run, name) {
                    true => " (of times: told, not counted)",
                    false => "",
                };
                text += &format!("\n    failed: {name}{note}");
            }
            for reason in &run.skipped {
                text += &format!("\n    skipped: {reason}");
            }
        }
        for regression in &self.regressions {
            text += &format!("\nerror: {regression}");
        }
        if let Some(trouble) = &self.ending.trouble {
            text += &format!("\nerror: {trouble}");
        }
        text
    }
}

/// A failure unless all passed.
pub(super) fn exit_code(reports: &[Report]) -> ExitCode {
    match reports.iter().all(Report::passed) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::vm::console::Console;

    #[test]
    fn only_times_are_forgiven_and_only_to_emulation() {
        #[track_caller]
        fn check(said: &str, accelerator: Accelerator, expected: bool) {
            let mut console = Console::default();
            said.lines().for_each(|line| drop(console.line(line)));
            let ending = Ending { console, trouble: None, took: Duration::ZERO };
            let report = Report::new("6.1", accelerator, ending);
            assert_eq!(report.passed(), expected, "{}", report.text());
        }
        use Accelerator::{Emulation, Kvm};
        check("@vm begin a\n@vm end 0 a", Emulation, true);
        check("@vm begin a\n@vm end 101 a", Emulation, false);
        check("@vm begin a", Emulation, false);
        let of_times = "test alternate::times_are_as_the_programs_are_long ... FAILED";
        let bench = format!("@vm begin bench/kernel\n{of_times}\n@vm end 101 bench/kernel");
        check(&bench, Emulation, true);
        check(&bench, Kvm, false);
        check(&bench.replace("bench/kernel", "a/b"), Emulation, false);
        check(&bench.replace("@vm end", "test b ... FAILED\n@vm end"), Emulation, false);
    }
}

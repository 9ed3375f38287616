//! The verdict: a table of what ran on which kernel, and whether it is complete.

use super::boot::Ending;

/// A kernel's run.
#[derive(Debug)]
pub(super) struct Report {
    kernel: String,
    ending: Ending,
    /// Regressions against the record.
    pub(super) regressions: Vec<String>,
}

impl Report {
    /// The run of the kernel with this name.
    pub(super) fn new(kernel: &str, ending: Ending) -> Self {
        Self { kernel: kernel.to_owned(), ending, regressions: Vec::new() }
    }

    /// Whether everything ran and passed.
    pub(super) fn passed(&self) -> bool {
        self.ending.trouble.is_none()
            && self.regressions.is_empty()
            && self.ending.console.runs.iter().all(|run| run.code == Some(0))
            && !self.ending.console.runs.is_empty()
    }

    /// As text.
    pub(super) fn text(&self) -> String {
        let console = &self.ending.console;
        let release = console.release.as_deref().unwrap_or("not booted");
        let took_s = self.ending.took.as_secs();
        let mut text = format!("{} ({release}), {took_s} s", self.kernel);
        for run in &console.runs {
            let code = match run.code {
                Some(0) => "passed".to_owned(),
                Some(code) => format!("FAILED, exit code {code}"),
                None => "NOT FINISHED".to_owned(),
            };
            text += &format!("\n  {:24} {:4} tests  {code}", run.name, run.passed);
            for name in &run.failed {
                let note = match run.passed_again.contains(name) {
                    true => ", and passed when it ran once more",
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::vm::console::Console;

    fn ending(said: &str) -> Ending {
        let mut console = Console::default();
        said.lines().for_each(|line| drop(console.line(line)));
        Ending { console, trouble: None, took: Duration::ZERO }
    }

    #[test]
    fn every_program_has_to_pass() {
        #[track_caller]
        fn check(said: &str, expected: bool) {
            let report = Report::new("6.1", ending(said));
            assert_eq!(report.passed(), expected, "{}", report.text());
        }
        check("@vm begin a\n@vm end 0 a", true);
        check("@vm begin a\n@vm end 101 a", false);
        check("@vm begin a", false);
        check("", false);
        check("@vm begin a\n@vm end 0 a\n@vm begin b\n@vm end 1 b", false);
    }

    #[test]
    fn trouble_is_a_failure_whatever_passed() {
        let ending = || ending("@vm begin a\n@vm end 0 a");
        assert!(Report::new("6.1", ending()).passed());
        let hung = Ending { trouble: Some("it hangs".to_owned()), ..ending() };
        assert!(!Report::new("6.1", hung).passed());
        let mut slower = Report::new("6.1", ending());
        slower.regressions.push("sample takes more".to_owned());
        assert!(!slower.passed());
    }
}

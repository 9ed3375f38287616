//! Parses a guest's output line by line: marks of `run.sh` within the output of tests.
//!
//! Pure: lines in, events out; no guest and no clock.

use std::collections::BTreeMap;

/// Prefix of each mark.
const MARK: &str = "@vm ";

/// Event of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    Output(String),
    /// The guest has booted this kernel release.
    Booted(String),
    /// A test program starts.
    Begun(String),
    /// It ended with this exit code.
    Ended(String, i32),
}

/// A test program's run, from its output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Run {
    /// Its name in the script, `wingbeat/profile`.
    pub(super) name: String,
    /// Its exit code; none while it runs.
    pub(super) code: Option<i32>,
    /// Passed tests, over all its binaries.
    pub(super) passed: u64,
    /// Names of failed tests.
    pub(super) failed: Vec<String>,
    /// Those among them that passed on the second run.
    pub(super) passed_again: Vec<String>,
    /// Messages of skipped tests.
    pub(super) skipped: Vec<String>,
}

/// All output so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Console {
    /// The kernel's release, once booted.
    pub(super) release: Option<String>,
    /// The test programs, in order.
    pub(super) runs: Vec<Run>,
    /// Files by name.
    pub(super) files: BTreeMap<String, String>,
    /// Error message of a guest that gave up.
    pub(super) failure: Option<String>,
    /// Whether the script completed.
    pub(super) is_done: bool,
    /// The file currently received.
    open: Option<String>,
}

impl Console {
    /// Parses a line, without its line break.
    pub(super) fn line(&mut self, line: &str) -> Option<Event> {
        let line = line.trim_end_matches('\r');
        if let Some(mark) = line.strip_prefix(MARK) {
            return self.mark(mark);
        }
        if let Some(name) = &self.open {
            let text = self.files.entry(name.clone()).or_default();
            text.push_str(line);
            text.push('\n');
            return None;
        }
        if let Some(run) = self.runs.last_mut().filter(|run| run.code.is_none()) {
            run.note(line);
        }
        (!line.is_empty()).then(|| Event::Output(line.to_owned()))
    }

    /// The guest's output ended; `begun` is its unterminated last line: a test that hangs has failed.
    pub(super) fn cut(&mut self, begun: &str) {
        let Some(run) = self.runs.last_mut().filter(|run| run.code.is_none()) else { return };
        let name = begun.strip_prefix("test ").and_then(|line| line.split_once(" ... "));
        run.failed.extend(name.map(|(name, _)| name.to_owned()));
    }

    /// The test program that was running when the guest ended.
    pub(super) fn unfinished(&self) -> Option<&str> {
        let last = self.runs.last().filter(|run| run.code.is_none())?;
        Some(&last.name)
    }

    /// Appends the output of a guest that ran the remaining programs.
    pub(super) fn extend(&mut self, rest: Self) {
        self.runs.extend(rest.runs);
        self.files.extend(rest.files);
        self.failure = self.failure.take().or(rest.failure);
        self.is_done = rest.is_done;
    }

    fn mark(&mut self, mark: &str) -> Option<Event> {
        let (word, rest) = mark.split_once(' ').unwrap_or((mark, ""));
        match word {
            "boot" => {
                self.release = Some(rest.to_owned());
                Some(Event::Booted(rest.to_owned()))
            }
            "begin" => {
                self.runs.push(Run { name: rest.to_owned(), ..Run::default() });
                Some(Event::Begun(rest.to_owned()))
            }
            "end" => {
                let (code, name) = rest.split_once(' ').unwrap_or((rest, ""));
                let code = code.parse().unwrap_or(-1);
                let run = self.runs.iter_mut().rev().find(|run| run.name == name)?;
                run.code = Some(code);
                Some(Event::Ended(name.to_owned(), code))
            }
            "again" => {
                let run = self.runs.last_mut()?;
                run.passed_again.push(rest.to_owned());
                None
            }
            "file" => {
                self.open = Some(rest.to_owned());
                self.files.insert(rest.to_owned(), String::new());
                None
            }
            "eof" => {
                if let Some(text) = self.open.take().and_then(|name| self.files.get_mut(&name)) {
                    // Line break added by the mark.
                    text.truncate(text.trim_end().len());
                }
                None
            }
            "failed" => {
                self.failure = Some(rest.to_owned());
                Some(Event::Output(rest.to_owned()))
            }
            "done" => {
                self.is_done = true;
                None
            }
            _ => Some(Event::Output(format!("{MARK}{mark}"))),
        }
    }
}

impl Run {
    /// Parses the output of libtest and our tests.
    fn note(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            let passed = counts.split(';').find_map(|part| {
                let words: Vec<_> = part.split_whitespace().collect();
                let [.., number, "passed"] = words[..] else { return None };
                number.parse::<u64>().ok()
            });
            self.passed += passed.unwrap_or(0);
        } else if let Some(name) = failed_test(line) {
            // A test that reruns itself with fewer privileges prints it twice.
            if !self.failed.iter().any(|known| known == name) {
                self.failed.push(name.to_owned());
            }
        } else if line.to_ascii_lowercase().starts_with("skipped: ") {
            self.skipped.push(line["skipped: ".len()..].to_owned());
        }
    }
}

/// The test in `test NAME ... FAILED`, possibly with output in between.
fn failed_test(line: &str) -> Option<&str> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    rest.ends_with("FAILED").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Console, Vec<Event>) {
        let mut console = Console::default();
        let events = text.lines().filter_map(|line| console.line(line)).collect();
        (console, events)
    }

    fn output(text: &str) -> Event {
        Event::Output(text.to_owned())
    }

    #[test]
    fn marks_become_events_and_other_lines_output() {
        #[track_caller]
        fn check(text: &str, expected: &[Event]) {
            assert_eq!(read(text).1, expected, "{text}");
        }
        check("", &[]);
        check("hello\r\n\r\n", &[output("hello")]);
        check("@vm boot 6.1.0-1", &[Event::Booted("6.1.0-1".to_owned())]);
        check(
            "@vm begin a/b\nx\n@vm end 101 a/b",
            &[Event::Begun("a/b".to_owned()), output("x"), Event::Ended("a/b".to_owned(), 101)],
        );
        check("@vm end 0 nobody", &[]);
        check("@vm nonsense it is", &[output("@vm nonsense it is")]);
        check("say @vm done", &[output("say @vm done")]);
        check("@vm file f\nhidden\n@vm eof\nshown", &[output("shown")]);
    }

    #[test]
    fn a_run_is_summed_up() {
        #[track_caller]
        fn check(text: &str, passed: u64, failed: &[&str], skipped: &[&str]) {
            let (console, _) = read(&format!("@vm begin a\n{text}\n@vm end 0 a"));
            let run = &console.runs[0];
            assert_eq!((run.code, run.passed), (Some(0), passed), "{text}");
            assert_eq!(run.failed, failed, "{text}");
            assert_eq!(run.skipped, skipped, "{text}");
        }
        check("", 0, &[], &[]);
        check("test result: ok. 12 passed; 0 failed; 0 ignored; finished in 3 s", 12, &[], &[]);
        check("test result: FAILED. 1 passed; 1 failed;\ntest result: ok. 2 passed;", 3, &[], &[]);
        check("test a::b ... FAILED\ntest c ... ok", 0, &["a::b"], &[]);
        check("test a ... FAILED\ntest a ... FAILED", 0, &["a"], &[]);
        check("test a ... \u{1b}[31mFAILED", 0, &["a"], &[]);
        check("skipped: no disk\nSKIPPED: no net", 0, &[], &["no disk", "no net"]);
    }

    #[test]
    fn what_passed_the_second_time_is_known() {
        let text = "@vm begin a\ntest b ... FAILED\ntest c ... FAILED\n@vm again b\n@vm end 101 a";
        let (console, events) = read(text);
        assert_eq!(console.runs[0].failed, ["b", "c"]);
        assert_eq!(console.runs[0].passed_again, ["b"]);
        assert_eq!(events.len(), 4, "{events:?}");
        assert_eq!(read("@vm again b").1, []);
    }

    #[test]
    fn a_test_that_hangs_has_failed() {
        let check = |said: &str, begun: &str, failed: &[&str], unfinished: Option<&str>| {
            let (mut console, _) = read(said);
            console.cut(begun);
            assert_eq!(console.unfinished(), unfinished, "{said}");
            let names: Vec<_> = console.runs.iter().flat_map(|run| &run.failed).collect();
            assert_eq!(names, failed, "{said}");
        };
        check("@vm begin a\ntest b ... ok", "test c::d ... ", &["c::d"], Some("a"));
        check("@vm begin a\nrunning 3 tests", "", &[], Some("a"));
        check("@vm begin a\n@vm end 0 a", "test c ... ", &[], None);
        check("@vm boot 6.1", "test c ... ", &[], None);
    }

    #[test]
    fn what_a_second_guest_says_is_added() {
        let (mut console, _) = read("@vm boot 6.1\n@vm file f\nx\n@vm eof\n@vm begin a\nx");
        let (rest, _) = read("@vm boot 6.1\n@vm begin b\n@vm end 0 b\n@vm done");
        console.extend(rest);
        let codes: Vec<_> = console.runs.iter().map(|run| (&*run.name, run.code)).collect();
        assert_eq!(codes, [("a", None), ("b", Some(0))]);
        assert_eq!((console.is_done, &*console.files["f"]), (true, "x"));
    }

    #[test]
    fn files_keep_their_lines() {
        let (console, _) =
            read("@vm file a.json\n{\n  \"b\": 1\n}\n\n@vm eof\n@vm file b\n@vm eof");
        assert_eq!(console.files["a.json"], "{\n  \"b\": 1\n}");
        assert_eq!(console.files["b"], "");
    }

    #[test]
    fn only_the_last_mark_is_an_end() {
        let check = |text, done, failure: Option<&str>| {
            let (console, _) = read(text);
            assert_eq!((console.is_done, console.failure.as_deref()), (done, failure), "{text}");
        };
        check("@vm boot 1\n@vm begin a", false, None);
        check("@vm boot 1\n@vm done", true, None);
        check("@vm failed no disk", false, Some("no disk"));
    }
}

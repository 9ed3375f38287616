//! What a run of wingbeat gave.

use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

pub(crate) struct Ran {
    /// What was run, for messages.
    command: String,
    /// `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// Runs it to its end, with an empty stdin.
    pub(crate) fn of(command: &mut Command) -> Self {
        let output = command.stdin(Stdio::null()).output().expect("it runs");
        Self { command: format!("{command:?}"), ..output.into() }
    }

    /// Runs it to its end, with this on stdin.
    pub(crate) fn with_stdin(command: &mut Command, text: &str) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(text.as_bytes()).expect("it reads");
        drop(stdin);
        child.wait_with_output().expect("it ends").into()
    }

    /// Fails unless it ended with this code.
    #[track_caller]
    pub(crate) fn ended_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// Fails unless this is on stderr.
    #[track_caller]
    pub(crate) fn tells(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "{text:?} on stderr: {self}");
        self
    }

    /// Fails unless this is on stdout.
    #[track_caller]
    pub(crate) fn prints(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "{text:?} on stdout: {self}");
        self
    }

    /// Fails if there is anything on stdout.
    #[track_caller]
    pub(crate) fn prints_nothing(self) -> Self {
        assert_eq!(self.stdout, "", "{self}");
        self
    }

    /// Fails unless this is among the remarks.
    #[track_caller]
    pub(crate) fn remarks_on(self, text: &str) -> Self {
        assert!(self.remarks().contains(text), "{text:?} among {:?}: {self}", self.remarks());
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// The remarks of a report in JSON, one a line.
    pub(crate) fn remarks(&self) -> String {
        let remarks = self.json()["wingbeat"]["remarks"].clone();
        let remarks: Vec<String> = serde_json::from_value(remarks).expect("texts");
        remarks.join("\n")
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        Self { command: String::new(), code: output.status.code(), stdout, stderr }
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { command, code, stdout, stderr } = self;
        write!(f, "{command} ended with {code:?}\n{stdout}\n{stderr}")
    }
}

/// Waits for something.
pub(crate) fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_there() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

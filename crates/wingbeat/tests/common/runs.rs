//! Turns of tests that need rights, and what a run of wingbeat left.

use std::{
    process::{Child, Command, Output, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;
use wingbeat_bench::live::check_rights;

/// Waits for this test's turn; `None` without the rights, which in CI is a failure.
pub(crate) fn turn() -> Option<MutexGuard<'static, ()>> {
    /// One test at a time.
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    match check_rights() {
        Ok(()) => Some(turn),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "CI must be able to do this: {error}");
            eprintln!("skipped: {error}");
            None
        }
    }
}

pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Starts a command whose end [`result`] waits for.
pub(crate) fn started(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start")
}

/// Waits for the end.
pub(crate) fn result(child: Child) -> Run {
    finished(child.wait_with_output().expect("ends"))
}

/// Checks what must hold for each run.
pub(crate) fn finished(output: Output) -> Run {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    for trace in ["panicked", "RUST_BACKTRACE", "stack backtrace"] {
        assert!(!stderr.contains(trace), "{stderr}");
    }
    Run { code: output.status.code(), stdout, stderr }
}

impl Run {
    /// Fails unless it ended with this code.
    #[track_caller]
    pub(crate) fn ended_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        self
    }

    /// Fails unless this is on stderr.
    #[track_caller]
    pub(crate) fn tells(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "{text:?} on stderr: {}\n{}", self.stdout, self.stderr);
        self
    }

    /// Fails unless this is on stdout.
    #[track_caller]
    pub(crate) fn prints(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "{text:?} on stdout: {}\n{}", self.stdout, self.stderr);
        self
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| {
            panic!("no JSON: {error}\n{}\n{}", self.stdout, self.stderr);
        })
    }
}

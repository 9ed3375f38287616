//! Results of a wingbeat run, the lock of privileged tests, and waiting for conditions.

use std::{
    fmt::Display,
    fs,
    io::Write as _,
    os::unix::{
        fs::PermissionsExt as _,
        process::{CommandExt as _, ExitStatusExt as _},
    },
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;

/// Marks a failure as possibly the machine's for `cargo xtask test`: see `xtask/src/test.rs`.
const QUIET: &str = "[this test needs a quiet machine]";

/// Acquires the test lock; `None` if this machine cannot run it, which in CI is a failure.
pub(crate) fn turn(can: Result<(), impl Display>) -> Option<MutexGuard<'static, ()>> {
    /// One test at a time.
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    println!("{QUIET}");
    match can {
        Ok(()) => Some(turn),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "CI must be able to do this: {error}");
            eprintln!("skipped: {error}");
            None
        }
    }
}

pub(crate) struct Ran {
    /// The command line, for messages.
    command: String,
    /// `None` if ended by a signal.
    pub(crate) code: Option<i32>,
    signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Starts a command; [`result`] waits for it.
pub(crate) fn started(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// Waits for the end.
pub(crate) fn result(child: Child) -> Ran {
    child.wait_with_output().expect("it ends").into()
}

/// Sends a signal, and waits for the end.
pub(crate) fn stopped(child: Child, signal: Signal) -> Ran {
    kill_process(Pid::from_child(&child), signal).expect("sent");
    result(child)
}

/// `wingbeat` as an unprivileged user, in a folder that becomes world-readable.
pub(crate) fn without_rights(folder: &Path) -> Command {
    // The build folder may be inaccessible to others.
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("permissions");
    let copy = folder.join("wingbeat");
    // Copied by a child process: if another test forks while a descriptor is open for writing here, exec of the copy
    // fails with "busy".
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_wingbeat")).arg(&copy).status();
    assert!(copied.expect("cp").success());
    let mut wingbeat = Command::new(&copy);
    wingbeat.current_dir(folder);
    if geteuid().is_root() {
        wingbeat.uid(65534).gid(65534);
    }
    wingbeat
}

impl Ran {
    /// Runs it to completion, with an empty stdin.
    pub(crate) fn of(command: &mut Command) -> Self {
        let output = command.stdin(Stdio::null()).output().expect("it runs");
        Self { command: format!("{command:?}"), ..output.into() }
    }

    /// Runs it to completion, with this on stdin.
    pub(crate) fn with_stdin(mut command: Command, text: &str) -> Self {
        command.stdin(Stdio::piped());
        let mut child = started(command);
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(text.as_bytes()).expect("it reads");
        drop(stdin);
        result(child)
    }

    #[track_caller]
    pub(crate) fn ended_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// Asserts termination by this signal.
    #[track_caller]
    pub(crate) fn ended_by(self, signal: Signal) -> Self {
        assert_eq!(self.signal, Some(signal.as_raw()), "{self}");
        self
    }

    /// Asserts that this is on stderr.
    #[track_caller]
    pub(crate) fn tells(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "{text:?} on stderr: {self}");
        self
    }

    /// Asserts that all this is on stderr.
    #[track_caller]
    pub(crate) fn tells_all(self, texts: &[&str]) -> Self {
        texts.iter().fold(self, |ran, text| ran.tells(text))
    }

    /// Asserts that stderr is a single line.
    #[track_caller]
    pub(crate) fn tells_in_one_line(self) -> Self {
        assert_eq!(self.stderr.lines().count(), 1, "{self}");
        self
    }

    /// Asserts that this is on stdout.
    #[track_caller]
    pub(crate) fn prints(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "{text:?} on stdout: {self}");
        self
    }

    /// Asserts that stdout is empty.
    #[track_caller]
    pub(crate) fn prints_nothing(self) -> Self {
        assert_eq!(self.stdout, "", "{self}");
        self
    }

    /// Asserts that this is among the remarks.
    #[track_caller]
    pub(crate) fn remarks_on(self, text: &str) -> Self {
        assert!(self.remarks().contains(text), "{text:?} among {:?}: {self}", self.remarks());
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// The remarks of a JSON report, one per line.
    pub(crate) fn remarks(&self) -> String {
        let remarks = self.json()["wingbeat"]["remarks"].clone();
        let remarks: Vec<String> = serde_json::from_value(remarks).expect("texts");
        remarks.join("\n")
    }
}

impl From<Output> for Ran {
    /// Checks the invariants of each run.
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        for trace in ["panicked", "RUST_BACKTRACE", "stack backtrace"] {
            assert!(!stderr.contains(trace), "{stderr}");
        }
        let (code, signal) = (output.status.code(), output.status.signal());
        Self { command: String::new(), code, signal, stdout, stderr }
    }
}

impl Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { command, code, signal: _, stdout, stderr } = self;
        write!(f, "{command} ended with {code:?}\n{stdout}\n{stderr}")
    }
}

/// Waits for a condition, for up to a minute.
pub(crate) fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_there() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

//! What a run of wingbeat left, turns of tests that need rights, and waiting for what others do.

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

/// Says to `cargo xtask test` that a failure may be the machine's: see `xtask/src/test/outcome.rs`.
const QUIET: &str = "[this test needs a quiet machine]";

/// Waits for this test's turn; `None` if this machine cannot do it, which in CI is a failure.
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
    /// What was run, for messages.
    command: String,
    /// `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Starts a command whose end [`result`] waits for.
pub(crate) fn started(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// Waits for the end.
pub(crate) fn result(child: Child) -> Ran {
    child.wait_with_output().expect("it ends").into()
}

/// Sends it a signal, and waits for the end.
pub(crate) fn stopped(child: Child, signal: Signal) -> Ran {
    kill_process(Pid::from_child(&child), signal).expect("sent");
    result(child)
}

/// `wingbeat` as somebody without rights, in a folder that all may read from then on.
pub(crate) fn without_rights(folder: &Path) -> Command {
    // The folder of the build may be closed to others.
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("permissions");
    let copy = folder.join("wingbeat");
    // By a child: a descriptor that is open for writing here while another test forks would make
    // the copy "busy" for exec.
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
    /// Runs it to its end, with an empty stdin.
    pub(crate) fn of(command: &mut Command) -> Self {
        let output = command.stdin(Stdio::null()).output().expect("it runs");
        Self { command: format!("{command:?}"), ..output.into() }
    }

    /// Runs it to its end, with this on stdin.
    pub(crate) fn with_stdin(mut command: Command, text: &str) -> Self {
        command.stdin(Stdio::piped());
        let mut child = started(command);
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(text.as_bytes()).expect("it reads");
        drop(stdin);
        result(child)
    }

    /// Fails unless it ended with this code.
    #[track_caller]
    pub(crate) fn ended_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// Fails unless this signal ended it.
    #[track_caller]
    pub(crate) fn ended_by(self, signal: Signal) -> Self {
        assert_eq!(self.signal, Some(signal.as_raw()), "{self}");
        self
    }

    /// Fails unless this is on stderr.
    #[track_caller]
    pub(crate) fn tells(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "{text:?} on stderr: {self}");
        self
    }

    /// Fails unless all this is on stderr.
    #[track_caller]
    pub(crate) fn tells_all(self, texts: &[&str]) -> Self {
        texts.iter().fold(self, |ran, text| ran.tells(text))
    }

    /// Fails unless stderr is a single line.
    #[track_caller]
    pub(crate) fn tells_in_one_line(self) -> Self {
        assert_eq!(self.stderr.lines().count(), 1, "{self}");
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
    /// Checks what must hold for each run.
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

/// Waits for something, for a minute at most.
pub(crate) fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_there() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

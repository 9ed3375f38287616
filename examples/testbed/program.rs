//! Shared by the tests of the examples: runs an example, and checks whether eBPF programs can be loaded.

use std::{
    env, fmt, fs,
    io::{BufRead, BufReader, ErrorKind, Read},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use aya::{
    programs::{ProgramError, ProgramType},
    sys::{SyscallError, is_program_supported},
};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

/// With the profiler's feature `oops` a sample takes up to a second, so the first ones are late.
const PATIENCE: Duration = Duration::from_secs(20);

/// Skips a test for this reason; fails in CI, which has the privileges and the kernel for all tests.
pub(crate) fn skip(reason: impl fmt::Display) {
    let in_ci = env::var("CI").is_ok_and(|value| value == "true");
    assert!(!in_ci, "CI must be able to do this: {reason}");
    eprintln!("SKIPPED: {reason}");
}

/// Whether programs of this type can be loaded; prints the reason if not. Only a denial counts as one.
pub(crate) fn kernel_permits(kind: ProgramType) -> bool {
    let denied = match is_program_supported(kind) {
        Ok(supported) => {
            assert!(supported, "every kernel since 4.9 has {kind:?} programs");
            return true;
        }
        Err(ProgramError::SyscallError(SyscallError { io_error, .. })) => io_error,
        Err(error) => panic!("the probe failed: {error}"),
    };
    assert_eq!(denied.kind(), ErrorKind::PermissionDenied, "the probe failed: {denied}");
    skip(format!("loading an eBPF program is not permitted here ({denied}): run as root"));
    false
}

/// Runs a command that must print this on stderr, nothing on stdout, and exit with this code. Kills
/// it if it does not end: what should be rejected may be allowed on another kernel.
pub(crate) fn check(command: &mut Command, code: i32, stderr: &str) {
    let mut run = Run::follow(command.stdin(Stdio::null()).stdout(Stdio::piped()));
    let status = run.finish();
    let err = run.err().join("\n");
    assert!(err.contains(stderr), "{command:?}: no {stderr:?}: {run}");
    assert_eq!(status.code(), Some(code), "{command:?}: {run}");
    assert!(run.seen.iter().all(|line| matches!(line, Line::Err(_))), "{command:?}: {run}");
}

/// A copy of a program, in a location readable by all.
pub(crate) fn copied(program: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // The build folder may be private. Another process makes the copy: a descriptor of ours that
    // writes to it could leak into a process of another test, and a file that is open for writing
    // cannot be executed.
    let copy = folder.path().join(Path::new(program).file_name().unwrap());
    let copied = Command::new("cp").arg(program).arg(&copy).status();
    assert!(copied.unwrap().success());
    (folder, copy)
}

/// Runs a program as an unprivileged user; its error must say how to get the privileges.
pub(crate) fn check_without_rights(program: &str, arguments: &[&str]) {
    let (_folder, program) = copied(program);
    let mut command = Command::new(program);
    command.args(arguments).current_dir("/");
    if geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    check(&mut command, 1, "not permitted to create the eBPF maps: run this as root");
}

/// A line of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    Out(String),
    Err(String),
}

/// A running program. Killed when dropped.
pub(crate) struct Run {
    child: Child,
    lines: Receiver<Line>,
    /// Lines read so far, up to the one last waited for.
    pub seen: Vec<Line>,
}

impl Run {
    /// Starts a command, and follows its stderr, and its stdout if that is piped.
    pub(crate) fn follow(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        if let Some(stdout) = child.stdout.take() {
            forward(stdout, Line::Out, sender.clone());
        }
        forward(child.stderr.take().unwrap(), Line::Err, sender);
        Self { child, lines, seen: Vec::new() }
    }

    /// Reads lines until one satisfies `wanted`.
    pub(crate) fn wait_for(&mut self, what: &str, mut wanted: impl FnMut(&Line) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    let found = wanted(&line);
                    self.seen.push(line);
                    if found {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("no {what} in {PATIENCE:?}: {self}"),
                Err(RecvTimeoutError::Disconnected) => panic!("ended before {what}: {self}"),
            }
        }
    }

    /// Reads lines until one of stderr satisfies `wanted`.
    pub(crate) fn wait_for_log(&mut self, what: &str, mut wanted: impl FnMut(&str) -> bool) {
        self.wait_for(what, |line| matches!(line, Line::Err(text) if wanted(text)));
    }

    pub(crate) fn err(&self) -> Vec<&str> {
        let texts = self.seen.iter().filter_map(|line| match line {
            Line::Err(text) => Some(text.as_str()),
            Line::Out(_) => None,
        });
        texts.collect()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end, and collects all lines.
    pub(crate) fn finish(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > deadline => panic!("does not end: {self}"),
                None => thread::sleep(Duration::from_millis(10)),
            }
        };
        self.seen.extend(self.lines.iter());
        assert!(!self.err().iter().any(|line| line.contains("panicked")), "{self}");
        status
    }

    /// Waits for the end; it must succeed, and have printed this on stderr.
    pub(crate) fn ends_well(&mut self, text: &str) {
        let status = self.finish();
        assert_eq!(status.code(), Some(0), "{self}");
        assert!(self.err().iter().any(|line| line.contains(text)), "no {text:?}: {self}");
    }
}

fn forward(stream: impl Read + Send + 'static, kind: fn(String) -> Line, to: Sender<Line>) {
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if to.send(kind(line)).is_err() {
                break;
            }
        }
    });
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the program wrote {:#?}", self.seen)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Both fail if it has already ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

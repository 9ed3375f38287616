//! Running the profiler, and things for it to look at.

use std::{
    env, fmt,
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use aya::{
    programs::{ProgramError, ProgramType},
    sys::{SyscallError, is_program_supported},
};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// With the feature `oops` a sample takes up to a second, and the first of them come late.
const PATIENCE: Duration = Duration::from_secs(20);

/// The profiler's command, in a folder where it may leave files.
pub(crate) fn profiler(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profiler"));
    command.current_dir(folder).env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// Whether programs of the profiler's type load here; if not, the reason is printed.
///
/// Only a refusal counts as one. CI runs with the rights for it, so there a refusal is a failure.
pub(crate) fn kernel_permits() -> bool {
    let denied = match is_program_supported(ProgramType::PerfEvent) {
        Ok(supported) => {
            assert!(supported, "every kernel since 4.9 has perf_event programs");
            return true;
        }
        Err(ProgramError::SyscallError(SyscallError { io_error, .. })) => io_error,
        Err(error) => panic!("the probe failed: {error}"),
    };
    assert_eq!(denied.kind(), std::io::ErrorKind::PermissionDenied, "the probe failed: {denied}");
    let in_ci = env::var("CI").is_ok_and(|value| value == "true");
    assert!(!in_ci, "CI must be able to load eBPF programs: {denied}");
    eprintln!("SKIPPED: loading an eBPF program is not permitted here ({denied}): run as root");
    false
}

/// A running profiler. Killed when dropped.
pub(crate) struct Run {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Run {
    pub(crate) fn start(folder: &Path, pid: u32) -> Self {
        let mut child =
            profiler(folder).arg(pid.to_string()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, lines, seen: Vec::new() }
    }

    /// Reads the log until a line satisfies `wanted`.
    pub(crate) fn wait_for(&mut self, what: &str, mut wanted: impl FnMut(&str) -> bool) {
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

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end; gives the status and all lines.
    pub(crate) fn finish(mut self) -> (ExitStatus, Vec<String>) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > deadline => panic!("does not end: {self}"),
                None => thread::sleep(Duration::from_millis(10)),
            }
        };
        let mut lines = std::mem::take(&mut self.seen);
        lines.extend(self.lines.iter());
        (status, lines)
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the log was\n{}", self.seen.join("\n"))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Both fail when it has ended, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A shell script to look at. Killed with its children when dropped.
pub(crate) struct Busy(Child);

impl Busy {
    pub(crate) fn start(script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).process_group(0);
        Self(command.spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Writes a line to the script's input.
    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.0.stdin.as_mut().unwrap(), "{line}").unwrap();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

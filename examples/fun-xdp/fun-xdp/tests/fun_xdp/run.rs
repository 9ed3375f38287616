//! Running the loader, and finding out whether it can run here.

use std::{
    env, fmt,
    io::{self, BufRead, BufReader, ErrorKind, Read},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use aya::{
    programs::{ProgramError, ProgramType},
    sys::{SyscallError, is_program_supported},
};
use rustix::process::{Pid, Signal, kill_process};

use crate::network::Network;

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn loader() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fun-xdp"));
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// Skips a test for this reason. CI has the rights and the kernel for all of them: there it fails.
fn skip(reason: impl fmt::Display) {
    let in_ci = env::var("CI").is_ok_and(|value| value == "true");
    assert!(!in_ci, "CI must be able to do this: {reason}");
    eprintln!("SKIPPED: {reason}");
}

/// Whether XDP programs load here; if not, the reason is printed.
pub(crate) fn kernel_permits() -> bool {
    let denied = match is_program_supported(ProgramType::Xdp) {
        Ok(supported) => {
            assert!(supported, "every kernel since 4.8 has XDP programs");
            return true;
        }
        Err(ProgramError::SyscallError(SyscallError { io_error, .. })) => io_error,
        Err(error) => panic!("the probe failed: {error}"),
    };
    assert_eq!(denied.kind(), ErrorKind::PermissionDenied, "the probe failed: {denied}");
    skip(format!("loading an eBPF program is not permitted here ({denied}): run as root"));
    false
}

/// A network for this test; `None` if XDP programs do not load or there can be no network, with the
/// reason printed.
pub(crate) fn network() -> Option<Network> {
    if !kernel_permits() {
        return None;
    }
    Network::enter().inspect_err(|error| skip(format!("{error:#}"))).ok()
}

/// A line that the loader wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    Out(String),
    Err(String),
}

/// A running loader. Killed when dropped.
pub(crate) struct Run {
    child: Child,
    lines: Receiver<Line>,
    seen: Vec<Line>,
}

impl Run {
    /// Starts it in the network of this thread, and waits until it is attached.
    pub(crate) fn start(iface: &str, version: &str) -> Self {
        Self::launch(loader().args(["--iface", iface, "--version", version]))
    }

    /// The same, with a standard output that nobody reads.
    pub(crate) fn start_without_reader(iface: &str, version: &str) -> Self {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut command = loader();
        command.args(["--iface", iface, "--version", version]).stdout(writer);
        Self::follow(&mut command)
    }

    /// Starts a command that is the loader in the end, and waits until it is attached.
    pub(crate) fn launch(command: &mut Command) -> Self {
        Self::follow(command.stdout(Stdio::piped()))
    }

    fn follow(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        if let Some(stdout) = child.stdout.take() {
            forward(stdout, Line::Out, sender.clone());
        }
        forward(child.stderr.take().unwrap(), Line::Err, sender);
        let mut run = Self { child, lines, seen: Vec::new() };
        run.wait_for(
            "attachment",
            |line| matches!(line, Line::Err(text) if text.contains(" attached to ")),
        );
        run
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

    /// Waits for that many lines on stdout.
    pub(crate) fn wait_for_classes(&mut self, count: usize) {
        let mut found = self.out().len();
        if found < count {
            self.wait_for("further classes", |line| {
                found += usize::from(matches!(line, Line::Out(_)));
                found == count
            });
        }
    }

    pub(crate) fn out(&self) -> Vec<&str> {
        self.seen.iter().filter_map(Line::out).collect()
    }

    pub(crate) fn err(&self) -> Vec<&str> {
        self.seen.iter().filter_map(Line::err).collect()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end, and has all lines then.
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

    /// Ends it by a signal as a user does; it must end well and tell what it did.
    pub(crate) fn end(&mut self, signal: Signal, tally: &str) {
        self.signal(signal);
        let status = self.finish();
        assert_eq!(status.code(), Some(0), "{self}");
        assert!(self.err().iter().any(|line| line.ends_with(tally)), "no {tally:?}: {self}");
    }
}

impl Line {
    fn out(&self) -> Option<&str> {
        if let Self::Out(text) = self { Some(text) } else { None }
    }

    fn err(&self) -> Option<&str> {
        if let Self::Err(text) = self { Some(text) } else { None }
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
        write!(f, "the loader wrote {:#?}", self.seen)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Both fail when it has ended, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

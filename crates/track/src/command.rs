//! A benchmark command. Runs it to completion, and captures its stdout while echoing it. An [`Interrupt`], as on
//! Ctrl-C, knows the running command, and lets none start afterwards.

use std::{
    ffi::OsString,
    io::{self, BufRead as _, BufReader},
    os::{fd::OwnedFd, unix::process::ExitStatusExt as _},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Called with each line of output as it arrives, line break included.
pub type Echo<'a> = dyn FnMut(&[u8]) + 'a;

/// A command that measures. `wingbeat run` runs it to completion and shows its output. `wingbeat compare` [hides its
/// output](crate::compare), and runs it in the worktree of a side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Benchmark {
    Exec(Vec<OsString>),
    Shell { shell: OsString, flag: OsString, line: OsString },
}

#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("cannot run `{program}`: {source}")]
    Start { program: String, source: io::Error },
    #[error("cannot read what `{command}` prints: {source}")]
    Read { command: String, source: io::Error },
    #[error("`{command}` {how}; nothing was stored")]
    Failed {
        command: String,
        /// `failed with status 3`, `was killed by signal 9`.
        how: String,
        /// Its stdout until then.
        stdout: Vec<u8>,
    },
    #[error("`{command}` was interrupted; nothing was stored")]
    Interrupted { command: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Printed {
    pub(crate) stdout: Vec<u8>,
    pub(crate) elapsed: Duration,
}

impl Benchmark {
    pub fn display(&self) -> String {
        match self {
            Self::Exec(words) => {
                let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
                words.join(" ")
            }
            Self::Shell { line, .. } => line.to_string_lossy().into_owned(),
        }
    }

    /// The program and its arguments.
    pub(crate) fn words(&self) -> Vec<OsString> {
        match self {
            Self::Exec(words) => words.clone(),
            Self::Shell { shell, flag, line } => vec![shell.clone(), flag.clone(), line.clone()],
        }
    }

    /// Runs it to completion, optionally with an environment variable. Its stderr is inherited.
    pub(crate) fn run(
        &self,
        variable: Option<(&str, &Path)>,
        interrupt: &Interrupt,
        echo: &mut Echo<'_>,
    ) -> Result<Printed, CommandError> {
        let begun = Instant::now();
        let mut command = self.command();
        command.envs(variable);
        let program = command.get_program().to_string_lossy().into_owned();
        let interrupted = || CommandError::Interrupted { command: self.display() };
        let mut running = interrupt
            .start(command.stdin(Stdio::inherit()).stdout(Stdio::piped()))
            .map_err(|source| CommandError::Start { program, source })?
            .ok_or_else(interrupted)?;
        let mut stdout = Vec::new();
        let read = |source| CommandError::Read { command: self.display(), source };
        if let Some(pipe) = running.child.stdout.take() {
            let mut pipe = BufReader::new(pipe);
            loop {
                let at = stdout.len();
                if pipe.read_until(b'\n', &mut stdout).map_err(read)? == 0 {
                    break;
                }
                echo(&stdout[at..]);
            }
            // Ends the last line, so that later messages begin on a new one.
            if stdout.last().is_some_and(|byte| *byte != b'\n') {
                echo(b"\n");
            }
        }
        let status = running.child.wait().map_err(read)?;
        drop(running);
        // The output may be incomplete, even if the command exited successfully.
        if interrupt.is_raised() {
            return Err(interrupted());
        }
        match failure(status) {
            Some(how) => Err(CommandError::Failed { command: self.display(), how, stdout }),
            None => Ok(Printed { stdout, elapsed: begun.elapsed() }),
        }
    }

    pub(crate) fn command(&self) -> Command {
        let mut words = self.words().into_iter();
        // An empty command is not found, which the error then says.
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        command
    }
}

/// How a command failed, if it did. A killed command has not measured anything.
pub(crate) fn failure(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("failed with status {code}")),
        (None, Some(signal)) => Some(format!("was killed by signal {signal}")),
        (None, None) => Some("ended in an unknown way".to_owned()),
    }
}

/// State shared between a signal handler and a measurement. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    signal: Arc<AtomicUsize>,
    child: Arc<Mutex<Option<OwnedFd>>>,
    keeps_results: Arc<AtomicBool>,
}

/// A running command. Dropping it unregisters the command.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    pub(crate) child: Child,
    interrupt: &'a Interrupt,
}

impl Interrupt {
    /// The number of the received signal, or 0. A signal handler may store it at any time.
    pub fn signal(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.signal)
    }

    /// The running command as a process descriptor. No other one follows once a signal has been stored.
    pub fn child(&self) -> Option<OwnedFd> {
        self.lock().as_ref().and_then(|child| child.try_clone().ok())
    }

    /// Whether results are kept after a signal. Then only a second one ends the process.
    pub fn keeps_results(&self) -> bool {
        self.keeps_results.load(Ordering::Relaxed)
    }

    /// Makes [`keeps_results`](Self::keeps_results) true from now on.
    pub(crate) fn keep_results(&self) {
        self.keeps_results.store(true, Ordering::Relaxed);
    }

    pub fn is_raised(&self) -> bool {
        self.signal.load(Ordering::Relaxed) != 0
    }

    /// Starts a command; `None` after a signal.
    pub(crate) fn start(&self, command: &mut Command) -> io::Result<Option<Running<'_>>> {
        // Held until the child is registered, so that a signal never finds an unknown child.
        let mut running = self.lock();
        if self.is_raised() {
            return Ok(None);
        }
        let child = command.spawn()?;
        *running = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).ok();
        Ok(Some(Running { child, interrupt: self }))
    }

    fn lock(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.interrupt.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(line: &str) -> Benchmark {
        Benchmark::Shell { shell: "/bin/sh".into(), flag: "-c".into(), line: line.into() }
    }

    #[test]
    fn lines_are_shown_and_kept() {
        let mut shown = Vec::new();
        let printed = shell("printf 'a\\nb'")
            .run(None, &Interrupt::default(), &mut |line| shown.push(line.to_vec()));
        assert_eq!(printed.expect("it runs").stdout, b"a\nb");
        // The last line is completed, so that later messages begin on a new one.
        assert_eq!(shown, [b"a\n".to_vec(), b"b".to_vec(), b"\n".to_vec()]);
    }

    #[test]
    fn bad_ends() {
        let check = |benchmark: Benchmark, expected: &str| {
            let error = benchmark
                .run(None, &Interrupt::default(), &mut |_| {})
                .expect_err("it fails")
                .to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(shell("exit 3"), "`exit 3` failed with status 3; nothing was stored");
        check(shell("kill -9 $$"), "was killed by signal 9");
        check(Benchmark::Exec(vec!["/no/such/program".into()]), "cannot run `/no/such/program`");
        check(Benchmark::Exec(Vec::new()), "cannot run ``");
        let no_shell =
            Benchmark::Shell { shell: "/no/sh".into(), flag: "-c".into(), line: "true".into() };
        check(no_shell, "cannot run `/no/sh`");
    }

    #[test]
    fn a_command_is_known_while_it_runs() {
        let interrupt = Interrupt::default();
        let started = interrupt.start(&mut Command::new("true")).expect("it starts");
        let mut running = started.expect("no signal came");
        assert!(interrupt.clone().child().is_some());
        running.child.wait().expect("it ends");
        drop(running);
        assert!(interrupt.child().is_none());
    }

    #[test]
    fn nothing_is_started_after_a_signal() {
        let interrupt = Interrupt::default();
        interrupt.signal().store(2, Ordering::Relaxed);
        assert!(interrupt.start(&mut Command::new("true")).expect("no error").is_none());
    }
}

//! A command that runs while something is measured: launched, watched, and ended.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::ExitStatusExt as _,
    },
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use crate::{caller::Caller, sys};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::retry_on_intr,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

/// How long a command may take to end after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_secs(3);

/// Why a command is not running.
#[derive(Debug)]
pub enum LaunchError {
    Start(io::Error),
    /// It was started, but could not be watched, and was killed.
    Watch(io::Error),
}

/// A running command. It does not outlive this.
#[derive(Debug)]
pub struct Launched {
    child: Child,
    /// Becomes readable when the command has ended.
    pidfd: OwnedFd,
}

/// What becomes of what a command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Printing {
    /// It goes where ours goes.
    #[default]
    Shown,
    /// Nobody reads it.
    Dropped,
}

impl Launched {
    /// Starts a command, which inherits our standard streams.
    pub fn start(program: &OsString, arguments: &[OsString]) -> Result<Self, LaunchError> {
        Self::start_with(program, arguments, Printing::Shown, None)
    }

    /// Starts a command that stops before its first instruction, with nothing but its program and the linker in
    /// memory, until it is [resumed](Self::resume).
    pub fn start_stopped(
        program: &OsString,
        arguments: &[OsString],
        printing: Printing,
        caller: Option<&Caller>,
    ) -> Result<Self, LaunchError> {
        let launched = Self::started(program, arguments, printing, |command| {
            sys::stop_at_exec(command);
            as_called(command, caller);
        })?;
        match sys::wait_for_stop(launched.pid()) {
            Ok(()) => Ok(launched),
            Err(error) => Err(LaunchError::Watch(error)),
        }
    }

    /// Lets a command go on that was started as stopped.
    pub fn resume(&self) -> io::Result<()> {
        sys::let_go(self.pid())
    }

    /// Starts a command, which inherits our stdin, as `caller` would if there is one.
    pub fn start_with(
        program: &OsString,
        arguments: &[OsString],
        printing: Printing,
        caller: Option<&Caller>,
    ) -> Result<Self, LaunchError> {
        Self::started(program, arguments, printing, |command| as_called(command, caller))
    }

    fn started(
        program: &OsString,
        arguments: &[OsString],
        printing: Printing,
        change: impl FnOnce(&mut Command),
    ) -> Result<Self, LaunchError> {
        let mut command = Command::new(program);
        command.args(arguments);
        change(&mut command);
        if printing == Printing::Dropped {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        let mut child = command.spawn().map_err(LaunchError::Start)?;
        let open = |child: &Child| {
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            Ok(pidfd_open(pid.ok_or(io::ErrorKind::InvalidInput)?, PidfdFlags::empty())?)
        };
        match open(&child) {
            Ok(pidfd) => Ok(Self { child, pidfd }),
            Err(error) => {
                end_now(&mut child);
                Err(LaunchError::Watch(error))
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a command that has ended by itself, or asks one that has not to end: SIGTERM, and
    /// SIGKILL three seconds later, as `perf stat --timeout` does.
    pub fn end(&mut self) -> io::Result<Ended> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(Ended { status, by_itself: true });
        }
        pidfd_send_signal(&self.pidfd, Signal::TERM)?;
        let mut ready = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let grace = Timespec::try_from(GRACE).map_err(io::Error::other)?;
        if retry_on_intr(|| poll(&mut ready, Some(&grace)))? == 0 {
            self.child.kill()?;
        }
        Ok(Ended { status: self.child.wait()?, by_itself: false })
    }
}

impl AsFd for Launched {
    /// Becomes readable when the command has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            end_now(&mut self.child);
        }
    }
}

fn as_called(command: &mut Command, caller: Option<&Caller>) {
    if let Some(caller) = caller {
        caller.lend_to(command);
    }
}

fn end_now(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    pub status: ExitStatus,
    /// False if the time ran out first and the command was asked to end.
    pub by_itself: bool,
}

impl Ended {
    /// The exit code that a shell would give: 128 + signal for a command that a signal ended.
    pub fn code(&self) -> i32 {
        self.status.code().or_else(|| self.status.signal().map(|signal| 128 + signal)).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_command_waits() {
        let words = ["sh", "-c", "exit 7"].map(OsString::from);
        let mut launched =
            Launched::start_stopped(&words[0], &words[1..], Printing::Shown, None).expect("starts");
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", launched.pid()));
        let maps = maps.expect("it is there");
        assert!(!maps.contains("libc.so") && !maps.contains("libc-"), "{maps}");
        launched.resume().expect("resumed");
        poll(&mut [PollFd::new(&launched, PollFlags::IN)], None).expect("poll");
        assert_eq!(launched.end().expect("ends").code(), 7);
        let dropped = Launched::start_stopped(&words[0], &words[1..], Printing::Shown, None);
        let pid = dropped.expect("starts").pid();
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
        let nothing =
            Launched::start_stopped(&"no-such-command".into(), &[], Printing::Shown, None);
        assert!(matches!(nothing, Err(LaunchError::Start(_))));
    }

    #[test]
    fn how_commands_end() {
        let check = |words: &[&str], code, by_itself| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let mut launched = Launched::start(&words[0], &words[1..]).expect("starts");
            if by_itself {
                poll(&mut [PollFd::new(&launched, PollFlags::IN)], None).expect("poll");
            }
            let ended = launched.end().expect("ends");
            assert_eq!((ended.code(), ended.by_itself), (code, by_itself), "{words:?}");
        };
        check(&["true"], 0, true);
        check(&["sh", "-c", "exit 7"], 7, true);
        check(&["sh", "-c", "kill -9 $$"], 137, true);
        check(&["sleep", "60"], 143, false);
    }
}

//! Launches a command to profile, and learns how it ended.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::ExitStatusExt as _,
    },
    process::{Child, Command, ExitStatus},
    time::Duration,
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::error::RecordError;

/// How long a command may take to end after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_secs(3);

/// A running command.
#[derive(Debug)]
pub(super) struct Launched {
    child: Child,
    /// Becomes readable when the command has ended.
    pidfd: OwnedFd,
}

impl Launched {
    /// Starts the command, which inherits our standard streams.
    pub(super) fn start(words: &[OsString]) -> Result<Self, RecordError> {
        let (program, arguments) =
            words.split_first().ok_or(crate::error::TargetError::EmptyCommand)?;
        let child = Command::new(program).args(arguments).spawn().map_err(|source| {
            RecordError::Launch { program: program.to_string_lossy().into_owned(), source }
        })?;
        let open = || {
            let pid = Pid::from_raw(child.id() as i32).ok_or(io::ErrorKind::InvalidInput)?;
            Ok(pidfd_open(pid, PidfdFlags::empty())?)
        };
        let pidfd = open().map_err(RecordError::system("watch the command"))?;
        Ok(Self { child, pidfd })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Waits for a command that has ended by itself, or asks one that has not to end (SIGTERM, then
    /// SIGKILL): what `perf stat --timeout` does when its time is up.
    pub(super) fn end(&mut self) -> io::Result<Ended> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(Ended { status, by_itself: true });
        }
        pidfd_send_signal(&self.pidfd, Signal::TERM)?;
        let mut ready = [rustix::event::PollFd::new(&self.pidfd, rustix::event::PollFlags::IN)];
        let grace = rustix::event::Timespec::try_from(GRACE).map_err(io::Error::other)?;
        if rustix::event::poll(&mut ready, Some(&grace))? == 0 {
            self.child.kill()?;
        }
        Ok(Ended { status: self.child.wait()?, by_itself: false })
    }
}

/// A recording that fails leaves no command behind.
impl Drop for Launched {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    pub status: ExitStatus,
    /// False if the recording was over first and the command was asked to end.
    pub by_itself: bool,
}

impl Ended {
    /// The exit code that a shell would give: 128 + signal for a command that a signal ended.
    pub fn code(&self) -> i32 {
        self.status.code().or_else(|| self.status.signal().map(|signal| 128 + signal)).unwrap_or(1)
    }
}

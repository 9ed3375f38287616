//! The command during which programs are measured.

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

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

use super::{
    LiveError,
    report::{CommandReport, EndedBy},
};

/// How long a command may take to end after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_secs(3);

/// A running command. It does not outlive this.
#[derive(Debug)]
pub(super) struct Launched {
    child: Child,
    /// Becomes readable when the command has ended.
    pidfd: OwnedFd,
}

impl Launched {
    /// Starts it with our standard streams; `None` without words.
    pub(super) fn start(words: &[OsString]) -> Result<Option<Self>, LiveError> {
        let Some((program, arguments)) = words.split_first() else { return Ok(None) };
        let child = Command::new(program).args(arguments).spawn().map_err(|source| {
            LiveError::Launch { program: program.to_string_lossy().into_owned(), source }
        })?;
        let open = |child: &Child| {
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            Ok(pidfd_open(pid.ok_or(io::ErrorKind::InvalidInput)?, PidfdFlags::empty())?)
        };
        match open(&child) {
            Ok(pidfd) => Ok(Some(Self { child, pidfd })),
            Err(error) => {
                end_now(child);
                Err(LiveError::system("watch the command")(error))
            }
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Waits for a command that has ended by itself, or asks one that has not to end: SIGTERM, and
    /// SIGKILL three seconds later.
    pub(super) fn end(&mut self) -> io::Result<Ended> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(Ended { status, by_itself: true });
        }
        pidfd_send_signal(&self.pidfd, Signal::TERM)?;
        let mut ready = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let grace = Timespec::try_from(GRACE).map_err(io::Error::other)?;
        if matches!(poll(&mut ready, Some(&grace)), Ok(0)) {
            self.child.kill()?;
        }
        Ok(Ended { status: self.child.wait()?, by_itself: false })
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn end_now(mut child: Child) {
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

    /// How the command of these words ended.
    pub(super) fn report(&self, words: &[OsString]) -> CommandReport {
        CommandReport {
            words: words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            exit_code: self.code(),
            ended_by_itself: self.by_itself,
        }
    }
}

/// Waits for so long, or less if a signal came or the command ended, and tells which.
pub(super) fn wait(
    stop: BorrowedFd<'_>,
    command: Option<&Launched>,
    time: Duration,
) -> Result<Option<EndedBy>, LiveError> {
    let failed = LiveError::system("wait");
    let mut watched = vec![PollFd::from_borrowed_fd(stop, PollFlags::IN)];
    watched.extend(command.map(|command| PollFd::from_borrowed_fd(command.fd(), PollFlags::IN)));
    let time = match Timespec::try_from(time) {
        Ok(time) => time,
        Err(error) => return Err(failed(io::Error::other(error))),
    };
    match poll(&mut watched, Some(&time)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(failed(error.into())),
    }
    let is_ready = |fd: Option<&PollFd<'_>>| fd.is_some_and(|fd| !fd.revents().is_empty());
    Ok(match (is_ready(watched.first()), is_ready(watched.get(1))) {
        // Ctrl-C reaches the command too, and it may be the first to end.
        (true, _) => Some(EndedBy::Signal),
        (false, true) => Some(EndedBy::Command),
        (false, false) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_commands_end() {
        let check = |words: &[&str], code, by_itself| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let mut launched = Launched::start(&words).expect("starts").expect("words");
            if by_itself {
                poll(&mut [PollFd::new(&launched.fd(), PollFlags::IN)], None).expect("poll");
            }
            let ended = launched.end().expect("ends");
            assert_eq!((ended.code(), ended.by_itself), (code, by_itself), "{words:?}");
        };
        check(&["true"], 0, true);
        check(&["sh", "-c", "exit 7"], 7, true);
        check(&["sh", "-c", "kill -9 $$"], 137, true);
        check(&["sleep", "60"], 143, false);
    }

    #[test]
    fn what_cannot_be_started() {
        assert!(Launched::start(&[]).expect("nothing to start").is_none());
        let error = Launched::start(&["/no/such/program".into()]).expect_err("no such program");
        assert!(error.to_string().starts_with("cannot start /no/such/program: "), "{error}");
    }
}

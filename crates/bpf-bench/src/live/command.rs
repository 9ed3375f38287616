//! Launches the command to measure and waits for it.

use std::{
    ffi::OsString,
    io,
    os::fd::{AsFd as _, BorrowedFd},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use wingbeat_bpf_loader::command::{Ended, LaunchError, Launched};

use super::{
    LiveError, Options, Progress,
    report::{CommandReport, EndedBy},
};

/// Starts the command and waits until the time is over, the command has ended, or `stop` becomes
/// readable. Calls `read` after each slice, beginning with slices of the given length: it returns
/// the number of runs and the length of the next slice.
pub(super) fn measured_time(
    options: &Options,
    stop: BorrowedFd<'_>,
    show: &mut dyn FnMut(Progress),
    mut slice: Duration,
    mut read: impl FnMut() -> Result<(u64, Duration), LiveError>,
) -> Result<(EndedBy, Option<CommandReport>), LiveError> {
    let started = Instant::now();
    let launched = start(&options.command)?;
    let ended_by = loop {
        let left = options.duration.map(|duration| duration.saturating_sub(started.elapsed()));
        let waited = wait(stop, launched.as_ref(), left.map_or(slice, |left| left.min(slice)))?;
        let runs;
        (runs, slice) = read()?;
        let elapsed = started.elapsed();
        show(Progress { elapsed, total: options.duration, runs });
        let is_over = options.duration.is_some_and(|duration| elapsed >= duration);
        if let Some(ended_by) = waited.or(is_over.then_some(EndedBy::Time)) {
            break ended_by;
        }
    };
    Ok((ended_by, end(launched, &options.command)?))
}

/// Starts a command with our standard streams; `None` if empty.
fn start(words: &[OsString]) -> Result<Option<Launched>, LiveError> {
    let Some((program, arguments)) = words.split_first() else { return Ok(None) };
    Launched::start(program, arguments).map(Some).map_err(|error| match error {
        LaunchError::Start(source) => {
            LiveError::Launch { program: program.to_string_lossy().into_owned(), source }
        }
        LaunchError::Watch(source) => LiveError::system("watch the command")(source),
    })
}

/// Terminates the command, if there is one, and returns its status.
fn end(command: Option<Launched>, words: &[OsString]) -> Result<Option<CommandReport>, LiveError> {
    let Some(mut command) = command else { return Ok(None) };
    let ended: Ended = command.end().map_err(LiveError::system("end the command"))?;
    Ok(Some(CommandReport {
        words: words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        exit_code: ended.code(),
        ended_by_itself: ended.by_itself,
    }))
}

/// Waits for a duration, a signal or the end of the command, and returns the cause.
fn wait(
    stop: BorrowedFd<'_>,
    command: Option<&Launched>,
    time: Duration,
) -> Result<Option<EndedBy>, LiveError> {
    let failed = LiveError::system("wait");
    let mut watched = vec![PollFd::from_borrowed_fd(stop, PollFlags::IN)];
    watched.extend(command.map(|command| PollFd::from_borrowed_fd(command.as_fd(), PollFlags::IN)));
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
        // Ctrl-C reaches the command too, which may end first.
        (true, _) => Some(EndedBy::Signal),
        (false, true) => Some(EndedBy::Command),
        (false, false) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_started() {
        assert!(start(&[]).expect("nothing to start").is_none());
        let error = start(&["/no/such/program".into()]).expect_err("no such program");
        assert!(error.to_string().starts_with("cannot start /no/such/program: "), "{error}");
    }
}

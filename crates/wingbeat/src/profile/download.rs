//! Debug information from servers, if they are to be asked: between the recording and the names.

use std::os::fd::BorrowedFd;

use clap::error::ErrorKind;
use wingbeat_profile::{
    debuginfod::{DebugFiles, Debuginfod, Settings},
    session::Finished,
    symbolize::wanted,
};

use super::{progress, wrong_usage};
use crate::shell::forget_signals;

/// The client for `--debuginfod` with these values, by the environment; `None` without the flag. What is
/// wrong with them is told before anything is recorded.
pub(super) fn client(given: &[String]) -> Option<Debuginfod> {
    if given.is_empty() {
        return None;
    }
    match Settings::new(given, |name| std::env::var_os(name)) {
        Ok(settings) => Some(Debuginfod::new(settings)),
        Err(error) => wrong_usage(ErrorKind::ValueValidation, error.to_string()),
    }
}

/// Downloads what the recording lacks. A signal ends that, and the output is written without the rest; the
/// one that ended the recording does not count.
pub(super) fn fetch(
    client: &Debuginfod,
    recording: &Finished,
    stop: BorrowedFd<'_>,
    quiet: bool,
) -> DebugFiles {
    forget_signals(stop);
    let line = progress::Downloading::new(quiet);
    client.fetch(wanted(recording), stop, &mut |progress| line.show(progress))
}

//! Downloads debug information from debuginfod servers, between recording and symbolization.

use std::os::fd::BorrowedFd;

use clap::error::ErrorKind;
use wingbeat_profiler::{
    debuginfod::{DebugFiles, Debuginfod, Settings},
    session::Finished,
    symbolize::wanted,
};

use super::{progress, wrong_usage};
use crate::shell::forget_signals;

/// The client for `--debuginfod` with these values and the environment; `None` without the flag. Reports invalid values
/// before the recording.
pub(super) fn client(given: &[String]) -> Option<Debuginfod> {
    if given.is_empty() {
        return None;
    }
    match Settings::new(given, |name| std::env::var_os(name)) {
        Ok(settings) => Some(Debuginfod::new(settings)),
        Err(error) => wrong_usage(ErrorKind::ValueValidation, error.to_string()),
    }
}

/// Downloads missing debug information. A signal stops it, and the output is written without the rest; the signal that
/// ended the recording does not count.
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

//! What to measure of programs that are loaded, and how far that is.

use std::{ffi::OsString, time::Duration};

/// What to measure.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Ids, names, tags and pins; none means all programs.
    pub wanted: Vec<String>,
    /// How long; `None` until the command ends, or a signal comes.
    pub duration: Option<Duration>,
    /// A command to launch, with its arguments; may be empty.
    pub command: Vec<OsString>,
    /// Time single runs, by programs at the entry and the exit of those that are measured.
    pub single_runs: bool,
    /// Read counters of perf around each run; times single runs, too.
    pub counters: bool,
}

/// How far it is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub elapsed: Duration,
    /// Time in all, if it is known.
    pub total: Option<Duration>,
    /// Runs of all measured programs so far.
    pub runs: u64,
}

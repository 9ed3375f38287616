//! Measures loaded programs in place, with the kernel's run-time statistics.
//!
//! - [`change`]: counters at one time, and the difference of two readings.
//! - [`choose`]: resolves an id, a name, a tag or a pin to programs.
//! - [`Watch`]: reads all programs repeatedly, for a live table.
//! - [`measure()`]: measures some programs, for a duration or while a command runs.
//! - [`SingleRuns`]: measures with tracers, which observe each run.
//! - [`LiveReport`]: the result, and [`format`](mod@format) for its output formats.
//!
//! The statistics only have sums: runs, and their total time. So there is a mean per program and no
//! distribution, and all attachments of a program share one figure. Tracers provide the
//! distribution, on kernels that can attach programs to programs.

pub mod change;
pub mod choose;
mod command;
mod error;
pub mod format;
mod held;
mod measure;
mod never_ran;
mod report;
mod sampler;
mod single_runs;
mod uncertainty;
mod warning;
mod watch;

use std::{ffi::OsString, time::Duration};

pub use crate::conditions::cpus_online;
pub use error::{LiveError, check_rights};
pub use measure::measure;
pub use never_ran::NeverRan;
pub use report::{
    CommandReport, EndedBy, LiveOutcome, LiveReport, MeanInterval, ProgramReport, SCHEMA_VERSION,
    Total, Vanished,
};
use sampler::{Attachments, Sampler, Statistics};
pub use single_runs::{Bin, CounterReport, EmptyRuns, SingleRuns, Untimed};
pub use watch::Watch;

/// What to measure.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Ids, names, tags and pins; empty for all programs.
    pub wanted: Vec<String>,
    /// Duration; `None` to run until the command ends or a signal arrives.
    pub duration: Option<Duration>,
    /// Command to launch, with its arguments; may be empty.
    pub command: Vec<OsString>,
    /// Whether to time single runs, with tracers at entry and exit of the measured programs.
    pub single_runs: bool,
    /// Whether to read perf counters around each run; implies timing single runs.
    pub counters: bool,
}

/// Progress of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub elapsed: Duration,
    /// Total duration, if known.
    pub total: Option<Duration>,
    /// Runs of all measured programs so far.
    pub runs: u64,
}

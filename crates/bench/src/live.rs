//! Programs that are loaded already, measured where they run, by the kernel's run-time statistics.
//!
//! - [`change`]: the counters at one time, and what two readings tell.
//! - [`choose`]: which programs are meant by an id, a name, a tag or a pin.
//! - [`Watch`]: all programs, again and again, for a table that moves.
//! - [`measure()`]: some programs, over a time or while a command runs.
//! - [`SingleRuns`]: the same by tracers, which see each run.
//! - [`LiveReport`]: the result, and [`format`](mod@format) for its forms.
//!
//! The statistics give sums only: runs, and the time in all of them. So there is a mean per program
//! and no distribution; all places that a program is attached to are in one figure. Tracers give the
//! distribution, on kernels that attach programs to programs.

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

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
pub mod format;
mod measure;
mod report;
mod sampler;
mod single_runs;
mod warning;

use std::{ffi::OsString, io, path::PathBuf, time::Duration};

use wingbeat_bpf_loader::{Capability, Rights, rights::how_to_get};

use choose::NotFound;
use sampler::{Attachments, Statistics};

pub use crate::conditions::cpus_online;
pub use measure::measure;
pub use report::{
    CommandReport, EndedBy, LiveOutcome, LiveReport, MeanInterval, ProgramReport, SCHEMA_VERSION,
    Total, Vanished,
};
pub use sampler::Watch;
pub use single_runs::{Bin, CounterReport, EmptyRuns, SingleRuns, Untimed};
pub use warning::NeverRan;

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

/// Why loaded programs cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    #[error(
        "CAP_SYS_ADMIN is missing: the kernel requires it to inspect programs of other processes \
         and to switch their statistics on (CAP_BPF and CAP_PERFMON do not suffice); {}",
        how_to_get(&[Capability::SysAdmin])
    )]
    MissingRight,
    #[error(
        "this process runs in a user namespace (a rootless container?), whose capabilities do not \
         apply to eBPF; run it outside, or in a container that is not rootless"
    )]
    UserNamespace,
    #[error("cannot {what}: {source}, although this process has CAP_SYS_ADMIN (a seccomp filter?)")]
    Refused { what: String, source: io::Error },
    #[error("cannot {what}: {source}")]
    System { what: String, source: io::Error },
    #[error(transparent)]
    NotFound(#[from] NotFound),
    #[error("cannot take the program from {}: {source}; a pin lies in a bpffs, often below /sys/fs/bpf", path.display())]
    Pin { path: PathBuf, source: io::Error },
    #[error("no eBPF program is loaded, so there is nothing to measure")]
    NothingLoaded,
    #[error(
        "cannot time single runs in place: it needs fentry and fexit programs on other programs, \
         and a test with an empty program failed: {0}; `wingbeat bench OBJECT` times single runs \
         without them, and `wingbeat live` without --distribution and --counters shows means"
    )]
    NoTracing(String),
    #[error(
        "cannot time the single runs of {program}: {reason}; `wingbeat live` without \
         --distribution and --counters shows their mean, and `wingbeat bench OBJECT` times single \
         runs before the program is loaded"
    )]
    NotTraceable { program: String, reason: String },
    #[error("cannot start {program}: {source}")]
    Launch { program: String, source: io::Error },
}

impl LiveError {
    /// Wraps the system's error; `what` follows "cannot".
    fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Refused { what, source },
            _ => Self::System { what, source },
        }
    }
}

/// Checks that this process may inspect loaded programs and enable statistics.
///
/// The kernel requires `CAP_SYS_ADMIN` in the initial user namespace for `BPF_PROG_GET_NEXT_ID`,
/// `BPF_PROG_GET_FD_BY_ID` and `BPF_ENABLE_STATS` (kernel/bpf/syscall.c, Linux 6.18); verified with
/// each set of capabilities on that kernel. Errors name the missing capability and the remedy.
pub fn check_rights() -> Result<(), LiveError> {
    let rights = Rights::current().map_err(LiveError::system("read this process's rights"))?;
    match (rights.count(), rights.allow(Capability::SysAdmin)) {
        (_, true) => Ok(()),
        (true, false) => Err(LiveError::MissingRight),
        (false, false) => Err(LiveError::UserNamespace),
    }
}

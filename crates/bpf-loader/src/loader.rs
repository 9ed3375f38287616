//! Creates the maps of specs, loads programs with their verifier log, and runs them.
//!
//! Never pins anything: maps that an object shares by name are created for this process alone, so
//! that a benchmark neither reads nor leaves anything in the machine's bpffs.

mod alarm;
mod arena;
mod attach;
mod externs;
mod load;
mod maps;
mod raw_context;
mod refused_map;
mod reset;
mod ring;
mod run;
mod run_apart;
mod trampoline;
mod verifier;

use std::{io, time::Duration};

use wingbeat_text::duration_of;

use crate::{
    btf::BtfError,
    rights::{Capability, Rights, how_to_get},
    spec::SpecError,
};

pub use alarm::Alarm;
pub use attach::{Attached, Uprobes};
pub use load::{Loaded, Loader, Remarks};
pub use maps::{LoadedMap, LoadedMaps, MapError};
pub use raw_context::RawContext;
pub use reset::ResetError;
pub use ring::RingReader;
pub use run::{ProgramRun, RunError, RunInput, run, run_until};
pub use run_apart::run_apart;
pub use trampoline::{
    CounterEvent, Extended, ExtendedError, Moment, PerfCounter, TraceTarget, Tracer,
    TrampolineError,
};
pub use verifier::{Effort, Explained, Rejection, VerifierLimit, VerifierStatistics};

/// A program cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Privileges are missing.
    #[error("{}", refused(.program, .source, .advice.as_deref()))]
    Refused {
        program: String,
        source: io::Error,
        /// How the loading thread can get the missing privileges; `None` if it had all that loading may need.
        advice: Option<String>,
    },
    #[error("{}", rejected(.program, .rejection, .source))]
    Rejected { program: String, rejection: Box<Rejection>, source: io::Error },
    /// A kernel configuration setting that the object needs cannot be determined.
    #[error("cannot load the maps of {file}: {reason}")]
    Setting { file: String, reason: String },
    /// A kernel feature or attach target of the program is missing.
    #[error("cannot load {program}: {reason}")]
    Target { program: String, reason: String },
    #[error("cannot load {program}: it needs the kernel's types: {source}")]
    KernelTypes { program: String, source: BtfError },
    #[error(
        "the time ran out before {program} was loaded: the verifier had worked on it for {}",
        duration_of(*.after)
    )]
    TimeOver { program: String, after: Duration },
    #[error("cannot load {program}: {source}")]
    Failed { program: String, source: io::Error },
}

/// Privileges that loading a program may need.
const NEEDED: [Capability; 3] = [Capability::Bpf, Capability::Perfmon, Capability::NetAdmin];

/// How this thread can get the privileges for loading; `None` if it has all.
pub(super) fn advice() -> Option<String> {
    let has = |rights: Rights| NEEDED.iter().all(|&needed| rights.allow(needed));
    (!Rights::current().is_ok_and(has)).then(|| how_to_get(&NEEDED))
}

/// Distinguishes missing privileges from a kernel that rejects the program for everybody.
fn refused(program: &str, source: &io::Error, advice: Option<&str>) -> String {
    let begin = format!("cannot load {program}: the kernel refuses ({source}) before verifying it");
    match advice {
        None => format!(
            "{begin}, although this process has the rights: this kernel forbids programs of this \
             kind; `wingbeat doctor` lists what it allows"
        ),
        Some(advice) => format!(
            "{begin}; this needs CAP_BPF, CAP_PERFMON for tracing and CAP_NET_ADMIN for the \
             network: {advice}. See `wingbeat doctor`"
        ),
    }
}

fn rejected(program: &str, rejection: &Rejection, source: &io::Error) -> String {
    use std::fmt::Write as _;
    if let Some(libc::EMFILE | libc::ENFILE) = source.raw_os_error() {
        // The verifier did not even start.
        return format!("cannot load {program}: {source}");
    }
    let mut text = format!("the verifier rejects {program}");
    match rejection.reason() {
        Some(reason) => _ = write!(text, ": {reason}"),
        None => _ = write!(text, ": {source}"),
    }
    if let Some(limit) = rejection.limit {
        _ = write!(text, "; {limit}");
    }
    if let Some(missing) = &rejection.missing {
        _ = write!(text, "; {missing}");
    }
    if let Some(line) = &rejection.source {
        _ = write!(text, "\n  at: {line}");
    }
    let tail = rejection.tail();
    if !tail.is_empty() {
        _ = write!(text, "\n  the end of the verifier's log:");
        for line in tail.lines() {
            _ = write!(text, "\n    {line}");
        }
    }
    text
}

//! Creates the maps of specs, loads programs with their verifier log, and runs them.
//!
//! Never pins anything: maps that an object shares by name are created for this process alone, so
//! that a benchmark neither reads nor leaves anything in the machine's bpffs.

mod alarm;
mod arena;
mod attach;
mod error;
mod externs;
mod load;
mod maps;
mod perf_counter;
mod raw_context;
mod refused_map;
mod reset;
mod ring;
mod run;
mod run_apart;
mod settings;
mod trampoline;
mod verifier;

pub use alarm::Alarm;
pub use attach::{Attached, Uprobes};
pub use error::LoadError;
pub use load::{Loaded, Loader, LoaderOptions, Remarks};
pub use maps::{LoadedMap, LoadedMaps, MapError};
pub use perf_counter::{CounterEvent, PerfCounter};
pub use raw_context::RawContext;
pub use reset::ResetError;
pub use ring::RingReader;
pub use run::{ProgramRun, RunError, RunInput, run, run_until};
pub use run_apart::run_apart;
pub use trampoline::{Extended, ExtendedError};
pub use trampoline::{Moment, TraceTarget, Tracer, TrampolineError};
pub use verifier::{Effort, Explained};
pub use verifier::{Rejection, VerifierLimit, VerifierStatistics};

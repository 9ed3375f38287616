//! Specs brought to life: maps created, programs loaded with what the verifier says, and run.
//!
//! Nothing is ever pinned: maps that an object wants to share by name are created for this process
//! alone, so that a benchmark neither reads nor leaves anything in the machine's bpffs.

mod attach;
mod error;
mod extended;
mod externs;
mod load;
mod maps;
mod perf_counter;
mod raw_context;
mod records;
mod refused_map;
mod ring;
mod run;
mod settings;
mod trampoline;
mod verifier;

pub use error::LoadError;
pub use extended::{Extended, ExtendedError};
pub use load::{Loaded, Loader, LoaderOptions};
pub use maps::{LiveMap, LiveMaps, MapError, ResetError};
pub use perf_counter::{CounterEvent, PerfCounter};
pub use raw_context::RawContext;
pub use run::{Run, RunError, RunInput, block_signals, run};
pub use trampoline::{Moment, Target, Tracer, TrampolineError};
pub use verifier::{Limit, Rejection, VerifierStatistics};

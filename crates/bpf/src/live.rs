//! Specs brought to life: maps created, programs loaded with what the verifier says, and run.
//!
//! Nothing is ever pinned: maps that an object wants to share by name are created for this process
//! alone, so that a benchmark neither reads nor leaves anything in the machine's bpffs.

mod alarm;
mod error;
mod externs;
mod load;
mod maps;
mod perf_counter;
mod records;
mod reset;
mod ring;
mod run;
mod run_apart;
mod settings;
mod trampoline;
mod verifier;
mod verify;

pub use alarm::Alarm;
pub use error::LoadError;
pub use load::{Loaded, Loader, LoaderOptions};
pub use maps::{LiveMap, LiveMaps, MapError};
pub use perf_counter::{CounterEvent, PerfCounter};
pub use reset::ResetError;
pub use run::{Run, RunError, RunInput, run, run_until};
pub use run_apart::run_apart;
pub use trampoline::{Moment, Target, Tracer, TrampolineError};
pub use verifier::{Limit, Rejection, VerifierStatistics};
pub use verify::{Effort, Explained};

//! Single runs of loaded programs: their times and perf counts.
//!
//! - [`model`]: the result. Computes percentiles from histograms; pure.
//! - [`recorder`]: one program with tracers at its entry and exit.
//! - [`empty`]: the ruler, and the overhead of the tracers.
//! - [`measure()`]: selected programs, for a duration or while a command runs.

mod empty;
mod measure;
mod model;
mod recorder;

pub(super) use measure::measure;
pub use model::{Bin, CounterReport, EmptyRuns, SingleRuns, Untimed};

//! Single runs of programs that are loaded already: how long each takes, and what perf counts in it.
//!
//! - [`model`]: what comes out. Percentiles are made here, of histograms; pure.
//! - [`recorder`]: one program with tracers at its entry and exit.
//! - [`empty`]: the ruler, and what the tracers cost.
//! - [`measure()`]: chosen programs, over a time or while a command runs.

mod empty;
mod measure;
mod model;
mod recorder;

pub(super) use measure::measure;
pub use model::{Bin, CounterReport, EmptyRuns, SingleRuns, Untimed};

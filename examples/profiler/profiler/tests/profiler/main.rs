//! Runs the profiler on the real kernel.

mod arguments;
#[cfg(feature = "dhat-heap")]
mod heap;
#[path = "../../../../testbed/program.rs"]
mod program;
mod run;
mod sampling;

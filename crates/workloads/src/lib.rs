//! Targets for profilers, with a fixed amount of work each.
//!
//! Measuring a profiler's overhead requires a target that does the same work with and without it. Each program does the
//! given number of units, and writes the CPU time used to a report that `cargo xtask peers` reads.
//!
//! - `work-deep`: one thread, stacks of varied depth;
//! - `work-threads`: the same on eight threads;
//! - `work-forks`: the same in a sequence of short-lived processes.

mod deep;
mod run;

pub use deep::{Frames, units};
pub use run::{Arguments, HOLD_VARIABLE, REPORT_VARIABLE, Spent, main_of, main_with, report};

//! Targets for profilers, with a fixed amount of work each.
//!
//! A profiler is judged by what it costs its target, and that can only be seen when the target does
//! the same work with and without it. So each program here does the number of units that it is told
//! to do, and then says how much CPU time that took, in a report that `cargo xtask peers` reads.
//!
//! - `work-deep`: one thread, stacks of varied depth;
//! - `work-threads`: the same on eight threads;
//! - `work-forks`: the same in a row of short-lived processes.

mod deep;
mod run;

pub use deep::{Frames, units};
pub use run::{Arguments, HOLD_VARIABLE, REPORT_VARIABLE, Spent, main_of, main_with, report};

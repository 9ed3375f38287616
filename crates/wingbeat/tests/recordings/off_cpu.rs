//! `wingbeat profile --mode off-cpu|wall` on the real kernel, on programs that measure themselves.
//!
//! The targets are small C programs that print how long they waited, by the kernel's clock. Tests compare with these
//! values, not with the requested ones: a busy machine makes a sleep longer, but not the measurement wrong. Tests run
//! one at a time and are skipped only if a probe finds that profiling is impossible here; with `CI=true` that is a
//! failure.

pub(crate) mod accounts;
mod everybody;
mod failures;
mod files;
mod processes;
mod programs;
mod sleeps;
mod stacks;
mod states;
pub(crate) mod support;
mod wall;

//! `wingbeat profile --mode off-cpu|wall` on the real kernel, on programs that measure themselves.
//!
//! The targets are small C programs that print how long they waited, by the kernel's clock. Tests compare with these
//! values, not with the requested ones: a busy machine makes a sleep longer, but not the measurement wrong. Tests run
//! one at a time and are skipped only if a probe finds that profiling is impossible here; with `CI=true` that is a
//! failure.

mod accounts;
mod calls;
mod everybody;
mod failures;
mod files;
mod idle;
mod locks;
mod namespaces;
mod processes;
mod programs;
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../common/ran.rs"]
mod ran;
mod sleeps;
mod stacks;
mod states;
mod support;
#[path = "../common/target.rs"]
mod target;
mod wall;

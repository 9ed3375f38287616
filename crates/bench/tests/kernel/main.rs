//! Instrumentation on the real kernel: generated programs do with counters what they do without, and
//! count what the interpreter counts; programs that take turns within one run get the turns, the maps
//! and the times that are theirs.
//!
//! Skipped only when the rights are missing; with `CI=true` that is a failure.

mod alternate;
mod confirm;
mod generated;
mod methods;
#[path = "../../../wingbeat/tests/bench/object.rs"]
mod object;
mod support;

//! Counters on the real kernel: generated programs do with them what they do without, and count what
//! the interpreter counts.
//!
//! Skipped only when the rights are missing; with `CI=true` that is a failure.

mod generated;
#[path = "../../../wingbeat/tests/bench/object.rs"]
mod object;
mod support;

//! `wingbeat heap` on the real kernel, on programs that know what they allocate.
//!
//! The targets are small C programs whose sums are known. They are looked up by the function that allocates, so that
//! what the C library allocates for itself does not count. Tests are skipped only when a probe says that profiling is
//! impossible here; with `CI=true` that is a failure.

mod exact;
mod failures;
mod odd_targets;
mod pages;
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../common/ran.rs"]
mod ran;
mod running;
mod support;
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../common/target.rs"]
mod target;
mod text;
mod viewer;
mod ways_out;

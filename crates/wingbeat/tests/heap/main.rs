//! `wingbeat heap` on the real kernel, on programs with known allocations.
//!
//! The targets are small C programs with known sums. Results are looked up by the allocating function, so that the C
//! library's own allocations do not count. Tests are skipped only if a probe finds that profiling is impossible here;
//! with `CI=true` that is a failure.

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

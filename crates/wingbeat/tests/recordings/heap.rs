//! `wingbeat heap` on the real kernel, on programs with known allocations.
//!
//! The targets are small C programs with known sums. Results are looked up by the allocating function, so that the C
//! library's own allocations do not count. Tests are skipped only if a probe finds that profiling is impossible here;
//! with `CI=true` that is a failure.

mod exact;
mod pages;
mod running;
mod support;
mod viewer;
mod ways_out;

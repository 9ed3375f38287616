//! `wingbeat live` and `wingbeat top` on the real kernel: programs attached to a network of
//! the test's own, and a number of packets that is known.
//!
//! Tests run one at a time, because they switch statistics on and off, which all programs share. They
//! are skipped only when the rights are missing; with `CI=true` that is a failure.

mod measure;
mod network;
mod object;
mod once;
mod pty;
mod screen;
mod single_runs;
mod support;

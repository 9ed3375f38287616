//! `wingbeat live` and `wingbeat top` on the real kernel: programs attached to a test network, with a known number of
//! packets.
//!
//! Tests run one at a time, because they toggle statistics, which all programs share. They are skipped only without
//! privileges; with `CI=true` that is a failure.

mod measure;
mod network;
mod object;
mod once;
mod pty;
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../common/ran.rs"]
mod ran;
mod screen;
mod single_runs;
mod support;

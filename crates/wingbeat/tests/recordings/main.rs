//! Recordings on the real kernel: `wingbeat profile`, `heap` and `agent`, on programs of known behaviour.

mod agent;
mod heap;
mod off_cpu;
mod profile;
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../common/ran.rs"]
mod ran;
mod target;

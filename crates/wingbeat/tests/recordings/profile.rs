//! `wingbeat profile` on the real kernel, on programs of known behaviour.
//!
//! The targets are small C programs, compiled here with or without frame pointers. Tests run one at a time, because
//! they measure time. They are skipped only if a probe finds that the kernel or missing privileges prevent profiling;
//! with `CI=true` that is a failure.

mod accuracy;
mod debuginfod;
mod failures;
mod files;
mod foreign;
#[cfg(target_arch = "x86_64")]
mod jit;
mod own_crate;
mod processes;
#[path = "../../../profiler/src/debuginfod/tests/server.rs"]
mod server;
mod stacks;
pub(crate) mod support;
mod unwind;

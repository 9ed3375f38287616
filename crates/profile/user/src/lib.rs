//! The profiler: from a running process to a profile.
//!
//! One natural way: [`targets`] → [`session`] → samples ([`wire`], [`recorder`]) → symbols
//! ([`symbolize`]) → [`model`] → [`export`].
//!
//! * The *kernel half* (`profile-ebpf`) takes a sample at each tick of a clock on each CPU and counts
//!   every tick that it does not take.
//! * The *session* loads it, launches or finds the targets, and drains it together with the kernel's
//!   record of mappings and processes.
//! * The *recorder* keeps addresses and open files: cheap, and complete even when the targets are
//!   gone.
//! * *Symbols* are looked up at the end, once for each distinct address. Debug information that is not
//!   on this machine can be had from servers ([`debuginfod`]) before that.
//! * *Exporters* turn the finished [`model::Profile`] into bytes, and know nothing of the rest.

pub mod advice;
pub mod cost;
pub mod counts;
pub mod debuginfod;
pub mod diff;
mod distinct;
pub mod document;
pub mod error;
pub mod export;
pub mod fold;
mod foreign;
#[doc(hidden)]
pub mod fuzzing;
pub mod heap;
mod jitdump;
pub mod merge;
pub mod model;
mod proc;
pub mod recorder;
pub mod session;
pub mod summary;
pub mod symbolize;
pub mod targets;
mod unwind;
pub mod wire;

//! The profiler: from a running process to a profile.
//!
//! Data flow: [`targets`] → [`session`] → samples ([`wire`], [`recorder`]) → symbols ([`symbolize`]) → [`model`] →
//! [`export`].
//!
//! * The *kernel half* (`profile-ebpf`) samples at each timer tick on each CPU, and counts every tick without a sample.
//! * The *session* loads it, launches or finds the targets, and reads its records and the kernel's mapping and
//!   process events.
//! * The *recorder* stores addresses and open files: cheap, and complete even after the targets exit.
//! * *Symbols* are resolved at the end, once for each distinct address. Debug information that is not on this
//!   machine can be downloaded before that ([`debuginfod`]).
//! * *Exporters* convert the finished [`model::Profile`] to bytes, independently of the rest.

pub mod advice;
pub mod counts;
pub mod debuginfod;
pub mod diff;
pub mod error;
pub mod export;
pub mod fold;
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
mod untrusted_file;
mod unwind;
pub mod wire;

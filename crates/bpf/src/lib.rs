//! Thin layer over `bpf(2)`: what the kernel's types are, which rights this process has, and what this
//! kernel and this machine allow.
//!
//! - [`btf`]: offsets of the kernel's structures, for kernel halves.
//! - [`rights`]: capabilities, held and missing, and how to get them.
//! - [`program`]: programs that are loaded.
//! - [`probe`]: one finding per feature, by trying it. `wingbeat doctor` prints them.
//!
//! Not for: printing (the binary), loading a profiler's or a benchmark's programs (their crates).

pub mod btf;
pub mod probe;
pub mod program;
pub mod rights;
mod sys;

pub use btf::{BtfError, KernelTypes};
pub use probe::{Finding, Status, Verb};
pub use rights::{Capability, MissingRights, Rights};

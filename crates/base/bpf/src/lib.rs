//! Thin layer over `bpf(2)`: what the kernel's types are, which rights this process has, and what this
//! kernel and this machine allow.
//!
//! - [`code`]: bytecode, and what the object file tells about it.
//! - [`helpers`]: names of the kernel's helper functions.
//! - [`btf`]: offsets of the kernel's structures, for kernel halves.
//! - [`spec`]: object files as specs: pure, no kernel, no rights.
//! - [`loader`]: maps created, programs loaded with the verifier's word, and run.
//! - [`rights`]: capabilities, held and missing, and how to get them.
//! - [`program`]: programs that are loaded.
//! - [`perf`]: clocks of CPUs, and the kernel's records of processes. [`cpus`]: which are on.
//! - [`command`]: a command that runs while something is measured.
//! - [`owners`]: the processes that hold them. [`links`]: what attaches them; [`interfaces`]: what does so
//!   by netlink.
//! - [`tail_calls`]: which programs jump to which.
//! - [`ruler`]: what run-time statistics cost by themselves.
//! - [`probed`]: functions of this program to attach probes to.
//! - [`probe`]: one finding per feature, by trying it. `wingbeat doctor` prints them.
//!
//! Not for: printing (the binary), loading a profiler's or a benchmark's programs (their crates).

pub mod btf;
pub mod caller;
pub mod code;
pub mod command;
pub mod cpus;
pub mod helpers;
pub mod interfaces;
pub mod kernel_names;
pub mod links;
pub mod loader;
mod numbers;
pub mod owners;
pub mod perf;
pub mod probe;
pub mod probed;
pub mod program;
pub mod program_type;
pub mod rights;
pub mod ruler;
pub mod spec;
mod sys;
pub mod tail_calls;

pub use btf::{BtfError, KernelTypes};
pub use probe::{Finding, FindingStatus, Verb};
pub use program_type::ProgramType;
pub use rights::{Capability, MissingRights, Rights};

//! Thin layer over `bpf(2)`: kernel types, privileges of this process, and features of kernel and machine.
//!
//! - [`code`]: bytecode, with metadata from the object file. [`helpers`]: names of the kernel's helper functions.
//! - [`btf`]: types of the kernel, and offsets of its structures, for kernel halves.
//! - [`spec`]: object files as specs: pure, without kernel and privileges.
//! - [`loader`]: creates maps, loads programs with their verifier log, and runs them.
//! - [`rights`]: capabilities, held and missing, and how to get them.
//! - [`program`]: loaded programs. [`fd_holders`]: processes that hold them. [`attachments`]: where they are attached.
//! - [`perf`]: clocks of CPUs, and the kernel's records of processes.
//! - [`command`], [`caller`]: a command that runs during a measurement, and the user who runs it.
//! - [`kernel_names`]: kernel symbols by address.
//! - [`empty_baseline`]: the overhead of run-time statistics.
//! - [`uprobe_targets`]: functions of this program to attach probes to.
//! - [`probe`]: tests features, with one finding each. Printed by `wingbeat doctor`.
//!
//! Out of scope: printing (the binary), loading a profiler's or a benchmark's programs (their crates).

pub mod attachments;
pub mod btf;
pub mod caller;
pub mod code;
pub mod command;
pub mod empty_baseline;
pub mod fd_holders;
pub mod helpers;
pub mod kernel_names;
pub mod loader;
pub mod perf;
pub mod probe;
pub mod program;
pub mod program_type;
pub mod rights;
pub mod spec;
mod sys;
pub mod uprobe_targets;

pub use btf::{BtfError, KernelTypes};
pub use probe::{Finding, FindingStatus, Verb};
pub use program_type::ProgramType;
pub use rights::{Capability, MissingRights, Rights};

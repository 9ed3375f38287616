//! Executes bytecode in user space and counts each instruction: the reference for instruction counters.
//!
//! `wingbeat bench` counts with counters inserted into the bytecode. This crate obtains the same counts by interpreting
//! the program, and shares none of that code: no control flow graph, no liveness analysis, no counter layout. It does
//! not depend on `wingbeat-bench`; both only share the instruction and program types of `wingbeat-bpf`.
//!
//! - [`machine`]: registers, frames, jumps, calls. Like the verifier, it rejects uninitialized reads.
//! - [`memory`]: the address space and its contents.
//! - [`model`]: environment of generated programs: a packet, and the value of one map.
//! - [`world`]: environment of real objects: packets and their contexts, maps, kernel helpers.
//!
//! Nothing here calls the kernel. Map contents come from a [`Contents`](world::Contents).

mod arithmetic;
mod checksum;
pub mod machine;
pub mod memory;
pub mod model;
pub mod world;

use std::borrow::Cow;

pub use machine::Fault;

/// Why an operation is not possible.
pub type Reason = Cow<'static, str>;

/// Result of one step, or the reason why it failed.
type Step<T> = Result<T, Reason>;

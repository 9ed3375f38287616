//! Runs bytecode in user space and counts each instruction: the truth that counters are compared with.
//!
//! `wingbeat bench` counts by counters that it puts into the bytecode. This crate counts the same by
//! going through the program step by step, and shares nothing with the counters: no control flow graph,
//! no liveness, no layout of a notebook. It depends on `wingbeat-bench` in no way; only the form of an
//! instruction and of a linked program, of `wingbeat-bpf`, is known to both.
//!
//! - [`machine`]: registers, frames, jumps, calls. Like the verifier it refuses to read what was never
//!   written.
//! - [`memory`]: addresses and what lies there.
//! - [`model`]: generated programs: a packet, and the value of one map.
//! - [`world`]: programs of real objects: packets and their contexts, maps, helpers of the kernel.
//!
//! Nothing here talks to the kernel. What stands in maps is asked of a [`Contents`](world::Contents).

mod arithmetic;
mod checksum;
pub mod machine;
pub mod memory;
pub mod model;
pub mod world;

use std::borrow::Cow;

pub use machine::Fault;

/// Why something cannot be done.
pub type Reason = Cow<'static, str>;

/// What one step comes to: a value, or the reason why it cannot be done.
type Step<T> = Result<T, Reason>;

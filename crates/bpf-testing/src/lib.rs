//! What tests of eBPF need: an interpreter that counts each instruction, an assembler, and random programs.
//!
//! The interpreter is the reference for instruction counters.
//!
//! `wingbeat bench` counts with counters inserted into the bytecode. This crate obtains the same counts by interpreting
//! the program, and shares none of that code: no control flow graph, no liveness analysis, no counter layout. It does
//! not depend on `wingbeat-bpf-bench`; both only share the instruction and program types of `wingbeat-bpf-loader`.
//!
//! - [`machine`]: registers, frames, jumps, calls. Like the verifier, it rejects uninitialized reads.
//! - [`memory`]: the address space and its contents.
//! - [`model`]: environment of generated programs: a packet, and the value of one map.
//! - [`world`]: environment of real objects: packets and their contexts, maps, kernel helpers.
//!
//! - [`assemble`], [`generate`]: programs written by hand, and random ones. [`object`]: object files.
//!
//! Nothing here calls the kernel. Map contents come from a [`Contents`](world::Contents).

mod arithmetic;
pub mod assemble;
pub mod generate;
pub mod machine;
pub mod memory;
pub mod model;
#[expect(clippy::new_without_default, reason = "test objects are written step by step")]
pub mod object;
pub mod world;

use std::borrow::Cow;

use wingbeat_bpf_loader::{
    ProgramType,
    code::Code,
    spec::{Linked, ProgramSpec},
};

pub use machine::Fault;

/// Why an operation is not possible.
pub type Reason = Cow<'static, str>;

/// Result of one step, or the reason why it failed.
type Step<T> = Result<T, Reason>;

/// A linked program of this code, without an object and maps.
pub fn linked(name: &str, r#type: ProgramType, code: Code) -> Linked {
    let program = ProgramSpec {
        name: name.to_owned(),
        section: r#type.name().to_owned(),
        r#type,
        attach_type: 0,
        flags: 0,
        attachment: None,
        insn_count: code.insns.len(),
    };
    Linked { program, code, kfuncs: Vec::new() }
}

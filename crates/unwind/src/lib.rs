//! Unwind tables: converts an ELF file's call frame information to rules for walking stacks.
//!
//! A [`Rule`] says in 16 bytes how to get from a function to its caller at one address;
//! `wingbeat_profiler_abi::unwind` interprets it, shared with the kernel half. An [`Image`] locates a file's
//! call frame information and provides the rules of any stretch of its code, so that a large file need not be read
//! completely. A [`Table`] is the structure that a walker searches: all rules of a file in about three bytes for
//! each change of the rule.
//!
//! There is no process, kernel or clock here: bytes in, tables out.

mod code;
mod go_rules;
mod gopclntab;
mod image;
mod interpret;
mod table;

pub use gopclntab::{GoLocation, GoTable};
pub use image::{Image, ImageError, Unreadable};
pub use table::{OpenBlock, RuleId, Rules, Table};
pub use wingbeat_profiler_abi::unwind::{Cfa, FramePointer, ReturnAddress, Rule};

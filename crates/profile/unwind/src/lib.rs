//! Unwind tables: from the call frame information of an ELF file to rules for walking stacks.
//!
//! A [`Rule`] says how to get from a function to its caller at one address, in 16 bytes; what it means
//! to a walker is in `wingbeat_profile_common::unwind`, which the kernel half shares. An [`Image`]
//! knows where a file keeps its call frame information, and gives the rules of any stretch of its
//! code, so that a large file need not be read whole. A [`Table`] is what a walker searches: all
//! rules of a file in about three bytes for each place where the rule changes.
//!
//! There is no process, no kernel and no clock here: bytes go in, tables come out.

mod code;
mod go_rules;
mod gopclntab;
mod image;
mod interpret;
mod table;

pub use gopclntab::{GoPlace, GoTable};
pub use image::{Image, ImageError, Unreadable};
pub use table::{OpenBlock, RuleId, Rules, Table};
pub use wingbeat_profile_common::unwind::{Cfa, FramePointer, ReturnAddress, Rule};

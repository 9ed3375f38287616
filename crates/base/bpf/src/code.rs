//! Bytecode: the instructions of one linked program, and what the object file tells about them.
//!
//! A [`Code`] is what travels from the object file through instrumentation into the kernel. It knows
//! neither files nor descriptors.

mod context;
pub mod disassemble;
mod insn;
mod registers;

pub use context::context_bytes;
pub use insn::{Insn, op};
pub use registers::Registers;

/// A linked program: the entry function first, then the functions that it reaches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Code {
    /// The instructions. A load of 64 bits (`ldimm64`) takes two.
    pub insns: Vec<Insn>,
    /// Where functions begin, in ascending order; the first begins at 0.
    pub functions: Vec<FunctionInfo>,
    /// Where source lines begin, in ascending order of `insn_index`. Empty without line information.
    pub lines: Vec<LineInfo>,
}

/// The beginning of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Index of its first instruction.
    pub insn_index: u32,
    /// Its symbol in the object file.
    pub name: String,
    /// Its `BTF_KIND_FUNC` in the object's BTF, if there is one.
    pub type_id: Option<u32>,
}

/// The beginning of a source line's instructions, as in `struct bpf_line_info`
/// (include/uapi/linux/bpf.h, Linux 6.18).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineInfo {
    /// Index of the first instruction that belongs to the line.
    pub insn_index: u32,
    /// The file's name, as an offset into the strings of the object's BTF.
    pub file_offset: u32,
    /// The line's text, as an offset into the strings of the object's BTF.
    pub text_offset: u32,
    /// Line number and column, as BTF packs them.
    pub line_column: u32,
}

impl LineInfo {
    /// Line number, from 1. 0 stands for code that belongs to no line.
    pub fn line(&self) -> u32 {
        self.line_column >> 10
    }

    /// Column, from 1. 0 if it is not known.
    pub fn column(&self) -> u32 {
        self.line_column & 0x3ff
    }
}

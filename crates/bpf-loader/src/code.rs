//! Bytecode: the instructions of one linked program, with metadata from the object file.
//!
//! A [`Code`] passes from the object file through instrumentation into the kernel. It knows neither
//! files nor descriptors.

mod context;
pub mod disassemble;
mod insn;

pub use context::context_bytes;
pub use insn::Registers;
pub use insn::{Insn, op};

/// A linked program: the entry function first, then all reachable functions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Code {
    /// The instructions. A 64-bit load (`ldimm64`) takes two.
    pub insns: Vec<Insn>,
    /// Start of each function, ascending; the first is at 0.
    pub functions: Vec<FunctionInfo>,
    /// Start of each source line, by ascending `insn_index`. Empty without line information.
    pub lines: Vec<LineInfo>,
}

/// Start of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Index of its first instruction.
    pub insn_index: u32,
    /// Its symbol in the object file.
    pub name: String,
    /// Its `BTF_KIND_FUNC` in the object's BTF, if any.
    pub type_id: Option<u32>,
}

/// Start of a source line's instructions, as in `struct bpf_line_info` (include/uapi/linux/bpf.h, Linux 6.18).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineInfo {
    /// Index of the line's first instruction.
    pub insn_index: u32,
    /// Name of the file, as an offset into the strings of the object's BTF.
    pub file_offset: u32,
    /// Text of the line, as an offset into the strings of the object's BTF.
    pub text_offset: u32,
    /// Line and column, in BTF's packed form.
    pub line_column: u32,
}

impl LineInfo {
    /// Line number, from 1; 0 for code without a line.
    pub fn line(&self) -> u32 {
        self.line_column >> 10
    }

    /// Column, from 1; 0 if unknown.
    pub fn column(&self) -> u32 {
        self.line_column & 0x3ff
    }
}

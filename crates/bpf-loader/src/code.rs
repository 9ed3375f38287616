//! Bytecode: the instructions of one linked program, with metadata from the object file.
//!
//! A [`Code`] passes from the object file through instrumentation into the kernel. It knows neither
//! files nor descriptors.

pub mod disassemble;
mod insn;

use std::collections::BTreeSet;

pub use insn::{Insn, Registers, op};

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

/// Bytes of the context accessed by a program's entry function, up to the last one: at most what
/// the verifier finds, which also follows calls and computed addresses.
pub fn context_bytes(code: &Code) -> usize {
    let end = code.functions.get(1).map_or(code.insns.len(), |next| next.insn_index as usize);
    let mut holders = Holders { registers: Registers::one(1), slots: BTreeSet::new() };
    let mut insns = code.insns.iter().take(end);
    let mut bytes = 0;
    while let Some(insn) = insns.next() {
        bytes = bytes.max(holders.reach(*insn).unwrap_or(0));
        holders.follow(*insn);
        if insn.is_ldimm64() {
            insns.next();
        }
    }
    bytes
}

/// Registers and stack slots that hold the context's address.
struct Holders {
    registers: Registers,
    slots: BTreeSet<i16>,
}

impl Holders {
    /// End of the context bytes accessed by an instruction.
    fn reach(&self, insn: Insn) -> Option<usize> {
        let address = match insn.class() {
            op::LDX => insn.src(),
            op::ST | op::STX => insn.dst(),
            _ => return None,
        };
        let width = match insn.opcode & op::SIZE {
            op::B => 1,
            op::H => 2,
            op::W => 4,
            _ => 8,
        };
        let begin = usize::try_from(insn.offset).ok()?;
        self.registers.has(address).then_some(begin + width)
    }

    fn follow(&mut self, insn: Insn) {
        let (dst, src) = (insn.dst(), insn.src());
        let is_whole = insn.opcode & op::SIZE == op::DW;
        let has_context = match insn.class() {
            op::STX if dst == Registers::FRAME_POINTER => {
                match is_whole && self.registers.has(src) {
                    true => self.slots.insert(insn.offset),
                    false => self.slots.remove(&insn.offset),
                };
                return;
            }
            op::ST | op::STX | op::JMP32 => return,
            op::JMP if insn.opcode == op::CALL => {
                self.registers = self.registers.without(Registers::CALLER_SAVED);
                return;
            }
            op::JMP => return,
            op::LDX if src == Registers::FRAME_POINTER => {
                is_whole && self.slots.contains(&insn.offset)
            }
            op::ALU64 if insn.opcode == op::ALU64 | op::MOV | op::X => {
                insn.offset == 0 && self.registers.has(src)
            }
            _ => false,
        };
        let one = Registers::one(dst);
        let others = self.registers.without(one);
        self.registers = if has_context { others.or(one) } else { others };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_of_a_context() {
        let load = |dst, src, offset| Insn::new(0x79, dst, src, offset, 0);
        let store = |dst, src, offset| Insn::new(0x7b, dst, src, offset, 0);
        let copy = |dst, src| Insn::new(0xbf, dst, src, 0, 0);
        let call = Insn::new(op::CALL, 0, 0, 0, 5);
        let wide = [Insn::new(op::LDIMM64, 1, 0, 0, 0), Insn::default()];
        let check = |insns: &[Insn], expected| {
            let code = Code { insns: insns.to_vec(), ..Code::default() };
            assert_eq!(context_bytes(&code), expected, "{insns:?}");
        };
        check(&[], 0);
        check(&[load(0, 1, 8)], 16);
        check(&[Insn::new(0x71, 0, 1, 8, 0)], 9);
        check(&[load(0, 2, 8)], 0);
        check(&[copy(6, 1), call, load(0, 6, 24)], 32);
        check(&[call, load(0, 1, 24)], 0);
        check(&[store(10, 1, -8), call, load(3, 10, -8), load(0, 3, 0)], 8);
        check(&[store(10, 1, -8), store(10, 0, -8), load(3, 10, -8), load(0, 3, 0)], 0);
        check(&[store(1, 2, 16)], 24);
        check(&[wide[0], wide[1], load(0, 1, 8)], 0);
        // Only the entry function gets the context in r1.
        let function = |insn_index| FunctionInfo { insn_index, name: String::new(), type_id: None };
        let functions = vec![function(0), function(1)];
        let code =
            Code { insns: vec![load(0, 1, 0), load(0, 1, 64)], functions, lines: Vec::new() };
        assert_eq!(context_bytes(&code), 8);
    }
}

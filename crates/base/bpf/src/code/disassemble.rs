//! Bytecode as text, before the kernel has seen it: for listings, messages and golden files.
//!
//! The syntax is that of LLVM and of the verifier's log (kernel/bpf/disasm.c, Linux 6.18), which differ
//! little. Where they do, or where both hide something, the clearer one was taken: numbers are decimal
//! but for those of 64 bits, helpers have their names, references to maps and functions are written as
//! such. Each text stands for one instruction only: what uses a field that its operation does not
//! have is shown as raw bytes.

mod arithmetic;
mod jump;
mod memory;
#[cfg(test)]
mod tests;

use std::fmt;

use super::{Code, FunctionInfo, Insn, op};

/// A program as text, an instruction a line.
#[derive(Debug, Clone, Copy)]
pub struct Listing<'a>(&'a Code);

/// An instruction of a [`Listing`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<'a> {
    /// Its index; that of its first half, if it is a `ldimm64`.
    pub insn_index: usize,
    /// How many places it takes: 2 for a `ldimm64`, else 1.
    pub insn_count: usize,
    /// Its text. Jumps also tell the index where they go: `goto +3 <7>`.
    pub text: String,
    pub function: Option<&'a FunctionInfo>,
}

impl<'a> Listing<'a> {
    pub fn new(code: &'a Code) -> Self {
        Self(code)
    }

    /// The instructions in their order.
    pub fn iter(self) -> impl Iterator<Item = Listed<'a>> {
        let mut index = 0;
        std::iter::from_fn(move || {
            let listed = self.at(index)?;
            index += listed.insn_count;
            Some(listed)
        })
    }

    /// The instruction at `index`, or `None` behind the last one. The second half of a `ldimm64` is
    /// raw bytes to those who ask for it.
    pub fn at(self, index: usize) -> Option<Listed<'a>> {
        let insn = *self.0.insns.get(index)?;
        let next = self.0.insns.get(index + 1).copied();
        Some(Listed {
            insn_index: index,
            insn_count: if wide_immediate(insn, next).is_some() { 2 } else { 1 },
            text: text(insn, next, Place(Some((self.0, index)))),
            function: function_at(self.0, index),
        })
    }
}

impl fmt::Display for Listing<'_> {
    /// Each function begins with its name and a colon.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Listed { insn_index, text, function, .. } in self.iter() {
            if let Some(function) = function {
                writeln!(f, "{}:", function.name)?;
            }
            writeln!(f, "{insn_index:5}: {text}")?;
        }
        Ok(())
    }
}

/// The code that an instruction stands in, and its index there.
#[derive(Clone, Copy)]
struct Place<'a>(Option<(&'a Code, usize)>);

impl<'a> Place<'a> {
    /// Index of the instruction that lies `distance` behind the next one, if it exists.
    fn target(self, distance: i32) -> Option<usize> {
        let (code, index) = self.0?;
        let target = i64::try_from(index).ok()?.checked_add(1)?.checked_add(distance.into())?;
        usize::try_from(target).ok().filter(|&target| target < code.insns.len())
    }

    /// Name of the function that begins `distance` behind the next instruction.
    fn function(self, distance: i32) -> Option<&'a str> {
        let (code, _) = self.0?;
        let function = function_at(code, self.target(distance)?)?;
        Some(function.name.as_str()).filter(|name| !name.is_empty())
    }
}

fn function_at(code: &Code, index: usize) -> Option<&FunctionInfo> {
    let index = u32::try_from(index).ok()?;
    let position = code.functions.binary_search_by_key(&index, |function| function.insn_index);
    code.functions.get(position.ok()?)
}

/// The text of one instruction, such as `r1 = *(u32 *)(r6 + 8)`. A `ldimm64` takes two; `next` is the
/// instruction behind it, and needed for nothing else. What is not an instruction becomes `.insn 0x` and
/// its eight bytes as they lie in memory, the operation code first.
fn text(insn: Insn, next: Option<Insn>, place: Place<'_>) -> String {
    let known = match insn.class() {
        op::ALU | op::ALU64 => arithmetic::text(insn),
        op::JMP | op::JMP32 => jump::text(insn, place),
        op::LD if insn.is_ldimm64() => load_64(insn, next, place),
        _ => memory::text(insn),
    };
    known.unwrap_or_else(|| {
        let bytes = insn.to_bytes().map(|byte| format!("{byte:02x}"));
        format!(".insn 0x{}", bytes.concat())
    })
}

/// The two immediates of a `ldimm64`, if both halves are as they should be.
fn wide_immediate(insn: Insn, next: Option<Insn>) -> Option<(i32, i32)> {
    let next = next?;
    let is_second_half = next.opcode == 0 && next.registers == 0 && next.offset == 0;
    let is_first_half = insn.is_ldimm64() && insn.offset == 0 && register(insn.dst()).is_some();
    (is_first_half && is_second_half).then_some((insn.immediate, next.immediate))
}

/// `r1 = …` for all that a `ldimm64` can load.
fn load_64(insn: Insn, next: Option<Insn>, place: Place<'_>) -> Option<String> {
    let (low, high) = wide_immediate(insn, next)?;
    let map = |kind| format!("map[{kind}:{low}]");
    let value = match (insn.src(), high) {
        (0, _) => {
            let (low, high) = (u64::from(low.cast_unsigned()), u64::from(high.cast_unsigned()));
            format!("{:#x} ll", high << 32 | low)
        }
        (op::PSEUDO_MAP_FD, 0) => map("fd"),
        (op::PSEUDO_MAP_INDEX, 0) => map("index"),
        (op::PSEUDO_MAP_VALUE, _) => format!("{}[0]{}", map("fd"), signed(high)),
        (op::PSEUDO_MAP_INDEX_VALUE, _) => format!("{}[0]{}", map("index"), signed(high)),
        (op::PSEUDO_BTF_ID, 0) => format!("ksym[btf:{low}]"),
        (op::PSEUDO_BTF_ID, module_fd) => format!("ksym[btf:{low} in fd:{module_fd}]"),
        (op::PSEUDO_FUNC, 0) => match place.function(low) {
            Some(name) => format!("func {name}"),
            None => format!("func {low:+}"),
        },
        _ => return None,
    };
    Some(format!("r{} = {value}", insn.dst()))
}

/// The number of a register that bytecode can name.
fn register(number: u8) -> Option<u8> {
    (number <= 10).then_some(number)
}

/// An offset as it is added to something: ` + 8`, ` - 8`.
fn signed(offset: i32) -> String {
    let sign = if offset < 0 { '-' } else { '+' };
    format!(" {sign} {}", offset.unsigned_abs())
}

//! Disassembles bytecode before it is loaded: for listings, messages and golden files.
//!
//! The syntax is that of LLVM and of the verifier log (kernel/bpf/disasm.c, Linux 6.18), which are
//! similar. Where they differ, or both hide something, this uses the clearer form: numbers are
//! decimal except 64-bit ones, helpers have names, and references to maps and functions are marked.
//! Each text is unambiguous: instructions that use undefined fields are shown as raw bytes.

mod arithmetic;
mod jump;
mod memory;
#[cfg(test)]
mod tests;

use std::fmt;

use super::{Code, FunctionInfo, Insn, op};

/// Listing of a program, one instruction per line.
#[derive(Debug, Clone, Copy)]
pub struct Listing<'a>(&'a Code);

/// An instruction of a [`Listing`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<'a> {
    /// Its index; that of the first half for a `ldimm64`.
    pub insn_index: usize,
    /// Number of instruction slots: 2 for a `ldimm64`, else 1.
    pub insn_count: usize,
    /// Its text. Jumps include the target index: `goto +3 <7>`.
    pub text: String,
    pub function: Option<&'a FunctionInfo>,
}

impl<'a> Listing<'a> {
    pub fn new(code: &'a Code) -> Self {
        Self(code)
    }

    /// The instructions in order.
    pub fn iter(self) -> impl Iterator<Item = Listed<'a>> {
        let mut index = 0;
        std::iter::from_fn(move || {
            let listed = self.at(index)?;
            index += listed.insn_count;
            Some(listed)
        })
    }

    /// The instruction at `index`, or `None` past the end. The second half of a `ldimm64` is shown as raw bytes.
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

/// The code that contains an instruction, and its index.
#[derive(Clone, Copy)]
struct Place<'a>(Option<(&'a Code, usize)>);

impl<'a> Place<'a> {
    /// Index of the instruction `distance` after the next one, if it exists.
    fn target(self, distance: i32) -> Option<usize> {
        let (code, index) = self.0?;
        let target = i64::try_from(index).ok()?.checked_add(1)?.checked_add(distance.into())?;
        usize::try_from(target).ok().filter(|&target| target < code.insns.len())
    }

    /// Name of the function that begins `distance` after the next instruction.
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

/// Text of one instruction, such as `r1 = *(u32 *)(r6 + 8)`. `next` is the following instruction,
/// used only for a `ldimm64`. Invalid instructions become `.insn 0x` and their eight bytes in
/// memory order, operation code first.
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

/// The two immediates of a `ldimm64`, if both halves are valid.
fn wide_immediate(insn: Insn, next: Option<Insn>) -> Option<(i32, i32)> {
    let next = next?;
    let is_second_half = next.opcode == 0 && next.registers == 0 && next.offset == 0;
    let is_first_half = insn.is_ldimm64() && insn.offset == 0 && register(insn.dst()).is_some();
    (is_first_half && is_second_half).then_some((insn.immediate, next.immediate))
}

/// `r1 = …` for all kinds of `ldimm64`.
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

/// Number of a valid register.
fn register(number: u8) -> Option<u8> {
    (number <= 10).then_some(number)
}

/// A signed offset as a summand: ` + 8`, ` - 8`.
fn signed(offset: i32) -> String {
    let sign = if offset < 0 { '-' } else { '+' };
    format!(" {sign} {}", offset.unsigned_abs())
}

//! Converts a row of call frame information, as computed by gimli, to a [`Rule`].

use gimli::{
    CfaRule, EndianSlice, Register, RegisterRule, RunTimeEndian, UnwindExpression, UnwindSection,
    UnwindTableRow, Vendor,
};

use wingbeat_profiler_abi::unwind::{Cfa, FramePointer, ReturnAddress, Rule};

pub(crate) type Bytes<'a> = EndianSlice<'a, RunTimeEndian>;

/// Registers of an architecture by DWARF number, from its psABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Registers {
    pub(crate) sp: u8,
    pub(crate) fp: u8,
    pub(crate) ra: u8,
    /// Number of registers that a walker supports.
    pub(crate) general: u8,
    /// A call leaves its return address in a register and not in memory.
    pub(crate) has_link: bool,
}

impl Registers {
    pub(crate) const X86_64: Self = Self { sp: 7, fp: 6, ra: 16, general: 16, has_link: false };
    pub(crate) const AARCH64: Self = Self { sp: 31, fp: 29, ra: 30, general: 32, has_link: true };

    /// Vendor of the instruction set extensions. aarch64's says that the return address is signed from there on,
    /// which does not matter, since a walk removes any signature.
    pub(crate) fn vendor(self) -> Vendor {
        if self == Self::AARCH64 { Vendor::AArch64 } else { Vendor::Default }
    }
}

/// The rule of a row of `section`; `is_signal` if its entry has a signal frame.
pub(crate) fn rule_of<'a, S: UnwindSection<Bytes<'a>>>(
    row: &UnwindTableRow<usize>,
    section: &S,
    registers: Registers,
    is_signal: bool,
) -> Rule {
    let register = |number: u8| row.register(Register(u16::from(number)));
    let ra = register(registers.ra);
    if matches!(ra, Some(RegisterRule::Undefined)) {
        return Rule::END;
    }
    let text = |expression: &UnwindExpression<usize>| {
        expression.get(section).map(|expression| expression.0.slice()).ok()
    };
    let has_own_sp = !matches!(register(registers.sp), None | Some(RegisterRule::SameValue));
    let rule = match row.cfa() {
        CfaRule::Expression(_) if is_signal => return Rule::SIGNAL,
        CfaRule::Expression(expression) => {
            text(expression).and_then(|text| cfa_of_expression(text, registers))
        }
        CfaRule::RegisterAndOffset { register, offset } => {
            based(Cfa::Register, register.0, *offset, 0, registers)
        }
    };
    // The caller's stack pointer is not the canonical frame address: at the exit of `longjmp`.
    let Some(rule) = rule.filter(|_| !has_own_sp) else { return Rule::UNSUPPORTED };
    let (ra, return_words) = match ra {
        Some(RegisterRule::Offset(offset)) => match words(offset) {
            Some(words) => (ReturnAddress::Saved, words),
            None => return Rule::UNSUPPORTED,
        },
        Some(RegisterRule::Register(Register(number))) if number < u16::from(registers.general) => {
            (ReturnAddress::Register, number as i16)
        }
        None | Some(RegisterRule::SameValue) if registers.has_link => {
            (ReturnAddress::Register, i16::from(registers.ra))
        }
        _ => return Rule::UNSUPPORTED,
    };
    let (fp, fp_words) = match register(registers.fp) {
        None | Some(RegisterRule::SameValue) => (FramePointer::Same, 0),
        Some(RegisterRule::Offset(offset)) => match words(offset) {
            Some(words) => (FramePointer::Saved, words),
            None => (FramePointer::Lost, 0),
        },
        Some(RegisterRule::Expression(expression)) => text(&expression)
            .and_then(|text| saved_by_expression(text, registers))
            .unwrap_or((FramePointer::Lost, 0)),
        Some(_) => (FramePointer::Lost, 0),
    };
    Rule { ra, return_words, fp, fp_words, ..rule }
}

fn based(cfa: Cfa, register: u16, offset: i64, addend: i64, registers: Registers) -> Option<Rule> {
    let register = u8::try_from(register).ok().filter(|&number| number < registers.general)?;
    let (offset, addend) = (offset.try_into().ok()?, addend.try_into().ok()?);
    Some(Rule { cfa, register, offset, addend, ..Rule::GAP })
}

/// Converts to whole words, if a rule can hold them.
fn words(bytes: i64) -> Option<i16> {
    (bytes % 8 == 0).then(|| i16::try_from(bytes / 8).ok()).flatten()
}

/// DWARF 5, section 7.7.1.
mod op {
    pub(super) const DEREF: u8 = 0x06;
    pub(super) const PLUS: u8 = 0x22;
    pub(super) const PLUS_UCONST: u8 = 0x23;
    pub(super) const LIT0: u8 = 0x30;
    pub(super) const LIT31: u8 = 0x4f;
    pub(super) const BREG0: u8 = 0x70;
    pub(super) const BREG31: u8 = 0x8f;
}

/// Expression of linkers for the procedure linkage table (`elf_x86_64_eh_frame_plt` of binutils'
/// bfd/elf64-x86-64.c): `sp + 8 + ((pc & 15) >= n) * 8`, with n as the tenth byte.
const PLT: [u8; 11] = [0x77, 8, 0x80, 0, 0x3f, 0x1a, op::LIT0, 0x2a, 0x33, 0x24, op::PLUS];
const PLT_BYTE: usize = 6;

/// The canonical frame address from one of the expressions used by compilers and assembly.
fn cfa_of_expression(text: &[u8], registers: Registers) -> Option<Rule> {
    if let Some(start) = plt_byte(text)
        && registers == Registers::X86_64
    {
        let register = registers.sp;
        return Some(Rule { cfa: Cfa::Plt, register, offset: start, ..Rule::GAP });
    }
    let (register, offset, rest) = register_and_offset(text)?;
    let (is_memory, rest) = match rest {
        [op::DEREF, rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let addend = match rest {
        [] => 0,
        [op::PLUS_UCONST, rest @ ..] => match uleb128(rest)? {
            (addend, []) => i64::try_from(addend).ok()?,
            _ => return None,
        },
        [literal @ op::LIT0..=op::LIT31, op::PLUS] => i64::from(literal - op::LIT0),
        _ => return None,
    };
    if is_memory {
        return based(Cfa::Memory, register, offset, addend, registers);
    }
    based(Cfa::Register, register, offset.checked_add(addend)?, 0, registers)
}

fn plt_byte(text: &[u8]) -> Option<i32> {
    let literal = *text.get(PLT_BYTE)?;
    let mut expected = PLT;
    expected[PLT_BYTE] = literal;
    let is_plt = text == expected && (op::LIT0..op::LIT0 + 16).contains(&literal);
    is_plt.then(|| i32::from(literal - op::LIT0))
}

/// The frame pointer's location from an expression: in functions that align their stack.
fn saved_by_expression(text: &[u8], registers: Registers) -> Option<(FramePointer, i16)> {
    let (register, offset, rest) = register_and_offset(text)?;
    let fp = match u8::try_from(register).ok()? {
        number if number == registers.fp => FramePointer::SavedAtFp,
        number if number == registers.sp => FramePointer::SavedAtSp,
        _ => return None,
    };
    rest.is_empty().then_some((fp, words(offset)?))
}

/// `DW_OP_breg n`: a register, an offset, and the remaining operations.
fn register_and_offset(text: &[u8]) -> Option<(u16, i64, &[u8])> {
    let (&operation, rest) = text.split_first()?;
    let is_register = (op::BREG0..=op::BREG31).contains(&operation);
    let (offset, rest) = is_register.then(|| sleb128(rest)).flatten()?;
    Some((u16::from(operation - op::BREG0), offset, rest))
}

/// A LEB128 number's bits, their count, its last byte, and the remaining bytes.
fn leb128(bytes: &[u8]) -> Option<(u64, u32, u8, &[u8])> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().enumerate().take(9) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, 7 * (index as u32 + 1), byte, &bytes[index + 1..]));
        }
    }
    None
}

fn uleb128(bytes: &[u8]) -> Option<(u64, &[u8])> {
    leb128(bytes).map(|(value, _, _, rest)| (value, rest))
}

fn sleb128(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (value, bits, last, rest) = leb128(bytes)?;
    let sign = if last & 0x40 != 0 { u64::MAX << bits } else { 0 };
    Some(((value | sign) as i64, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_the_canonical_frame_address() {
        let check = |text: &[u8], expected: &str| {
            let rule = cfa_of_expression(text, Registers::X86_64);
            let found = rule.map(|rule| format!("{rule:?}")).unwrap_or_default();
            assert_eq!(found.trim_end_matches(" ra=c+0"), expected, "{text:02x?}");
        };
        let plt = |literal| {
            let mut text = PLT;
            text[PLT_BYTE] = literal;
            text
        };
        check(&plt(0x3b), "cfa=plt11");
        check(&plt(0x3a), "cfa=plt10");
        check(&plt(0x4f), "");
        // Aligned stacks: `*(rbp - 40)`, `*(rsp + 8) + 8`.
        check(&[0x76, 0x58, 0x06], "cfa=*(r6-40)+0");
        check(&[0x77, 0x08, 0x06, 0x23, 0x08], "cfa=*(r7+8)+8");
        check(&[0x77, 0x08, 0x06, 0x38, 0x22], "cfa=*(r7+8)+8");
        check(&[0x77, 0x90, 0x01, 0x23, 0x08], "cfa=r7+152");
        check(&[0x77, 0x90], "");
        check(&[0x80, 0x00, 0x06], "");
        check(&[0x77, 0x08, 0x06, 0x06], "");
        check(&[], "");
        check(&[0x77, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0x06], "");
    }

    #[test]
    fn expressions_of_the_frame_pointer() {
        let check = |text: &[u8], expected| {
            assert_eq!(saved_by_expression(text, Registers::X86_64), expected, "{text:02x?}");
        };
        check(&[0x76, 0x00], Some((FramePointer::SavedAtFp, 0)));
        check(&[0x76, 0x78], Some((FramePointer::SavedAtFp, -1)));
        check(&[0x77, 0xf8, 0x00], Some((FramePointer::SavedAtSp, 15)));
        check(&[0x77, 0x04], None);
        check(&[0x70, 0x00], None);
        check(&[0x76, 0x00, 0x06], None);
    }
}

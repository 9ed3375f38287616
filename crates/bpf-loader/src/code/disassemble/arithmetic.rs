//! Text of arithmetic: `r1 += 2`, `w1 = (s8)w2`, `r1 = be16 r1`.

use super::{Insn, op, register};

/// `None` for invalid operations.
pub(super) fn text(insn: Insn) -> Option<String> {
    let letter = if insn.class() == op::ALU64 { 'r' } else { 'w' };
    let dst = format!("{letter}{}", register(insn.dst())?);
    match insn.opcode & op::OPERATION {
        op::MOV => moved(insn, letter, &dst),
        op::END => swapped(insn),
        op::NEG => {
            let is_plain =
                insn.opcode & op::X == 0 && (insn.src(), insn.offset, insn.immediate) == (0, 0, 0);
            is_plain.then(|| format!("{dst} = -{dst}"))
        }
        operation => {
            let operator = operator(operation, insn.offset)?;
            Some(format!("{dst} {operator} {}", operand(insn, letter)?))
        }
    }
}

fn operator(operation: u8, offset: i16) -> Option<&'static str> {
    let (unsigned, signed) = match operation {
        op::ADD => ("+=", None),
        op::SUB => ("-=", None),
        op::MUL => ("*=", None),
        op::DIV => ("/=", Some("s/=")),
        op::OR => ("|=", None),
        op::AND => ("&=", None),
        op::LSH => ("<<=", None),
        op::RSH => (">>=", None),
        op::MOD => ("%=", Some("s%=")),
        op::XOR => ("^=", None),
        op::ARSH => ("s>>=", None),
        _ => return None,
    };
    match offset {
        0 => Some(unsigned),
        1 => signed,
        _ => None,
    }
}

/// Second operand: a register or the immediate; the other one must be zero.
pub(super) fn operand(insn: Insn, letter: char) -> Option<String> {
    if insn.opcode & op::X != 0 {
        let register = register(insn.src())?;
        (insn.immediate == 0).then(|| format!("{letter}{register}"))
    } else {
        (insn.src() == 0).then(|| insn.immediate.to_string())
    }
}

/// The offset of a move selects its kind.
fn moved(insn: Insn, letter: char, dst: &str) -> Option<String> {
    let is_wide = letter == 'r';
    if insn.opcode & op::X == 0 || insn.offset == 0 {
        return (insn.offset == 0).then_some(format!("{dst} = {}", operand(insn, letter)?));
    }
    if insn.offset == op::ADDR_SPACE_CAST && is_wide {
        let [to, from] =
            [insn.immediate.cast_unsigned() >> 16, insn.immediate.cast_unsigned() & 0xffff];
        return Some(format!("{dst} = addr_space_cast(r{}, {to}, {from})", register(insn.src())?));
    }
    let source = operand(insn, letter)?;
    match insn.offset {
        8 | 16 => Some(format!("{dst} = (s{}){source}", insn.offset)),
        32 if is_wide => Some(format!("{dst} = (s32){source}")),
        _ => None,
    }
}

/// Byte order: to little or big endian in the 32-bit class, unconditionally in the 64-bit class.
fn swapped(insn: Insn) -> Option<String> {
    let name = match (insn.class(), insn.opcode & op::X) {
        (op::ALU, 0) => "le",
        (op::ALU, _) => "be",
        (_, 0) => "bswap",
        _ => return None,
    };
    let (dst, bits) = (insn.dst(), insn.immediate);
    let is_plain = (insn.src(), insn.offset) == (0, 0) && matches!(bits, 16 | 32 | 64);
    is_plain.then(|| format!("r{dst} = {name}{bits} r{dst}"))
}

//! Arithmetic and comparisons of the interpreter, per RFC 9669.

use wingbeat_bpf_loader::code::{Insn, op};

use crate::Step;

pub(super) fn sign_extended(value: u64, bits: u32) -> u64 {
    let unused = 64 - bits;
    ((value << unused) as i64 >> unused) as u64
}

/// Result of an arithmetic instruction.
pub(super) fn compute(insn: Insn, old: u64, operand: u64) -> Step<u64> {
    let is_wide = insn.class() == op::ALU64;
    let operation = insn.opcode & op::OPERATION;
    let value = match operation {
        op::END => return swap(insn, old),
        op::MOV if insn.opcode & op::X != 0 && insn.offset != 0 => {
            sign_extended(operand, u32::from(insn.offset.unsigned_abs()))
        }
        _ if is_wide => compute_64(operation, insn.offset == 1, old, operand)?,
        _ => u64::from(compute_32(operation, insn.offset == 1, old as u32, operand as u32)?),
    };
    Ok(if is_wide { value } else { u64::from(value as u32) })
}

fn compute_64(operation: u8, signed: bool, old: u64, operand: u64) -> Step<u64> {
    let (a, b) = (old as i64, operand as i64);
    Ok(match operation {
        op::ADD => old.wrapping_add(operand),
        op::SUB => old.wrapping_sub(operand),
        op::MUL => old.wrapping_mul(operand),
        op::DIV if operand == 0 => 0,
        op::DIV if signed => a.wrapping_div(b) as u64,
        op::DIV => old / operand,
        op::MOD if operand == 0 => old,
        op::MOD if signed => a.wrapping_rem(b) as u64,
        op::MOD => old % operand,
        op::OR => old | operand,
        op::AND => old & operand,
        op::XOR => old ^ operand,
        op::LSH => old.wrapping_shl(operand as u32),
        op::RSH => old.wrapping_shr(operand as u32),
        op::ARSH => a.wrapping_shr(operand as u32) as u64,
        op::NEG => old.wrapping_neg(),
        op::MOV => operand,
        _ => return Err("an unknown operation".into()),
    })
}

fn compute_32(operation: u8, signed: bool, old: u32, operand: u32) -> Step<u32> {
    let (a, b) = (old as i32, operand as i32);
    Ok(match operation {
        op::DIV if operand == 0 => 0,
        op::DIV if signed => a.wrapping_div(b) as u32,
        op::MOD if operand == 0 => old,
        op::MOD if signed => a.wrapping_rem(b) as u32,
        op::LSH => old.wrapping_shl(operand),
        op::RSH => old.wrapping_shr(operand),
        op::ARSH => a.wrapping_shr(operand) as u32,
        _ => compute_64(operation, signed, u64::from(old), u64::from(operand))? as u32,
    })
}

fn swap(insn: Insn, old: u64) -> Step<u64> {
    // The host is little-endian: `to little` only truncates.
    let is_swapped = insn.class() == op::ALU64 || insn.opcode & op::X != 0;
    Ok(match (insn.immediate, is_swapped) {
        (16, true) => u64::from((old as u16).swap_bytes()),
        (32, true) => u64::from((old as u32).swap_bytes()),
        (64, true) => old.swap_bytes(),
        (16, false) => u64::from(old as u16),
        (32, false) => u64::from(old as u32),
        (64, false) => old,
        _ => return Err("an unknown width".into()),
    })
}

/// Evaluates the condition of a jump.
pub(super) fn holds(insn: Insn, left: u64, right: u64) -> Step<bool> {
    let (left, right) = match insn.class() {
        op::JMP => (left, right),
        _ => (u64::from(left as u32), u64::from(right as u32)),
    };
    let signed = |value: u64| match insn.class() {
        op::JMP => value as i64,
        _ => i64::from(value as i32),
    };
    let (a, b) = (signed(left), signed(right));
    Ok(match insn.opcode & op::OPERATION {
        op::JEQ => left == right,
        op::JNE => left != right,
        op::JGT => left > right,
        op::JGE => left >= right,
        op::JLT => left < right,
        op::JLE => left <= right,
        op::JSET => left & right != 0,
        op::JSGT => a > b,
        op::JSGE => a >= b,
        op::JSLT => a < b,
        op::JSLE => a <= b,
        _ => return Err("an unknown jump".into()),
    })
}

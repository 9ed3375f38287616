//! Patches an instruction with a relocated value.

use super::value::{Outcome, Resized};
use crate::code::{Insn, op};

/// Number of a nonexistent helper ("bad relo"), which marks accesses that the target lacks, as in
/// libbpf: the verifier rejects it if it is reachable.
pub(crate) const UNRESOLVED: i32 = 0x0bad_2310;

/// Changes the instruction at `index`.
pub(super) fn patch(insns: &mut [Insn], index: usize, outcome: &Outcome) -> Result<(), String> {
    let Some([insn, rest @ ..]) = insns.get_mut(index..) else {
        return Err("it is outside of the function".into());
    };
    match insn.class() {
        op::ALU | op::ALU64 if insn.opcode & op::X == 0 => {
            let held = i64::from(insn.immediate).cast_unsigned();
            expect(outcome, |old| old == held)?;
            match outcome.new {
                Some(new) => insn.immediate = low(new),
                None => *insn = unresolved(),
            }
        }
        op::LDX | op::ST | op::STX => {
            let held = i64::from(insn.offset).cast_unsigned();
            expect(outcome, |old| old == held)?;
            match (outcome.new, &outcome.resized) {
                (Some(new), None) => insn.offset = offset(new)?,
                (Some(new), Some(resized)) if resized.is_safe => {
                    (insn.opcode, insn.offset) = (resize(insn.opcode, resized)?, offset(new)?);
                }
                // It would read something other than the program expects.
                _ => *insn = unresolved(),
            }
        }
        op::LD if insn.is_ldimm64() => {
            let [next, ..] = rest else { return Err("it ends within an instruction".into()) };
            let held = u64::from(next.immediate.cast_unsigned()) << 32
                | u64::from(insn.immediate.cast_unsigned());
            expect(outcome, |old| old == held)?;
            match outcome.new {
                Some(new) => (insn.immediate, next.immediate) = (low(new), low(new >> 32)),
                None => (*insn, *next) = (unresolved(), unresolved()),
            }
        }
        _ => return Err("the instruction is not of a kind that can be relocated".into()),
    }
    Ok(())
}

/// Checks that the instruction contains the compiler's value for the object's types.
fn expect(outcome: &Outcome, is_held: impl Fn(u64) -> bool) -> Result<(), String> {
    match (outcome.new, outcome.old) {
        (Some(_), Some(old)) if !is_held(old) => {
            Err(format!("the instruction does not hold {old}, the value by the object's types"))
        }
        _ => Ok(()),
    }
}

fn low(value: u64) -> i32 {
    (value as u32).cast_signed()
}

fn offset(value: u64) -> Result<i16, String> {
    i16::try_from(value)
        .map_err(|_| format!("its offset, {value}, does not fit into an instruction"))
}

fn unresolved() -> Insn {
    Insn::new(op::CALL, 0, 0, 0, UNRESOLVED)
}

/// Changes the size of a load or store.
fn resize(opcode: u8, resized: &Resized) -> Result<u8, String> {
    let size = |bytes: u32| match bytes {
        8 => Ok(op::DW),
        4 => Ok(op::W),
        2 => Ok(op::H),
        1 => Ok(op::B),
        other => Err(format!("no instruction loads {other} bytes")),
    };
    if opcode & op::SIZE != size(resized.old)? {
        return Err(format!(
            "the instruction does not take the {} bytes of the field",
            resized.old
        ));
    }
    Ok(opcode & !op::SIZE | size(resized.new)?)
}

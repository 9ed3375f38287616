//! Text of jumps, calls and the return: `if r1 > 5 goto +3`, `call bpf_map_lookup_elem`.

use super::{Insn, Place, arithmetic::operand, op, register};
use crate::helpers;

/// `None` for invalid operations.
pub(super) fn text(insn: Insn, place: Place<'_>) -> Option<String> {
    let registers = (insn.dst(), insn.src());
    let (offset, immediate) = (insn.offset, insn.immediate);
    match insn.opcode {
        op::JA if registers == (0, 0) && immediate == 0 => {
            Some(format!("goto {}", target(offset.into(), place)))
        }
        op::JA32 if registers == (0, 0) && offset == 0 => {
            Some(format!("gotol {}", target(immediate, place)))
        }
        op::JCOND if registers == (0, 0) && immediate == 0 => {
            Some(format!("may_goto {}", target(offset.into(), place)))
        }
        op::JAX if (insn.src(), offset, immediate) == (0, 0, 0) => {
            Some(format!("gotox r{}", register(insn.dst())?))
        }
        op::EXIT if registers == (0, 0) && (offset, immediate) == (0, 0) => Some("exit".to_owned()),
        op::CALL if insn.dst() == 0 => call(insn, place),
        op::CALLX if (insn.src(), offset, immediate) == (0, 0, 0) => {
            Some(format!("callx r{}", register(insn.dst())?))
        }
        _ => condition(insn, place),
    }
}

fn condition(insn: Insn, place: Place<'_>) -> Option<String> {
    let letter = if insn.class() == op::JMP { 'r' } else { 'w' };
    let comparison = match insn.opcode & op::OPERATION {
        op::JEQ => "==",
        op::JGT => ">",
        op::JGE => ">=",
        op::JSET => "&",
        op::JNE => "!=",
        op::JSGT => "s>",
        op::JSGE => "s>=",
        op::JLT => "<",
        op::JLE => "<=",
        op::JSLT => "s<",
        op::JSLE => "s<=",
        _ => return None,
    };
    let (dst, right) = (register(insn.dst())?, operand(insn, letter)?);
    let target = target(insn.offset.into(), place);
    Some(format!("if {letter}{dst} {comparison} {right} goto {target}"))
}

fn call(insn: Insn, place: Place<'_>) -> Option<String> {
    let (number, module) = (insn.immediate, insn.offset);
    let callee = match (insn.src(), module) {
        (0, 0) => {
            let name = u32::try_from(number).ok().and_then(helpers::name);
            name.map_or_else(|| format!("helper#{number}"), str::to_owned)
        }
        (op::PSEUDO_CALL, 0) => match place.function(number) {
            Some(name) => name.to_owned(),
            None => target(number, place),
        },
        (op::PSEUDO_KFUNC_CALL, 0) => format!("kfunc#{number}"),
        // The offset selects the descriptor of a module's BTF from an array passed at load time.
        (op::PSEUDO_KFUNC_CALL, module) => format!("kfunc#{number} of module {module}"),
        _ => return None,
    };
    Some(format!("call {callee}"))
}

/// `+3`, and with the surrounding code also the target index: `+3 <7>`.
fn target(distance: i32, place: Place<'_>) -> String {
    match place.target(distance) {
        Some(index) => format!("{distance:+} <{index}>"),
        None => format!("{distance:+}"),
    }
}

//! Table and slot of a program's tail calls, if the code determines them.
//!
//! Compilers load table and slot right before the tail call. If they come from further away, the target is unknown.

use wingbeat_bpf_loader::code::{Code, Insn, Registers, op};

use super::{
    graph::{Graph, GraphError},
    registers::Effects,
};

/// Arguments of the helper (include/uapi/linux/bpf.h, Linux 6.18).
const TABLE: u8 = 2;
const SLOT: u8 = 3;

/// One tail call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jump {
    pub insn_index: usize,
    /// Index of the table among the object's maps, if known.
    pub table: Option<usize>,
    /// Slot of the table, if known.
    pub slot: Option<u32>,
}

/// The tail calls of a linked program, ascending. Fails if the verifier would reject the program.
pub fn jumps(code: &Code) -> Result<Vec<Jump>, GraphError> {
    if !code.insns.iter().copied().any(Insn::is_tail_call) {
        return Ok(Vec::new());
    }
    let graph = Graph::new(code, &|_| false)?;
    let found = graph.blocks.iter().filter_map(|block| {
        let insn_index = block.last;
        code.insns.get(insn_index).copied().filter(|insn| insn.is_tail_call())?;
        let before: Vec<usize> =
            (block.insns.start..insn_index).filter(|&index| !graph.is_second_half(index)).collect();
        let table = match origin(code, &before, TABLE) {
            Some(load) if load.is_ldimm64() && load.src() == op::PSEUDO_MAP_FD => {
                usize::try_from(load.immediate).ok()
            }
            _ => None,
        };
        let slot = origin(code, &before, SLOT).and_then(constant);
        Some(Jump { insn_index, table, slot })
    });
    Ok(found.collect())
}

/// The instruction that defines a register after the instructions at `before`.
fn origin(code: &Code, before: &[usize], register: u8) -> Option<Insn> {
    let mut register = register;
    for &index in before.iter().rev() {
        let insn = *code.insns.get(index)?;
        let writes = Effects::of(insn)?.writes;
        if !writes.has(register) {
            continue;
        }
        const COPY: u8 = op::ALU64 | op::MOV | op::X;
        match insn.opcode == COPY && insn.offset == 0 {
            true => register = insn.src(),
            // Several registers: a call.
            false => return Some(insn).filter(|_| writes == Registers::one(register)),
        }
    }
    None
}

/// The constant that an instruction loads into its register, if it fits a slot.
fn constant(insn: Insn) -> Option<u32> {
    const SET: u8 = op::ALU64 | op::MOV;
    const SET_32: u8 = op::ALU | op::MOV;
    match (insn.opcode, insn.src()) {
        (SET, _) => u32::try_from(insn.immediate).ok(),
        (SET_32, _) => Some(insn.immediate.cast_unsigned()),
        // The kernel uses 32 bits.
        (op::LDIMM64, 0) => Some(insn.immediate.cast_unsigned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wingbeat_bpf_testing::assemble::Assembler;

    #[derive(Clone, Copy)]
    enum Step {
        Table(u8),
        Number(u8, i32),
        Wide(u8, i32),
        Moved(u8, u8),
        Add(u8, i32),
        Call,
    }

    use Step::{Add, Call, Moved, Number, Table, Wide};

    fn take(it: &mut Assembler, step: Step) {
        _ = match step {
            Table(register) => it.load_double(register, op::PSEUDO_MAP_FD, 4, 0),
            Number(register, number) => it.mov(register, number),
            Wide(register, number) => it.load_double(register, 0, number, 0),
            Moved(to, from) => it.copy(to, from),
            Add(register, number) => it.add(register, number),
            Call => it.call(7),
        };
    }

    #[track_caller]
    fn check(build: impl FnOnce(&mut Assembler), expected: (Option<usize>, Option<u32>)) {
        let mut it = Assembler::new();
        it.copy(6, 1);
        build(&mut it);
        it.copy(1, 6).call(op::HELPER_TAIL_CALL).mov(0, 0).exit();
        let found = jumps(&it.finish()).expect("sound code");
        assert_eq!(found.iter().map(|it| (it.table, it.slot)).collect::<Vec<_>>(), [expected]);
    }

    #[test]
    fn tables_and_slots() {
        let straight = |steps: &[Step], expected| {
            check(|it| steps.iter().for_each(|step| take(it, *step)), expected);
        };
        straight(&[Table(2), Number(3, 7)], (Some(4), Some(7)));
        straight(&[Number(3, 7), Table(2)], (Some(4), Some(7)));
        straight(&[Wide(3, 9), Table(2)], (Some(4), Some(9)));
        // Through another register, which calls preserve.
        let kept = [Table(7), Number(8, 3), Call, Moved(2, 7), Moved(3, 8)];
        straight(&kept, (Some(4), Some(3)));
        // Results of a call, a load or a sum.
        straight(&[Table(2), Number(3, 7), Add(3, 1)], (Some(4), None));
        straight(&[Call, Moved(3, 0), Table(2)], (Some(4), None));
        straight(&[Number(3, 7), Call, Table(2)], (Some(4), None));
        straight(&[Number(2, 0), Number(3, 0)], (None, Some(0)));
        straight(&[Number(2, 0), Number(3, -1)], (None, None));
        // Reachable on two paths.
        let branch = |it: &mut Assembler| {
            let end = it.label();
            take(it, Table(2));
            it.mov(3, 1).branch(op::JEQ, 6, 0, end).mov(3, 2).bind(end);
        };
        check(branch, (None, None));
    }
}

//! Jump tables of `switch` statements: reads the addresses for an indirect jump.
//!
//! Compilers check the case number with a comparison just before, which gives the length of the table. A misread
//! table leads to contradictions, and so to no rules.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use rustc_hash::FxHashMap;

use super::flow::{Code, Visit};

/// Instructions before the jump to examine.
const BEFORE_MAX: usize = 48;
const CASES_MAX: u64 = 4096;

/// The instructions of a function visited so far.
pub(super) struct Visited<'a> {
    pub(super) visits: &'a FxHashMap<u64, Visit>,
    /// Predecessor from which each was first reached.
    pub(super) before: &'a FxHashMap<u64, u64>,
}

/// Format of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    /// 8-byte addresses, in programs at fixed addresses.
    Absolute(u64),
    /// 4-byte offsets from the table, whose address is in a register.
    Relative(Register),
}

/// The targets of a jump, if there is a table and all of them are code.
pub(super) fn targets(
    code: &Code<'_>,
    jump: &Instruction,
    visited: &Visited<'_>,
) -> Option<Vec<u64>> {
    let mut table = (jump.op0_kind() == OpKind::Memory
        && jump.memory_base() == Register::None
        && jump.memory_index_scale() == 8)
        .then(|| Table::Absolute(jump.memory_displacement64()));
    let (mut loaded, mut last) = (Vec::new(), None);
    let mut at = jump.ip();
    for _ in 0..BEFORE_MAX {
        at = *visited.before.get(&at)?;
        let instruction = code.instruction(at)?;
        match (instruction.mnemonic(), table) {
            (Mnemonic::Movsxd, None) if instruction.memory_index_scale() == 4 => {
                table = Some(Table::Relative(instruction.memory_base()));
            }
            (Mnemonic::Mov, None) if instruction.memory_index_scale() == 8 => {
                let is_absolute = instruction.memory_base() == Register::None;
                table = is_absolute.then(|| Table::Absolute(instruction.memory_displacement64()));
            }
            (Mnemonic::Lea, _) if instruction.is_ip_rel_memory_operand() => {
                loaded.push((instruction.op0_register(), instruction.ip_rel_memory_address()));
            }
            (Mnemonic::Cmp, _) if last.is_none() => {
                last = instruction.try_immediate(1).ok().filter(|last| *last < CASES_MAX);
                last?;
            }
            _ => {}
        }
        if table.is_some() && last.is_some() {
            break;
        }
    }
    let (table, last) = (table?, last?);
    let start = match table {
        Table::Absolute(start) => start,
        // The table's address may be loaded much earlier.
        Table::Relative(base) => match loaded.iter().find(|(register, _)| *register == base) {
            Some((_, start)) => *start,
            None => only_address(code, base, visited)?,
        },
    };
    (0..=last).map(|number| target(code, table, start, number)).collect()
}

fn target(code: &Code<'_>, table: Table, start: u64, number: u64) -> Option<u64> {
    let word = |bytes: u64| (code.read)(start.checked_add(number * bytes)?, bytes);
    let target = match table {
        Table::Absolute(_) => u64::from_le_bytes(word(8)?.try_into().ok()?),
        Table::Relative(_) => {
            let distance = i32::from_le_bytes(word(4)?.try_into().ok()?);
            start.wrapping_add_signed(distance.into())
        }
    };
    code.has(target).then_some(target)
}

/// The address that a function loads into a register, if there is only one: compilers load it before a loop.
fn only_address(code: &Code<'_>, register: Register, visited: &Visited<'_>) -> Option<u64> {
    let mut found = None;
    for at in visited.visits.keys() {
        let instruction = code.instruction(*at)?;
        if instruction.mnemonic() == Mnemonic::Lea
            && instruction.op0_register() == register
            && instruction.is_ip_rel_memory_operand()
        {
            let address = instruction.ip_rel_memory_address();
            if found.is_some_and(|found| found != address) {
                return None;
            }
            found = Some(address);
        }
    }
    found
}

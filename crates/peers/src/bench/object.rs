//! XDP programs of any length: object files with nothing but arithmetic, whose instructions are known.

use object::{
    Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
    write::{Object, Symbol, SymbolSection},
};
use wingbeat_bpf_loader::code::{Insn, op};

use crate::prelude::*;

pub(super) const PROGRAM: &str = "arithmetic";
/// Instructions of one round of the loop, its own two included.
const ROUND: u64 = 100;
const XDP_PASS: i32 = 2;
const MOV: u8 = op::ALU64 | op::MOV;
const ADD: u8 = op::ALU64 | op::ADD;
const JNE: u8 = op::JMP | op::JNE;
/// Registers of the additions, in turn. They do not wait for each other, so that an
/// instruction more costs a fraction of a cycle, always the same; and none has to be saved on entry.
const REGISTERS: [u8; 4] = [2, 3, 4, 5];
const COUNTER: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Work {
    rounds: u64,
    straight: u64,
}

impl Work {
    pub(super) fn of(instructions: u64) -> Self {
        // A loop of many rounds makes the verifier walk through each of them; it gives up at 1 million.
        let instructions = instructions.min(500_000);
        Self { rounds: instructions / ROUND, straight: instructions % ROUND }
    }

    pub(super) fn executed(self) -> u64 {
        let frame = REGISTERS.len() as u64 + 2;
        frame + self.rounds * ROUND + u64::from(self.rounds > 0) + self.straight
    }

    pub(super) fn object(self) -> Result<Vec<u8>> {
        let mut object = Object::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
        let section = object.add_section(Vec::new(), b"xdp".to_vec(), SectionKind::Text);
        let code = self.code();
        object.append_section_data(section, &code, 8);
        object.add_symbol(Symbol {
            name: PROGRAM.as_bytes().to_vec(),
            value: 0,
            size: code.len() as u64,
            kind: SymbolKind::Text,
            scope: SymbolScope::Dynamic,
            weak: false,
            section: SymbolSection::Section(section),
            flags: SymbolFlags::None,
        });
        let license = object.add_section(Vec::new(), b"license".to_vec(), SectionKind::Data);
        object.append_section_data(license, b"GPL\0", 1);
        object.write().context("cannot make an object file")
    }

    fn code(self) -> Vec<u8> {
        let mut code: Vec<Insn> = REGISTERS.map(|register| instruction(MOV, register, 0, 0)).into();
        if let Ok(rounds @ 1..) = i32::try_from(self.rounds) {
            code.push(instruction(MOV, COUNTER, 0, rounds));
            code.extend(additions(ROUND - 2));
            code.push(instruction(ADD, COUNTER, 0, -1));
            // Back over the whole round, this jump included.
            code.push(instruction(JNE, COUNTER, -(ROUND as i16), 0));
        }
        code.extend(additions(self.straight));
        code.extend([instruction(MOV, 0, 0, XDP_PASS), instruction(op::EXIT, 0, 0, 0)]);
        code.iter().flat_map(|insn| insn.to_bytes()).collect()
    }
}

fn additions(count: u64) -> impl Iterator<Item = Insn> {
    let registers = REGISTERS.iter().cycle().zip(0..count);
    registers.map(|(&register, _)| instruction(ADD, register, 0, 1))
}

fn instruction(opcode: u8, register: u8, offset: i16, immediate: i32) -> Insn {
    Insn::new(opcode, register, 0, offset, immediate)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the code as far as this generator uses the instruction set: how many instructions, and
    /// what is returned.
    fn run(code: &[u8]) -> (u64, i64) {
        let mut registers = [0_i64; 11];
        let (mut at, mut executed) = (0_i64, 0);
        loop {
            let insn =
                Insn::from_bytes(*code[8 * at as usize..].first_chunk().expect("an instruction"));
            let (register, immediate) = (usize::from(insn.dst()), i64::from(insn.immediate));
            executed += 1;
            at += 1;
            match insn.opcode {
                MOV => registers[register] = immediate,
                ADD => registers[register] += immediate,
                JNE if registers[register] != immediate => at += i64::from(insn.offset),
                JNE => {}
                op::EXIT => return (executed, registers[0]),
                other => panic!("no opcode of ours: {other:#x}"),
            }
        }
    }

    #[test]
    fn programs_execute_what_they_say() {
        let check = |work: Work, expected| {
            assert_eq!(run(&work.code()), (expected, 2), "{work:?}");
            assert_eq!(work.executed(), expected, "{work:?}");
        };
        check(Work::of(0), 6);
        check(Work::of(99), 105);
        check(Work::of(100), 107);
        check(Work::of(10_050), 10_057);
    }
}

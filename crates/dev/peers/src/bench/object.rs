//! XDP programs of any length: object files with nothing but arithmetic, made here, so that their
//! cost is a matter of a number, and two of them differ by exactly as many instructions as is wanted.

use anyhow::Context as _;
use object::{
    Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
    write::{Object, Symbol, SymbolSection},
};

/// Name of the program in each object.
pub(super) const PROGRAM: &str = "arithmetic";

/// Instructions of one turn of the loop, its own two included.
const TURN: u64 = 100;

/// What the program returns.
const XDP_PASS: i32 = 2;

// Opcodes, from Documentation/bpf/standardization/instruction-set.rst of the kernel.
const MOV64_IMMEDIATE: u8 = 0xb7;
const ADD64_IMMEDIATE: u8 = 0x07;
const JNE_IMMEDIATE: u8 = 0x55;
const EXIT: u8 = 0x95;

/// Registers that take turns in the additions. They do not wait for each other, so that an
/// instruction more costs a fraction of a cycle, always the same; and none has to be saved on entry.
const REGISTERS: [u8; 4] = [2, 3, 4, 5];

const COUNTER: u8 = 1;

/// How much work a program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Work {
    /// Times that the loop of [`TURN`] instructions is run.
    turns: u64,
    /// Additions after the loop.
    straight: u64,
}

impl Work {
    /// About so many instructions: all but the frame.
    pub(super) fn of(instructions: u64) -> Self {
        // A loop of many turns makes the verifier walk through each of them; it gives up at 1 million.
        let instructions = instructions.min(500_000);
        Self { turns: instructions / TURN, straight: instructions % TURN }
    }

    /// The same and a few instructions behind it.
    pub(super) fn and(self, extra: u64) -> Self {
        Self { straight: self.straight.saturating_add(extra).min(10_000), ..self }
    }

    /// Instructions that a run executes, the frame included.
    pub(super) fn executed(self) -> u64 {
        let frame = REGISTERS.len() as u64 + 2;
        frame + self.turns * TURN + u64::from(self.turns > 0) + self.straight
    }

    pub(super) fn object(self) -> anyhow::Result<Vec<u8>> {
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
        let mut code = Vec::new();
        for register in REGISTERS {
            code.extend(instruction(MOV64_IMMEDIATE, register, 0, 0));
        }
        if let Ok(turns @ 1..) = i32::try_from(self.turns) {
            code.extend(instruction(MOV64_IMMEDIATE, COUNTER, 0, turns));
            code.extend(additions(TURN - 2));
            code.extend(instruction(ADD64_IMMEDIATE, COUNTER, 0, -1));
            // Back over the whole turn, this jump included.
            code.extend(instruction(JNE_IMMEDIATE, COUNTER, -(TURN as i16), 0));
        }
        code.extend(additions(self.straight));
        code.extend(instruction(MOV64_IMMEDIATE, 0, 0, XDP_PASS));
        code.extend(instruction(EXIT, 0, 0, 0));
        code
    }
}

fn additions(count: u64) -> Vec<u8> {
    let registers = REGISTERS.iter().cycle().zip(0..count);
    registers.flat_map(|(&register, _)| instruction(ADD64_IMMEDIATE, register, 0, 1)).collect()
}

/// An instruction without a source register, as it stands in a little-endian object.
fn instruction(opcode: u8, register: u8, offset: i16, immediate: i32) -> [u8; 8] {
    let ([o0, o1], [i0, i1, i2, i3]) = (offset.to_le_bytes(), immediate.to_le_bytes());
    [opcode, register, o0, o1, i0, i1, i2, i3]
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
            let insn = &code[8 * at as usize..][..8];
            let register = usize::from(insn[1]);
            let offset = i64::from(i16::from_le_bytes([insn[2], insn[3]]));
            let immediate = i64::from(i32::from_le_bytes([insn[4], insn[5], insn[6], insn[7]]));
            executed += 1;
            at += 1;
            match insn[0] {
                MOV64_IMMEDIATE => registers[register] = immediate,
                ADD64_IMMEDIATE => registers[register] += immediate,
                JNE_IMMEDIATE if registers[register] != immediate => at += offset,
                JNE_IMMEDIATE => {}
                EXIT => return (executed, registers[0]),
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
        check(Work::of(399).and(2), 408);
    }

    #[test]
    fn objects_name_their_program() {
        let object = Work::of(5).object().expect("an object");
        let find = |text: &[u8]| object.windows(text.len()).any(|window| window == text);
        assert!(object.starts_with(b"\x7fELF") && find(PROGRAM.as_bytes()) && find(b"xdp\0"));
    }
}

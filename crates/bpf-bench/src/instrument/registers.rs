//! Register effects of each instruction.

use wingbeat_bpf_loader::code::{Insn, Registers, op};

/// Register effects of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effects {
    /// Registers read. A call may read all arguments: the actual number is unknown here.
    pub uses: Registers,
    /// Registers that lose their values.
    pub writes: Registers,
    /// Registers of `writes` that the verifier allows to read afterwards. Excludes the result of a
    /// call, because some functions have none.
    pub sets: Registers,
}

impl Effects {
    /// Effects of an instruction that is not the second half of a `ldimm64`. `None` if the
    /// operation is not defined by RFC 9669 and Linux 6.18, or names an invalid register.
    ///
    /// Calls and jumps through a register are unknown: the kernel does not accept either from an object file.
    pub fn of(insn: Insn) -> Option<Self> {
        let (dst, src) = (insn.dst(), insn.src());
        let effects = match insn.class() {
            op::ALU | op::ALU64 => arithmetic(insn)?,
            op::LDX => match insn.opcode & op::MODE {
                op::MEM => Self::new(&[src], &[dst]),
                op::MEMSX if insn.opcode & op::SIZE != op::DW => Self::new(&[src], &[dst]),
                _ => return None,
            },
            op::ST => match insn.opcode & op::MODE {
                op::MEM => Self::new(&[dst], &[]),
                _ => return None,
            },
            op::STX => match insn.opcode & op::MODE {
                op::MEM => Self::new(&[dst, src], &[]),
                op::ATOMIC => atomic(insn)?,
                _ => return None,
            },
            op::JMP | op::JMP32 => jump(insn)?,
            _ => load(insn)?,
        };
        // The verifier allows unreachable code to write r10.
        let known = Registers::WRITABLE.or(Registers::one(Registers::FRAME_POINTER));
        effects.uses.or(effects.writes).without(known).is_empty().then_some(effects)
    }

    fn new(uses: &[u8], sets: &[u8]) -> Self {
        let sets = sets.iter().copied().collect();
        Self { uses: uses.iter().copied().collect(), writes: sets, sets }
    }
}

fn arithmetic(insn: Insn) -> Option<Effects> {
    let (dst, src) = (insn.dst(), insn.src());
    let is_x = insn.opcode & op::X != 0;
    Some(match (insn.opcode & op::OPERATION, is_x) {
        (op::MOV, false) => Effects::new(&[], &[dst]),
        (op::MOV, true) => Effects::new(&[src], &[dst]),
        (op::NEG | op::END, _) => Effects::new(&[dst], &[dst]),
        (op::ADD..=op::ARSH, false) => Effects::new(&[dst], &[dst]),
        (op::ADD..=op::ARSH, true) => Effects::new(&[dst, src], &[dst]),
        _ => return None,
    })
}

fn atomic(insn: Insn) -> Option<Effects> {
    let (dst, src) = (insn.dst(), insn.src());
    Some(match insn.immediate {
        op::STORE_RELEASE => Effects::new(&[dst, src], &[]),
        op::XCHG => Effects::new(&[dst, src], &[src]),
        op::CMPXCHG => Effects::new(&[dst, src, 0], &[0]),
        op::LOAD_ACQUIRE => Effects::new(&[src], &[dst]),
        operation => match u8::try_from(operation & !op::FETCH).ok()? {
            op::ADD | op::OR | op::AND | op::XOR if operation & op::FETCH != 0 => {
                Effects::new(&[dst, src], &[src])
            }
            op::ADD | op::OR | op::AND | op::XOR => Effects::new(&[dst, src], &[]),
            _ => return None,
        },
    })
}

fn jump(insn: Insn) -> Option<Effects> {
    let (dst, src) = (insn.dst(), insn.src());
    let is_x = insn.opcode & op::X != 0;
    Some(match insn.opcode {
        op::JA | op::JA32 | op::JCOND => Effects::default(),
        op::CALL => Effects {
            uses: Registers::ARGUMENTS,
            writes: Registers::CALLER_SAVED,
            sets: Registers::NONE,
        },
        op::EXIT => Effects::new(&[0], &[]),
        opcode => match opcode & op::OPERATION {
            op::JEQ..=op::JSGE | op::JLT..=op::JSLE if is_x => Effects::new(&[dst, src], &[]),
            op::JEQ..=op::JSGE | op::JLT..=op::JSLE => Effects::new(&[dst], &[]),
            _ => return None,
        },
    })
}

fn load(insn: Insn) -> Option<Effects> {
    let packet =
        |uses: &[u8]| Effects { writes: Registers::CALLER_SAVED, ..Effects::new(uses, &[0]) };
    let is_double = insn.opcode & op::SIZE == op::DW;
    Some(match insn.opcode & op::MODE {
        op::IMM if is_double => Effects::new(&[], &[insn.dst()]),
        // The packet is accessed through r6.
        op::ABS if !is_double => packet(&[6]),
        op::IND if !is_double => packet(&[6, insn.src()]),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(opcode: u8, immediate: i32, expected: Option<(&str, &str, &str)>) {
        let insn = Insn::new(opcode, 2, 3, 0, immediate);
        let found = Effects::of(insn)
            .map(|it| [it.uses, it.writes, it.sets].map(|registers| format!("{registers:?}")));
        let expected = expected.map(|(uses, writes, sets)| [uses, writes, sets].map(String::from));
        assert_eq!(found, expected, "{insn:?}");
    }

    #[test]
    fn arithmetic() {
        check(op::ALU64 | op::MOV, 7, Some(("-", "r2", "r2")));
        check(op::ALU64 | op::MOV | op::X, 0, Some(("r3", "r2", "r2")));
        check(op::ALU | op::MOV | op::X, 0, Some(("r3", "r2", "r2")));
        check(op::ALU64 | op::ADD, 7, Some(("r2", "r2", "r2")));
        check(op::ALU | op::ARSH | op::X, 0, Some(("r2 r3", "r2", "r2")));
        check(op::ALU64 | op::NEG, 0, Some(("r2", "r2", "r2")));
        check(op::ALU | op::END | op::X, 16, Some(("r2", "r2", "r2")));
        check(op::ALU64 | 0xe0, 0, None);
    }

    #[test]
    fn memory() {
        check(op::LDX | op::MEM | op::W, 0, Some(("r3", "r2", "r2")));
        check(op::LDX | op::MEMSX | op::B, 0, Some(("r3", "r2", "r2")));
        check(op::LDX | op::MEMSX | op::DW, 0, None);
        check(op::ST | op::MEM | op::DW, 5, Some(("r2", "-", "-")));
        check(op::STX | op::MEM | op::H, 0, Some(("r2 r3", "-", "-")));
        check(op::LDIMM64, 0, Some(("-", "r2", "r2")));
        check(op::LD | op::ABS | op::H, 12, Some(("r6", "r0 r1 r2 r3 r4 r5", "r0")));
        check(op::LD | op::IND | op::B, 12, Some(("r3 r6", "r0 r1 r2 r3 r4 r5", "r0")));
        check(op::LD | op::MEM, 0, None);
    }

    #[test]
    fn atomics() {
        const DOUBLE: u8 = op::STX | op::ATOMIC | op::DW;
        for operation in [op::ADD, op::OR, op::AND, op::XOR].map(i32::from) {
            check(DOUBLE, operation, Some(("r2 r3", "-", "-")));
            check(DOUBLE, operation | op::FETCH, Some(("r2 r3", "r3", "r3")));
        }
        check(DOUBLE, op::XCHG, Some(("r2 r3", "r3", "r3")));
        check(DOUBLE, op::CMPXCHG, Some(("r0 r2 r3", "r0", "r0")));
        check(DOUBLE, op::LOAD_ACQUIRE, Some(("r3", "r2", "r2")));
        check(DOUBLE, op::STORE_RELEASE, Some(("r2 r3", "-", "-")));
        check(DOUBLE, 0x77, None);
    }

    #[test]
    fn jumps() {
        check(op::JA, 0, Some(("-", "-", "-")));
        check(op::JA32, 0, Some(("-", "-", "-")));
        check(op::JCOND, 0, Some(("-", "-", "-")));
        check(op::JMP | op::JEQ, 1, Some(("r2", "-", "-")));
        check(op::JMP32 | op::JSLE | op::X, 0, Some(("r2 r3", "-", "-")));
        check(op::CALL, 1, Some(("r1 r2 r3 r4 r5", "r0 r1 r2 r3 r4 r5", "-")));
        check(op::EXIT, 0, Some(("r0", "-", "-")));
        check(op::CALLX, 0, None);
        check(op::JA | op::X, 0, None);
        check(op::JMP32 | 0xe0, 0, None);
        check(op::JMP32 | 0x80, 0, None);
    }

    #[test]
    fn registers_that_do_not_exist() {
        assert_eq!(Effects::of(Insn::new(op::ALU64 | op::MOV | op::X, 1, 11, 0, 0)), None);
        assert_eq!(Effects::of(Insn::new(op::ALU64 | op::MOV, 12, 0, 0, 0)), None);
        assert!(Effects::of(Insn::new(op::ALU64 | op::MOV, 10, 0, 0, 0)).is_some());
    }
}

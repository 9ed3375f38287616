//! One instruction, as defined in RFC 9669 (BPF ISA).

use std::fmt;

/// Eight bytes of bytecode (`struct bpf_insn`, include/uapi/linux/bpf.h, Linux 6.18).
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Insn {
    /// Operation, class and mode.
    pub opcode: u8,
    /// Destination register in the low half, source register in the high half.
    pub registers: u8,
    /// Signed offset: of memory in bytes, or of a jump in instructions.
    pub offset: i16,
    pub immediate: i32,
}

/// Operation codes and special source registers, with the numbers of RFC 9669.
pub mod op {
    pub const CLASS: u8 = 0x07; // Mask of the class.
    /// Class: loads other than through a register (`ldimm64`, and the old packet access).
    pub const LD: u8 = 0x00;
    pub const LDX: u8 = 0x01; // Class: loads through a register.
    pub const ST: u8 = 0x02; // Class: stores of an immediate.
    pub const STX: u8 = 0x03; // Class: stores of a register, and atomic operations.
    pub const ALU: u8 = 0x04; // Class: 32-bit arithmetic.
    pub const JMP: u8 = 0x05; // Class: jumps that compare 64 bits, calls, exit.
    pub const JMP32: u8 = 0x06; // Class: jumps that compare 32 bits, and the long jump `gotol`.
    pub const ALU64: u8 = 0x07; // Class: 64-bit arithmetic.

    pub const LDIMM64: u8 = 0x18; // Load of a 64-bit immediate, which takes two instructions.
    pub const JA: u8 = 0x05; // `goto` with a 16-bit offset.
    /// `gotol`, with a 32-bit offset in the immediate (ISA version 4, Linux 6.6).
    pub const JA32: u8 = 0x06;
    /// `may_goto`, a conditional jump that depends on the kernel's own budget (Linux 6.9).
    pub const JCOND: u8 = 0xe5;
    /// `gotox`, a jump through a register into a jump table (after Linux 6.18).
    pub const JAX: u8 = 0x0d;
    /// Call of a helper, a local function, or a kfunc, depending on the source register.
    pub const CALL: u8 = 0x85;
    pub const CALLX: u8 = 0x8d; // Call through a register; compilers emit it by accident only.
    pub const EXIT: u8 = 0x95; // Return.

    /// Source register of `ldimm64`: the immediate is the descriptor of a map.
    pub const PSEUDO_MAP_FD: u8 = 1;
    /// Source register of `ldimm64`: the address of a map's value; the second immediate is an offset.
    pub const PSEUDO_MAP_VALUE: u8 = 2;
    /// Source register of `ldimm64`: the address of a kernel variable, by BTF id.
    pub const PSEUDO_BTF_ID: u8 = 3;
    /// Source register of `ldimm64`: the address of a local function (a callback).
    pub const PSEUDO_FUNC: u8 = 4;
    /// Source register of `ldimm64`: an index into the loader's array of descriptors.
    pub const PSEUDO_MAP_INDEX: u8 = 5;
    /// Source register of `ldimm64`: like [`PSEUDO_MAP_VALUE`], with the map given as in [`PSEUDO_MAP_INDEX`].
    pub const PSEUDO_MAP_INDEX_VALUE: u8 = 6;
    /// Source register of a call: a local function, relative to the next instruction.
    pub const PSEUDO_CALL: u8 = 1;
    /// Source register of a call: a kfunc, by its BTF id in the kernel.
    pub const PSEUDO_KFUNC_CALL: u8 = 2;

    pub const OPERATION: u8 = 0xf0; // Mask of the operation of an arithmetic instruction or a jump.
    /// Set if the second operand is the source register, clear if it is the immediate.
    pub const X: u8 = 0x08;
    pub const SIZE: u8 = 0x18; // Mask of the size of a load or store.
    pub const W: u8 = 0x00; // Size: 4 bytes.
    pub const H: u8 = 0x08; // Size: 2 bytes.
    pub const B: u8 = 0x10; // Size: 1 byte.
    pub const DW: u8 = 0x18; // Size: 8 bytes.
    pub const MODE: u8 = 0xe0; // Mask of the mode of a load or store.
    pub const IMM: u8 = 0x00; // Mode: the value follows in the code (`ldimm64` only).
    pub const ABS: u8 = 0x20; // Mode: packet bytes at a fixed place, as classic BPF reads them.
    pub const IND: u8 = 0x40; // Mode: packet bytes at a place relative to a register.
    pub const MEM: u8 = 0x60; // Mode: memory.
    pub const MEMSX: u8 = 0x80; // Mode: memory, the loaded value sign-extended (ISA version 4).
    pub const ATOMIC: u8 = 0xc0; // Mode: an atomic operation, named by the immediate.

    pub const ADD: u8 = 0x00; // Arithmetic: `+=`.
    pub const SUB: u8 = 0x10; // Arithmetic: `-=`.
    pub const MUL: u8 = 0x20; // Arithmetic: `*=`.
    pub const DIV: u8 = 0x30; // Arithmetic: `/=`, signed if the offset is 1.
    pub const OR: u8 = 0x40; // Arithmetic: `|=`.
    pub const AND: u8 = 0x50; // Arithmetic: `&=`.
    pub const LSH: u8 = 0x60; // Arithmetic: `<<=`.
    pub const RSH: u8 = 0x70; // Arithmetic: `>>=`, filled with zeros.
    pub const NEG: u8 = 0x80; // Arithmetic: negation.
    pub const MOD: u8 = 0x90; // Arithmetic: `%=`, signed if the offset is 1.
    pub const XOR: u8 = 0xa0; // Arithmetic: `^=`.
    /// Arithmetic: `=`, sign-extended from the number of bits in the offset.
    pub const MOV: u8 = 0xb0;
    /// Offset of a [`MOV`] that converts a pointer to another address space (Linux 6.9).
    pub const ADDR_SPACE_CAST: i16 = 1;
    pub const ARSH: u8 = 0xc0; // Arithmetic: `>>=`, filled with the sign.
    pub const END: u8 = 0xd0; // Arithmetic: byte order.

    pub const JEQ: u8 = 0x10; // Jump if equal.
    pub const JGT: u8 = 0x20; // Jump if greater, unsigned.
    pub const JGE: u8 = 0x30; // Jump if greater or equal, unsigned.
    pub const JSET: u8 = 0x40; // Jump if the operands have a bit in common.
    pub const JNE: u8 = 0x50; // Jump if not equal.
    pub const JSGT: u8 = 0x60; // Jump if greater, signed.
    pub const JSGE: u8 = 0x70; // Jump if greater or equal, signed.
    pub const JLT: u8 = 0xa0; // Jump if less, unsigned.
    pub const JLE: u8 = 0xb0; // Jump if less or equal, unsigned.
    pub const JSLT: u8 = 0xc0; // Jump if less, signed.
    pub const JSLE: u8 = 0xd0; // Jump if less or equal, signed.

    /// Atomic: the old value goes to the source register; with [`ADD`], [`OR`], [`AND`], [`XOR`].
    pub const FETCH: i32 = 0x01;
    pub const XCHG: i32 = 0xe1; // Atomic: exchange.
    /// Atomic: compare with r0 and exchange; the old value goes to r0.
    pub const CMPXCHG: i32 = 0xf1;
    pub const LOAD_ACQUIRE: i32 = 0x100; // Atomic: load with acquire semantics (Linux 6.15).
    pub const STORE_RELEASE: i32 = 0x110; // Atomic: store with release semantics (Linux 6.15).

    /// Number of the helper `bpf_tail_call`, which does not return on success.
    pub const HELPER_TAIL_CALL: i32 = 12;
}

impl Insn {
    /// Size in bytes.
    pub const SIZE: usize = 8;

    /// Assembles an instruction.
    pub const fn new(opcode: u8, dst: u8, src: u8, offset: i16, immediate: i32) -> Self {
        Self { opcode, registers: (dst & 0xf) | (src << 4), offset, immediate }
    }

    /// Destination register.
    pub const fn dst(self) -> u8 {
        self.registers & 0xf
    }

    /// Source register, or the kind of a `ldimm64` or a call.
    pub const fn src(self) -> u8 {
        self.registers >> 4
    }

    /// The class of the operation, see [`op`].
    pub const fn class(self) -> u8 {
        self.opcode & op::CLASS
    }

    /// Whether it is the first half of a 64-bit load.
    pub const fn is_ldimm64(self) -> bool {
        self.opcode == op::LDIMM64
    }

    /// Whether it calls a function of the same program.
    pub const fn is_local_call(self) -> bool {
        self.opcode == op::CALL && self.src() == op::PSEUDO_CALL
    }

    /// Whether it is a tail call.
    pub const fn is_tail_call(self) -> bool {
        self.opcode == op::CALL && self.src() == 0 && self.immediate == op::HELPER_TAIL_CALL
    }

    /// Encodes it for a little-endian kernel.
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        let [offset_0, offset_1] = self.offset.to_le_bytes();
        let [a, b, c, d] = self.immediate.to_le_bytes();
        [self.opcode, self.registers, offset_0, offset_1, a, b, c, d]
    }

    /// Encodes several instructions.
    pub fn all_to_bytes(insns: &[Self]) -> Vec<u8> {
        insns.iter().flat_map(|insn| insn.to_bytes()).collect()
    }

    /// Decodes it from a little-endian object.
    pub fn from_bytes([opcode, registers, o0, o1, a, b, c, d]: [u8; Self::SIZE]) -> Self {
        Self {
            opcode,
            registers,
            offset: i16::from_le_bytes([o0, o1]),
            immediate: i32::from_le_bytes([a, b, c, d]),
        }
    }
}

impl fmt::Debug for Insn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self { opcode, offset, immediate, .. } = self;
        write!(f, "{opcode:#04x} r{} r{} {offset:+} {immediate:#x}", self.dst(), self.src())
    }
}

/// A set of the registers r0 to r10.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Registers(u16);

impl Registers {
    /// The frame pointer, which cannot be written.
    pub const FRAME_POINTER: u8 = 10;
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// The result of a call: r0.
    pub const RESULT: Self = Self(1);
    /// The arguments of a call: r1 to r5.
    pub const ARGUMENTS: Self = Self(0b11_1110);
    /// Registers clobbered by a call: r0 to r5.
    pub const CALLER_SAVED: Self = Self(0b11_1111);
    /// Writable registers: r0 to r9.
    pub const WRITABLE: Self = Self(0x3ff);

    /// The set of one register.
    pub const fn one(register: u8) -> Self {
        Self(1 << (register & 0xf))
    }

    /// Whether it contains `register`.
    pub const fn has(self, register: u8) -> bool {
        self.0 & Self::one(register).0 != 0
    }

    /// Union.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Intersection.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Difference.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Number of registers.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The registers, ascending.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        let mut left = self;
        std::iter::from_fn(move || {
            let register = left.first()?;
            left = left.without(Self::one(register));
            Some(register)
        })
    }

    /// The lowest register.
    pub fn first(self) -> Option<u8> {
        (!self.is_empty()).then_some(self.0.trailing_zeros() as u8)
    }
}

impl FromIterator<u8> for Registers {
    fn from_iter<T: IntoIterator<Item = u8>>(registers: T) -> Self {
        registers.into_iter().fold(Self::NONE, |set, register| set.or(Self::one(register)))
    }
}

impl fmt::Debug for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.iter().map(|register| format!("r{register}")).collect();
        f.write_str(if names.is_empty() { "-" } else { "" })?;
        f.write_str(&names.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_back() {
        let check = |insn: Insn, bytes: [u8; 8]| {
            assert_eq!(insn.to_bytes(), bytes, "{insn:?}");
            assert_eq!(Insn::from_bytes(bytes), insn);
        };
        check(Insn::new(op::EXIT, 0, 0, 0, 0), [0x95, 0, 0, 0, 0, 0, 0, 0]);
        check(Insn::new(op::CALL, 0, 1, 0, -1), [0x85, 0x10, 0, 0, 255, 255, 255, 255]);
        check(Insn::new(0x7b, 10, 6, -8, 0), [0x7b, 0x6a, 0xf8, 0xff, 0, 0, 0, 0]);
    }
}

//! The few instructions that objects of the tests are made of.

use wingbeat_bpf::code::{Insn, op};

/// `dst = value`.
pub(crate) fn set(dst: u8, value: i32) -> Insn {
    Insn::new(op::ALU64 | op::MOV, dst, 0, 0, value)
}

/// `dst = *(u32 *)(src + offset)`.
pub(crate) fn load(dst: u8, src: u8, offset: i16) -> Insn {
    Insn::new(op::LDX | op::MEM | op::W, dst, src, offset, 0)
}

/// A call of a function of the program, `distance` instructions after the next one. Compilers write
/// -1 where a relocation tells the rest.
pub(crate) fn call(distance: i32) -> Insn {
    Insn::new(op::CALL, 0, op::PSEUDO_CALL, 0, distance)
}

/// `dst = address`, two instructions.
pub(crate) fn address(dst: u8, offset: i32) -> [Insn; 2] {
    [Insn::new(op::LDIMM64, dst, 0, 0, offset), Insn::default()]
}

/// The same as the loader or the kernel gets it.
pub(crate) fn linked(dst: u8, source: u8, first: i32, second: i32) -> [Insn; 2] {
    [Insn::new(op::LDIMM64, dst, source, 0, first), Insn::new(0, 0, 0, 0, second)]
}

pub(crate) const EXIT: Insn = Insn::new(op::EXIT, 0, 0, 0, 0);

/// `return value`.
pub(crate) fn give(value: i32) -> [Insn; 2] {
    [set(0, value), EXIT]
}

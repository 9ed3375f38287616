//! The few instructions used by objects of the tests.

use wingbeat_bpf_loader::code::{Insn, op};

/// `dst = value`.
pub fn set(dst: u8, value: i32) -> Insn {
    Insn::new(op::ALU64 | op::MOV, dst, 0, 0, value)
}

/// `dst = *(u32 *)(src + offset)`.
pub fn load(dst: u8, src: u8, offset: i16) -> Insn {
    Insn::new(op::LDX | op::MEM | op::W, dst, src, offset, 0)
}

/// A call of a local function, `distance` instructions after the next one. Compilers write -1 if a
/// relocation defines the target.
pub fn call(distance: i32) -> Insn {
    Insn::new(op::CALL, 0, op::PSEUDO_CALL, 0, distance)
}

/// `dst = address`, two instructions.
pub fn address(dst: u8, offset: i32) -> [Insn; 2] {
    [Insn::new(op::LDIMM64, dst, 0, 0, offset), Insn::default()]
}

/// The same in linked form, for the loader or the kernel.
pub fn linked(dst: u8, source: u8, first: i32, second: i32) -> [Insn; 2] {
    [Insn::new(op::LDIMM64, dst, source, 0, first), Insn::new(0, 0, 0, 0, second)]
}

pub const EXIT: Insn = Insn::new(op::EXIT, 0, 0, 0, 0);

/// `return value`.
pub fn give(value: i32) -> [Insn; 2] {
    [set(0, value), EXIT]
}

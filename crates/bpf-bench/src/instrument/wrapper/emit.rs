//! Constructors for the wrapper's instructions.

use wingbeat_bpf_loader::code::{Insn, op};

/// 64-bit arithmetic with a register: `dst += src` for [`op::ADD`].
pub(in crate::instrument) const fn alu(operation: u8, dst: u8, src: u8) -> Insn {
    Insn::new(op::ALU64 | operation | op::X, dst, src, 0, 0)
}

/// 64-bit arithmetic with an immediate.
pub(in crate::instrument) const fn alu_immediate(operation: u8, dst: u8, immediate: i32) -> Insn {
    Insn::new(op::ALU64 | operation, dst, 0, 0, immediate)
}

/// `dst = *(u64 *)(base + offset)`
pub(in crate::instrument) const fn load(dst: u8, base: u8, offset: i16) -> Insn {
    Insn::new(op::LDX | op::MEM | op::DW, dst, base, offset, 0)
}

/// `*(u64 *)(base + offset) = src`
pub(in crate::instrument) const fn store(base: u8, offset: i16, src: u8) -> Insn {
    Insn::new(op::STX | op::MEM | op::DW, base, src, offset, 0)
}

/// The address of a byte in the value of a map.
pub(in crate::instrument) const fn load_map_value(dst: u8, map_fd: i32, offset: i32) -> [Insn; 2] {
    [Insn::new(op::LDIMM64, dst, op::PSEUDO_MAP_VALUE, 0, map_fd), Insn::new(0, 0, 0, 0, offset)]
}

pub(in crate::instrument) const fn exit() -> Insn {
    Insn::new(op::EXIT, 0, 0, 0, 0)
}

pub(in crate::instrument) const fn call_helper(number: i32) -> Insn {
    Insn::new(op::CALL, 0, 0, 0, number)
}

/// Calls the function that begins `distance` after the next instruction.
pub(in crate::instrument) const fn call_local(distance: i32) -> Insn {
    Insn::new(op::CALL, 0, op::PSEUDO_CALL, 0, distance)
}

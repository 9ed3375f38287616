//! Instructions by name, for programs that are written by hand.

use wingbeat_bpf::code::{Insn, op};

/// Helpers of the kernel by number (`enum bpf_func_id`, include/uapi/linux/bpf.h, Linux 6.18).
pub(crate) mod helper {
    pub(crate) const MAP_LOOKUP: i32 = 1;
    pub(crate) const MAP_UPDATE: i32 = 2;
    pub(crate) const MAP_PUSH: i32 = 87;
    pub(crate) const SPIN_LOCK: i32 = 93;
    pub(crate) const SPIN_UNLOCK: i32 = 94;
    pub(crate) const RINGBUF_OUTPUT: i32 = 130;
    pub(crate) const RINGBUF_QUERY: i32 = 134;
    pub(crate) const TIMER_INIT: i32 = 169;
    pub(crate) const TIMER_SET_CALLBACK: i32 = 170;
    pub(crate) const TIMER_START: i32 = 171;
    pub(crate) const XDP_ADJUST_HEAD: i32 = 44;
}

/// `dst = immediate`.
pub(crate) fn set(dst: u8, immediate: i32) -> Insn {
    Insn::new(op::ALU64 | op::MOV, dst, 0, 0, immediate)
}

/// `dst = src`.
pub(crate) fn copy(dst: u8, src: u8) -> Insn {
    Insn::new(op::ALU64 | op::MOV | op::X, dst, src, 0, 0)
}

/// `dst op= immediate`, of 64 bits.
pub(crate) fn alu(operation: u8, dst: u8, immediate: i32) -> Insn {
    Insn::new(op::ALU64 | operation, dst, 0, 0, immediate)
}

/// `dst op= src`, of 64 bits.
pub(crate) fn alu_reg(operation: u8, dst: u8, src: u8) -> Insn {
    Insn::new(op::ALU64 | operation | op::X, dst, src, 0, 0)
}

/// `dst = *(size *)(src + offset)`.
pub(crate) fn load(size: u8, dst: u8, src: u8, offset: i16) -> Insn {
    Insn::new(op::LDX | op::MEM | size, dst, src, offset, 0)
}

/// `*(size *)(dst + offset) = src`.
pub(crate) fn store(size: u8, dst: u8, offset: i16, src: u8) -> Insn {
    Insn::new(op::STX | op::MEM | size, dst, src, offset, 0)
}

/// `*(size *)(dst + offset) = immediate`.
pub(crate) fn store_value(size: u8, dst: u8, offset: i16, immediate: i32) -> Insn {
    Insn::new(op::ST | op::MEM | size, dst, 0, offset, immediate)
}

/// `lock *(u64 *)(dst + offset) += src`.
pub(crate) fn atomic_add(dst: u8, offset: i16, src: u8) -> Insn {
    Insn::new(op::STX | op::ATOMIC | op::DW, dst, src, offset, i32::from(op::ADD))
}

/// `if dst op immediate goto +offset`.
pub(crate) fn jump(operation: u8, dst: u8, immediate: i32, offset: i16) -> Insn {
    Insn::new(op::JMP | operation, dst, 0, offset, immediate)
}

/// `if dst op src goto +offset`.
pub(crate) fn jump_reg(operation: u8, dst: u8, src: u8, offset: i16) -> Insn {
    Insn::new(op::JMP | operation | op::X, dst, src, offset, 0)
}

/// `goto +offset`.
pub(crate) fn go(offset: i16) -> Insn {
    Insn::new(op::JA, 0, 0, offset, 0)
}

/// A call of a helper.
pub(crate) fn call(helper: i32) -> Insn {
    Insn::new(op::CALL, 0, 0, 0, helper)
}

/// A call of a function of the program, relative to the next instruction.
pub(crate) fn call_local(offset: i32) -> Insn {
    Insn::new(op::CALL, 0, op::PSEUDO_CALL, 0, offset)
}

/// `dst = map`, by its number.
pub(crate) fn map(dst: u8, number: i32) -> [Insn; 2] {
    [Insn::new(op::LDIMM64, dst, op::PSEUDO_MAP_FD, 0, number), Insn::default()]
}

/// `dst = &map[0] + offset`, by its number; of maps with one value.
pub(crate) fn map_value(dst: u8, number: i32, offset: i32) -> [Insn; 2] {
    [
        Insn::new(op::LDIMM64, dst, op::PSEUDO_MAP_VALUE, 0, number),
        Insn { immediate: offset, ..Insn::default() },
    ]
}

/// `dst = function`, which an object has to name.
pub(crate) fn function(dst: u8) -> [Insn; 2] {
    [Insn::new(op::LDIMM64, dst, op::PSEUDO_FUNC, 0, 0), Insn::default()]
}

pub(crate) const EXIT: Insn = Insn::new(op::EXIT, 0, 0, 0, 0);

/// `return immediate`.
pub(crate) fn give(immediate: i32) -> [Insn; 2] {
    [set(0, immediate), EXIT]
}

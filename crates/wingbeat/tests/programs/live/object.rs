//! Programs to measure.

use wingbeat_bpf_loader::code::{Insn, op};
use wingbeat_bpf_testing::object::typed::Program;

const MOV: u8 = op::ALU64 | op::MOV;
const EXIT: Insn = Insn::new(op::EXIT, 0, 0, 0, 0);

/// An XDP program that drops every packet, with its full name in BTF.
pub(crate) fn dropper(name: &str) -> Vec<u8> {
    // XDP_DROP
    program(name, "xdp", &[Insn::new(MOV, 0, 0, 0, 1), EXIT]).object()
}

/// A program that loops this many times and returns 0.
pub(crate) fn looping(turns: i32) -> Vec<Insn> {
    [&[Insn::new(MOV, 6, 0, 0, turns)][..], &COUNT_DOWN].concat()
}

/// A raw tracepoint program that loops `turns` times if its first argument is small, as a test run may set it, and ten
/// times if it is an address, as in the kernel's events.
pub(crate) fn long_on_demand(turns: i32) -> Vec<Insn> {
    let choice = [
        Insn::new(op::LDX | op::MEM | op::DW, 7, 1, 0, 0),
        Insn::new(MOV, 6, 0, 0, turns),
        Insn::new(op::JMP | op::JLT, 7, 0, 1, 1 << 20),
        Insn::new(MOV, 6, 0, 0, 10),
    ];
    [choice, COUNT_DOWN].concat()
}

/// Loops r6 times.
const COUNT_DOWN: [Insn; 4] = [
    Insn::new(op::ALU64 | op::ADD, 6, 0, 0, -1),
    Insn::new(op::JMP | op::JNE, 6, 0, -2, 0),
    Insn::new(MOV, 0, 0, 0, 0),
    EXIT,
];

/// A program with one line.
pub(crate) fn program<'a>(name: &'a str, section: &'a str, insns: &'a [Insn]) -> Program<'a> {
    Program { name, section, insns, lines: &[(0, 1, "")], statics: &[] }
}

//! Registers before each instruction of small programs.

use wingbeat_bpf_loader::code::{Insn, op};

use super::*;
use wingbeat_bpf_testing::assemble::{Assembler, assembled, load, store};

/// Checks, before each instruction, the live registers and the registers set on every path.
fn check(build: impl FnOnce(&mut Assembler), expected: &[(&str, &str)]) {
    let code = assembled(build);
    let graph = Graph::new(&code, &|_| false).expect("a graph");
    let liveness = Liveness::new(&code, &graph);
    let found: Vec<(String, String)> = (0..code.insns.len())
        .filter(|&index| !graph.is_second_half(index))
        .map(|index| {
            let live = liveness.live_before(index).and(Registers::WRITABLE);
            assert_eq!(liveness.dead_before(index), Registers::WRITABLE.without(live));
            let set = liveness.set_before(index).and(Registers::WRITABLE);
            (format!("{live:?}"), format!("{set:?}"))
        })
        .collect();
    let expected: Vec<(String, String)> =
        expected.iter().map(|&(live, set)| (live.into(), set.into())).collect();
    assert_eq!(found, expected, "{code:?}");
}

#[test]
fn straight() {
    check(
        |it| it.copy(6, 1).mov(0, 1).add_register(0, 6).load_double(7, 0, 1, 1).exit(),
        &[
            ("r1", "r1"),
            ("r6", "r1 r6"),
            ("r0 r6", "r0 r1 r6"),
            ("r0", "r0 r1 r6"),
            ("r0", "r0 r1 r6 r7"),
        ],
    );
    check(
        |it| it.emit(load(op::W, 2, 1, 0)).emit(store(op::DW, 10, -8, 2)).mov(0, 0).exit(),
        &[("r1", "r1"), ("r2", "r1 r2"), ("-", "r1 r2"), ("r0", "r0 r1 r2")],
    );
}

#[test]
fn calls() {
    // All arguments count as used, set or not. The result counts as set only once written.
    check(
        |it| it.copy(6, 1).mov(1, 3).call(5).copy(7, 0).copy(0, 6).exit(),
        &[
            ("r1 r2 r3 r4 r5", "r1"),
            ("r2 r3 r4 r5 r6", "r1 r6"),
            ("r1 r2 r3 r4 r5 r6", "r1 r6"),
            ("r0 r6", "r6"),
            ("r6", "r6 r7"),
            ("r0", "r0 r6 r7"),
        ],
    );
    // The arguments of a function are unknown, and r6 to r9 belong to the caller.
    check(
        |it| {
            let callee = it.label();
            it.call_function(callee).exit();
            it.bind(callee).function("callee").copy(6, 1).copy(0, 6).exit();
        },
        &[("r1 r2 r3 r4 r5", "r1"), ("r0", "-"), ("r1", "-"), ("r6", "r6"), ("r0", "r0 r6")],
    );
}

#[test]
fn branches_and_loops() {
    // r2 is set on one path only, r3 on both; both are used afterwards.
    check(
        |it| {
            let (other, join) = (it.label(), it.label());
            it.branch(op::JEQ, 1, 0, other).mov(2, 1).mov(3, 1).goto(join);
            it.bind(other).mov(3, 2).bind(join).copy(0, 3).add_register(0, 2).exit();
        },
        &[
            ("r1 r2", "r1"),
            ("-", "r1"),
            ("r2", "r1 r2"),
            ("r2 r3", "r1 r2 r3"),
            ("r2", "r1"),
            ("r2 r3", "r1 r3"),
            ("r0 r2", "r0 r1 r3"),
            ("r0", "r0 r1 r3"),
        ],
    );
    // r6 is used only by the next iteration; r7 is set by the first iteration, but not before it.
    check(
        |it| {
            let top = it.label();
            it.mov(6, 9).bind(top).mov(7, 1).add(6, -1).branch(op::JNE, 6, 0, top);
            it.copy(0, 7).exit();
        },
        &[
            ("-", "r1"),
            ("r6", "r1 r6"),
            ("r6 r7", "r1 r6 r7"),
            ("r6 r7", "r1 r6 r7"),
            ("r7", "r1 r6 r7"),
            ("r0", "r0 r1 r6 r7"),
        ],
    );
}

#[test]
fn packet_loads() {
    check(
        |it| {
            it.copy(6, 1).emit(Insn::new(op::LD | op::IND | op::B, 0, 7, 0, 3)).exit();
        },
        &[("r1 r7", "r1"), ("r6 r7", "r1 r6"), ("r0", "r0 r6")],
    );
}

#[test]
fn code_that_is_not_reached() {
    check(
        |it| {
            it.mov(0, 0).exit();
            it.copy(0, 3).exit();
        },
        &[("-", "r1"), ("r0", "r0 r1"), ("r3", "-"), ("r0", "r0")],
    );
}

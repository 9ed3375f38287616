//! Graphs of small programs, and invalid programs.

use wingbeat_bpf_loader::code::{FunctionInfo, Insn, op};

use super::*;
use wingbeat_bpf_testing::assemble::{Assembler, assembled, assert_lines};

/// Describes one block per line: its instructions, then its edges.
fn describe(graph: &Graph) -> String {
    let mut text = String::new();
    for function in &graph.functions {
        let callback = if function.is_callback { " callback" } else { "" };
        text +=
            &format!("function {:?} called by {:?}{callback}\n", function.insns, function.callers);
        for number in function.blocks.clone() {
            let block = &graph.blocks[number];
            assert_eq!(graph.functions[block.function], *function);
            let ways = graph.outgoing(number).map(|(index, edge)| {
                assert_eq!(edge.from, Some(number));
                assert!(edge.to.is_none_or(|to| graph.incoming(to).contains(&index)));
                match (edge.kind, edge.to) {
                    (EdgeKind::FallThrough, Some(to)) => format!("next {to}"),
                    (EdgeKind::Taken, Some(to)) => format!("jump {to}"),
                    (kind, _) => format!("{kind:?}").to_lowercase(),
                }
            });
            let ways: Vec<String> = ways.collect();
            text += &format!("{number}: {:?} {}\n", block.insns, ways.join(", "));
        }
    }
    text
}

fn check_throwing(throwing: &[usize], build: impl FnOnce(&mut Assembler), expected: &str) {
    let code = assembled(build);
    let graph = Graph::new(&code, &|index| throwing.contains(&index)).expect("a graph");
    assert_lines(&describe(&graph), expected);
}

fn check(build: impl FnOnce(&mut Assembler), expected: &str) {
    check_throwing(&[], build, expected);
}

#[test]
fn blocks_and_edges() {
    check(
        |it| it.mov(0, 0).exit(),
        "function 0..2 called by []
         0: 0..2 leave",
    );
    check(
        |it| {
            let (other, join) = (it.label(), it.label());
            it.branch(op::JEQ, 1, 0, other).mov(0, 1).goto(join);
            it.bind(other).mov(0, 2).bind(join).exit();
        },
        "function 0..5 called by []
         0: 0..1 next 1, jump 2
         1: 1..3 jump 3
         2: 3..4 next 3
         3: 4..5 leave",
    );
    // A loop onto itself, from the function's first instruction, with all kinds of jumps.
    check(
        |it| {
            let (top, end) = (it.label(), it.label());
            it.bind(top).jump(Insn::new(op::JCOND, 0, 0, 0, 0), end).goto_long(top);
            it.bind(end).mov(0, 0).exit();
        },
        "function 0..4 called by []
         0: 0..1 next 1, jump 2
         1: 1..2 jump 0
         2: 2..4 leave",
    );
    // A jump to the next instruction, and a load at the end of a block.
    check(
        |it| {
            let next = it.label();
            it.branch(op::JNE, 1, 0, next).bind(next).load_double(0, 0, 1, 2);
            let end = it.label();
            it.bind(end).goto(end);
        },
        "function 0..4 called by []
         0: 0..1 next 1, jump 1
         1: 1..3 next 2
         2: 3..4 jump 2",
    );
}

#[test]
fn functions_are_found_without_a_list() {
    check(
        |it| {
            let (callee, callback) = (it.label(), it.label());
            it.call_function(callee).load_function(2, callback).call(181).call_function(callee);
            it.exit();
            it.bind(callee).mov(0, 1).exit();
            it.bind(callback).mov(0, 0).exit();
        },
        "function 0..6 called by []
         0: 0..6 leave
         function 6..8 called by [0, 0]
         1: 6..8 leave
         function 8..10 called by [] callback
         2: 8..10 leave",
    );
}

#[test]
fn what_may_not_return() {
    // A tail call, a packet load.
    check(
        |it| {
            it.call(op::HELPER_TAIL_CALL).emit(Insn::new(op::LD | op::ABS | op::B, 0, 0, 0, 3));
            it.mov(0, 0).exit();
        },
        "function 0..4 called by []
         0: 0..1 escape, next 1
         1: 1..2 escape, next 2
         2: 2..4 leave",
    );
    // A kfunc with the number of the tail call helper is not a tail call.
    check(
        |it| it.call_kfunc(op::HELPER_TAIL_CALL).mov(0, 0).exit(),
        "function 0..3 called by []
         0: 0..3 leave",
    );
    // A throwing call may be the last instruction, and throws through its callers; a tail call does not.
    check_throwing(
        &[4],
        |it| {
            let (thrower, tail_caller) = (it.label(), it.label());
            it.call_function(thrower).call_function(tail_caller).mov(0, 0).exit();
            it.bind(thrower).call_kfunc(7);
            it.bind(tail_caller).call(op::HELPER_TAIL_CALL).exit();
        },
        "function 0..4 called by []
         0: 0..1 escape, next 1
         1: 1..4 leave
         function 4..5 called by [0]
         2: 4..5 escape
         function 5..7 called by [1]
         3: 5..6 escape, next 4
         4: 6..7 leave",
    );
    // A throwing callback may throw from any helper, and from the functions that call those.
    check_throwing(
        &[7],
        |it| {
            let (callback, looping) = (it.label(), it.label());
            it.call_function(looping).exit();
            it.bind(looping).load_function(2, callback).call(181).mov(0, 0).exit();
            it.bind(callback).call_kfunc(7).mov(0, 0).exit();
        },
        "function 0..2 called by []
         0: 0..1 escape, next 1
         1: 1..2 leave
         function 2..7 called by [0]
         2: 2..5 escape, next 3
         3: 5..7 leave
         function 7..10 called by [] callback
         4: 7..8 escape, next 5
         5: 8..10 leave",
    );
}

#[test]
fn what_has_no_graph() {
    let check = |expected: GraphError, insns: &[Insn], starts: &[u32]| {
        let functions = starts.iter().map(|&insn_index| FunctionInfo {
            insn_index,
            name: "f".into(),
            type_id: None,
        });
        let code = Code { insns: insns.into(), functions: functions.collect(), lines: vec![] };
        assert_eq!(Graph::new(&code, &|_| false), Err(expected), "{code:?}");
    };
    let insn = Insn::new;
    let exit = insn(op::EXIT, 0, 0, 0, 0);
    let double = [insn(op::LDIMM64, 1, 0, 0, 0), insn(0, 0, 0, 0, 0)];
    let nop = insn(op::ALU64 | op::MOV, 0, 0, 0, 0);

    check(GraphError::Empty, &[], &[]);
    check(GraphError::UnknownInsn { index: 1, opcode: 0xff }, &[nop, insn(0xff, 0, 0, 0, 0)], &[]);
    check(GraphError::UnknownInsn { index: 0, opcode: 0 }, &[double[1], exit], &[]);
    check(GraphError::Indirect { index: 0 }, &[insn(op::CALLX, 1, 0, 0, 0), exit], &[]);
    check(GraphError::Indirect { index: 0 }, &[insn(op::JA | op::X, 1, 0, 0, 0), exit], &[]);
    check(GraphError::HalfLoad { index: 0 }, &[double[0]], &[]);
    check(GraphError::HalfLoad { index: 0 }, &[double[0], exit], &[]);
    let outside = |target| GraphError::JumpOutside { index: 0, target, first: 0, end: 2 };
    check(outside(2), &[insn(op::JA, 0, 0, 1, 0), exit], &[]);
    check(outside(-1), &[insn(op::JA, 0, 0, -2, 0), exit], &[]);
    check(outside(i64::from(i32::MAX) + 1), &[insn(op::JA32, 0, 0, 0, i32::MAX), exit], &[]);
    // Into the next function.
    check(outside(2), &[insn(op::JA, 0, 0, 1, 0), exit, nop, exit], &[0, 2]);
    let [first, second] = double;
    check(
        GraphError::IntoLoad { index: 0, target: 2 },
        &[insn(op::JMP | op::JEQ, 1, 0, 1, 0), first, second, exit],
        &[],
    );
    check(
        GraphError::IntoLoad { index: 0, target: 3 },
        &[insn(op::CALL, 0, op::PSEUDO_CALL, 0, 2), exit, first, second, exit],
        &[],
    );
    check(GraphError::IntoLoad { index: 1, target: 1 }, &[first, second, exit], &[0, 1]);
    let call = |distance| insn(op::CALL, 0, op::PSEUDO_CALL, 0, distance);
    check(GraphError::CallOutside { index: 0, target: 2, insns: 2 }, &[call(1), exit], &[]);
    check(GraphError::CallOutside { index: 0, target: -3, insns: 2 }, &[call(-4), exit], &[]);
    check(GraphError::Functions { insn_index: 9 }, &[nop, exit], &[0, 9]);
    check(GraphError::Functions { insn_index: 2 }, &[nop, exit, nop, exit, nop, exit], &[0, 4, 2]);
    check(GraphError::FallsOut { index: 0 }, &[nop], &[]);
    check(GraphError::FallsOut { index: 1 }, &[nop, insn(op::JMP | op::JEQ, 1, 0, -2, 0)], &[]);
    check(GraphError::FallsOut { index: 0 }, &[nop, nop, exit], &[0, 1]);
    check(GraphError::FallsOut { index: 0 }, &[first, second], &[]);
    // A packet load continues if it succeeds.
    check(GraphError::FallsOut { index: 0 }, &[insn(op::LD | op::ABS | op::B, 0, 0, 0, 3)], &[]);
}

//! Golden listings of rewritten programs, and a check that insertions do not change the result.

use proptest::prelude::*;
use wingbeat_bpf_loader::code::{Insn, op};
use wingbeat_bpf_testing::model::{Model, run};

use super::*;
use wingbeat_bpf_testing::{
    assemble::{Assembler, assembled, assert_lines, listing, store_immediate},
    generate::{Entry, program},
};

/// A no-op.
const NOP: Insn = Insn::new(op::ALU64 | op::ADD, 9, 0, 0, 0);

fn nops(count: usize) -> Vec<Insn> {
    vec![NOP; count]
}

fn mark(number: i32) -> [Insn; 1] {
    [Insn::new(op::ALU64 | op::MOV, 9, 0, 0, number)]
}

fn rewritten(build: impl FnOnce(&mut Assembler), edit: impl FnOnce(&mut Edits)) -> Rewritten {
    let code = assembled(build);
    let graph = Graph::new(&code, &|_| false).expect("a graph");
    let mut edits = Edits::default();
    edit(&mut edits);
    rewrite(&code, &graph, &edits).expect("rewritten")
}

fn check(
    build: impl FnOnce(&mut Assembler),
    edit: impl FnOnce(&mut Edits),
    expected: &str,
) -> Rewritten {
    let rewritten = rewritten(build, edit);
    assert_lines(&listing(&rewritten.code), expected);
    rewritten
}

#[test]
fn places_of_insertions() {
    // A loop: 101 runs on entry, 102 in each iteration, 103 on the back edge, 104 on exit.
    let found = check(
        |it| {
            let top = it.label();
            it.mov(0, 0).bind(top).add(0, 1).branch(op::JNE, 0, 5, top).exit();
        },
        |it| {
            it.above(1, mark(101));
            it.before(1, mark(102));
            it.on_jump(2, mark(103));
            it.before(3, mark(104));
        },
        "main:
         0 r0 = 0
         1 r9 = 101
         2 r9 = 102
         3 r0 += 1
         4 if r0 != 5 goto +2 <7>
         5 r9 = 104
         6 exit
         7 r9 = 103
         8 goto -7 <2>",
    );
    assert_eq!(found.places, [0, 3, 4, 6]);
    let origins: Vec<Option<usize>> =
        [Some(0), None, None, Some(1), Some(2), None, Some(3), None, None].into();
    assert_eq!(found.origins, origins);
}

#[test]
fn calls_callbacks_and_double_loads() {
    check(
        |it| {
            let (callee, callback) = (it.label(), it.label());
            it.load_double(1, 0, 1, 2).call_function(callee).load_function(2, callback).exit();
            it.bind(callee).function("callee").call_function(callee).exit();
            it.bind(callback).function("callback").mov(0, 0).exit();
        },
        |it| {
            it.before(2, nops(1));
            it.before(3, nops(1));
            // Calls of the function take this path too.
            it.above(6, nops(1));
            it.before(6, nops(1));
            it.before(8, nops(1));
        },
        "main:
         0 r1 = 0x200000001 ll
         2 r9 += 0
         3 call callee
         4 r9 += 0
         5 r2 = func callback
         7 exit
         callee:
         8 r9 += 0
         9 r9 += 0
         10 call callee
         11 exit
         callback:
         12 r9 += 0
         13 r0 = 0
         14 exit",
    );
}

#[test]
fn functions_and_lines_move() {
    let found = rewritten(
        |it| {
            let (callee, end) = (it.label(), it.label());
            it.line(10)
                .mov(1, 0)
                .line(11)
                .branch(op::JEQ, 1, 0, end)
                .line(12)
                .call_function(callee);
            it.bind(end).line(13).exit();
            it.bind(callee).function("callee").line(20).mov(0, 0).exit();
        },
        |it| {
            it.before(0, nops(1));
            it.on_jump(1, nops(2));
            it.above(3, nops(1));
            it.before(3, nops(1));
            it.before(4, nops(1));
        },
    );
    let lines = found.code.lines.iter().map(|it| (it.insn_index, it.line()));
    // The detour of the jump in line 11 lies after line 13.
    let expected = [(0, 10), (2, 11), (3, 12), (4, 13), (7, 11), (10, 20)];
    assert_eq!(lines.collect::<Vec<_>>(), expected);
    let functions = found.code.functions.iter().map(|it| (it.insn_index, it.name.as_str()));
    assert_eq!(functions.collect::<Vec<_>>(), [(0, "main"), (10, "callee")]);
}

/// Checks the replacement of the jump at 0, with `between` instructions between it and its target.
fn check_far(jump: Insn, between: usize, expected: &[&str]) {
    let found = rewritten(
        |it| {
            let target = it.label();
            it.jump(jump, target).add(0, 1).bind(target).mov(0, 0).exit();
        },
        |it| it.before(1, nops(between - 1)),
    );
    let text = listing(&found.code);
    let lines: Vec<&str> = text.lines().skip(1).take(expected.len()).map(str::trim).collect();
    assert_eq!(lines, expected);
}

#[test]
fn far_jumps() {
    let jump = |opcode| Insn::new(opcode, 1, 0, 0, 5);
    let less = jump(op::JMP | op::JLT);
    assert_eq!(REACH, 28_671);
    check_far(less, 28_671, &["0 if r1 < 5 goto +28671 <28672>", "1 r9 += 0"]);
    check_far(less, 28_672, &["0 if r1 >= 5 goto +1 <2>", "1 gotol +28672 <28674>", "2 r9 += 0"]);
    check_far(
        jump(op::JMP32 | op::JSGE),
        40_000,
        &["0 if w1 s< 5 goto +1 <2>", "1 gotol +40000 <40002>", "2 r9 += 0"],
    );
    // No inverse.
    check_far(
        jump(op::JMP | op::JSET),
        40_000,
        &["0 if r1 & 5 goto +1 <2>", "1 goto +1 <3>", "2 gotol +40000 <40003>", "3 r9 += 0"],
    );
    check_far(
        Insn::new(op::JCOND, 0, 0, 0, 0),
        40_000,
        &["0 may_goto +1 <2>", "1 goto +1 <3>", "2 gotol +40000 <40003>", "3 r9 += 0"],
    );
    let goto = Insn::new(op::JA, 0, 0, 0, 0);
    check_far(goto, 28_671, &["0 goto +28671 <28672>"]);
    check_far(goto, 28_672, &["0 gotol +28672 <28673>"]);
}

#[test]
fn far_backwards_and_far_detours() {
    let found = rewritten(
        |it| {
            let top = it.label();
            it.bind(top).add(1, -1).add(0, 1).branch(op::JNE, 1, 0, top).exit();
        },
        |it| {
            it.before(1, nops(40_000));
            it.on_jump(2, mark(1));
            it.before(3, nops(40_000));
        },
    );
    let insns = &found.code.insns;
    let jump = found.places[2];
    assert_eq!(insns[jump], Insn::new(op::JMP | op::JEQ, 1, 0, 1, 0));
    let detour = jump as i64 + 2 + i64::from(insns[jump + 1].immediate);
    assert_eq!(insns[jump + 1].opcode, op::JA32);
    assert_eq!(insns[detour as usize..][..1], mark(1));
    let back = insns[detour as usize + 1];
    assert_eq!((back.opcode, detour + 2 + i64::from(back.immediate)), (op::JA32, 0));
}

#[test]
fn lengths_that_depend_on_each_other() {
    // Each jump just reaches its target behind the next jump, until that is lengthened; the last
    // one starts the chain. The jumps are at instructions 2n.
    let jumps = 12;
    let reach = REACH as usize;
    let found = rewritten(
        |it| {
            let mut targets: Vec<_> = (0..=jumps).map(|_| it.label()).collect();
            for jump in 0..jumps {
                it.branch(op::JNE, 1, 0, targets[jump + 1]).bind(targets[jump]).add(0, 1);
            }
            it.mov(0, 0).bind(targets.remove(jumps)).exit();
        },
        |it| {
            (0..jumps - 1).for_each(|jump| it.before(2 * jump + 1, nops(reach - 2)));
            it.before(2 * jumps - 1, nops(reach - 1));
        },
    );
    for jump in 0..jumps {
        let place = found.places[2 * jump];
        let [short, long] = found.code.insns[place..place + 2] else { panic!("no second half") };
        assert_eq!((short.opcode, short.offset), (op::JMP | op::JEQ, 1), "jump {jump}");
        assert_eq!(long.opcode, op::JA32);
        let target = place as i64 + 2 + i64::from(long.immediate);
        // Behind the next jump, before its insertions.
        let last = found.places[2 * jumps + 1] as i64;
        let next = found.places.get(2 * jump + 2).map_or(last, |&next| next as i64 + 2);
        assert_eq!(target, next.min(last), "jump {jump}");
    }
}

#[test]
fn detours_of_long_functions() {
    // Ten blocks of 1,000 instructions, each with an exit; the jump in the first takes a detour.
    let pieces = 10;
    let found = rewritten(
        |it| {
            let top = it.label();
            it.line(1).bind(top);
            for piece in 0..pieces {
                let next = it.label();
                it.line(10 + piece).branch(op::JEQ, 1, 0, top);
                (0..996).for_each(|_| _ = it.add(0, 1));
                it.branch(op::JEQ, 1, 1, next).mov(0, 0).exit();
                it.bind(next);
            }
            it.mov(0, 0).exit();
        },
        |it| (0..pieces as usize).for_each(|piece| it.on_jump(1_000 * piece, mark(piece as i32))),
    );
    let detours: Vec<usize> = (0..found.code.insns.len())
        .filter(|&new| found.origins[new].is_none() && found.code.insns[new].opcode != op::JA)
        .collect();
    // Behind the first exit at least 4,096 instructions away: that of the block four further on.
    let ends = [4, 5, 6, 7, 8, 9].map(|piece| found.places[1_000 * piece + 999]);
    assert_eq!(detours[..6], ends.map(|end| end + 1), "{detours:?}");
    let end = found.places[10_001];
    assert_eq!(detours[6..], [1, 3, 5, 7].map(|it| end + it), "{detours:?}");
    // Detours belong to the lines of their jumps; after them the interrupted line continues.
    let line_at = |index: usize| {
        let begun = found.code.lines.partition_point(|line| line.insn_index as usize <= index);
        found.code.lines[begun - 1].line()
    };
    assert_eq!(detours.iter().map(|&it| line_at(it)).collect::<Vec<_>>(), Vec::from_iter(10..20));
    let lines = (0..pieces as usize).map(|piece| line_at(found.places[1_000 * piece + 998]));
    assert_eq!(lines.collect::<Vec<_>>(), Vec::from_iter(10..20));
}

#[test]
fn what_does_not_fit() {
    let check = |expected: RewriteError, edit: &dyn Fn(&mut Edits)| {
        let code = assembled(|it| it.load_double(0, 0, 1, 1).exit());
        let graph = Graph::new(&code, &|_| false).expect("a graph");
        let mut edits = Edits::default();
        edit(&mut edits);
        assert_eq!(rewrite(&code, &graph, &edits), Err(expected));
    };
    check(RewriteError::NoSuchInsn { index: 3, insns: 3 }, &|it| it.before(3, nops(1)));
    check(RewriteError::InsideLoad { index: 1 }, &|it| it.before(1, nops(1)));
    check(RewriteError::InsideLoad { index: 1 }, &|it| it.above(1, nops(1)));
    check(RewriteError::NoJump { index: 2 }, &|it| it.on_jump(2, nops(1)));
    let insn = Insn::new;
    for jumps in [op::JA, op::EXIT, op::JMP | op::JEQ] {
        let edit = |it: &mut Edits| it.before(0, [insn(jumps, 0, 0, 0, 0)]);
        check(RewriteError::NotStraight { index: 0 }, &edit);
    }
    let local_call = insn(op::CALL, 0, op::PSEUDO_CALL, 0, 0);
    check(RewriteError::NotStraight { index: 0 }, &|it| it.before(0, [local_call]));

    let mut code = assembled(|it| it.mov(0, 0).exit());
    let graph = Graph::new(&code, &|_| false).expect("a graph");
    let line = LineInfo { insn_index: 2, file_offset: 0, text_offset: 0, line_column: 0 };
    code.lines.push(line);
    let found = rewrite(&code, &graph, &Edits::default());
    assert_eq!(found, Err(RewriteError::NoSuchLine { insn_index: 2, insns: 2 }));
    code.lines.clear();
    code.insns.push(NOP);
    assert_eq!(rewrite(&code, &graph, &Edits::default()), Err(RewriteError::OtherGraph));
}

/// Locations and numbers of no-ops: some locations get many, so that jumps become long.
fn insertions() -> impl Strategy<Value = Vec<(prop::sample::Index, u8, usize)>> {
    let count = prop_oneof![8 => 1..4_usize, 1 => 10_000..40_000_usize];
    prop::collection::vec((any::<prop::sample::Index>(), 0..3_u8, count), 0..20)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Inserted no-ops do not change the behaviour of a program.
    #[test]
    fn nothing_changes(
        program in program(Entry::SocketFilter),
        insertions in insertions(),
        packet in prop::collection::vec(any::<u8>(), 14..80),
    ) {
        let code = program.code();
        let graph = Graph::new(&code, &|_| false).expect("a graph");
        let insns: Vec<usize> =
            (0..code.insns.len()).filter(|&index| !graph.is_second_half(index)).collect();
        let jumps: Vec<usize> = graph.blocks.iter().map(|block| block.last).collect();
        let jumps: Vec<usize> =
            jumps.into_iter().filter(|&it| jump_target(it, code.insns[it]).is_some()).collect();
        // All registers may be in use.
        let nop = store_immediate(op::DW, 10, -512, 0);
        let mut edits = Edits::default();
        for (place, kind, count) in insertions {
            let insns_here = insns[place.index(insns.len())];
            match kind {
                0 => edits.before(insns_here, vec![nop; count]),
                1 => edits.above(insns_here, vec![nop; count]),
                _ if jumps.is_empty() => {}
                _ => edits.on_jump(jumps[place.index(jumps.len())], vec![nop; count]),
            }
        }
        let found = rewrite(&code, &graph, &edits).expect("rewritten");
        let memory = || Model::of_socket_filter(&packet, 8);
        let (plain, holed) = (run(&code, memory()), run(&found.code, memory()));
        let (plain, holed) = (plain.expect("the original runs"), holed.expect("so does the other"));
        prop_assert_eq!(holed.result, plain.result);
        for (old, &new) in found.places.iter().enumerate() {
            prop_assert_eq!(holed.counts[new], plain.counts[old], "{} is now {}", old, new);
        }
    }
}

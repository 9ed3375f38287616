//! Golden listings of programs with counters, and the interpretation of the counters.

use wingbeat_bpf_loader::code::{Insn, op};

use super::*;
use crate::instrument::{graph::EdgeKind, registers::Effects};
use wingbeat_bpf_testing::assemble::{Assembler, assembled, assert_lines, listing, load, store};

fn counted(build: impl FnOnce(&mut Assembler)) -> Instrumented {
    let options = Options { map_fd: 5, ..Options::default() };
    instrument(&assembled(build), &options).expect("instrumented")
}

fn check(build: impl FnOnce(&mut Assembler), expected: &str) -> Instrumented {
    let counted = counted(build);
    assert_lines(&listing(&counted.program.code), expected);
    counted
}

#[test]
fn one_block() {
    let counted = check(
        |it| it.mov(0, 2).exit(),
        "main:
         0 r1 = map[fd:5][0] + 0
         2 r0 = *(u64 *)(r1 + 0)
         3 r0 += 1
         4 *(u64 *)(r1 + 0) = r0
         5 r0 = 2
         6 exit",
    );
    assert_eq!(counted.plan.slots(), 1);
    assert_eq!(counted.plan.value_size_bytes(), 8);
    assert_eq!(counted.plan.block_counts(&[7]), [7]);
    assert_eq!(counted.plan.insn_counts(&[7]), [7, 7]);
}

#[test]
fn a_branch() {
    check(
        |it| {
            let (other, join) = (it.label(), it.label());
            it.emit(load(op::W, 2, 1, 0)).branch(op::JEQ, 2, 0, other).mov(0, 1).goto(join);
            it.bind(other).mov(0, 2).bind(join).exit();
        },
        "main:
         0 r2 = *(u32 *)(r1 + 0)
         1 if r2 == 0 goto +7 <9>
         2 r1 = map[fd:5][0] + 0
         4 r0 = *(u64 *)(r1 + 0)
         5 r0 += 1
         6 *(u64 *)(r1 + 0) = r0
         7 r0 = 1
         8 goto +6 <15>
         9 r1 = map[fd:5][0] + 8
         11 r0 = *(u64 *)(r1 + 0)
         12 r0 += 1
         13 *(u64 *)(r1 + 0) = r0
         14 r0 = 2
         15 exit",
    );
}

#[test]
fn a_loop_counts_in_a_register() {
    check(
        |it| {
            let top = it.label();
            it.mov(0, 0).mov(1, 100).bind(top).add(0, 3).add(1, -1).branch(op::JNE, 1, 0, top);
            it.exit();
        },
        "main:
         0 r0 = 0
         1 r1 = 100
         2 r2 = 0
         3 r2 += 1
         4 r0 += 3
         5 r1 += -1
         6 if r1 != 0 goto -4 <3>
         7 r3 = map[fd:5][0] + 0
         9 r1 = *(u64 *)(r3 + 0)
         10 r1 += r2
         11 *(u64 *)(r3 + 0) = r1
         12 r1 = *(u64 *)(r3 + 8)
         13 r1 += 1
         14 *(u64 *)(r3 + 8) = r1
         15 exit",
    );
}

#[test]
fn a_register_held_over_two_loops() {
    check(
        |it| {
            let (outer, inner) = (it.label(), it.label());
            it.mov(0, 0).mov(1, 100).bind(outer).mov(2, 100);
            it.bind(inner).add(0, 3).add(2, -1).branch(op::JNE, 2, 0, inner);
            it.add(1, -1).branch(op::JNE, 1, 0, outer).exit();
        },
        "main:
         0 r0 = 0
         1 r1 = 100
         2 r4 = 0
         3 r3 = 0
         4 r2 = 100
         5 r3 += 1
         6 r0 += 3
         7 r2 += -1
         8 if r2 != 0 goto -4 <5>
         9 r4 += 1
         10 r1 += -1
         11 if r1 != 0 goto -8 <4>
         12 r2 = map[fd:5][0] + 8
         14 r1 = *(u64 *)(r2 + 0)
         15 r1 += r4
         16 *(u64 *)(r2 + 0) = r1
         17 r1 = *(u64 *)(r2 - 8)
         18 r1 += r3
         19 *(u64 *)(r2 - 8) = r1
         20 r1 = *(u64 *)(r2 + 8)
         21 r1 += 1
         22 *(u64 *)(r2 + 8) = r1
         23 exit",
    );
}

#[test]
fn more_counters_than_registers() {
    // A call destroys r0 to r5, the program needs r6 and r7: one register counts, one holds the address.
    check(
        |it| {
            let top = it.label();
            it.copy(6, 1).mov(7, 10).bind(top).mov(1, 0).mov(2, 0).mov(3, 0).mov(4, 0).mov(5, 0);
            it.call(7);
            for bit in 0..3 {
                let skip = it.label();
                it.branch(op::JSET, 0, 1 << bit, skip).add(6, 1).bind(skip);
            }
            it.add(7, -1).branch(op::JNE, 7, 0, top).copy(0, 6).exit();
        },
        "main:
         0 r6 = r1
         1 r7 = 10
         2 r8 = 0
         3 r9 = map[fd:5][0] + 0
         5 r1 = 0
         6 r2 = 0
         7 r3 = 0
         8 r4 = 0
         9 r5 = 0
         10 call bpf_get_prandom_u32
         11 if r0 & 1 goto +4 <16>
         12 r1 = *(u64 *)(r9 + 8)
         13 r1 += 1
         14 *(u64 *)(r9 + 8) = r1
         15 r6 += 1
         16 if r0 & 2 goto +4 <21>
         17 r1 = *(u64 *)(r9 + 16)
         18 r1 += 1
         19 *(u64 *)(r9 + 16) = r1
         20 r6 += 1
         21 if r0 & 4 goto +16 <38>
         22 r0 = *(u64 *)(r9 + 24)
         23 r0 += 1
         24 *(u64 *)(r9 + 24) = r0
         25 r6 += 1
         26 r7 += -1
         27 if r7 != 0 goto -23 <5>
         28 r1 = map[fd:5][0] + 0
         30 r0 = *(u64 *)(r1 + 0)
         31 r0 += r8
         32 *(u64 *)(r1 + 0) = r0
         33 r0 = *(u64 *)(r1 + 32)
         34 r0 += 1
         35 *(u64 *)(r1 + 32) = r0
         36 r0 = r6
         37 exit
         38 r8 += 1
         39 goto -14 <26>",
    );
}

/// A loop in which all registers hold live values, in a frame of the given depth.
fn crowded(it: &mut Assembler, frame: i16) {
    it.emit(load(op::W, 0, 1, 0)).emit(store(op::DW, 10, -frame, 0));
    (1..10).for_each(|register| _ = it.copy(register, 0));
    let (top, out) = (it.label(), it.label());
    it.bind(top).branch(op::JEQ, 0, 7, out).add(0, -1).goto(top).bind(out);
    (1..10).for_each(|register| _ = it.add_register(0, register));
    it.exit();
}

#[test]
fn registers_are_saved() {
    let text = listing(&counted(|it| crowded(it, 24)).program.code);
    let saved = "
  12 *(u64 *)(r10 - 32) = r0
  13 *(u64 *)(r10 - 40) = r1
  14 r1 = map[fd:5][0] + 0
  16 r0 = *(u64 *)(r1 + 0)
  17 r0 += 1
  18 *(u64 *)(r1 + 0) = r0
  19 r0 = *(u64 *)(r10 - 32)
  20 r1 = *(u64 *)(r10 - 40)
  21 r0 += -1
";
    assert!(text.contains(saved), "{text}");
}

#[test]
fn the_verifier_knows_the_stack_better() {
    let code = assembled(|it| crowded(it, 24));
    let check = |depth, expected: &str| {
        let options = Options { stack_depths_bytes: vec![depth], ..Options::default() };
        let text = listing(&instrument(&code, &options).expect("instrumented").program.code);
        assert!(text.contains(expected), "{text}");
    };
    check(16, "*(u64 *)(r10 - 32) = r0");
    check(44, "*(u64 *)(r10 - 56) = r0");
}

#[test]
fn stacks_that_are_full() {
    let check = |frame| {
        let found = instrument(&assembled(|it| crowded(it, frame)), &Options::default());
        let function = "main".into();
        let depth_bytes = u32::from(frame.unsigned_abs());
        let full = NotInstrumentable::StackFull { function, insn_index: 12, depth_bytes };
        assert_eq!(found.map(|it| it.program.code), Err(full), "{frame}");
    };
    assert!(instrument(&assembled(|it| crowded(it, 496)), &Options::default()).is_ok());
    check(504);
    check(512);
}

#[test]
fn registers_that_nobody_set_are_left_alone() {
    // r1 to r5 count as used by the call, but only r1 is set; the others can be neither saved nor overwritten.
    let counted = counted(|it| {
        let skip = it.label();
        (6..10).for_each(|register| _ = it.copy(register, 1));
        it.mov(0, 5).branch(op::JEQ, 1, 0, skip).add(0, 1).add(6, 1).bind(skip);
        it.copy(1, 0).call(5);
        (6..10).for_each(|register| _ = it.add_register(0, register));
        it.exit();
    });
    let after_call = counted.program.places[9]..counted.program.places[14];
    let inserted: Vec<Insn> = (0..counted.program.code.insns.len())
        .filter(|&new| counted.program.origins[new].is_none() && !after_call.contains(&new))
        .map(|new| counted.program.code.insns[new])
        .collect();
    assert!(inserted.len() > 4, "a counter and what it takes to save registers: {inserted:?}");
    for insn in inserted {
        let effects = Effects::of(insn).unwrap_or_default();
        let touched = effects.uses.or(effects.writes);
        assert!(
            (2..6).all(|register| !touched.has(register)),
            "{}",
            listing(&counted.program.code)
        );
    }
}

#[test]
fn functions_are_counted_by_their_callers() {
    let counted = counted(|it| {
        let (once, twice) = (it.label(), it.label());
        it.call_function(twice).call_function(once).exit();
        it.bind(twice).function("twice").call_function(once).exit();
        it.bind(once).function("once").mov(0, 0).exit();
    });
    assert_eq!(counted.plan.slots(), 1, "{}", listing(&counted.program.code));
    assert_eq!(counted.plan.block_counts(&[3]), [3, 3, 6]);
}

#[test]
fn callbacks_count_themselves() {
    let counted = counted(|it| {
        let callback = it.label();
        it.mov(1, 5).load_function(2, callback).mov(3, 0).mov(4, 0).call(181).exit();
        it.bind(callback).function("callback").mov(0, 0).exit();
    });
    assert_eq!(counted.plan.slots(), 2);
    assert_eq!(counted.plan.block_counts(&[1, 5]), [1, 5]);
    let counts = counted.plan.insn_counts(&[1, 5]);
    assert_eq!(counts, [1, 1, 0, 1, 1, 1, 1, 5, 5], "the second half of the load is not one");
}

/// A branch over one instruction.
fn branching(it: &mut Assembler) {
    let skip = it.label();
    it.mov(0, 0).branch(op::JEQ, 1, 0, skip).mov(0, 1).bind(skip).exit();
}

#[test]
fn branches_are_counted() {
    let counted = counted(branching);
    assert_eq!(counted.plan.slots(), 2);
    for (first, second) in [(7, 3), (3, 7)] {
        let edges = counted.plan.edge_counts(&[first, second]);
        let of = |kind| edges.iter().filter(|it| it.0.kind == kind).map(|it| it.1).sum::<u64>();
        assert_eq!(of(EdgeKind::Enter), of(EdgeKind::Leave));
        // The fall-through from the skipped block counts one more.
        let skipped = of(EdgeKind::Enter) - of(EdgeKind::Taken);
        assert_eq!(of(EdgeKind::FallThrough), 2 * skipped);
    }
}

#[test]
fn counters_without_a_value_are_zero() {
    let counted = counted(|it| it.mov(0, 2).exit());
    assert_eq!(counted.plan.block_counts(&[]), [0]);
    assert_eq!(counted.plan.counters(&[1, 0, 0, 0, 0, 0, 0, 0, 9, 9]), [1]);
    assert_eq!(counted.plan.counters(&[]), [0; 0]);
}

#[test]
fn counts_that_contradict_each_other_do_no_harm() {
    let counted = counted(branching);
    let counts = counted.plan.insn_counts(&[u64::MAX, u64::MAX]);
    assert_eq!(counts.len(), 4);
}

#[test]
fn what_cannot_be_counted() {
    let graph = |error| Err(NotInstrumentable::Graph(error));
    let check = |code: Code, expected: Result<Code, NotInstrumentable>| {
        assert_eq!(instrument(&code, &Options::default()).map(|it| it.program.code), expected);
    };
    check(Code::default(), graph(GraphError::Empty));
    let call = Insn::new(op::CALLX, 1, 0, 0, 0);
    check(assembled(|it| it.emit(call).exit()), graph(GraphError::Indirect { index: 0 }));
}

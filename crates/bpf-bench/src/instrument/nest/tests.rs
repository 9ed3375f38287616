//! Loops of small functions, and the frequency estimates.

use wingbeat_bpf_loader::code::op;

use super::*;
use wingbeat_bpf_testing::assemble::{Assembler, Label, assembled};

fn nest(build: impl FnOnce(&mut Assembler)) -> Nest {
    let code = assembled(build);
    let graph = Graph::new(&code, &|_| false).expect("a graph");
    Nest::new(&graph, &graph.functions[0])
}

/// Checks the headers of the loops around each block, from the inside.
fn check(build: impl FnOnce(&mut Assembler), expected: &[&[usize]]) {
    let nest = nest(build);
    let around = nest.loop_of.iter().map(|&inner| {
        nest.around(inner).map(|number| nest.loops[number].header).collect::<Vec<_>>()
    });
    assert_eq!(around.collect::<Vec<_>>(), expected);
}

fn branch(it: &mut Assembler, to: Label) {
    it.branch(op::JEQ, 1, 0, to);
}

#[test]
fn loops() {
    check(|it| it.mov(0, 0).exit(), &[&[]]);
    // One block that jumps to itself.
    check(
        |it| {
            let top = it.label();
            it.mov(0, 0).bind(top).add(1, -1).branch(op::JNE, 1, 0, top).exit();
        },
        &[&[], &[1], &[]],
    );
    // An inner loop, a branch in the outer one, and an exit from both.
    check(
        |it| {
            let [outer, inner, skip, out] = [(); 4].map(|()| it.label());
            it.mov(0, 0).bind(outer);
            branch(it, skip); // 1
            it.bind(inner);
            branch(it, out); // 2
            branch(it, inner); // 3
            it.bind(skip);
            branch(it, outer); // 4
            it.bind(out).exit(); // 5
        },
        &[&[], &[1], &[2, 1], &[2, 1], &[1], &[]],
    );
    // Two loops with the same header count as one.
    check(
        |it| {
            let top = it.label();
            it.bind(top).add(0, 1);
            branch(it, top);
            branch(it, top);
            it.exit();
        },
        &[&[0], &[0], &[]],
    );
}

#[test]
fn loops_with_two_entries() {
    // 0 jumps into the middle of 1 ⇄ 2; 1 is reached first.
    check(
        |it| {
            let (middle, top) = (it.label(), it.label());
            branch(it, middle);
            it.bind(top);
            branch(it, middle); // 1
            it.bind(middle);
            branch(it, top); // 2
            it.exit();
        },
        &[&[], &[2], &[2], &[]],
    );
}

#[test]
fn loops_that_lie_deep_are_merged() {
    let depth = 40;
    let nest = nest(|it| {
        let tops: Vec<Label> = (0..depth).map(|_| it.label()).collect();
        for &top in &tops {
            it.bind(top).add(0, 1);
            let next = it.label();
            branch(it, next);
            it.bind(next);
        }
        tops.iter().rev().for_each(|&top| branch(it, top));
        it.exit();
    });
    let deepest = nest.loop_of.iter().map(|&inner| nest.around(inner).count()).max();
    assert_eq!(deepest, Some(DEPTH_MAX as usize));
}

#[test]
fn guesses() {
    let nest = nest(|it| {
        let [top, out, early] = [(); 3].map(|()| it.label());
        branch(it, early); // 0
        it.bind(top).add(0, 1);
        branch(it, out); // 1
        branch(it, top); // 2
        it.bind(out).mov(0, 1).exit(); // 3
        it.bind(early).mov(0, 2).exit(); // 4
    });
    let [entry, header, latch, out, early] = nest.block_frequencies[..] else { panic!("{nest:?}") };
    assert_eq!(entry, 1.0);
    assert!(early < 0.5, "an early out is less likely than going on: {early}");
    assert!(header > 2.0 && latch > 2.0, "a loop turns round: {header} {latch}");
    assert!(out < latch, "{out}");
}

#[test]
fn guesses_stay_finite() {
    let nest = nest(|it| {
        let tops: Vec<Label> = (0..600).map(|_| it.label()).collect();
        tops.iter().for_each(|&top| _ = it.bind(top).add(0, 1));
        tops.iter().rev().for_each(|&top| branch(it, top));
        it.exit();
    });
    assert!(nest.edge_frequencies.iter().all(|it| it.is_finite()));
}

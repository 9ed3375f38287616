//! What it takes to put counters into a program, per instruction: it has to stay the same however long
//! the program is, and whatever its branches look like.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use wingbeat_bench::instrument::{
    counters::{Options, instrument},
    graph::Graph,
    liveness::Liveness,
};
use wingbeat_bpf::code::{Code, op};
use wingbeat_programs::assemble::{Assembler, Label};

const INSNS: [usize; 4] = [100, 1_000, 10_000, 100_000];
/// Loops within each other, at most.
const DEPTH: u8 = 5;
/// Instructions of a function, at most: as much as 16 bits jump over, with room for counters.
const FUNCTION_INSNS: usize = 10_000;

/// Straight code with a branch every few instructions: a parser with early outs.
fn branches(insns: usize) -> Code {
    functions(insns, |it, end| {
        let out = it.label();
        while it.len() < end {
            let skip = it.label();
            it.copy(2, 1).alu_immediate(op::AND, 2, 7).branch(op::JEQ, 2, 3, out);
            it.branch(op::JGT, 2, 5, skip).add(0, 1).add(3, 1).bind(skip).add(1, 1);
        }
        it.bind(out);
    })
}

/// Loops in loops, five deep, one nest after the other.
fn loops(insns: usize) -> Code {
    functions(insns, |it, end| {
        while it.len() < end {
            let tops: Vec<Label> = (0..DEPTH).map(|_| it.label()).collect();
            for (register, &top) in (1..=DEPTH).zip(&tops) {
                it.mov(register, 9).bind(top).add(0, 1);
            }
            for (register, &top) in (1..=DEPTH).zip(&tops).rev() {
                it.add(register, -1).branch(op::JNE, register, 0, top);
            }
        }
    })
}

/// Functions one after the other, each called by the one before, until there are so many instructions.
fn functions(insns: usize, mut body: impl FnMut(&mut Assembler, usize)) -> Code {
    let mut it = Assembler::new();
    while it.len() < insns {
        let next = it.label();
        let end = insns.min(it.len() + FUNCTION_INSNS);
        it.mov(0, 0).mov(3, 0);
        body(&mut it, end);
        if it.len() < insns {
            it.call_function(next);
        }
        it.exit();
        it.bind(next).function("next");
    }
    let mut code = it.finish();
    // The last function that was begun has no instructions.
    code.functions.pop_if(|function| function.insn_index as usize >= code.insns.len());
    code
}

/// A program of so many instructions, or a few more.
type Program = fn(usize) -> Code;

fn by_length(criterion: &mut Criterion) {
    for (name, program) in [("branches", branches as Program), ("loops", loops)] {
        let mut group = criterion.benchmark_group(format!("instrument/{name}"));
        for insns in INSNS {
            let code = program(insns);
            group.throughput(Throughput::Elements(code.insns.len() as u64));
            group.bench_with_input(BenchmarkId::from_parameter(insns), &code, |bencher, code| {
                bencher.iter(|| instrument(black_box(code), &Options::default()));
            });
        }
        group.finish();
    }
}

fn parts(criterion: &mut Criterion) {
    let code = branches(INSNS[2]);
    let graph = Graph::new(&code, &|_| false).expect("a graph");
    let mut group = criterion.benchmark_group("parts");
    group.throughput(Throughput::Elements(code.insns.len() as u64));
    group.bench_function("graph", |bencher| {
        bencher.iter(|| Graph::new(black_box(&code), &|_| false));
    });
    group.bench_function("liveness", |bencher| {
        bencher.iter(|| Liveness::new(black_box(&code), &graph));
    });
    group.finish();
}

criterion_group!(benches, by_length, parts);
criterion_main!(benches);

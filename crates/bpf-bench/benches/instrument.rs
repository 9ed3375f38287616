//! Benchmarks adding counters to a program: time per instruction must not depend on program size or branch structure.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use wingbeat_bpf_bench::instrument::{
    counters::{Options, instrument},
    graph::Graph,
    liveness::Liveness,
};
use wingbeat_bpf_loader::code::{Code, op};
use wingbeat_bpf_testing::assemble::{Assembler, Label};

const INSNS: [usize; 4] = [100, 1_000, 10_000, 100_000];
/// Maximum nesting of loops.
const DEPTH: u8 = 5;
/// Maximum instructions of a function: the reach of a 16-bit jump, with room for counters.
const FUNCTION_INSNS: usize = 10_000;

/// Straight-line code with a branch every few instructions: a parser with early exits.
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

/// Loop nests, five deep, one after the other.
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

/// A chain of functions, each called by the previous one, with this total number of instructions.
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
    // The last function has no instructions yet.
    code.functions.pop_if(|function| function.insn_index as usize >= code.insns.len());
    code
}

/// Generates a program with at least this many instructions.
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

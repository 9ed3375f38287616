//! Measures the cost of counters: run time and verified instructions of programs without and with them.
//!
//! ```text
//! cargo build --release -p wingbeat-bpf-bench --example counters
//! sudo target/release/examples/counters [OBJECT]...
//! ```
//!
//! For each XDP program of the objects, and for a few loops, loads the program and its instrumented
//! copy as one image that alternates between them, like `wingbeat bench --against`, repeatedly at
//! different addresses. The table shows the median over the loads.

mod support;

use std::os::fd::AsFd as _;

use support::{Image, LOADS, PAIRS, Result, each_xdp, made};
use wingbeat_bpf_bench::instrument::counters;
use wingbeat_bpf_loader::{
    code::op,
    loader::{LoadedMap, Loader},
    spec::Linked,
};
use wingbeat_bpf_testing::assemble::Assembler;
use wingbeat_stats::{random::Random, sample::median};

fn main() -> Result<()> {
    println!("| program | time, ns | with counters, ns | × | verified | with counters | × |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mut random = Random::new(1);
    each_xdp(std::env::args().skip(1), |linked, loader| row(linked, loader, &mut random))?;
    let loader = Loader::without_object();
    for linked in [
        looping("1,000 turns of one block", |it| straight(it, 1000)),
        looping("1,000 turns with a branch", |it| branching(it, 1000)),
        looping("30 × 30 turns", |it| nested(it, 30)),
    ] {
        row(&linked, &loader, &mut random)?;
    }
    Ok(())
}

/// Measures one program and prints its row.
fn row(linked: &Linked, loader: &Loader, random: &mut Random) -> Result<()> {
    let pair = Pair::new(linked, loader)?;
    let (mut plain, mut counted, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..LOADS {
        let [without, with] = pair.run_bursts(random)?;
        ratios.push(with / without);
        plain.push(without);
        counted.push(with);
    }
    let [without, with] = pair.verified;
    println!(
        "| {} | {:.1} | {:.1} | {:.2} | {without} | {with} | {:.2} |",
        linked.program.name,
        median(plain),
        median(counted),
        median(ratios),
        with as f64 / without as f64,
    );
    Ok(())
}

/// A program and its instrumented copy.
struct Pair<'a> {
    linked: &'a Linked,
    loader: &'a Loader,
    instrumented: counters::Instrumented,
    /// Instructions that the verifier processed, without and with counters.
    verified: [u64; 2],
}

impl<'a> Pair<'a> {
    fn new(linked: &'a Linked, loader: &'a Loader) -> Result<Self> {
        let maps = loader.create_maps()?;
        let plain = loader.load(&linked.program, &linked.code, &maps.descriptors())?;
        let options = counters::Options {
            map_fd: i32::try_from(maps.all().len())?,
            may_throw: linked.throwing_calls().collect(),
            stack_depths_bytes: plain.verifier.stack_depths.clone(),
        };
        let instrumented = counters::instrument(&linked.code, &options)?;
        let results = LoadedMap::results(instrumented.plan.value_size_bytes())?;
        let mut descriptors = maps.descriptors();
        descriptors.push(results.as_fd());
        let counted = loader.load(&linked.program, &instrumented.program.code, &descriptors)?;
        let verified =
            [&plain, &counted].map(|loaded| u64::from(loaded.info.verified_instructions));
        Ok(Self { linked, loader, instrumented, verified })
    }

    /// Loads both and alternates them: time per call of each, the median over the bursts.
    fn run_bursts(&self, random: &mut Random) -> Result<[f64; 2]> {
        // Each has its own maps; the counters follow those of the second.
        let (first, second) = (self.loader.create_maps()?, self.loader.create_maps()?);
        let counters = LoadedMap::results(self.instrumented.plan.value_size_bytes())?;
        let mut maps = [first.descriptors(), second.descriptors()];
        maps[1].push(counters.as_fd());
        let codes = [&self.linked.code, &self.instrumented.program.code];
        let image = Image::load((&self.linked.program, self.loader), codes, maps, 1, random)?;
        let calls = image.burst_calls(random)?;
        let pairs = image.run_bursts(calls, PAIRS, random)?;
        Ok([0, 1].map(|side| median(pairs.iter().map(|pair| pair[side]).collect())))
    }
}

/// An XDP program around a loop.
fn looping(name: &str, body: impl FnOnce(&mut Assembler)) -> Linked {
    made(name, |it| body(it.mov(0, 0).mov(3, 0)))
}

fn straight(it: &mut Assembler, turns: i32) {
    let top = it.label();
    it.mov(1, turns).bind(top).add(0, 3).alu(op::XOR, 3, 0).add(1, -1).branch(op::JNE, 1, 0, top);
}

fn branching(it: &mut Assembler, turns: i32) {
    let (top, skip) = (it.label(), it.label());
    it.mov(1, turns).bind(top).copy(2, 1).alu_immediate(op::AND, 2, 4);
    it.branch(op::JEQ, 2, 0, skip).add(0, 3).alu(op::XOR, 3, 0);
    it.bind(skip).add(1, -1).branch(op::JNE, 1, 0, top);
}

fn nested(it: &mut Assembler, turns: i32) {
    let (outer, inner) = (it.label(), it.label());
    it.mov(1, turns).bind(outer).mov(2, turns);
    it.bind(inner).add(0, 3).alu(op::XOR, 3, 0).add(2, -1).branch(op::JNE, 2, 0, inner);
    it.add(1, -1).branch(op::JNE, 1, 0, outer);
}

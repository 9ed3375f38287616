//! What counters cost: run time and verified instructions of programs without and with them.
//!
//! ```text
//! cargo build --release -p wingbeat-bench --features testing --example counters
//! sudo target/release/examples/counters [OBJECT]...
//! ```
//!
//! For each XDP program of the objects, and for a few loops, the program and its copy with counters are
//! loaded as one image in which the two take turns, as `wingbeat bench --against` does it, again and
//! again at other places in memory. The table tells the median over the loads.

use std::{error::Error, os::fd::AsFd as _, path::Path};

use wingbeat_bench::{
    input::DEFAULT_PACKET,
    instrument::{
        assemble::Assembler,
        counters,
        wrapper::{self, alternate::Turns},
    },
};
use wingbeat_bpf::{
    ProgramType,
    code::op,
    live::{Alarm, Effort, Explained, LiveMap, Loader, LoaderOptions, RunInput, run},
    spec::{Linked, ProgramSpec, Spec, TargetTypes},
};
use wingbeat_stats::{random::Random, sample::Sample};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Loads of each pair.
const LOADS: usize = 40;
/// Pairs of bursts in each load.
const PAIRS: usize = 200;
/// Length of a burst, roughly.
const BURST_NS: f64 = 10_000.0;
/// Positions at which the programs may begin, in instructions.
const PLACES: usize = 24;
const XDP_PASS: i32 = 2;

fn main() -> Result<()> {
    println!("| program | time, ns | with counters, ns | × | verified | with counters | × |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mut random = Random::new(1);
    for object in std::env::args().skip(1) {
        let spec = Spec::read(Path::new(&object))?;
        let target = spec.needs_target_types().then(TargetTypes::from_kernel).transpose()?;
        let loader = Loader::new(&spec, LoaderOptions::default())?;
        for linked in spec.link(target.as_ref())? {
            if linked.program.r#type == ProgramType::XDP {
                row(&linked, &loader, &mut random)?;
            }
        }
    }
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
    let calls = pair.burst_calls(random)?;
    let (mut plain, mut counted, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..LOADS {
        let [without, with] = pair.take_turns(calls, PAIRS, random)?;
        ratios.push(with / without);
        plain.push(without);
        counted.push(with);
    }
    let median = |values: Vec<f64>| Sample::new(values).map(|sample| sample.median());
    let [without, with] = pair.verified;
    println!(
        "| {} | {:.1} | {:.1} | {:.2} | {without} | {with} | {:.2} |",
        linked.program.name,
        median(plain)?,
        median(counted)?,
        median(ratios)?,
        with as f64 / without as f64,
    );
    Ok(())
}

/// A program and its copy with counters.
struct Pair<'a> {
    linked: &'a Linked,
    loader: &'a Loader,
    instrumented: counters::Instrumented,
    /// Instructions that the verifier looked at, without counters and with them.
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
        let notebook = LiveMap::notebook(instrumented.plan.value_size_bytes())?;
        let mut descriptors = maps.descriptors();
        descriptors.push(notebook.as_fd());
        let counted = loader.load(&linked.program, &instrumented.code, &descriptors)?;
        let verified =
            [&plain, &counted].map(|loaded| u64::from(loaded.info.verified_instructions));
        Ok(Self { linked, loader, instrumented, verified })
    }

    /// Calls that make a burst.
    fn burst_calls(&self, random: &mut Random) -> Result<u32> {
        let [without, _] = self.take_turns(1000, 10, random)?;
        Ok((BURST_NS / without).clamp(1.0, 100_000.0) as u32)
    }

    /// Loads both, at a place by chance, and lets them take turns: time per call of each, the median
    /// over the bursts.
    fn take_turns(&self, calls: u32, pairs: usize, random: &mut Random) -> Result<[f64; 2]> {
        // Each has maps of its own; behind those of the second lie its counters.
        let (first, second) = (self.loader.create_maps()?, self.loader.create_maps()?);
        let count = i32::try_from(first.all().len())?;
        let counters = LiveMap::notebook(self.instrumented.plan.value_size_bytes())?;
        let options = wrapper::Options {
            map_fd: 2 * count + 1,
            program_type: self.linked.program.r#type,
            throw_btf_id: None,
        };
        let codes = [&self.linked.code, &self.instrumented.code];
        let both = wrapper::alternate(codes, count, 1, XDP_PASS, random.below(PLACES), options)?;
        let notebook = LiveMap::notebook(both.value_size_bytes)?;
        let mut descriptors = first.descriptors();
        descriptors.extend(second.descriptors());
        descriptors.extend([counters.as_fd(), notebook.as_fd()]);
        let effort = Effort { alarm: &Alarm::never(), explained: Explained::Whole };
        let program = self.loader.load_image(
            &self.linked.program,
            &both.code,
            &both.called,
            &descriptors,
            effort,
        )?;
        let mut order = Vec::new();
        for _ in 0..pairs {
            let side = u8::from(random.coin());
            order.extend([side, 1 - side]);
        }
        let turns = Turns { calls: [calls; 2], order };
        notebook.write_notebook(&turns.to_value())?;
        let input = RunInput { data: &DEFAULT_PACKET, context: &[] };
        run(program.as_fd(), self.linked.program.r#type, input, 1)?;
        let value = notebook.read_notebook()?;
        let times: Vec<(u8, f64)> = turns.read(&value).collect();
        let median = |side: u8| {
            let own = times.iter().filter(|(whose, _)| *whose == side).map(|(_, ns)| *ns);
            Sample::new(own.collect()).map(|sample| sample.median())
        };
        Ok([median(0)?, median(1)?])
    }
}

/// An XDP program around a loop.
fn looping(name: &str, body: impl FnOnce(&mut Assembler)) -> Linked {
    let mut it = Assembler::new();
    it.mov(0, 0).mov(3, 0);
    body(&mut it);
    it.mov(0, XDP_PASS).exit();
    let code = it.finish();
    let program = ProgramSpec {
        name: name.to_owned(),
        section: "xdp".to_owned(),
        r#type: ProgramType::XDP,
        attach_type: 0,
        flags: 0,
        attachment: None,
        insn_count: code.insns.len(),
    };
    Linked { program, code, kfuncs: Vec::new() }
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

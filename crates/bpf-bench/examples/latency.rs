//! Compares two measures of run time and shows why they differ: single runs minus the clock, and
//! the net time of consecutive runs.
//!
//! ```text
//! cargo build --release -p wingbeat-bpf-bench --features testing --example latency
//! sudo target/release/examples/latency [LOADS] [OBJECT]...
//! ```
//!
//! For each program, repeatedly loaded together with an empty one with which it alternates in bursts:
//!
//! - **p50 − empty**: both with a clock around each call; the median of the single runs, minus that
//!   of the empty program. Clock reads are ordered: a read waits until preceding instructions have
//!   completed.
//! - **net**: the plain programs. If a run does not depend on the previous one, the CPU starts it
//!   early.
//! - **drained**: the plain programs, each of which begins by reading the clock and discarding the
//!   time. So each call waits until the previous one has completed; that clock measures nothing.
//!
//! If runs overlap, net is less than the other two, which agree. If the clock costs more with some
//! programs than with the empty one, p50 − empty exceeds drained: that is the last column. Both are
//! less than the time of an isolated run, by the work that the CPU does while it still computes the
//! time it has read; the two chains of different length show this amount. Each figure is a median
//! over the loads, with its 95 % bootstrap interval.

use std::{
    error::Error,
    os::fd::{AsFd as _, BorrowedFd},
    path::Path,
};

use wingbeat_bpf_bench::{
    analyse::medians_ns,
    input::DEFAULT_PACKET,
    instrument::wrapper::{
        self,
        alternate::{BurstPlan, VALUE_SIZE, neighbours},
        read_histogram,
    },
};
use wingbeat_bpf_loader::{
    KernelTypes, ProgramType,
    code::{Code, Insn, op},
    loader::{Alarm, Effort, Explained, Loaded, LoadedMap, LoadedMaps, Loader, RunInput, run},
    spec::{Linked, ProgramSpec, Spec},
};
use wingbeat_bpf_testing::{
    assemble::{Assembler, load, store},
    linked,
};
use wingbeat_stats::{
    bootstrap::Bootstrap,
    random::Random,
    sample::{Sample, median, quantile_of_sorted},
};

const KTIME_GET_NS: i32 = 5;
/// Map size of the built-in programs in bytes.
const TRAFFIC_BYTES: u32 = 4096;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).peekable();
    let loads = arguments.next_if(|text| text.parse::<usize>().is_ok());
    let loads = loads.map_or(Ok(LOADS), |text| text.parse())?.max(6);
    let mut random = Random::new(1);
    println!("ns | p50 − empty | net | drained | p50 − empty − drained");
    println!("--- | ---: | ---: | ---: | ---:");
    let without = Loader::without_object();
    for linked in made_here() {
        row(&linked, &without, true, loads, &mut random)?;
    }
    each_xdp(arguments, |linked, loader| row(linked, loader, false, loads, &mut random))
}

fn row(
    linked: &Linked,
    loader: &Loader,
    has_traffic: bool,
    loads: usize,
    random: &mut Random,
) -> Result<()> {
    let empty = made("empty", |it| _ = it.mov(0, XDP_PASS));
    let beside = Beside { linked, empty: &empty.code, loader, has_traffic };
    let drained = [drained(&linked.code), drained(&empty.code)];
    let mut columns: [Vec<f64>; 4] = Default::default();
    for _ in 0..loads {
        let single = beside.single_runs(random)?;
        let net = beside.net([&linked.code, &empty.code], random)?;
        let alone = beside.net([&drained[0], &drained[1]], random)?;
        for (column, value) in columns.iter_mut().zip([single, net, alone, single - alone]) {
            column.push(value);
        }
    }
    let cells: Vec<String> = columns.into_iter().map(cell).collect::<Result<_>>()?;
    println!("{} | {}", linked.program.name, cells.join(" | "));
    Ok(())
}

/// The median and its interval.
fn cell(values: Vec<f64>) -> Result<String> {
    let sample = Sample::new(values)?;
    let interval = Bootstrap::default().percentile(&sample, |it| quantile_of_sorted(it, 0.5));
    let (lower, upper) = interval.map_or((f64::NAN, f64::NAN), |it| (it.lower, it.upper));
    Ok(format!("{:.1} ({lower:.1} … {upper:.1})", sample.median()))
}

/// A program paired with an empty one.
struct Beside<'a> {
    linked: &'a Linked,
    empty: &'a Code,
    loader: &'a Loader,
    /// Whether it has one map, without an object.
    has_traffic: bool,
}

impl Beside<'_> {
    /// Time of a call minus that of the adjacent empty program.
    fn net(&self, codes: [&Code; 2], random: &mut Random) -> Result<f64> {
        Ok(self.run_bursts(codes, [false; 2], random)?.0)
    }

    /// Median of single runs, minus that of the empty program.
    fn single_runs(&self, random: &mut Random) -> Result<f64> {
        let own = Own::create(self)?.descriptors().len();
        let wrapped = |code: &Code, maps: usize| {
            let options = self.options(i32::try_from(maps)?);
            Ok::<_, Failure>(wrapper::wrap(code, options)?)
        };
        let [program, empty] = [wrapped(&self.linked.code, own)?, wrapped(self.empty, 0)?];
        let (_, medians) = self.run_bursts([&program, &empty], [true; 2], random)?;
        Ok(medians[0] - medians[1])
    }

    /// Loads both codes at a random address and alternates them: the median of the differences of
    /// neighbours, and the medians from their clocks, if any.
    fn run_bursts(
        &self,
        codes: [&Code; 2],
        has_clock: [bool; 2],
        random: &mut Random,
    ) -> Result<(f64, [f64; 2])> {
        let own = Own::create(self)?;
        let clocks = [clock(has_clock[0])?, clock(has_clock[1])?];
        let mut maps = [own.descriptors(), Vec::new()];
        for (maps, clock) in maps.iter_mut().zip(&clocks) {
            maps.extend(clock.iter().map(LoadedMap::as_fd));
        }
        let image = Image::load((&self.linked.program, self.loader), codes, maps, 0, random)?;
        let calls = image.burst_calls(random)?;
        clocks.iter().flatten().try_for_each(LoadedMap::clear_results)?;
        let pairs = image.run_bursts(calls, PAIRS, random)?;
        let differences = pairs.iter().map(|[first, second]| first - second).collect();
        let mut medians = [0.0; 2];
        if let [Some(first), Some(second)] = &clocks {
            let read =
                |clock: &LoadedMap| Ok::<_, Failure>(read_histogram(&clock.read_results()?)?);
            let recorded = [read(first)?, read(second)?];
            medians = medians_ns([&recorded[0], &recorded[1]]).ok_or("a clock without a run")?;
        }
        Ok((median(differences), medians))
    }

    fn options(&self, map_fd: i32) -> wrapper::Options {
        wrapper::Options { map_fd, program_type: self.linked.program.r#type, restored: None }
    }
}

/// The program's own maps.
enum Own {
    Traffic(LoadedMap),
    Object(LoadedMaps),
}

impl Own {
    fn create(beside: &Beside<'_>) -> Result<Self> {
        Ok(match beside.has_traffic {
            true => Self::Traffic(LoadedMap::results(TRAFFIC_BYTES)?),
            false => Self::Object(beside.loader.create_maps()?),
        })
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Self::Traffic(map) => vec![map.as_fd()],
            Self::Object(maps) => maps.descriptors(),
        }
    }
}

fn clock(is_wanted: bool) -> Result<Option<LoadedMap>> {
    Ok(is_wanted.then(|| LoadedMap::results(wrapper::histogram::VALUE_SIZE_BYTES)).transpose()?)
}

/// The same program, but it first waits until all preceding work has completed: clock reads are ordered.
fn drained(code: &Code) -> Code {
    let mut it = Assembler::new();
    it.copy(6, 1).call(KTIME_GET_NS).copy(1, 6).exit();
    let mut front = it.finish().insns;
    front.pop();
    let moved = u32::try_from(front.len()).unwrap_or(0);
    let mut code = Code { lines: Vec::new(), ..code.clone() };
    for function in code.functions.iter_mut().skip(1) {
        function.insn_index += moved;
    }
    code.insns.splice(0..0, front);
    code
}

/// Programs with known effects on a CPU.
fn made_here() -> Vec<Linked> {
    vec![
        chain("64 multiplications, each of the one before", 64),
        chain("256 multiplications, each of the one before", 256),
        made("64 multiplications, begun with the result of the last run", |it| {
            it.load_double(2, op::PSEUDO_MAP_VALUE, 0, 0).emit(load(op::DW, 0, 2, 0)).mov(1, 5);
            (0..64).for_each(|_| _ = it.alu(op::MUL, 0, 1));
            it.emit(store(op::DW, 2, 0, 0));
        }),
        made("48 multiplications, four at a time", |it| {
            (2..6).for_each(|register| _ = it.mov(register, 3));
            (0..48).for_each(|number| _ = it.alu(op::MUL, 2 + number % 4, 5));
            it.copy(0, 2);
        }),
        made("48 stores to lines of memory", |it| {
            it.load_double(2, op::PSEUDO_MAP_VALUE, 0, 0).mov(0, 3);
            (0..48).for_each(|line| _ = it.emit(store(op::DW, 2, 64 * line, 0)));
        }),
        made("48 loads and stores to lines of memory", |it| {
            it.load_double(2, op::PSEUDO_MAP_VALUE, 0, 0);
            for line in 0..48 {
                it.emit(load(op::DW, 0, 2, 64 * line)).add(0, 1).emit(store(
                    op::DW,
                    2,
                    64 * line,
                    0,
                ));
            }
        }),
        made("8 atomic additions", |it| {
            it.load_double(2, op::PSEUDO_MAP_VALUE, 0, 0).mov(0, 1);
            let opcode = op::STX | op::ATOMIC | op::DW;
            let add = |line: i16| Insn::new(opcode, 2, 0, 64 * line, i32::from(op::ADD));
            (0..8).for_each(|line| _ = it.emit(add(line)));
        }),
    ]
}

/// Multiplications that depend on each other, but not on the previous run. The time of 192 more of
/// them gives the latency of one, without clock and call.
fn chain(name: &str, len: usize) -> Linked {
    made(name, |it| {
        it.mov(0, 3).mov(1, 5);
        (0..len).for_each(|_| _ = it.alu(op::MUL, 0, 1));
    })
}

// Measurement helpers of the examples: two programs in one image that alternate in bursts.

type Failure = Box<dyn Error>;
type Result<T> = std::result::Result<T, Failure>;

/// Default number of loads of each pair.
const LOADS: usize = 40;
/// Burst pairs in each load.
const PAIRS: usize = 200;
const XDP_PASS: i32 = 2;
/// Approximate length of a burst.
const BURST_NS: f64 = 10_000.0;
/// Number of alignments at which the programs may begin, in instructions.
const PLACES: usize = 24;

/// Calls `row` with each XDP program of the objects.
fn each_xdp(
    objects: impl Iterator<Item = String>,
    mut row: impl FnMut(&Linked, &Loader) -> Result<()>,
) -> Result<()> {
    for object in objects {
        let spec = Spec::read(Path::new(&object))?;
        let target = spec.needs_target_types().then(KernelTypes::from_kernel).transpose()?;
        let loader = Loader::new(&spec)?;
        for linked in spec.link(target.as_ref())? {
            if linked.program.r#type == ProgramType::XDP {
                row(&linked, &loader)?;
            }
        }
    }
    Ok(())
}

/// An XDP program that contains the given instructions.
fn made(name: &str, body: impl FnOnce(&mut Assembler)) -> Linked {
    let mut it = Assembler::new();
    body(&mut it);
    it.mov(0, XDP_PASS).exit();
    linked(name, ProgramType::XDP, it.finish())
}

/// Two codes in the kernel, at a random address.
struct Image {
    program: Loaded,
    results: LoadedMap,
}

impl Image {
    /// Loads both codes with their maps. `home` is the one whose object loads both.
    fn load(
        (program, loader): (&ProgramSpec, &Loader),
        codes: [&Code; 2],
        [first, second]: [Vec<BorrowedFd<'_>>; 2],
        home: usize,
        random: &mut Random,
    ) -> Result<Self> {
        let first_maps = i32::try_from(first.len())?;
        let options = wrapper::Options {
            map_fd: first_maps + i32::try_from(second.len())?,
            program_type: program.r#type,
            restored: None,
        };
        let place = random.below(PLACES);
        let both = wrapper::alternate(codes, first_maps, home, XDP_PASS, place, options)?;
        let results = LoadedMap::results(VALUE_SIZE as u32)?;
        let maps: Vec<_> = first.into_iter().chain(second).chain([results.as_fd()]).collect();
        let effort = Effort { alarm: &Alarm::never(), explained: Explained::Whole };
        let program = loader.load_image(program, &both.code, &both.called, &maps, effort)?;
        Ok(Self { program, results })
    }

    /// Calls per burst of each, derived from a first run.
    fn burst_calls(&self, random: &mut Random) -> Result<[u32; 2]> {
        let trial = self.run_bursts([100; 2], 10, random)?;
        Ok([0, 1].map(|side| {
            let ns = median(trial.iter().map(|pair| pair[side]).collect()).max(1.0);
            (BURST_NS / ns).clamp(1.0, 10_000.0) as u32
        }))
    }

    /// Alternates both: times per call of neighbouring bursts, first code first.
    fn run_bursts(
        &self,
        calls: [u32; 2],
        pairs: usize,
        random: &mut Random,
    ) -> Result<Vec<[f64; 2]>> {
        let firsts: Vec<u8> = (0..pairs).map(|_| u8::from(random.coin())).collect();
        let order = firsts.iter().flat_map(|&side| [side, 1 - side]).collect();
        let plan = BurstPlan::of_two(calls, order);
        self.results.write_results(&plan.to_value())?;
        let input = RunInput { data: &DEFAULT_PACKET, context: &[] };
        run(self.program.as_fd(), ProgramType::XDP, input, 1)?;
        let value = self.results.read_results()?;
        let times: Vec<(u8, f64)> = plan.read(&value).collect();
        Ok(neighbours(&times).collect())
    }
}

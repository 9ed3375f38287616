//! Two programs in one image that take turns within one run: see
//! [`alternate`](mod@crate::instrument::wrapper::alternate).
//!
//! A run of this kind needs no repetition by the kernel, so XDP programs are spared the dispatcher's
//! swap of 16 to 40 ms, and two neighbouring bursts are a few microseconds apart.

use std::{
    os::fd::AsFd as _,
    time::{Duration, Instant},
};

use wingbeat_bpf::{
    code::{Insn, op},
    loader::{Loaded, LoadedMap, LoadedMaps, Loader},
    probe::Kernel,
    spec::Linked,
};
use wingbeat_stats::{random::Random, sample::Sample};

use super::{
    BenchError,
    contents::{Contents, fill},
    ruler::harmless_value,
    runner::{Pace, Runner},
    subject::{Subject, short},
};
use crate::{
    analyse::compare::Pair,
    input::Input,
    instrument::wrapper::{
        self,
        alternate::{BURSTS_MAX, Turns},
    },
};

/// Length of a burst: a thousand steps of a coarse clock, and short beside what disturbs.
const BURST_NS: f64 = 10_000.0;

/// Most calls in a burst.
const CALLS_MAX: f64 = 100_000.0;

/// Time of one run. The kernel ends a loop after 250 ms.
const RUN_NS: f64 = 10e6;

/// Positions in the cache line at which the programs may begin, in instructions of 5 to 7 bytes.
const PLACES: usize = 24;

/// Share of the pairs of bursts that is cut off at each end.
const TRIMMED: f64 = 0.25;

/// Which of the bursts of a run, from the fastest, is taken for undisturbed.
const FASTEST: f64 = 0.05;

/// Longest run of a program that takes turns, in nanoseconds: a burst of it is one run, and what
/// disturbs one burst disturbs its neighbour too.
const CALL_NS_MAX: f64 = 2e6;

/// One side: what it is, and what it needs to come into the kernel.
#[derive(Debug, Clone)]
pub(super) struct Side<'a> {
    pub(super) linked: &'a Linked,
    pub(super) loader: &'a Loader,
    pub(super) contents: &'a Contents,
    /// Maps that take long to create: all its loads have the same ones.
    pub(super) maps: Option<LoadedMaps>,
}

impl<'a> Side<'a> {
    /// The program alone.
    pub(super) fn subject(&self, runner: Runner<'a>) -> Result<Subject<'a>, BenchError> {
        Subject::new(self.linked, self.loader, self.contents, runner)
    }

    /// Maps as they are before the first run.
    fn fresh_maps(&self) -> Result<LoadedMaps, BenchError> {
        if let Some(maps) = &self.maps
            && maps.reset().is_ok()
        {
            return Ok(maps.clone());
        }
        let mut maps = self.loader.create_maps_for(&[&self.linked.code], false)?;
        fill(&mut maps, self.contents)?;
        Ok(maps)
    }
}

/// Why the kernel does not take two programs as one. An old one may have got `may_goto` from its
/// distributor, so it is asked first, and its answer stands behind.
fn why_refused(reason: &str) -> String {
    let refused = format!("the kernel refuses them together: {reason}");
    match Kernel::running().is_at_least(6, 9) {
        true => refused,
        false => format!(
            "taking turns within a run needs the instruction may_goto, which came with Linux 6.9; {refused}"
        ),
    }
}

/// Two programs that can take turns.
#[derive(Debug)]
pub(super) struct Alternation<'a> {
    sides: [Side<'a>; 2],
    input: &'a Input,
    context: &'a [u8],
    runner: Runner<'a>,
    calls: [u32; 2],
    bursts: usize,
    /// How long it took to load both and to let them take turns.
    pub(super) sample_time: Duration,
}

impl<'a> Alternation<'a> {
    /// Loads both once and finds out how many calls make a burst; or says why they cannot take turns.
    /// A run takes `run_ns` at most, roughly.
    pub(super) fn new(
        sides: [Side<'a>; 2],
        (input, context): (&'a Input, &'a [u8]),
        run_ns: f64,
        runner: Runner<'a>,
        random: &mut Random,
    ) -> Result<Self, String> {
        if run_ns > CALL_NS_MAX {
            return Err(format!(
                "a run takes {:.1} ms, too long for bursts that meet the same machine",
                run_ns / 1e6
            ));
        }
        if let Some(reason) = sides
            .iter()
            .zip([true, false])
            .find_map(|(side, is_foreign)| needs_own_object(side.linked, is_foreign))
        {
            return Err(reason.to_owned());
        }
        let begun = Instant::now();
        let (calls, sample_time) = ([1, 1], Duration::ZERO);
        let mut found = Self { sides, input, context, runner, calls, bursts: 16, sample_time };
        let live = found.load(random)?;
        let load_time = begun.elapsed();
        // Twice: the first bursts of single calls tell the order of magnitude, longer ones the rest.
        for _ in 0..2 {
            let times = found.run(&live, random).map_err(|error| error.to_string())?;
            let per_call = |side: u8| {
                let times = times.iter().filter(|time| time.0 == side).map(|time| time.1);
                Sample::new(times.collect()).map_or(BURST_NS, |it| it.median().max(1.0))
            };
            let both = [per_call(0), per_call(1)];
            // Within 1 and CALLS_MAX.
            found.calls = both.map(|ns| (BURST_NS / ns).clamp(1.0, CALLS_MAX) as u32);
            let burst_ns: f64 =
                both.iter().zip(found.calls).map(|(ns, calls)| ns * f64::from(calls)).sum::<f64>()
                    / 2.0;
            found.bursts = (RUN_NS / burst_ns).clamp(2.0, BURSTS_MAX as f64) as usize & !1;
        }
        found.sample_time = load_time + Duration::from_nanos(RUN_NS as u64);
        Ok(found)
    }

    /// Loads both anew, at another place, and lets them take turns.
    pub(super) fn take_turns(&self, random: &mut Random) -> Result<Bursts, BenchError> {
        let live = self.load(random).map_err(BenchError::NotMeasurable)?;
        Ok(Bursts::of(&self.run(&live, random)?))
    }

    /// Calls in a burst of one side.
    pub(super) fn calls(&self, side: usize) -> u32 {
        self.calls[side]
    }

    fn load(&self, random: &mut Random) -> Result<Live, String> {
        let is_swapped = random.coin();
        let (first, second) = match is_swapped {
            true => (&self.sides[1], &self.sides[0]),
            false => (&self.sides[0], &self.sides[1]),
        };
        // The one under test: the other may be a ruler, which has another licence and no object.
        let wanted = &self.sides[1];
        let first_maps = first.fresh_maps().map_err(|error| error.to_string())?;
        let second_maps = second.fresh_maps().map_err(|error| error.to_string())?;
        let number = |count: usize| i32::try_from(count).map_err(|_| "too many maps".to_owned());
        let first_count = number(first_maps.all().len())?;
        let options = wrapper::Options {
            map_fd: first_count + number(second_maps.all().len())?,
            program_type: wanted.linked.program.r#type,
            throw_btf_id: None,
        };
        let padding = random.below(PLACES);
        let result = harmless_value(wanted.linked.program.r#type);
        let codes = [&first.linked.code, &second.linked.code];
        let home = usize::from(!is_swapped);
        let image = wrapper::alternate(codes, first_count, home, result, padding, options)
            .map_err(|error| error.to_string())?;
        let notebook = LoadedMap::notebook(image.value_size_bytes).map_err(|e| e.to_string())?;
        let mut descriptors = first_maps.descriptors();
        descriptors.extend(second_maps.descriptors());
        descriptors.push(notebook.as_fd());
        let effort = self.runner.little_effort();
        let (program, called) = (&wanted.linked.program, &image.called);
        let program = wanted
            .loader
            .load_image(program, &image.code, called, &descriptors, effort)
            .map_err(|error| why_refused(&short(&error)))?;
        Ok(Live { program, notebook, _maps: [first_maps, second_maps], is_swapped })
    }

    /// Time per call of each burst, in nanoseconds, with the side.
    fn run(&self, live: &Live, random: &mut Random) -> Result<Vec<(u8, f64)>, BenchError> {
        let mut order = Vec::with_capacity(self.bursts);
        for _ in 0..self.bursts / 2 {
            let first = u8::from(random.coin());
            order.extend([first, 1 - first]);
        }
        let calls = if live.is_swapped { [self.calls[1], self.calls[0]] } else { self.calls };
        let turns = Turns { calls, order };
        live.notebook.write_notebook(&turns.to_value())?;
        let r#type = self.sides[0].linked.program.r#type;
        let given = (self.input, self.context);
        self.runner.run(live.program.as_fd(), r#type, given, 1, Pace::Short)?;
        let value = live.notebook.read_notebook()?;
        let side = |position: u8| if live.is_swapped { 1 - position } else { position };
        Ok(turns.read(&value).map(|(position, ns)| (side(position), ns)).collect())
    }
}

/// Why the program cannot be loaded in one image with another. The image belongs to the object of the
/// second side; `is_foreign` is for the first.
fn needs_own_object(linked: &Linked, is_foreign: bool) -> Option<&'static str> {
    let is_variable = |insn: &Insn| insn.is_ldimm64() && insn.src() == op::PSEUDO_BTF_ID;
    if linked.throwing_calls().next().is_some() {
        return Some("a program that throws exceptions would end the loop around it");
    }
    // Both are numbers that only the program's own object explains.
    if is_foreign && !linked.kfuncs.is_empty() {
        return Some("a program that calls functions of the kernel needs its own object");
    }
    let reads_kernel = is_foreign && linked.code.insns.iter().any(is_variable);
    reads_kernel.then_some("a program that reads variables of the kernel needs its own object")
}

/// Both programs in the kernel.
#[derive(Debug)]
struct Live {
    program: Loaded,
    notebook: LoadedMap,
    _maps: [LoadedMaps; 2],
    /// Whether the second side comes first in the image.
    is_swapped: bool,
}

/// Times per call of neighbouring bursts of the first and the second side, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Bursts(Vec<[f64; 2]>);

impl Bursts {
    fn of(times: &[(u8, f64)]) -> Self {
        let neighbours = times.chunks_exact(2).map(|two| match two[0].0 {
            0 => [two[0].1, two[1].1],
            _ => [two[1].1, two[0].1],
        });
        Self(neighbours.filter(|pair| pair.iter().all(|&ns| ns > 0.0)).collect())
    }

    /// Time per call of one side: the mean of the middle half of its bursts.
    pub(super) fn side_ns(&self, side: usize) -> Option<f64> {
        middle(self.0.iter().map(|pair| pair[side]))
    }

    /// Time per call of one side while nothing disturbs: its fastest twentieth.
    pub(super) fn floor_ns(&self, side: usize) -> Option<f64> {
        let times = self.0.iter().map(|pair| pair[side]).collect();
        Sample::new(times).ok().map(|sample| sample.quantile(FASTEST))
    }

    /// How much longer a call of the second side takes, by neighbours, which what disturbs meets alike.
    pub(super) fn difference_ns(&self) -> Option<f64> {
        middle(self.0.iter().map(|[first, second]| second - first))
    }

    /// One pair of times from all neighbours: their ratio is that of neighbours.
    pub(super) fn pair(&self) -> Option<Pair> {
        let ratio = middle(self.0.iter().map(|[first, second]| (second / first).ln()))?.exp();
        let before_ns = self.side_ns(0)?;
        Some(Pair { before_ns, after_ns: before_ns * ratio })
    }
}

fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    Sample::new(values.collect()).ok().map(|sample| sample.trimmed_mean(TRIMMED))
}

#[cfg(test)]
mod tests {
    use wingbeat_bpf::{
        ProgramType,
        code::Code,
        spec::{KfuncCall, ProgramSpec},
    };

    use super::*;

    #[test]
    fn what_belongs_to_an_object_stays_there() {
        let check = |src, has_kfunc: bool, expected: [Option<&str>; 2]| {
            let insns = vec![Insn::new(op::LDIMM64, 1, src, 0, 0), Insn::default()];
            let call =
                KfuncCall { insn_index: 0, name: "bpf_rcu_read_lock".to_owned(), is_weak: false };
            let linked = Linked {
                program: ProgramSpec {
                    name: String::new(),
                    section: String::new(),
                    r#type: ProgramType::XDP,
                    attach_type: 0,
                    flags: 0,
                    attachment: None,
                    insn_count: 2,
                },
                code: Code { insns, functions: Vec::new(), lines: Vec::new() },
                kfuncs: if has_kfunc { vec![call] } else { Vec::new() },
            };
            let found = [true, false].map(|is_foreign| needs_own_object(&linked, is_foreign));
            assert_eq!(found.map(|it| it.map(|text| &text[15..30])), expected);
        };
        check(op::PSEUDO_MAP_FD, false, [None, None]);
        check(op::PSEUDO_MAP_FD, true, [Some("calls functions"), None]);
        check(op::PSEUDO_BTF_ID, false, [Some("reads variables"), None]);
    }

    #[test]
    fn neighbours_are_compared() {
        // The machine became twice as slow in the middle.
        let times = [
            (0, 10.0),
            (1, 11.0),
            (1, 22.0),
            (0, 20.0),
            (0, 20.0),
            (1, 22.0),
            (1, 11.0),
            (0, 10.0),
        ];
        let bursts = Bursts::of(&times);
        let pair = bursts.pair().expect("a pair");
        assert!((pair.after_ns / pair.before_ns - 1.1).abs() < 1e-9, "{pair:?}");
        assert_eq!(bursts.side_ns(0), Some(15.0));
        assert_eq!(bursts.difference_ns(), Some(1.5));
        assert_eq!(Bursts::of(&[]).pair(), None);
    }
}

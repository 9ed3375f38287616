//! Two programs in one image that alternate within one run: see
//! [`alternate`](mod@crate::instrument::wrapper::alternate).
//!
//! Such a run needs no repetition by the kernel, so XDP programs avoid the dispatcher's swap of 16
//! to 40 ms, and neighbouring bursts are a few microseconds apart.

use std::{
    os::fd::AsFd as _,
    time::{Duration, Instant},
};

use wingbeat_bpf_loader::{
    ProgramType,
    code::{Insn, op},
    loader::{Alarm, Loaded, LoadedMap, LoadedMaps, Loader, ResetError},
    probe,
    spec::Linked,
};
use wingbeat_stats::{random::Random, sample::Sample};

use super::{
    BenchError,
    contents::{Contents, fill},
    empty_baseline::harmless_value,
    error::short,
    kernel::Kernel,
    runner::{Alternation, Given, Leaves, Pace},
};
use crate::{
    analyse::{compare::Pair, has_changed_packet},
    instrument::wrapper::{
        self, Restored,
        alternate::{BURSTS_MAX, BurstPlan, SIDES, VALUE_SIZE, last_returned, neighbours},
    },
};

/// Length of a burst: a thousand steps of a coarse clock, and short compared to disturbances.
const BURST_NS: f64 = 10_000.0;

const CALLS_MAX: f64 = 100_000.0;

/// Time of one run. The kernel terminates a loop after 250 ms.
const RUN_NS: f64 = 10e6;

/// Number of alignments within a cache line at which the programs may begin, with instructions of 5 to 7 bytes.
const PLACES: usize = 24;

/// Maximum run time of an alternating program, in nanoseconds: its burst is one run, and a
/// disturbance of one burst covers its neighbour too.
const CALL_NS_MAX: f64 = 2e6;

/// Why packets are not put back.
const CANNOT_UNDO: &str =
    "what a program does to its packet or context cannot be undone between calls";

/// Why the kernel rejects two programs in one image. A distributor may have backported `may_goto`
/// to an old kernel, so it is tried first, and its error is appended.
fn why_refused(reason: &str) -> String {
    let refused = format!("the kernel refuses them together: {reason}");
    match probe::Kernel::running().is_at_least(6, 9) {
        true => refused,
        false => format!(
            "alternating within a run needs the instruction may_goto (Linux 6.9); {refused}"
        ),
    }
}

/// Everything needed to load a program together with another one, in one image.
#[derive(Debug, Clone)]
pub(super) struct Side<'a> {
    pub(super) linked: &'a Linked,
    pub(super) loader: &'a Loader,
    pub(super) contents: &'a Contents,
    /// Maps that take long to create: shared by all loads.
    pub(super) maps: Option<LoadedMaps>,
}

impl Side<'_> {
    /// Maps in the state before the first run.
    pub(super) fn fresh_maps(&self, alarm: &Alarm<'_>) -> Result<LoadedMaps, BenchError> {
        if let Some(maps) = &self.maps {
            match maps.reset(alarm) {
                Ok(()) => return Ok(maps.clone()),
                Err(ResetError::NotInPlace(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut maps = self.loader.create_maps_for(&[&self.linked.code], &[])?;
        fill(&mut maps, self.contents, alarm)?;
        Ok(maps)
    }
}

/// Two programs that can alternate.
#[derive(Debug)]
pub(super) struct Image<'a> {
    sides: [Side<'a>; 2],
    given: Given<'a>,
    /// State restored after each call.
    restored: Option<Restored>,
    kernel: Kernel<'a>,
    /// Calls per burst of each side.
    calls: [u32; SIDES],
    bursts: usize,
    /// Time to load both and run one sample.
    sample_time: Duration,
}

impl<'a> Image<'a> {
    /// Loads both once and determines the number of calls per burst; or returns why they cannot
    /// alternate. A run takes about `run_ns` at most. Restores the packet after each call if they
    /// change it.
    pub(super) fn new(
        sides: [Side<'a>; 2],
        given: Given<'a>,
        (run_ns, leaves): (f64, Leaves),
        kernel: Kernel<'a>,
        random: &mut Random,
    ) -> Result<Self, String> {
        if run_ns > CALL_NS_MAX {
            return Err(format!(
                "a run takes {:.1} ms, too long for bursts under the same conditions",
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
        if sides.iter().any(|side| shares_a_result(side.linked)) {
            return Err(
                "calls would share the result that the kernel empties before each run".to_owned()
            );
        }
        let restored = match leaves {
            Leaves::AsItWas => None,
            Leaves::Changed { .. } => Some(restored(&sides, given).ok_or(CANNOT_UNDO)?),
        };
        let begun = Instant::now();
        let (calls, sample_time) = ([1; SIDES], Duration::ZERO);
        let mut found = Self { sides, given, restored, kernel, calls, bursts: 16, sample_time };
        let live = found.load(random)?;
        let load_time = begun.elapsed();
        // Twice: bursts of single calls give the order of magnitude, longer ones the exact value.
        for _ in 0..2 {
            let (times, returned) = found.run(&live, random).map_err(|error| error.to_string())?;
            if let Leaves::Changed { returns: Some(expected) } = leaves
                && returned != expected
            {
                return Err(format!(
                    "{CANNOT_UNDO}: a call returned {returned} instead of {expected}"
                ));
            }
            let per_call = |side: usize| {
                let times = times.iter().filter(|time| usize::from(time.0) == side);
                Sample::new(times.map(|time| time.1).collect())
                    .map_or(BURST_NS, |it| it.median().max(1.0))
            };
            let per_call = [0, 1, 2, 3].map(per_call);
            // Between 1 and CALLS_MAX.
            found.calls = per_call.map(|ns| (BURST_NS / ns).clamp(1.0, CALLS_MAX) as u32);
            let sides = found.sides_of_bursts();
            let bursts_ns =
                per_call.iter().zip(found.calls).map(|(ns, calls)| ns * f64::from(calls));
            let burst_ns = bursts_ns.take(sides).sum::<f64>() / sides as f64;
            let bursts = (RUN_NS / burst_ns).clamp(sides as f64, BURSTS_MAX as f64) as usize;
            found.bursts = bursts / sides * sides;
        }
        found.sample_time = load_time + Duration::from_nanos(RUN_NS as u64);
        Ok(found)
    }

    fn sides_of_bursts(&self) -> usize {
        if self.restored.is_some() { SIDES } else { 2 }
    }

    fn load(&self, random: &mut Random) -> Result<Live, String> {
        let is_swapped = random.coin();
        let (first, second) = match is_swapped {
            true => (&self.sides[1], &self.sides[0]),
            false => (&self.sides[0], &self.sides[1]),
        };
        // The program under test: the other may be a baseline, which has another licence and no object.
        let wanted = &self.sides[1];
        let fresh = |side: &Side<'_>| side.fresh_maps(self.kernel.alarm);
        let first_maps = fresh(first).map_err(|error| error.to_string())?;
        let second_maps = fresh(second).map_err(|error| error.to_string())?;
        let number = |count: usize| i32::try_from(count).map_err(|_| "too many maps".to_owned());
        let first_count = number(first_maps.all().len())?;
        let options = wrapper::Options {
            map_fd: first_count + number(second_maps.all().len())?,
            program_type: wanted.linked.program.r#type,
            restored: self.restored,
        };
        let padding = random.below(PLACES);
        let result = harmless_value(wanted.linked.program.r#type);
        let codes = [&first.linked.code, &second.linked.code];
        let home = usize::from(!is_swapped);
        let image = wrapper::alternate(codes, first_count, home, result, padding, options)
            .map_err(|error| error.to_string())?;
        let value_size = VALUE_SIZE + self.restored.map_or(0, Restored::value_size);
        let results = LoadedMap::results(value_size as u32).map_err(|e| e.to_string())?;
        let mut descriptors = first_maps.descriptors();
        descriptors.extend(second_maps.descriptors());
        descriptors.push(results.as_fd());
        let effort = self.kernel.little_effort();
        let (program, called) = (&wanted.linked.program, &image.called);
        let program = wanted
            .loader
            .load_image(program, &image.code, called, &descriptors, effort)
            .map_err(|error| why_refused(&short(&error)))?;
        let _maps = [first_maps, second_maps];
        Ok(Live { program, results, value_size, _maps, is_swapped })
    }

    /// Time per call of each burst, in nanoseconds, with its side; and the last return value of the
    /// second program, which is only recorded if the packet is restored.
    fn run(&self, live: &Live, random: &mut Random) -> Result<(Vec<(u8, f64)>, u32), BenchError> {
        let sides = self.sides_of_bursts();
        let mut order = Vec::with_capacity(self.bursts);
        let mut group = [0, 1, 2, 3];
        for _ in 0..self.bursts / sides {
            random.shuffle(&mut group[..sides]);
            order.extend_from_slice(&group[..sides]);
        }
        let [first, second, rest @ ..] = self.calls;
        let [first, second] = if live.is_swapped { [second, first] } else { [first, second] };
        let plan = BurstPlan { calls: [first, second, rest[0], rest[1]], order };
        let mut value = plan.to_value();
        value.resize(live.value_size, 0);
        live.results.write_results(&value)?;
        let r#type = self.sides[0].linked.program.r#type;
        let run = self.kernel.run(live.program.as_fd(), r#type, self.given, 1, Pace::Short)?;
        if self.restored.is_some() && has_changed_packet(r#type, &self.given.0.data, &run.data) {
            return Err(BenchError::NotMeasurable(CANNOT_UNDO.to_owned()));
        }
        let value = live.results.read_results()?;
        let side = |position: u8| match position {
            0 | 1 if live.is_swapped => 1 - position,
            _ => position,
        };
        let times = plan.read(&value).map(|(position, ns)| (side(position), ns)).collect();
        let returned = last_returned(&value, usize::from(side(1)));
        Ok((times, returned))
    }
}

/// State to restore if these programs alternate; `None` if that is impossible.
fn restored(sides: &[Side<'_>; 2], (input, context): Given<'_>) -> Option<Restored> {
    let [first, second] = sides.each_ref().map(|side| side.linked);
    let r#type = second.program.r#type;
    // Metadata in front of a packet cannot be restored.
    let has_metadata = r#type == ProgramType::XDP && context.iter().take(4).any(|byte| *byte != 0);
    let found = || Restored::of(r#type, input.data.len(), [&first.code, &second.code]);
    (!has_metadata).then(found).flatten()
}

impl Alternation for Image<'_> {
    fn run_bursts(&self, random: &mut Random) -> Result<Bursts, BenchError> {
        let live = self.load(random).map_err(BenchError::NotMeasurable)?;
        let (times, returned) = self.run(&live, random)?;
        Ok(match self.restored {
            None => Bursts::of(&times),
            Some(_) => Bursts::restored(&times, returned),
        })
    }

    fn calls(&self, side: usize) -> u32 {
        self.calls[side]
    }

    fn sample_time(&self) -> Duration {
        self.sample_time
    }
}

/// Why the program cannot be loaded in one image with another. The image belongs to the object of
/// the second side; `is_foreign` is for the first.
fn needs_own_object(linked: &Linked, is_foreign: bool) -> Option<&'static str> {
    let is_variable = |insn: &Insn| insn.is_ldimm64() && insn.src() == op::PSEUDO_BTF_ID;
    if linked.throwing_calls().next().is_some() {
        return Some("a program that throws exceptions would end the loop around it");
    }
    // Both are numbers that only the program's own object defines.
    if is_foreign && !linked.kfuncs.is_empty() {
        return Some("a program that calls functions of the kernel needs its own object");
    }
    let reads_kernel = is_foreign && linked.code.insns.iter().any(is_variable);
    reads_kernel.then_some("a program that reads variables of the kernel needs its own object")
}

/// Whether the kernel puts back, before each run that it repeats, what calls of a program would leave to each
/// other: the keys of a flow dissector, the socket that `bpf_sk_assign` chose
/// (`bpf_prog_test_run_flow_dissector` and `_sk_lookup` in net/bpf/test_run.c, Linux 6.18).
fn shares_a_result(linked: &Linked) -> bool {
    const SK_ASSIGN: i32 = 124;
    let is_assigning =
        |insn: &Insn| (insn.opcode, insn.src(), insn.immediate) == (op::CALL, 0, SK_ASSIGN);
    match linked.program.r#type {
        // Whatever is not on its stack may be a key.
        ProgramType::FLOW_DISSECTOR => {
            let is_storing =
                |insn: &Insn| matches!(insn.opcode & 0x07, op::ST | op::STX) && insn.dst() != 10;
            linked.code.insns.iter().any(is_storing)
        }
        ProgramType::SK_LOOKUP => linked.code.insns.iter().any(is_assigning),
        _ => false,
    }
}

/// Both programs in the kernel.
#[derive(Debug)]
struct Live {
    program: Loaded,
    results: LoadedMap,
    /// Value size of the results.
    value_size: usize,
    _maps: [LoadedMaps; 2],
    /// Whether the second side comes first in the image.
    is_swapped: bool,
}

// Times of bursts that alternated within one run.

/// Share of burst pairs trimmed at each end.
const TRIMMED: f64 = 0.25;

/// Quantile of the bursts of a run that counts as undisturbed.
const FASTEST: f64 = 0.05;

/// Times per call of neighbouring bursts of the first and the second side, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Bursts {
    pairs: Vec<[f64; 2]>,
    /// How much smaller the overhead is than the subtracted one when nothing disturbs.
    less_off_ns: f64,
    /// Last return value of the second side, if packets are restored.
    pub(super) returned: Option<u32>,
}

impl Bursts {
    pub(super) fn of(times: &[(u8, f64)]) -> Self {
        Self { pairs: sound(neighbours::<2>(times)), less_off_ns: 0.0, returned: None }
    }

    /// For programs whose packet is restored after each call, without the time of restoring: two
    /// more sides are an empty function with and without it.
    pub(super) fn restored(times: &[(u8, f64)], returned: u32) -> Self {
        let groups: Vec<_> = neighbours::<SIDES>(times).collect();
        let usual = middle(groups.iter().map(|[_, _, restoring, nothing]| restoring - nothing));
        let usual_ns = usual.unwrap_or(0.0).max(0.0);
        let least = |side: usize| fastest(groups.iter().map(|group| group[side]));
        let least_ns = least(2).zip(least(3)).map_or(usual_ns, |(it, nothing)| it - nothing);
        let pairs = groups.iter().map(|&[a, b, ..]| [a - usual_ns, b - usual_ns]);
        let less_off_ns = usual_ns - least_ns;
        Self { pairs: sound(pairs), less_off_ns, returned: Some(returned) }
    }

    /// Time per call of one side: the mean of the middle half of its bursts.
    pub(super) fn side_ns(&self, side: usize) -> Option<f64> {
        middle(self.pairs.iter().map(|pair| pair[side]))
    }

    /// Undisturbed time per call of one side: the 5th percentile of its bursts.
    pub(super) fn floor_ns(&self, side: usize) -> Option<f64> {
        let least_ns = fastest(self.pairs.iter().map(|pair| pair[side]))?;
        Some(least_ns + self.less_off_ns)
    }

    /// Time difference per call between the second and the first side, by neighbours, which are disturbed equally.
    pub(super) fn difference_ns(&self) -> Option<f64> {
        middle(self.pairs.iter().map(|[first, second]| second - first))
    }

    /// One pair of times from all neighbours: their ratio is that of neighbours.
    pub(super) fn pair(&self) -> Option<Pair> {
        let ratio = middle(self.pairs.iter().map(|[first, second]| (second / first).ln()))?.exp();
        let before_ns = self.side_ns(0)?;
        Some(Pair { before_ns, after_ns: before_ns * ratio })
    }
}

fn sound(pairs: impl Iterator<Item = [f64; 2]>) -> Vec<[f64; 2]> {
    pairs.filter(|pair| pair.iter().all(|&ns| ns > 0.0)).collect()
}

fn fastest(values: impl Iterator<Item = f64>) -> Option<f64> {
    Sample::new(values.collect()).ok().map(|sample| sample.quantile(FASTEST))
}

fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    Sample::new(values.collect()).ok().map(|sample| sample.trimmed_mean(TRIMMED))
}

#[cfg(test)]
mod tests {
    use wingbeat_bpf_loader::{ProgramType, code::Code, spec::KfuncCall};
    use wingbeat_bpf_testing::linked;

    use super::*;

    #[test]
    fn what_belongs_to_an_object_stays_there() {
        let check = |src, has_kfunc: bool, expected: [Option<&str>; 2]| {
            let insns = vec![Insn::new(op::LDIMM64, 1, src, 0, 0), Insn::default()];
            let call =
                KfuncCall { insn_index: 0, name: "bpf_rcu_read_lock".to_owned(), is_weak: false };
            let code = Code { insns, ..Code::default() };
            let kfuncs = if has_kfunc { vec![call] } else { Vec::new() };
            let linked = Linked { kfuncs, ..linked("", ProgramType::XDP, code) };
            let found = [true, false].map(|is_foreign| needs_own_object(&linked, is_foreign));
            assert_eq!(found.map(|it| it.map(|text| &text[15..30])), expected);
        };
        check(op::PSEUDO_MAP_FD, false, [None, None]);
        check(op::PSEUDO_MAP_FD, true, [Some("calls functions"), None]);
        check(op::PSEUDO_BTF_ID, false, [Some("reads variables"), None]);
    }

    #[test]
    fn neighbours_are_compared() {
        // The machine becomes twice as slow in the middle.
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

    #[test]
    fn what_puts_packets_back_is_taken_off() {
        // Restoring takes 20 ns, the loop 1.
        let group = [(2, 21.0), (1, 90.0), (3, 1.0), (0, 30.0)];
        let bursts = Bursts::restored(&group.repeat(8), 2);
        assert_eq!((bursts.side_ns(0), bursts.side_ns(1)), (Some(10.0), Some(70.0)));
        assert_eq!(bursts.difference_ns(), Some(60.0));
        let pair = bursts.pair().expect("a pair");
        assert!((pair.after_ns / pair.before_ns - 7.0).abs() < 1e-9, "{pair:?}");
    }
}

//! Measurement helpers of the examples: two programs in one image that alternate in bursts.

use std::{
    error::Error,
    os::fd::{AsFd as _, BorrowedFd},
    path::Path,
};

use wingbeat_bpf_bench::{
    input::DEFAULT_PACKET,
    instrument::wrapper::{
        self,
        alternate::{BurstPlan, VALUE_SIZE, neighbours},
    },
};
use wingbeat_bpf_loader::{
    KernelTypes, ProgramType,
    code::Code,
    loader::{Alarm, Effort, Explained, Loaded, LoadedMap, Loader, LoaderOptions, RunInput, run},
    spec::{Linked, ProgramSpec, Spec},
};
use wingbeat_bpf_testing::{assemble::Assembler, linked};
use wingbeat_stats::{random::Random, sample::median};

pub(crate) type Failure = Box<dyn Error>;
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Default number of loads of each pair.
pub(crate) const LOADS: usize = 40;
/// Burst pairs in each load.
pub(crate) const PAIRS: usize = 200;
pub(crate) const XDP_PASS: i32 = 2;
/// Approximate length of a burst.
const BURST_NS: f64 = 10_000.0;
/// Number of alignments at which the programs may begin, in instructions.
const PLACES: usize = 24;

/// Calls `row` with each XDP program of the objects.
pub(crate) fn each_xdp(
    objects: impl Iterator<Item = String>,
    mut row: impl FnMut(&Linked, &Loader) -> Result<()>,
) -> Result<()> {
    for object in objects {
        let spec = Spec::read(Path::new(&object))?;
        let target = spec.needs_target_types().then(KernelTypes::from_kernel).transpose()?;
        let loader = Loader::new(&spec, LoaderOptions::default())?;
        for linked in spec.link(target.as_ref())? {
            if linked.program.r#type == ProgramType::XDP {
                row(&linked, &loader)?;
            }
        }
    }
    Ok(())
}

/// An XDP program that contains the given instructions.
pub(crate) fn made(name: &str, body: impl FnOnce(&mut Assembler)) -> Linked {
    let mut it = Assembler::new();
    body(&mut it);
    it.mov(0, XDP_PASS).exit();
    linked(name, ProgramType::XDP, it.finish())
}

/// Two codes in the kernel, at a random address.
pub(crate) struct Image {
    program: Loaded,
    results: LoadedMap,
}

impl Image {
    /// Loads both codes with their maps. `home` is the one whose object loads both.
    pub(crate) fn load(
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
    pub(crate) fn burst_calls(&self, random: &mut Random) -> Result<[u32; 2]> {
        let trial = self.run_bursts([100; 2], 10, random)?;
        Ok([0, 1].map(|side| {
            let ns = median(trial.iter().map(|pair| pair[side]).collect()).max(1.0);
            (BURST_NS / ns).clamp(1.0, 10_000.0) as u32
        }))
    }

    /// Alternates both: times per call of neighbouring bursts, first code first.
    pub(crate) fn run_bursts(
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

//! Confirms exact counts: compares the counters with an interpreter in user space.
//!
//! Compares the executions of every instruction, the return values, and the resulting packets. The
//! latter two are also compared with the kernel's run without counters.

use std::{os::fd::AsFd as _, sync::atomic::AtomicBool};

use rustix::time::{ClockId, clock_gettime};
use wingbeat_bpf_loader::{
    loader::{Alarm, LoadedMaps, Loader, ProgramRun, RunInput, run},
    spec::Spec,
};
use wingbeat_bpf_testing::world::{self, Surroundings, WorldOutcome};

use super::{
    BenchError,
    contents::{Contents, contents, fill},
    count_program, kernel,
    subject::link_one,
};
use crate::{
    input::{EntryValue, Input},
    plan::{Plan, find},
};

/// Result for one program on one input.
#[derive(Debug)]
pub struct Confirmation {
    pub input: String,
    /// Executed instructions according to the counters.
    pub counted: u64,
    /// Executed instructions according to the interpreter.
    pub interpreted: u64,
    /// First instruction with different execution counts.
    pub difference: Option<Difference>,
    /// Return values: plain program, with counters, in the interpreter.
    pub return_values: [u32; 3],
    /// Whether the packet after the plain program equals that after the interpreter.
    pub is_packet_same: bool,
}

/// An instruction with different counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    pub index: usize,
    /// Executions according to the counters.
    pub counted: u64,
    /// Executions according to the interpreter.
    pub interpreted: u64,
}

impl Confirmation {
    /// Whether all results agree.
    pub fn agrees(&self) -> bool {
        let [plain, counted, interpreted] = self.return_values;
        self.difference.is_none() && plain == counted && plain == interpreted && self.is_packet_same
    }
}

/// Counts a program in both ways, on each input of a plan, on fresh maps each time. Fails if it
/// cannot be counted at all; a single input fails if the interpreter does not support what the
/// program does.
pub fn confirm(
    spec: &Spec,
    program: &str,
    plan: &Plan,
) -> Result<Vec<Result<Confirmation, BenchError>>, BenchError> {
    let cpu = plan.cpu.or_else(|| kernel::allowed_cpus().last().copied());
    let program = find(spec, program)?.name.clone();
    // Report errors that concern all inputs once.
    contents(spec, plan, &mut Loader::new(spec)?)?;
    let one = |input: &Input| {
        let plan = Plan { inputs: vec![input.clone()], cpu, ..plan.clone() };
        let by_counters = count_program(spec, &program, &plan, &AtomicBool::new(false))?;
        let counted = by_counters.outcomes.first().map_or(0, |(_, value)| *value);
        let executed = &by_counters.counts.executed;
        let other = kernel::on_thread_of_its_own(plan.cpu, &AtomicBool::new(false), |kernel| {
            interpret(spec, &program, &plan, input, kernel.cpu)
        });
        let Other { run, interpreted } = other?;
        let pairs = executed.iter().zip(&interpreted.counts).enumerate();
        let difference = pairs
            .filter(|(_, (counted, interpreted))| counted != interpreted)
            .map(|(index, (&counted, &interpreted))| Difference { index, counted, interpreted })
            .next();
        Ok(Confirmation {
            input: input.name.clone(),
            counted: by_counters.counts.instructions(),
            interpreted: interpreted.counts.iter().sum(),
            difference,
            return_values: [run.return_value, counted, interpreted.return_value],
            // The kernel returns a packet with its Ethernet header, even if the program saw none.
            is_packet_same: run.data.ends_with(&interpreted.packet),
        })
    };
    Ok(plan.inputs.iter().map(one).collect())
}

/// The interpreter's run and the kernel's.
struct Other {
    run: ProgramRun,
    interpreted: WorldOutcome,
}

fn interpret(
    spec: &Spec,
    program: &str,
    plan: &Plan,
    input: &Input,
    cpu: usize,
) -> Result<Other, BenchError> {
    let linked = link_one(spec, program)?;
    let mut loader = Loader::new(spec)?;
    let contents = contents(spec, plan, &mut loader)?;
    let mut maps = loader.create_maps()?;
    fill(&mut maps, &contents, &Alarm::never())?;
    let plain = loader.load(&linked.program, &linked.code, &maps.descriptors())?;
    let surroundings = Surroundings { cpu: u32::try_from(cpu).unwrap_or(0), now_ns: now_ns() };
    // Before the kernel's run, which changes the maps.
    let mut live = Live { maps: &maps, contents: &contents, cpu };
    let interpreted = world::run(&linked, spec.maps(), &mut live, &input.data, surroundings)
        .map_err(|error| BenchError::NotMeasurable(format!("{program}: {error}")))?;
    let given = RunInput { data: &input.data, context: &plan.context };
    let run = run(plain.as_fd(), linked.program.r#type, given, 1)?;
    Ok(Other { run, interpreted })
}

fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let [seconds, nanoseconds] =
        [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    seconds * 1_000_000_000 + nanoseconds
}

/// Maps in the kernel, as seen by programs on one CPU.
struct Live<'a> {
    maps: &'a LoadedMaps,
    contents: &'a Contents,
    cpu: usize,
}

impl world::Contents for Live<'_> {
    fn lookup(&mut self, map: usize, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let map = self.maps.all().get(map).ok_or("a map that the object does not have")?;
        let len = map.spec().value_size as usize;
        let start = match map.spec().r#type.is_per_cpu() {
            true => self.cpu * len.next_multiple_of(8),
            false => 0,
        };
        let Some(value) = map.lookup(key).map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let value = value.get(start..start + len).ok_or("a value that is too short")?;
        Ok(Some(value.to_vec()))
    }

    /// Queues cannot be read without removing elements.
    fn queue(&mut self, map: usize) -> Result<Vec<Vec<u8>>, String> {
        let map = self.maps.all().get(map).ok_or("a map that the object does not have")?;
        let own = self.contents.entries.iter().filter(|(name, ..)| *name == map.spec().name);
        let values = own.flat_map(|(_, _, entries)| entries).map(|entry| match &entry.value {
            EntryValue::Same(value) => Ok(value.clone()),
            EntryValue::PerCpu(_) => Err("a queue with values for each CPU".to_owned()),
            EntryValue::Program(_) | EntryValue::Map(_) => Err("a queue of names".to_owned()),
        });
        values.collect()
    }
}

//! The loaded kernel half: programs, maps, counters.

use std::{
    collections::{BTreeMap, HashSet},
    fmt, fs,
    os::fd::{AsFd, BorrowedFd},
};

use wingbeat_bpf_loader::{
    ProgramType,
    loader::{self, Attached, LoadError, Loaded, LoadedMap, LoadedMaps, RingReader, RunInput},
    perf::CpuClock,
    program::ProgramInfo,
    uprobe_targets,
};
use wingbeat_profiler_abi::{counter, map, program, target};

use crate::{
    counts::Counters,
    error::RecordError,
    session::{
        object::{Blocks, Object, Settings},
        tables::Tables,
    },
};

/// Sampling rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    Hz(u64),
    /// One sample per this many page faults.
    Faults(u64),
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hz(frequency_hz) => write!(f, "a clock of {frequency_hz} Hz"),
            Self::Faults(_) => f.write_str("a counter of page faults"),
        }
    }
}

/// Source of scheduler switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BackEnd {
    /// Reads fields directly, and finds threads that do not switch with a task iterator.
    TpBtf,
    /// For kernels that refuse `tp_btf`.
    RawTracepoint,
}

/// The loaded kernel half. Dropping it unloads everything.
pub(super) struct KernelHalf {
    maps: LoadedMaps,
    programs: BTreeMap<&'static str, Loaded>,
    /// Programs that stay attached.
    pub(super) attached: Vec<Attached>,
    /// The scheduler's programs, until the recording stops.
    pub(super) switches: Vec<Attached>,
    /// The program for address space calls, until the recording stops.
    space: Option<Attached>,
    /// `None` once reading has stopped.
    ring: Option<RingReader>,
    clocks: Vec<CpuClock>,
    pub(super) blocks: Option<Blocks>,
    pub(super) back_end: BackEnd,
    /// Why the preferred back end was not used.
    pub(super) fell_back: Option<String>,
    /// Unwind tables, unless it walks by frame pointers.
    pub(super) tables: Option<Tables>,
}

impl KernelHalf {
    /// Loads the programs and attaches those that maintain the table of targets. No samples yet.
    pub(super) fn load(settings: Settings) -> Result<Self, RecordError> {
        Self::load_for(settings, BackEnd::TpBtf)
    }

    fn load_for(settings: Settings, back_end: BackEnd) -> Result<Self, RecordError> {
        if settings.sample_bytes.is_some() {
            need_links()?;
        }
        let object = Object::prepare(settings)?;
        let maps = object
            .loader
            .create_maps()
            .map_err(RecordError::kernel("create the maps of the profiler"))?;
        // Allocates the first memory while the programs are loaded.
        let tables =
            settings.has_tables().then(|| Tables::new(&maps, settings.unwind_bytes)).transpose()?;
        let mut half = Self {
            maps,
            programs: BTreeMap::new(),
            attached: Vec::new(),
            switches: Vec::new(),
            space: None,
            ring: None,
            clocks: Vec::new(),
            blocks: settings.blocks,
            back_end,
            fell_back: None,
            tables,
        };
        if settings.namespaced {
            half.note_namespace(&object)?;
        }
        for (name, tracepoint) in program::TRACEPOINTS {
            half.load_program(&object, name)?;
            let attached = half.program(name)?.attach_raw(tracepoint);
            half.attached.push(attached.map_err(RecordError::kernel(format!(
                "attach the program {name} to the tracepoint {tracepoint}"
            )))?);
        }
        half.load_program(&object, program::SAMPLE)?;
        if settings.faults {
            half.load_program(&object, program::FAULT)?;
        }
        if settings.blocks.is_some() {
            half.load_switch(&object)?;
        }
        if settings.sample_bytes.is_some() {
            half.load_heap(&object)?;
        }
        if settings.space {
            half.load_program(&object, program::SPACE)?;
        }
        // One after the other, since both are large.
        drop(object);
        let ring = RingReader::new(half.map(map::RECORDS)?);
        half.ring = Some(ring.map_err(RecordError::kernel("map the ring buffer"))?);
        Ok(half)
    }

    /// Makes the kernel half store this process's PID namespace, whose numbers it then uses.
    fn note_namespace(&mut self, object: &Object) -> Result<(), RecordError> {
        const WHAT: &str = "find the PID namespace of this process";
        self.load_program(object, program::NAMESPACE)?;
        let program = self.program(program::NAMESPACE)?;
        let input = RunInput { data: &[], context: &[0; 8] };
        loader::run(program, ProgramType::RAW_TRACEPOINT, input, 1)
            .map(|_| ())
            .map_err(RecordError::kernel(WHAT))
    }

    pub(super) fn load_program(
        &mut self,
        object: &Object,
        name: &'static str,
    ) -> Result<(), RecordError> {
        let what = format!("load the program {name}");
        let load = |has_functions| {
            let mut linked = object.spec.link_program(name, None)?;
            object.replace_placeholders(&mut linked.code, has_functions);
            object.loader.load(&linked.program, &linked.code, &self.maps.descriptors())
        };
        let loaded = match load(true) {
            // Before Linux 6.15 only static functions may be called in between, and the walk is a global one.
            Err(LoadError::Rejected { .. }) if object.has_functions() => {
                let is_uprobe =
                    [program::HEAP_ENTRY, program::HEAP_EXIT, program::HEAP_FREE].contains(&name);
                if is_uprobe && is_preemption_possible() {
                    return Err(RecordError::Kernel {
                        what,
                        reason: PREEMPTION_REFUSED.to_owned(),
                    });
                }
                load(false)
            }
            other => other,
        };
        let loaded = loaded.map_err(|error| match error {
            // The rest of these messages repeats ours.
            LoadError::Refused { source, .. } | LoadError::Failed { source, .. } => {
                RecordError::kernel(what)(source)
            }
            error => RecordError::kernel(what)(error),
        })?;
        self.programs.insert(name, loaded);
        Ok(())
    }

    pub(super) fn program(&self, name: &str) -> Result<&Loaded, RecordError> {
        self.programs.get(name).ok_or_else(|| RecordError::missing(name))
    }

    /// Forks that the kernel half missed, because its program had been preempted on the same CPU while it handled another
    /// one (since Linux 7.0).
    pub(super) fn forks_missed(&self) -> u64 {
        let info = self.programs.get(program::FORK).and_then(|it| ProgramInfo::of(it).ok());
        info.map_or(0, |info| info.recursion_misses)
    }

    pub(super) fn map(&self, name: &str) -> Result<&LoadedMap, RecordError> {
        self.maps.get(name).ok_or_else(|| RecordError::missing(name))
    }

    /// Starts the sampler's events on each CPU.
    pub(super) fn start(&mut self, cpus: &[u32], pace: Pace) -> Result<(), RecordError> {
        for &cpu in cpus {
            let what = |verb: &str| format!("{verb} {pace} on CPU {cpu}");
            let (clock, name) = match pace {
                Pace::Hz(frequency_hz) => (CpuClock::open(cpu, frequency_hz), program::SAMPLE),
                Pace::Faults(period) => (CpuClock::open_page_faults(cpu, period), program::FAULT),
            };
            let clock = clock.map_err(RecordError::system(what("open")))?;
            clock
                .attach(self.program(name)?)
                .map_err(RecordError::system(what("attach the sampler to")))?;
            self.clocks.push(clock);
        }
        for clock in &self.clocks {
            clock.start().map_err(RecordError::system("start a clock"))?;
        }
        Ok(())
    }

    /// Starts recording address space calls, if requested.
    pub(super) fn start_space(&mut self) -> Result<(), RecordError> {
        const SYS_EXIT: &str = "sys_exit";
        if let Ok(program) = self.program(program::SPACE) {
            let attached = program.attach_raw(SYS_EXIT);
            let what = format!("attach to the tracepoint {SYS_EXIT}");
            self.space = Some(attached.map_err(RecordError::kernel(what))?);
        }
        Ok(())
    }

    /// Stops the clocks, and returns how long they ran, in nanoseconds summed over the CPUs. No further samples.
    /// The programs stay loaded, so that their frames still have names.
    pub(super) fn stop(&mut self) -> Result<u64, RecordError> {
        let mut clocks_ns = 0;
        for clock in &self.clocks {
            clock.stop().map_err(RecordError::system("stop a clock"))?;
            clocks_ns += clock.ran_ns().map_err(RecordError::system("read a clock"))?;
        }
        self.clocks.clear();
        self.space = None;
        Ok(clocks_ns)
    }

    /// Makes processes targets.
    pub(super) fn add_targets(
        &mut self,
        pids: impl IntoIterator<Item = u32>,
    ) -> Result<(), RecordError> {
        let targets = self.map(map::TARGETS)?;
        for pid in pids {
            targets
                .set(&pid.to_ne_bytes(), &target::ACTIVE.to_ne_bytes())
                .map_err(RecordError::kernel(format!("add PID {pid} to the table of targets")))?;
        }
        Ok(())
    }

    /// Removes one of our own processes from the targets. An exited one is removed already.
    pub(super) fn remove_target(&self, pid: u32) {
        let _ = self.map(map::TARGETS).map(|targets| targets.remove(&pid.to_ne_bytes()));
    }

    /// The processes that are targets now.
    pub(super) fn targets(&self) -> HashSet<u32> {
        let keys = self.map(map::TARGETS).ok().and_then(|targets| targets.keys().ok());
        let pids = keys.unwrap_or_default().into_iter();
        pids.filter_map(|key| Some(u32::from_ne_bytes(key.try_into().ok()?))).collect()
    }

    /// Passes each waiting record to `take`.
    pub(super) fn drain(&mut self, take: impl FnMut(&[u8])) {
        if let Some(ring) = &mut self.ring {
            ring.drain(take);
        }
    }

    /// Stops reading.
    pub(super) fn close_ring(&mut self) {
        self.ring = None;
    }

    /// Descriptor for waiting until the ring buffer fills up.
    pub(super) fn ring_fd(&self) -> Option<BorrowedFd<'_>> {
        self.ring.as_ref().map(AsFd::as_fd)
    }

    /// One counter, summed over the CPUs.
    pub(super) fn counter(&self, index: u32) -> Result<u64, RecordError> {
        self.map(map::COUNTERS)?
            .sum(&index.to_ne_bytes())
            .map_err(RecordError::kernel("read a counter"))
    }

    /// All counters.
    pub(super) fn counters(&self) -> Result<Counters, RecordError> {
        (0..counter::COUNT).map(|index| self.counter(index)).collect()
    }
}

/// Fails if the kernel cannot attach to the functions of an allocator.
fn need_links() -> Result<(), RecordError> {
    uprobe_targets::try_link().map_err(|error| RecordError::Kernel {
        what: "attach to the functions of an allocator".to_owned(),
        reason: format!("Linux 6.6 or newer is required, with uprobe_multi links: {error}"),
    })
}

/// Why such programs are not loaded where nothing keeps two of them apart.
pub(super) const PREEMPTION_REFUSED: &str = "this kernel may preempt the probes of one thread for those of another, which share \
                                  memory from Linux 6.13 on, and cannot prevent that before 6.15; use another kernel, \
                                  or boot with preempt=voluntary";

/// What the kernel was built for, and what was chosen when it was booted.
pub(super) fn is_preemption_possible() -> bool {
    let version = rustix::system::uname().version().to_string_lossy().into_owned();
    let chosen = fs::read_to_string("/sys/kernel/debug/sched/preempt").unwrap_or_default();
    is_preemption_possible_with(&version, &chosen)
}

fn is_preemption_possible_with(version: &str, chosen: &str) -> bool {
    version.contains("PREEMPT") && !["(none)", "(voluntary)"].iter().any(|it| chosen.contains(it))
}

#[cfg(test)]
mod tests {

    use wingbeat_bpf_loader::{
        Verb,
        code::op,
        probe::{can, findings},
        spec::Spec,
    };
    use wingbeat_profiler_abi::placeholder;

    use crate::session::{Unwind, object::OBJECT};

    use super::*;

    /// The minimum is Linux 5.15, according to README.md.
    #[test]
    fn no_helper_is_newer_than_the_oldest_kernel() {
        const TASK_PT_REGS: i32 = 175; // The last that 5.15 has (include/uapi/linux/bpf.h).
        let spec = Spec::parse("the kernel half", OBJECT).expect("the embedded object");
        for linked in spec.link(None).expect("programs") {
            let is_placeholder = |number: i32| {
                placeholder::FUNCTIONS.iter().any(|(known, _)| *known as i32 == number)
            };
            let calls = linked.code.insns.iter().filter(|it| {
                it.opcode == op::CALL && it.src() == 0 && !is_placeholder(it.immediate)
            });
            let newest = calls.map(|call| call.immediate).max();
            assert!(
                newest.is_some_and(|it| it <= TASK_PT_REGS),
                "{newest:?} in {:?}",
                linked.program
            );
        }
    }

    #[test]
    fn all_walks_pass_the_verifier() {
        if !can(Verb::Profile, &findings()) {
            assert!(std::env::var_os("CI").is_none(), "CI must be able to load programs");
            eprintln!("skipped: `wingbeat doctor` says that profiling is impossible here");
            return;
        }
        let blocks = Some(Blocks { min_block_ns: 1_000, wakers: true });
        // Without uprobe links, the heap's programs are not loaded.
        let sample_bytes = need_links().is_ok().then_some(512 << 10);
        let settings = |unwind, namespaced| Settings {
            all: false,
            inherit: true,
            namespaced,
            launcher: None,
            buffer_bytes: 1 << 20,
            blocks,
            sample_bytes,
            space: true,
            faults: true,
            unwind,
            unwind_bytes: 1 << 20,
        };
        let check = |settings: Settings, back_end| {
            let loaded = KernelHalf::load_for(settings, back_end);
            let what = format!("{settings:?}, {back_end:?}");
            assert!(loaded.is_ok(), "{what}: {:?}", loaded.err());
            let half = loaded.ok();
            let fell_back = half.as_ref().and_then(|half| half.fell_back.clone());
            assert_eq!(half.map(|half| half.back_end), Some(back_end), "{what}: {fell_back:?}");
        };
        for back_end in [BackEnd::TpBtf, BackEnd::RawTracepoint] {
            for unwind in Unwind::ALL {
                check(settings(unwind, false), back_end);
            }
            check(settings(Unwind::Auto, true), back_end);
        }
    }

    #[test]
    fn builds_and_choices() {
        let check = |version, chosen, expected| {
            assert_eq!(
                is_preemption_possible_with(version, chosen),
                expected,
                "{version} {chosen}"
            );
        };
        check("#1 SMP Debian 6.1.1", "", false);
        check("#1 SMP PREEMPT_DYNAMIC", "none (voluntary) full\n", false);
        check("#1 SMP PREEMPT_DYNAMIC", "(none) voluntary full\n", false);
        check("#1 SMP PREEMPT_DYNAMIC", "full (lazy)\n", true);
        // Nobody says.
        check("#1 SMP PREEMPT_DYNAMIC", "", true);
        check("#1 SMP PREEMPT_RT", "", true);
    }
}

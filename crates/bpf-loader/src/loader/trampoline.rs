//! Attaches tracers to the entry and exit of another program (fentry and fexit), which stays loaded and attached, and
//! opens perf events that they read.
//!
//! The kernel puts a trampoline in front of the other program's function: it calls the entry
//! tracers, then the function, then the exit tracers. That requires the type information of the
//! other program, to find the function, the JIT compiler, and a kernel that supports trampolines,
//! which many small cloud kernels do not.

use std::{
    io,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
};

use super::{LoadedMap, MapError, Rejection, load::put_descriptors, verifier::text};
use crate::{
    btf::KernelTypes,
    code::Insn,
    perf,
    program::ProgramInfo,
    program_type::ProgramType,
    sys::{self, LoadRequest},
};

/// `BPF_TRACE_FENTRY` and `BPF_TRACE_FEXIT` (include/uapi/linux/bpf.h, Linux 6.18).
const TRACE_FENTRY: u32 = 24;
const TRACE_FEXIT: u32 = 25;

/// `BPF_LOG_LEVEL1` (include/linux/bpf_verifier.h, Linux 6.18), and the size of its log in bytes.
const LOG_INSTRUCTIONS: u32 = 1;
const LOG_LEN: usize = 1 << 20;

/// When a tracer runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    Entry,
    Exit,
}

impl Moment {
    /// Name in sections.
    pub fn name(self) -> &'static str {
        match self {
            Self::Entry => "fentry",
            Self::Exit => "fexit",
        }
    }
}

/// Why a program cannot be traced.
#[derive(Debug, thiserror::Error)]
pub enum TrampolineError {
    /// The kernel cannot find its function.
    #[error(
        "it was loaded without type information (BTF), by which the kernel finds the function to attach to; build the object with it (clang -g, or bpf-linker --btf), and load it with a loader that passes it on"
    )]
    NoTypes,
    #[error("the kernel refuses to load a program for its {}: {}", entry_or_exit(*.moment), answer(.source, .log))]
    Load {
        moment: Moment,
        source: io::Error,
        /// The verifier log; may be empty.
        log: String,
    },
    #[error("the kernel refuses to attach a program to its {}: {}", entry_or_exit(*.moment), answer(.source, ""))]
    Attach { moment: Moment, source: io::Error },
    #[error("the kernel gives no information about it: {0}")]
    Unknown(#[source] io::Error),
}

fn entry_or_exit(moment: Moment) -> &'static str {
    match moment {
        Moment::Entry => "entry (fentry)",
        Moment::Exit => "exit (fexit)",
    }
}

/// The kernel's error, with the reason from the log if there is one.
fn answer(source: &io::Error, log: &str) -> String {
    let answered = match source.raw_os_error() {
        Some(sys::ENOTSUPP) => "operation not supported (ENOTSUPP)".to_owned(),
        _ => source.to_string(),
    };
    match Rejection::parse(log.to_owned()).reason().map(str::trim) {
        Some(message) => format!("{message} ({answered})"),
        None => answered,
    }
}

/// A loaded program to attach tracers to.
#[derive(Debug, Clone, Copy)]
pub struct TraceTarget<'a> {
    program: BorrowedFd<'a>,
    /// Type of its entry function.
    function: u32,
}

impl<'a> TraceTarget<'a> {
    /// Looks up the function of `program`. Fails if it has no type information, or the kernel does not return it.
    pub fn new(program: BorrowedFd<'a>) -> Result<Self, TrampolineError> {
        let found = sys::program_function(program).map_err(TrampolineError::Unknown)?;
        let (_, function) = found.ok_or(TrampolineError::NoTypes)?;
        Ok(Self { program, function })
    }
}

/// A program for the entry or the exit of another one.
#[derive(Debug)]
pub struct Tracer {
    moment: Moment,
    program: OwnedFd,
    link: Option<OwnedFd>,
}

impl Tracer {
    /// Loads `insns` for one moment of `target`, without attaching them. `maps` are the maps that
    /// numbers in the code refer to. Fails if the kernel rejects it, for example because `target`
    /// is of a kind that cannot be traced.
    pub fn load(
        target: TraceTarget<'_>,
        moment: Moment,
        insns: &[Insn],
        maps: &[BorrowedFd<'_>],
    ) -> Result<Self, TrampolineError> {
        let mut insns = insns.to_vec();
        put_descriptors(&mut insns, maps);
        let bytes = Insn::all_to_bytes(&insns);
        let request = LoadRequest {
            prog_type: ProgramType::TRACING.0,
            expected_attach_type: match moment {
                Moment::Entry => TRACE_FENTRY,
                Moment::Exit => TRACE_FEXIT,
            },
            name: sys::kernel_name(&format!("wingbeat_{}", moment.name())),
            license: c"Dual MIT/GPL",
            insns: &bytes,
            attach_btf_id: target.function,
            attach_program: Some(target.program),
            ..Default::default()
        };
        let program = sys::load_verified(request, &mut []).map_err(|source| {
            // Again, for the reason.
            let mut log = vec![0; LOG_LEN];
            let request = LoadRequest { log_level: LOG_INSTRUCTIONS, ..request };
            let _ = sys::load_verified(request, &mut log);
            TrampolineError::Load { moment, source, log: text(&log) }
        })?;
        Ok(Self { moment, program, link: None })
    }

    /// Attaches it, until it is dropped. Fails if the kernel does not support trampolines.
    pub fn attach(&mut self) -> Result<(), TrampolineError> {
        let link = sys::open_raw_tracepoint(None, self.program.as_fd())
            .map_err(|source| TrampolineError::Attach { moment: self.moment, source })?;
        self.link = Some(link);
        Ok(())
    }

    /// Detaches it; an active run may still call it.
    pub fn detach(&mut self) {
        self.link = None;
    }

    /// Runs that the kernel skipped because it was already running on that CPU.
    pub fn recursion_misses(&self) -> io::Result<u64> {
        Ok(ProgramInfo::of(&self.program)?.recursion_misses)
    }
}

// A loaded program whose functions are targets of other programs: to be replaced (freplace), or
// traced (fentry, fexit).

/// A program with the names of its functions.
#[derive(Debug)]
pub struct Extended {
    program: OwnedFd,
    types: KernelTypes,
}

/// Why a program cannot be extended.
#[derive(Debug, thiserror::Error)]
pub enum ExtendedError {
    /// Its functions have no names.
    #[error(
        "it was loaded without type information (BTF), by which the kernel finds a function; build its object with it (clang -g, or bpf-linker --btf), and load it with a loader that passes it on"
    )]
    NoTypes,
    #[error("the kernel gives no information about it: {0}")]
    Unknown(#[source] io::Error),
}

impl Extended {
    /// Reads the functions of `program`, and keeps it loaded. Fails if it has no type information,
    /// or the kernel does not return it.
    pub fn new(program: impl AsFd) -> Result<Self, ExtendedError> {
        let program = program.as_fd();
        let found = sys::program_function(program).map_err(ExtendedError::Unknown)?;
        let (types, _) = found.ok_or(ExtendedError::NoTypes)?;
        let types = sys::btf_bytes(types).map_err(ExtendedError::Unknown)?;
        let types = KernelTypes::parse(&types);
        Ok(Self {
            program: program.try_clone_to_owned().map_err(ExtendedError::Unknown)?,
            types: types.map_err(|error| ExtendedError::Unknown(io::Error::other(error)))?,
        })
    }

    /// Type id of the function `name` in the program's own types.
    pub(super) fn function_id(&self, name: &str) -> Option<u32> {
        self.types.function_id(name)
    }
}

impl AsFd for Extended {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

// Perf events, opened on every CPU so that programs can read them there (`bpf_perf_event_read_value`).

/// `PERF_TYPE_HARDWARE` and `PERF_TYPE_SOFTWARE` (include/uapi/linux/perf_event.h, Linux 6.18).
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;

/// A perf event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterEvent {
    /// CPU cycles.
    Cycles,
    /// Executed instructions.
    Instructions,
    /// Cache misses, mostly of the last level.
    CacheMisses,
    /// The kernel's clock of the CPU, in nanoseconds.
    CpuClock,
    /// Time that the event's context was on the CPU, in nanoseconds.
    TaskClock,
    /// Context switches.
    ContextSwitches,
    PageFaults,
}

impl CounterEvent {
    /// Hardware events.
    pub const HARDWARE: [Self; 3] = [Self::Cycles, Self::Instructions, Self::CacheMisses];

    /// Software events, which every machine has.
    pub const SOFTWARE: [Self; 4] =
        [Self::CpuClock, Self::TaskClock, Self::ContextSwitches, Self::PageFaults];

    /// Its name in perf.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Type and number for `perf_event_open(2)`.
    pub(crate) fn codes(self) -> (u32, u64) {
        self.row().1
    }

    fn row(self) -> (&'static str, (u32, u64)) {
        match self {
            Self::Cycles => ("cycles", (HARDWARE, 0)),
            Self::Instructions => ("instructions", (HARDWARE, 1)),
            Self::CacheMisses => ("cache-misses", (HARDWARE, 3)),
            Self::CpuClock => ("cpu-clock", (SOFTWARE, 0)),
            Self::TaskClock => ("task-clock", (SOFTWARE, 1)),
            Self::PageFaults => ("page-faults", (SOFTWARE, 2)),
            Self::ContextSwitches => ("context-switches", (SOFTWARE, 3)),
        }
    }
}

/// An event that is counted on every CPU while this lives.
#[derive(Debug)]
pub struct PerfCounter {
    event: CounterEvent,
    map: LoadedMap,
    _opened: Vec<OwnedFd>,
}

impl PerfCounter {
    /// Starts counting. Fails with `NotFound` or `Unsupported` if the machine lacks the event,
    /// which is common in virtual machines; `PermissionDenied` without `CAP_PERFMON`.
    pub fn open(event: CounterEvent) -> io::Result<Self> {
        let map = LoadedMap::per_cpu_events().map_err(io::Error::other)?;
        let mut opened = Vec::new();
        for cpu in perf::online_cpus()? {
            let number = libc::c_int::try_from(cpu).map_err(io::Error::other)?;
            let counter = sys::open_counter(event.codes(), number, true)?;
            map.set(&cpu.to_ne_bytes(), &counter.as_raw_fd().to_ne_bytes())
                .map_err(|MapError { source, .. }| source)?;
            opened.push(counter);
        }
        Ok(Self { event, map, _opened: opened })
    }

    /// The counted event.
    pub fn event(&self) -> CounterEvent {
        self.event
    }
}

/// The map by which programs read it.
impl AsFd for PerfCounter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let check = |code, log: &str, expected: &str| {
            assert_eq!(answer(&io::Error::from_raw_os_error(code), log), expected);
        };
        check(524, "", "operation not supported (ENOTSUPP)");
        check(
            libc::EINVAL,
            "Cannot recursively attach\nprocessed 0 insns (limit 1000000)\n",
            "Cannot recursively attach (Invalid argument (os error 22))",
        );
        check(libc::EBUSY, "\n", "Device or resource busy (os error 16)");
    }
}

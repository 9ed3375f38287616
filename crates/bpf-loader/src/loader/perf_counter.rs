//! Perf events, opened on every CPU so that programs can read them there (`bpf_perf_event_read_value`).

use std::{
    io,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
};

use super::{LoadedMap, MapError};
use crate::{perf, sys};

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

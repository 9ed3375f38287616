//! Loads the kernel half, and attaches it to the target's threads.

use std::io;

use anyhow::{Context, anyhow};
use aya::{
    Ebpf, EbpfLoader, include_bytes_aligned,
    maps::{MapData, RingBuf},
    programs::{
        PerfEvent,
        perf_event::{PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent},
    },
};
use aya_log::EbpfLogger;
use log::Log;
use rustix::io::Errno;

use crate::target::Target;

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/profiler-ebpf"));

/// Names in the object file.
const PROGRAM: &str = "perf_profiler";
const SAMPLES: &str = "SAMPLES";
const PID: &str = "PID";

/// The log of the kernel half.
pub(crate) type KernelLog = EbpfLogger<&'static dyn Log>;

/// The loaded kernel half. Dropping it stops sampling.
pub(crate) struct KernelHalf(Ebpf);

impl KernelHalf {
    /// Creates the maps. The programs are loaded when they are attached.
    pub(crate) fn load(pid: u32) -> anyhow::Result<Self> {
        EbpfLoader::new()
            .override_global(PID, &pid, true)
            .load(OBJECT)
            .map(Self)
            .map_err(|error| explain(error.into(), "create the eBPF maps"))
    }

    /// Takes the ring buffer of samples; works only once.
    pub(crate) fn take_samples(&mut self) -> anyhow::Result<RingBuf<MapData>> {
        let map = self.0.take_map(SAMPLES).ok_or_else(|| missing(SAMPLES))?;
        RingBuf::try_from(map).context("cannot map the ring buffer of samples")
    }

    /// Takes the log of the kernel half; works only once.
    pub(crate) fn take_log(&mut self) -> anyhow::Result<KernelLog> {
        EbpfLogger::init(&mut self.0).context("cannot open the log of the eBPF program")
    }

    /// Opens a perf event for each thread of the target, and returns their number.
    ///
    /// A perf event belongs to a thread, even if its scope is called `OneProcess`: attached to the
    /// PID it samples only the main thread. `inherit` adds the threads and processes that its
    /// thread starts later, but not existing ones, so each of those gets its own event.
    ///
    /// Misses a thread that is started meanwhile by a thread without an event. Stopping the process
    /// would close that gap, but is too intrusive for a profiler.
    pub(crate) fn attach(&mut self, target: &Target, frequency_hz: u64) -> anyhow::Result<usize> {
        let program = self.0.program_mut(PROGRAM).ok_or_else(|| missing(PROGRAM))?;
        let program: &mut PerfEvent = program.try_into().context("not a perf_event program")?;
        program.load().map_err(|error| explain(error.into(), "load the eBPF program"))?;
        let mut attached = 0;
        for tid in target.threads()? {
            let link = program.attach(
                PerfEventConfig::Software(SoftwareEvent::CpuClock),
                PerfEventScope::OneProcess { pid: tid, cpu: None },
                SamplePolicy::Frequency(frequency_hz),
                true,
            );
            match link.map_err(anyhow::Error::from) {
                Ok(_) => attached += 1,
                // It ended after it was listed.
                Err(error) if errno(&error) == Some(Errno::SRCH) => {}
                Err(error) => {
                    return Err(explain(error, &format!("start a clock for thread {tid}")));
                }
            }
        }
        match attached {
            0 => Err(anyhow!("process {} ended before it could be sampled", target.pid())),
            threads => Ok(threads),
        }
    }
}

/// The system call error behind an error.
fn errno(error: &anyhow::Error) -> Option<Errno> {
    let error = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>())?;
    Errno::from_io_error(error)
}

/// Adds the failed action and, if privileges are missing, how to get them.
fn explain(error: anyhow::Error, action: &str) -> anyhow::Error {
    match errno(&error) {
        Some(Errno::PERM | Errno::ACCESS) => error.context(format!(
            "not permitted to {action}: run this as root, \
             or give the program cap_bpf and cap_perfmon (`setcap cap_bpf,cap_perfmon+ep FILE`)"
        )),
        _ => error.context(format!("cannot {action}")),
    }
}

fn missing(name: &str) -> anyhow::Error {
    anyhow!("the embedded eBPF object has no {name}: it was built from other sources")
}

//! The kernel half: loading it, and attaching it to the clocks of the target.

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

/// The log of the kernel half, on its way to ours.
pub(crate) type KernelLog = EbpfLogger<&'static dyn Log>;

/// The loaded kernel half. Dropping it ends the sampling.
pub(crate) struct KernelHalf(Ebpf);

impl KernelHalf {
    /// Creates the maps. The programs follow when they are attached.
    pub(crate) fn load(pid: u32) -> anyhow::Result<Self> {
        EbpfLoader::new()
            .override_global(PID, &pid, true)
            .load(OBJECT)
            .map(Self)
            .map_err(|error| explain(error.into(), "create the eBPF maps"))
    }

    /// The ring buffer of samples; can be taken once.
    pub(crate) fn take_samples(&mut self) -> anyhow::Result<RingBuf<MapData>> {
        let map = self.0.take_map(SAMPLES).ok_or_else(|| missing(SAMPLES))?;
        RingBuf::try_from(map).context("cannot map the ring buffer of samples")
    }

    /// The log of the kernel half; can be taken once.
    pub(crate) fn take_log(&mut self) -> anyhow::Result<KernelLog> {
        EbpfLogger::init(&mut self.0).context("cannot open the log of the eBPF program")
    }

    /// Starts a clock for each thread of the target, and says how many there are.
    ///
    /// A perf event belongs to a thread, even where its scope is called `OneProcess`: attached to the
    /// PID it sees the main thread alone. `inherit` hands it on to the threads and processes that its
    /// thread starts later, but not to those that are there already, so each of those gets one.
    ///
    /// A thread that is started while this goes on, by one that has no clock yet, is missed.
    /// Stopping the process meanwhile would close that gap at a price that a profiler should not
    /// make its target pay.
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

/// The error of the system call that is behind an error.
fn errno(error: &anyhow::Error) -> Option<Errno> {
    let error = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>())?;
    Errno::from_io_error(error)
}

/// Says what could not be done and, where rights are missing, how to get them.
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

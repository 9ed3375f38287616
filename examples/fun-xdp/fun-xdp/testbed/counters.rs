//! The kernel's run counters of a program: number and total time of runs. Read in both available
//! ways, which must agree.

use std::{
    fs,
    os::fd::{AsFd, AsRawFd},
};

use anyhow::{Context, bail};
use aya::programs::Xdp;

/// Sums over all CPUs since the program was loaded, while statistics were enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Nanoseconds. Includes the clock read that measures each run.
    pub run_time_ns: u64,
    pub runs: u64,
}

impl Counters {
    /// Reads them. The program must not run meanwhile, or the two ways give different numbers.
    pub(crate) fn read(program: &Xdp) -> anyhow::Result<Self> {
        let info = Self::from_info(program)?;
        let fdinfo = Self::from_fdinfo(program)?;
        if info != fdinfo {
            bail!("program info says {info:?}, fdinfo says {fdinfo:?}: did other packets come?");
        }
        Ok(info)
    }

    /// By `BPF_OBJ_GET_INFO_BY_FD`: the fast way.
    pub(crate) fn from_info(program: &Xdp) -> anyhow::Result<Self> {
        let info = program.info().context("cannot read the program's info")?;
        let run_time_ns = u64::try_from(info.run_time().as_nanos())?;
        Ok(Self { run_time_ns, runs: info.run_count() })
    }

    /// By `/proc/self/fdinfo/FD`.
    fn from_fdinfo(program: &Xdp) -> anyhow::Result<Self> {
        let fd = program.fd().context("the program is not loaded")?;
        let file = format!("/proc/self/fdinfo/{}", fd.as_fd().as_raw_fd());
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
        Self::parse(&text).with_context(|| format!("no counters of a program in {file}: {text:?}"))
    }

    /// The lines are written by `bpf_prog_show_fdinfo` of the kernel's kernel/bpf/syscall.c (5.1 and later).
    pub(crate) fn parse(fdinfo: &str) -> Option<Self> {
        let value = |key: &str| {
            fdinfo.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                (name == key).then(|| value.trim().parse().ok())?
            })
        };
        Some(Self { run_time_ns: value("run_time_ns")?, runs: value("run_cnt")? })
    }

    /// Difference to earlier counters.
    pub(crate) fn since(self, before: Self) -> Option<Self> {
        Some(Self {
            run_time_ns: self.run_time_ns.checked_sub(before.run_time_ns)?,
            runs: self.runs.checked_sub(before.runs)?,
        })
    }

    /// Time of one run; `None` without runs, as that is not a cost of 0.
    pub(crate) fn ns_per_run(self) -> Option<f64> {
        (self.runs > 0).then(|| self.run_time_ns as f64 / self.runs as f64)
    }
}

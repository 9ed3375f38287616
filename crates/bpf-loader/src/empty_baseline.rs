//! Overhead of run-time statistics, measured on an empty program.
//!
//! The kernel reads a clock before and after each run (`__bpf_prog_run`, include/linux/filter.h,
//! Linux 6.18), and these reads are included in the figures: 25 to 60 ns on the tested x86-64
//! machines, which is a lot for a program of 50. So the baseline is measured wherever it is used.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use crate::{
    btf::table::{GLOBAL, TypeKind, TypeTable},
    program::{ProgramInfo, StatisticsOn},
    program_type::ProgramType,
    sys,
};

/// Name of the program.
const NAME: &str = "wingbeat_empty";

/// Runs per measurement, and measurements of which the minimum counts: disturbances only add time.
/// All of them together take some 2 ms.
const RUNS: u32 = 5_000;
const ROUNDS: u32 = 8;

/// Maximum retries of a run interrupted by a signal.
const RETRIES: u32 = 100;

/// Minimum packet of a socket filter, in bytes (`ETH_HLEN`, net/bpf/test_run.c).
const PACKET: [u8; 14] = [0; 14];

/// Types of a global function `int NAME(void *ctx)`, and the id of the function.
fn types_of(name: &str) -> (Vec<u8>, u32) {
    let mut types = TypeTable::empty();
    let [context, name] = ["ctx", name].map(|text| types.add_text(text));
    let int = types.add_int();
    let pointer = types.add(TypeKind::PTR, 0, 0, 0, &[]);
    let prototype = types.add(TypeKind::FUNC_PROTO, 0, 1, int, &[context, pointer]);
    let function = types.add(TypeKind::FUNC, name, GLOBAL, prototype, &[]);
    (types.to_bytes(), function)
}

/// An empty program, loaded while this lives.
#[derive(Debug)]
pub struct Baseline {
    program: OwnedFd,
}

impl AsFd for Baseline {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

impl Baseline {
    /// Loads it. Fails with `PermissionDenied` without `CAP_BPF` or `CAP_SYS_ADMIN`.
    pub fn load() -> io::Result<Self> {
        Self::load_as(None)
    }

    /// Loads it with type information, so that tracing programs can be attached.
    pub fn load_with_types() -> io::Result<Self> {
        let types = sys::load_btf(&types_of(NAME).0)?;
        Self::load_as(Some(types.as_fd()))
    }

    fn load_as(types: Option<BorrowedFd<'_>>) -> io::Result<Self> {
        // Instruction 0 begins the function of that type.
        let (_, function) = types_of(NAME);
        let function: Vec<u8> = [0, function].into_iter().flat_map(u32::to_ne_bytes).collect();
        let request = sys::LoadRequest {
            prog_type: ProgramType::SOCKET_FILTER.0,
            name: sys::kernel_name(NAME),
            license: c"Dual MIT/GPL",
            insns: &sys::RETURN_ZERO,
            btf: types,
            func_info: if types.is_some() { &function } else { &[] },
            ..Default::default()
        };
        sys::load_verified(request, &mut []).map(|program| Self { program })
    }

    /// Its id, to exclude it from lists of programs.
    pub fn id(&self) -> io::Result<u32> {
        ProgramInfo::of(&self.program).map(|info| info.id)
    }

    /// Whether run-time statistics are currently enabled, in any way: `kernel.bpf_stats_enabled`
    /// does not reflect descriptors that keep them enabled.
    pub fn are_statistics_on(&self) -> io::Result<bool> {
        let before = ProgramInfo::of(&self.program)?.run_count;
        self.run(1)?;
        Ok(ProgramInfo::of(&self.program)?.run_count != before)
    }

    /// Time that statistics report for an empty program, in nanoseconds per run.
    pub fn empty_run_ns(&self, _on: &StatisticsOn) -> io::Result<f64> {
        let mut least_ns = f64::INFINITY;
        for _ in 0..ROUNDS {
            let before = ProgramInfo::of(&self.program)?;
            self.run(RUNS)?;
            let after = ProgramInfo::of(&self.program)?;
            let runs = after.run_count.saturating_sub(before.run_count);
            let time_ns = after.run_time_ns.saturating_sub(before.run_time_ns);
            if runs > 0 {
                least_ns = least_ns.min(time_ns as f64 / runs as f64);
            }
        }
        match least_ns.is_finite() {
            true => Ok(least_ns),
            false => Err(io::Error::other("the kernel counts no runs although statistics are on")),
        }
    }

    /// Run time according to the kernel's own loop, in whole nanoseconds: independent of
    /// statistics, but including attached tracers.
    pub fn mean_run_ns(&self) -> io::Result<u32> {
        let mut least_ns = u32::MAX;
        for _ in 0..ROUNDS {
            least_ns = least_ns.min(self.run(RUNS)?);
        }
        Ok(least_ns)
    }

    /// Runs it `repeat` times, and returns the mean time in whole nanoseconds.
    fn run(&self, repeat: u32) -> io::Result<u32> {
        for _ in 0..RETRIES {
            let run = sys::TestRun { data_in: &PACKET, repeat, ..Default::default() };
            match sys::test_run(self.program.as_fd(), run) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map(|outcome| outcome.duration_ns),
            }
        }
        Err(io::ErrorKind::Interrupted.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs privileges; without them only checks the kernel's error.
    #[test]
    fn an_empty_program_takes_little_and_counts_only_while_statistics_are_on() {
        let baseline = match Baseline::load() {
            Ok(baseline) => baseline,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
                return;
            }
        };
        let Ok(on) = StatisticsOn::new() else { return };
        assert!(baseline.are_statistics_on().unwrap());
        let empty_run_ns = baseline.empty_run_ns(&on).unwrap();
        assert!((1.0..1_000.0).contains(&empty_run_ns), "{empty_run_ns}");
        assert!(ProgramInfo::of(&baseline.program).unwrap().run_count > u64::from(RUNS));
    }
}

//! Runs programs on one CPU, so that no run keeps anybody waiting for longer than it was given.

use std::os::fd::BorrowedFd;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use wingbeat_bpf::{
    ProgramType,
    loader::{Alarm, Effort, Explained, ProgramRun, RunError, RunInput, run_apart, run_until},
};

use super::{
    BenchError,
    runner::{Given, Pace},
};

/// Runs programs on one CPU until the alarm goes off.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernel<'a> {
    pub(super) alarm: &'a Alarm<'a>,
    pub(super) cpu: usize,
}

impl<'a> Kernel<'a> {
    /// How a program of the user's is loaded.
    pub(super) fn effort(self) -> Effort<'a> {
        Effort { alarm: self.alarm, explained: Explained::Quickly }
    }

    /// How code is loaded that the user did not write, whose log would not help.
    pub(super) fn little_effort(self) -> Effort<'a> {
        Effort { alarm: self.alarm, explained: Explained::Reason }
    }

    /// Runs a form of a program.
    pub(super) fn run(
        self,
        program: BorrowedFd<'_>,
        r#type: ProgramType,
        (input, context): Given<'_>,
        repeat: u32,
        pace: Pace,
    ) -> Result<ProgramRun, BenchError> {
        let given = RunInput { data: &input.data, context };
        Ok(match pace {
            Pace::Short => run_until(program, r#type, given, repeat, self.alarm)?,
            Pace::Long => {
                let roaming = Roaming::begin(self.cpu);
                let run = run_apart(program, r#type, given, repeat, self.cpu, self.alarm);
                if let Err(RunError::TimeOver(_)) = run {
                    roaming.go_on();
                }
                run?
            }
        })
    }
}

/// Keeps this thread off the CPU that is measured on, which a child may keep, where there are others.
struct Roaming(Option<CpuSet>);

impl Roaming {
    fn begin(measured: usize) -> Self {
        let before = sched_getaffinity(None).ok();
        let mut all = CpuSet::new();
        for cpu in (0..CpuSet::MAX_CPU).filter(|&cpu| cpu != measured) {
            all.set(cpu);
        }
        // The kernel leaves out those that the process may not use, and refuses an empty set.
        _ = sched_setaffinity(None, &all);
        Self(before)
    }

    /// Stays on any CPU: the child still has the other one.
    fn go_on(mut self) {
        self.0 = None;
    }
}

impl Drop for Roaming {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            _ = sched_setaffinity(None, before);
        }
    }
}

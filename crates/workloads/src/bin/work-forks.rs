//! A sequence of short-lived processes, each of which executes this program again: hard for profilers that symbolize at
//! the end, when the processes are gone.

use std::{
    env, io,
    process::{Command, ExitCode},
    time::Duration,
};

use wait4::Wait4 as _;
use wingbeat_workloads::{Arguments, HOLD_VARIABLE, REPORT_VARIABLE, Spent, main_with, units};

/// Units per process: about 20 ms.
const UNITS_PER_PROCESS: u64 = 1000;

/// Marks a child process.
const CHILD_VARIABLE: &str = "WINGBEAT_WORKLOAD_CHILD";

fn main() -> ExitCode {
    main_with(|arguments| {
        if env::var_os(CHILD_VARIABLE).is_some() {
            let checksum = units(arguments.units, arguments.frames, 1);
            return Ok(Spent { checksum, ..Spent::default() });
        }
        let mut children_cpu = Duration::ZERO;
        let mut left = arguments.units;
        while left > 0 {
            let share = left.min(UNITS_PER_PROCESS);
            children_cpu += child(share, arguments)?;
            left -= share;
        }
        Ok(Spent { children_cpu, checksum: 0 })
    })
}

/// Runs one child to completion; returns its CPU time.
fn child(share: u64, arguments: Arguments) -> io::Result<Duration> {
    let numbers = [share, arguments.frames.min.into(), arguments.frames.max.into()];
    let mut child = Command::new(env::current_exe()?)
        .args(numbers.map(|number| number.to_string()))
        .env(CHILD_VARIABLE, "1")
        .env_remove(HOLD_VARIABLE)
        .env_remove(REPORT_VARIABLE)
        .spawn()?;
    let used = child.wait4()?;
    if !used.status.success() {
        return Err(io::Error::other(format!(
            "a child with {share} units failed: {}",
            used.status
        )));
    }
    Ok(used.rusage.utime + used.rusage.stime)
}

//! Shared by the programs: arguments, waiting for the profiler, and the report.

use std::{
    env, fs,
    io::{self, Read as _, Write as _},
    process::ExitCode,
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

use crate::Frames;

/// Environment variable with the report file. If unset, no report is written.
pub const REPORT_VARIABLE: &str = "WINGBEAT_WORKLOAD_REPORT";

/// Environment variable that makes a program wait on stdin before the work, print `done` after it, and wait again
/// before it exits.
///
/// For profilers that attach to a process, and that look up its symbols while it still exists.
pub const HOLD_VARIABLE: &str = "WINGBEAT_WORKLOAD_HOLD";

/// Arguments of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arguments {
    /// Units of work, over all threads or processes.
    pub units: u64,
    pub frames: Frames,
}

impl Arguments {
    /// Reads `UNITS [FRAMES_MIN FRAMES_MAX]`.
    fn parse(words: &[String]) -> Option<Self> {
        let numbers: Option<Vec<u32>> = words.iter().map(|word| word.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[units]) => Some(Self { units: units.into(), frames: Frames::default() }),
            Some(&[units, min, max]) if min <= max => {
                Some(Self { units: units.into(), frames: Frames { min, max } })
            }
            _ => None,
        }
    }
}

/// Outcome of the work, except for this process' own CPU time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// CPU time of reaped child processes.
    pub children_cpu: Duration,
    /// A value that depends on all the work.
    pub checksum: u64,
}

/// `main` of the programs with deep stacks: parses arguments, works, reports.
pub fn main_with(work: impl FnOnce(Arguments) -> io::Result<Spent>) -> ExitCode {
    let usage = ("UNITS [FRAMES_MIN FRAMES_MAX]", "whole numbers");
    main_of(usage, Arguments::parse, |arguments| {
        let held = env::var_os(HOLD_VARIABLE).is_some();
        if held {
            // One byte starts the work.
            io::stdin().read_exact(&mut [0])?;
        }
        let start = clock(ClockId::Monotonic);
        let spent = work(arguments)?;
        let end = clock(ClockId::Monotonic);
        let (end_ns, checksum) = (end.as_nanos(), spent.checksum);
        let others = format!("\"end_monotonic_ns\":{end_ns},\"checksum\":{checksum}");
        report(arguments.units, end.saturating_sub(start), spent.children_cpu, &others)?;
        if held {
            let mut out = io::stdout();
            writeln!(out, "done")?;
            out.flush()?;
            // EOF or any byte ends the process.
            let _ = io::stdin().read(&mut [0])?;
        }
        Ok(())
    })
}

/// `main` of any program: parses its arguments and works. `usage` describes the arguments.
pub fn main_of<A>(
    (expected, given): (&str, &str),
    parse: impl FnOnce(&[String]) -> Option<A>,
    work: impl FnOnce(A) -> io::Result<()>,
) -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let wrong = || {
        let found = words.join(" ");
        io::Error::other(format!("expected {expected}, found \"{found}\": give {given}"))
    };
    match parse(&words).ok_or_else(wrong).and_then(work) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If stderr is broken too, the exit code still reports the failure.
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the report, if requested. `others` are additional JSON members.
///
/// The kernel counts CPU time from the fork on, so it includes the start of the program.
pub fn report(
    units: u64,
    wall_time: Duration,
    children_cpu: Duration,
    others: &str,
) -> io::Result<()> {
    let Some(path) = env::var_os(REPORT_VARIABLE) else { return Ok(()) };
    let cpu_time_ns = (clock(ClockId::ProcessCPUTime) + children_cpu).as_nanos();
    let wall_time_ns = wall_time.as_nanos();
    fs::write(
        path,
        format!(
            "{{\"units\":{units},\"cpu_time_ns\":{cpu_time_ns},\"wall_time_ns\":{wall_time_ns},{others}}}\n"
        ),
    )
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(secs, u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_numbers() {
        let check = |text: &str, expected: Option<(u64, u32, u32)>| {
            let words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
            let found = Arguments::parse(&words).map(|a| (a.units, a.frames.min, a.frames.max));
            assert_eq!(found, expected, "{text}");
        };
        let Frames { min, max } = Frames::default();
        check("100", Some((100, min, max)));
        check("100 3 5", Some((100, 3, 5)));
        check("100 5 3", None);
        check("100 5", None);
        check("many", None);
        check("-1", None);
        check("", None);
    }
}

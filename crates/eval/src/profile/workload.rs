//! The targets: what the profilers are let loose on, and how long.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;

use super::{
    Mode,
    process::{self, Usage},
    record::{Outcome, Target},
};
use crate::comparison::{create, kept};

/// The environment variable that names the file for a workload's report.
const REPORT_VARIABLE: &str = "WINGBEAT_WORKLOAD_REPORT";

/// Units of the run that finds out how long one takes.
const TRIAL_UNITS: u64 = 10_000;

/// The target that hardly switches.
pub(super) const SLEEPY: &str = "sleepy";

/// A target program; `crates/workloads` describes what they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Its program, also the name that the kernel knows its processes by.
    pub(super) program: &'static str,
    /// Arguments after the amount of work.
    arguments: &'static [&'static str],
    /// Whether its work is done by other processes than the one that is started.
    pub(super) forks: bool,
    /// The only frequency that it is for, and the only tools; for a question that needs no more.
    only: Option<(u32, &'static [&'static str])>,
}

const fn workload(
    name: &'static str,
    about: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
) -> Workload {
    Workload { name, about, program, arguments, forks: false, only: None }
}

const FORKS: &str = "the same in short-lived processes, one after the other";

const ON_CPU: [Workload; 4] = [
    workload("deep", "one thread, stacks of 26 to 50 frames", "work-deep", &[]),
    workload("threads", "the same on eight threads", "work-threads", &[]),
    Workload { forks: true, ..workload("forks", FORKS, "work-forks", &[]) },
    Workload {
        only: Some((999, &["wingbeat", "perf"])),
        ..workload("deep-26", "one thread, all stacks of 26 frames", "work-deep", &["19", "19"])
    },
];

const OFF_CPU: [Workload; 3] = [
    workload("token-one-cpu", "two threads on one CPU pass a token", "work-token", &["--one-cpu"]),
    workload("token", "two threads pass a token, on any CPU", "work-token", &[]),
    Workload {
        // Variants show nothing where there is hardly a switch.
        only: Some((0, &["wingbeat", "perf", "bpftrace"])),
        ..workload(
            SLEEPY,
            "three threads that hold a mutex for 7 ms and rest for 20 ms",
            "work-sleepy",
            &[],
        )
    },
];

pub(super) fn all(mode: Mode) -> &'static [Workload] {
    match mode {
        Mode::OnCpu => &ON_CPU,
        Mode::OffCpu => &OFF_CPU,
    }
}

/// What a workload is, by its name; for headings.
pub(super) fn about(name: &str) -> &'static str {
    let mut all = ON_CPU.iter().chain(&OFF_CPU);
    all.find(|workload| workload.name == name).map_or("", |workload| workload.about)
}

impl Workload {
    /// Whether this tool is run on it at this frequency.
    pub(super) fn is_for(&self, tool: &str, frequency_hz: u32) -> bool {
        self.only.is_none_or(|(hz, tools)| hz == frequency_hz && tools.contains(&tool))
    }
}

/// One run that is to be made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) workload: Workload,
    /// How much work, as the workload takes it: units, or a time.
    pub(super) amount: &'a str,
    /// Samples per second.
    pub(super) frequency_hz: u32,
    /// Where wingbeat and the workloads are.
    pub(super) programs: &'a Path,
    /// An empty folder for all files of this run.
    pub(super) dir: &'a Path,
}

impl Job<'_> {
    /// A file of this run.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Where all programs of this run leave their messages.
    pub(super) fn messages(&self) -> PathBuf {
        self.file("messages")
    }

    pub(super) fn hz(&self) -> String {
        self.frequency_hz.to_string()
    }

    /// The words of the target's command line.
    pub(super) fn words(&self) -> Vec<String> {
        let program = self.programs.join(self.workload.program).to_string_lossy().into_owned();
        let arguments = self.workload.arguments.iter().map(|&word| word.to_owned());
        [program, self.amount.to_owned()].into_iter().chain(arguments).collect()
    }

    /// The target's own command, with its report into the folder.
    pub(super) fn target(&self) -> Command {
        let words = self.words();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env(REPORT_VARIABLE, self.file("target.json"));
        command
    }

    /// Runs the target with nobody watching: its report, and the CPU time by the kernel's account.
    pub(super) fn alone(&self) -> anyhow::Result<(Target, Outcome)> {
        let (target, usage) = self.run(&mut self.target())?;
        Ok((target, Outcome::of(usage)))
    }

    /// Runs a command that ends with the target's own words, until both have ended.
    pub(super) fn launch(&self, command: &mut Command) -> anyhow::Result<(Target, Usage)> {
        self.run(command.args(self.words()))
    }

    /// Runs a command that runs the target.
    pub(super) fn run(&self, command: &mut Command) -> anyhow::Result<(Target, Usage)> {
        command.env(REPORT_VARIABLE, self.file("target.json"));
        let stdout = create(&self.file("output.txt"))?;
        let usage = process::run(command, stdout.into(), &self.messages())?;
        Ok((self.report()?, usage))
    }

    /// What the target left about itself.
    pub(super) fn report(&self) -> anyhow::Result<Target> {
        kept(&self.file("target.json")).context("the target left no report")
    }
}

/// How many units take this much CPU time on this machine, found by trying.
pub(super) fn units_for(cpu_s: f64, programs: &Path, dir: &Path) -> anyhow::Result<u64> {
    let amount = TRIAL_UNITS.to_string();
    let trial = Job { workload: ON_CPU[0], amount: &amount, frequency_hz: 0, programs, dir };
    Ok(scaled_units(cpu_s, &trial.alone().context("the workload does not run")?.0))
}

/// Rounded to whole thousands, so that two runs of the command mostly do the same.
fn scaled_units(cpu_s: f64, trial: &Target) -> u64 {
    let unit_s = trial.cpu_time_ns.max(1) as f64 / 1e9 / trial.units.max(1) as f64;
    let thousands = (cpu_s / unit_s / 1000.0).round();
    (thousands.clamp(1.0, 1e6) as u64) * 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_follow_the_trial() {
        let check = |cpu_s, units, cpu_time_ns, expected| {
            let trial = Target { units, cpu_time_ns, ..Target::default() };
            assert_eq!(scaled_units(cpu_s, &trial), expected, "{cpu_s} s, {trial:?}");
        };
        check(4.0, 10_000, 200_000_000, 200_000);
        check(1.0, 10_000, 170_000_000, 59_000);
        check(1.0, 10_000, 0, 1_000_000_000);
        check(0.0, 10_000, 170_000_000, 1000);
    }

    #[test]
    fn reports_of_both_kinds_are_read() {
        let read = |text: &str| serde_json::from_str::<Target>(text).ok().map(|it| it.units);
        let on =
            r#"{"units":3,"cpu_time_ns":1,"wall_time_ns":2,"end_monotonic_ns":4,"checksum":5}"#;
        assert_eq!(read(on), Some(3));
        let off = r#"{"units":7,"cpu_time_ns":1,"wall_time_ns":2,"threads":[]}"#;
        assert_eq!(read(off), Some(7));
        assert_eq!(read("{}"), None);
    }
}

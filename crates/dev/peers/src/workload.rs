//! The targets: what the profilers are let loose on, and how long.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail};
use serde_json::from_str;

use super::{
    process::{self, Usage},
    record::Target,
};
use wingbeat_steps::command::repository;

/// The environment variable that names the file for a workload's report.
const REPORT_VARIABLE: &str = "WINGBEAT_WORKLOAD_REPORT";

/// The environment variable that makes a workload wait before and after its work.
pub(super) const HOLD_VARIABLE: &str = "WINGBEAT_WORKLOAD_HOLD";

/// Units of the run that finds out how long one takes.
const TRIAL_UNITS: u64 = 10_000;

/// A target program; `crates/dev/workloads` describes what they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Its program, also the name that the kernel knows its processes by.
    pub(super) program: &'static str,
    /// Arguments after the number of units.
    arguments: &'static [&'static str],
    /// Whether its work is done by other processes than the one that is started.
    pub(super) forks: bool,
    /// The only frequency that it is for, and the only tools; for a question that needs no more.
    pub(super) only: Option<(u32, &'static [&'static str])>,
}

const WORKLOADS: [Workload; 4] = [
    Workload {
        name: "deep",
        about: "one thread, stacks of 26 to 50 frames",
        program: "work-deep",
        arguments: &[],
        forks: false,
        only: None,
    },
    Workload {
        name: "threads",
        about: "the same on eight threads",
        program: "work-threads",
        arguments: &[],
        forks: false,
        only: None,
    },
    Workload {
        name: "forks",
        about: "the same in short-lived processes, one after the other",
        program: "work-forks",
        arguments: &[],
        forks: true,
        only: None,
    },
    Workload {
        name: "deep-26",
        about: "one thread, all stacks of 26 frames",
        program: "work-deep",
        arguments: &["19", "19"],
        forks: false,
        only: Some((999, &["wingbeat", "perf"])),
    },
];

/// The workloads of these names; all when there are none.
pub(super) fn chosen(names: &[String]) -> anyhow::Result<Vec<Workload>> {
    let known = WORKLOADS.map(|workload| workload.name);
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("there is no workload \"{name}\": choose from {}", known.join(", "));
    }
    let is_chosen =
        |workload: &Workload| names.is_empty() || names.iter().any(|name| name == workload.name);
    Ok(WORKLOADS.into_iter().filter(is_chosen).collect())
}

/// What a workload is, by its name; for headings.
pub(super) fn about(name: &str) -> &'static str {
    WORKLOADS.iter().find(|workload| workload.name == name).map_or("", |workload| workload.about)
}

impl Workload {
    /// Whether this tool is run on it at this frequency.
    pub(super) fn is_for(&self, tool: &str, frequency_hz: u32) -> bool {
        self.only.is_none_or(|(hz, tools)| hz == frequency_hz && tools.contains(&tool))
    }

    /// The program's file.
    pub(super) fn file(&self) -> PathBuf {
        repository().join("target/release").join(self.program)
    }

    /// The words of its command line.
    pub(super) fn words(&self, units: u64) -> Vec<String> {
        let first = [self.file().to_string_lossy().into_owned(), units.to_string()];
        first.into_iter().chain(self.arguments.iter().map(|&word| word.to_owned())).collect()
    }

    /// Its command, not held.
    pub(super) fn command(&self, units: u64) -> Command {
        let mut command = Command::new(self.file());
        command.args(&self.words(units)[1..]);
        command
    }

    /// Runs it alone.
    pub(super) fn run_alone(&self, units: u64, dir: &Path) -> anyhow::Result<(Target, Usage)> {
        let mut command = self.command(units);
        report_into(&mut command, dir);
        let usage = process::run(&mut command, Stdio::null(), &dir.join("messages"))?;
        Ok((read_report(dir)?, usage))
    }
}

/// Makes a command, or the workload that it starts, leave its report in this folder.
pub(super) fn report_into(command: &mut Command, dir: &Path) {
    command.env(REPORT_VARIABLE, dir.join("target.json"));
}

/// The report in this folder.
pub(super) fn read_report(dir: &Path) -> anyhow::Result<Target> {
    let file = dir.join("target.json");
    let text = fs::read_to_string(&file)
        .with_context(|| format!("the target left no report in {}", file.display()))?;
    from_str(&text).with_context(|| format!("{} is no report: {text}", file.display()))
}

/// How many units take this much CPU time on this machine, found by trying.
pub(super) fn units_for(cpu_s: f64, dir: &Path) -> anyhow::Result<u64> {
    let (target, _) = WORKLOADS[0].run_alone(TRIAL_UNITS, dir)?;
    Ok(scaled_units(cpu_s, target))
}

/// Rounded to whole thousands, so that two runs of the command mostly do the same.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rough positive number is wanted, and a cast to an integer saturates"
)]
fn scaled_units(cpu_s: f64, trial: Target) -> u64 {
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
            assert_eq!(scaled_units(cpu_s, trial), expected, "{cpu_s} s, {trial:?}");
        };
        check(4.0, 10_000, 200_000_000, 200_000);
        check(1.0, 10_000, 170_000_000, 59_000);
        check(1.0, 10_000, 0, 1_000_000_000);
        check(0.0, 10_000, 170_000_000, 1000);
    }

    #[test]
    fn unknown_names_are_refused() {
        let error = chosen(&["depe".to_owned()]).expect_err("no such workload");
        let said = error.to_string();
        assert_eq!(
            said,
            "there is no workload \"depe\": choose from deep, threads, forks, deep-26"
        );
        assert_eq!(chosen(&[]).expect("all").len(), 4);
        assert_eq!(chosen(&["forks".to_owned()]).expect("one")[0].program, "work-forks");
    }
}

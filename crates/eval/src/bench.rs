//! `cargo xtask peers bench`: whether `wingbeat bench` keeps what it promises.
//!
//! Each question has a subcommand and a file of its own: is the reported time steadier than that of
//! `bpftool prog run` (spread), which slowdowns does `--against` find and how often does it cry wolf
//! (power), are exact counts exact (exact). These use programs that are made for it and do a known
//! amount of arithmetic; whether it works on those of others is the last question (objects).

mod bpftool;
mod exact;
mod object;
mod objects;
mod ours;
mod power;
mod spread;

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, ExitCode, Stdio},
};

use anyhow::{Context as _, bail};
use clap::Subcommand;
use rustix::thread::{CpuSet, sched_getaffinity};

use self::{object::Work, ours::Wingbeat};
use crate::comparison::{Common, Stop, need_root};

/// Which promise is put to the test.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Spread of the reported time beside that of `bpftool prog run`, with the other CPU busy
    Spread(spread::SpreadArgs),
    /// Slowdowns that `--against` finds, and false verdicts over the same program twice
    Power(power::PowerArgs),
    /// Executed instructions: the same in each of many loads and runs
    Exact(exact::ExactArgs),
    /// Objects of other projects: which programs are timed, loaded or refused, beside libbpf
    Objects(objects::ObjectsArgs),
}

/// What all of them need.
#[derive(Debug)]
struct Bed {
    wingbeat: Wingbeat,
    /// A CPU besides the one that is measured on, if there is one.
    other_cpu: Option<usize>,
    /// For objects and packets; removed at the end.
    dir: tempfile::TempDir,
    stop: Stop,
}

pub(crate) fn run(which: &Bench) -> anyhow::Result<ExitCode> {
    match which {
        Bench::Spread(args) => spread::run(args),
        Bench::Power(args) => power::run(args),
        Bench::Exact(args) => exact::run(args),
        Bench::Objects(args) => objects::run(args),
    }
}

impl Bed {
    fn new(common: &Common) -> anyhow::Result<Self> {
        need_root("loading programs needs", "bench …")?;
        let program = common.wingbeat()?;
        let cpus = cpus()?;
        let cpu = *cpus.last().context("no CPU is allowed")?;
        Ok(Self {
            wingbeat: Wingbeat { program, cpu },
            other_cpu: cpus.into_iter().find(|&other| other != cpu),
            dir: tempfile::tempdir().context("cannot create a temporary folder")?,
            stop: Stop::on_signals()?,
        })
    }

    /// Writes a file into the folder.
    fn file(&self, name: &str, content: &[u8]) -> anyhow::Result<PathBuf> {
        let file = self.dir.path().join(name);
        fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }

    /// Finds out how long an instruction takes here.
    fn pace(&self) -> anyhow::Result<Pace> {
        const TRIAL: u64 = 10_000;
        let trial = self.file("trial.o", &Work::of(TRIAL).object()?)?;
        let found = self.wingbeat.bench(&trial, "2s").context("the trial cannot be measured")?;
        let net_ns = found.net_ns.context("no empty program could be measured beside the trial")?;
        Pace::new(TRIAL, found.median_ns, net_ns)
    }
}

/// What work costs on this machine.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pace {
    /// An empty program.
    empty_ns: f64,
    /// An instruction more.
    instruction_ns: f64,
}

impl Pace {
    fn new(instructions: u64, median_ns: f64, net_ns: f64) -> anyhow::Result<Self> {
        let instruction_ns = net_ns / instructions as f64;
        if !(instruction_ns.is_finite() && instruction_ns > 0.0) {
            bail!(
                "{instructions} instructions took no time: {median_ns} ns, {net_ns} ns of it net"
            );
        }
        Ok(Self { empty_ns: median_ns - net_ns, instruction_ns })
    }

    /// A program that takes about this long, the loop around it included; no less than an empty one.
    fn work(self, duration_ns: f64) -> Work {
        Work::of(self.instructions(duration_ns - self.empty_ns))
    }

    /// Instructions that take about this long.
    fn instructions(self, duration_ns: f64) -> u64 {
        (duration_ns / self.instruction_ns).round() as u64
    }
}

/// The CPUs that this process may run on, in order.
fn cpus() -> anyhow::Result<Vec<usize>> {
    let allowed = sched_getaffinity(None).context("cannot ask which CPUs are allowed")?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect())
}

/// A process that never rests, on one CPU; ended when this is dropped.
#[derive(Debug)]
struct Load(Child);

impl Load {
    fn on(cpu: usize) -> anyhow::Result<Self> {
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu.to_string(), "sh", "-c", "while :; do :; done"]);
        let child = command.stdin(Stdio::null()).spawn().context("cannot start a load")?;
        Ok(Self(child))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // It may have ended by the same Ctrl-C as we; then there is nothing to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_follows_the_pace() {
        let pace = Pace::new(10_000, 1010.0, 1000.0).expect("a pace");
        assert_eq!(pace, Pace { empty_ns: 10.0, instruction_ns: 0.1 });
        let check = |ns, expected| assert_eq!(pace.work(ns), Work::of(expected), "{ns} ns");
        check(5.0, 0);
        check(10.0, 0);
        check(50.0, 400);
        check(1010.0, 10_000);
        assert!(Pace::new(10_000, 10.0, 0.0).is_err());
    }
}

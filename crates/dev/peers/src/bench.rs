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
mod place;
mod power;
mod spread;

use std::{
    fs,
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};

use self::{object::Work, ours::Wingbeat};
use super::{OUT, measure};
use wingbeat_steps::{
    command::{Rights, cargo, display, repository},
    marked,
    steps::Steps,
};

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

/// Flags of all of them.
#[derive(Debug, Args)]
struct Common {
    /// The wingbeat to test [default: a release build of this tree]
    #[arg(long, value_name = "FILE")]
    wingbeat: Option<PathBuf>,
    /// Also write the tables into this file, between its marks
    #[arg(long, value_name = "FILE")]
    markdown: Vec<PathBuf>,
}

/// What all of them need.
#[derive(Debug)]
struct Bed {
    wingbeat: Wingbeat,
    /// A CPU besides the one that is measured on, if there is one.
    other_cpu: Option<usize>,
    /// For objects and packets; removed at the end.
    dir: tempfile::TempDir,
    stop: Arc<AtomicBool>,
}

/// Where, when and how something was measured.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Origin {
    date: String,
    machine: String,
    command: String,
    notes: Vec<String>,
}

/// Runs what was asked for.
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
        if Rights::now() != Rights::Root {
            bail!(
                "loading programs needs root: run `sudo -E env PATH=\"$PATH\" cargo xtask peers \
                 bench …`, or become root"
            );
        }
        let program = match &common.wingbeat {
            Some(program) => program.clone(),
            None => {
                Steps::default().run(cargo().args(["build", "--release", "-p", "wingbeat"]))?;
                repository().join("target/release/wingbeat")
            }
        };
        let cpus = place::cpus()?;
        let cpu = *cpus.last().context("no CPU is allowed")?;
        Ok(Self {
            wingbeat: Wingbeat { program, cpu },
            other_cpu: cpus.into_iter().find(|&other| other != cpu),
            dir: tempfile::tempdir().context("cannot create a temporary folder")?,
            stop: measure::stop_on_signals()?,
        })
    }

    /// Whether it was asked to end.
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
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
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
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
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast to an integer saturates, and nothing is wanted below 0"
    )]
    fn instructions(self, duration_ns: f64) -> u64 {
        (duration_ns / self.instruction_ns).round() as u64
    }
}

impl Origin {
    pub(super) fn now() -> Self {
        let found = measure::conditions();
        let super::record::Record { date, machine, command, notes, .. } = found;
        Self { date, machine, command, notes }
    }

    pub(super) fn text(&self) -> String {
        let mut text =
            format!("Measured on {} with `{}`: {}.\n", self.date, self.command, self.machine);
        for note in &self.notes {
            text.push_str(&format!("\n- {note}\n"));
        }
        text
    }
}

/// Keeps the figures, prints the tables, and writes them where they were wanted.
fn finish(
    name: &str,
    figures: &impl Serialize,
    text: &str,
    common: &Common,
    is_stopped: bool,
) -> anyhow::Result<ExitCode> {
    let out = repository().join(OUT);
    fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
    let file = out.join(format!("bench-{name}.json"));
    let json =
        serde_json::to_string_pretty(figures).context("cannot turn the figures into JSON")?;
    fs::write(&file, json).with_context(|| format!("cannot write {}", file.display()))?;
    println!("{text}");
    eprintln!("wrote all figures to {}", file.display());
    if is_stopped {
        eprintln!("stopped early: no other file was written");
        return Ok(ExitCode::FAILURE);
    }
    for file in &common.markdown {
        marked::write(file, &format!("peers bench {name}"), text)?;
        eprintln!("wrote the tables into {}", file.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a command for its standard output; a failure quotes what it said last.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let said = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run `{}`", display(command)))?;
    let stdout = String::from_utf8_lossy(&said.stdout).into_owned();
    if !said.status.success() {
        let stderr = String::from_utf8_lossy(&said.stderr);
        let mut lines = stderr.lines().rev().chain(stdout.lines().rev());
        let last = lines.find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        bail!("`{}` failed ({}): {last}", display(command), said.status);
    }
    Ok(stdout)
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

    #[test]
    fn failed_commands_are_quoted() {
        let mut command = Command::new("sh");
        let error = output(command.args(["-c", "echo out; echo gone wrong >&2; exit 3"]));
        let said = error.expect_err("it exits with 3").to_string();
        assert!(said.ends_with("failed (exit status: 3): gone wrong"), "{said}");
        assert_eq!(output(Command::new("echo").arg("a")).expect("echo works"), "a\n");
    }
}

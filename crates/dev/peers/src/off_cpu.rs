//! `cargo xtask peers profile --mode off-cpu`: what it costs to watch every switch, and whether the
//! times are right.
//!
//! Two questions, two programs. `work-token` switches as often as the machine can: each tool in turn
//! watches it, beside a run that nobody watches. `work-sleepy` hardly runs: wingbeat and perf watch it
//! at the same time, so that both see the very same blocks, and their sums are compared.

mod agree;
mod figures;
mod record;
mod sums;
mod tables;
mod tools;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::{Context as _, bail};
use clap::Args;

use self::{
    record::{Alone, Record, Run, ToolVersion},
    tools::{Job, Target, Tool},
};
use super::{OUT, ProfileArgs, measure, tools::settings::Tracefs};
use wingbeat_steps::{
    command::{Rights, cargo, find_program, repository},
    marked,
    steps::Steps,
};

/// The marks around the tables.
const MARKS: &str = "peers profile off-cpu";

/// Flags that make sense for time off the CPU only.
#[derive(Debug, Args)]
pub(super) struct OffCpuArgs {
    /// Seconds that each target works (off-cpu) [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: Option<u32>,
    /// Folder with wingbeat, work-token and work-sleepy (off-cpu) [default: a release build of this tree]
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
}

impl OffCpuArgs {
    /// Whether any was given.
    pub(super) fn is_used(&self) -> bool {
        self.seconds.is_some() || self.programs.is_some()
    }
}

/// What is to be measured.
struct Plan {
    rounds: u32,
    seconds: u32,
    targets: Vec<Target>,
    tools: Vec<Tool>,
    programs: PathBuf,
}

/// Measures, or reads what was measured, and prints the tables.
pub(super) fn run(args: &ProfileArgs) -> anyhow::Result<ExitCode> {
    if !args.hz.is_empty() {
        bail!("--hz is for samples, and --mode off-cpu takes none: leave it out");
    }
    let record = match &args.from {
        Some(file) => record::read(file)?,
        None => compare(args)?,
    };
    let text = tables::all(&record);
    println!("{text}");
    if record.stopped_early && args.from.is_none() {
        eprintln!("stopped early: no other file was written");
        return Ok(ExitCode::FAILURE);
    }
    for file in &args.markdown {
        marked::write(file, MARKS, &text)?;
        eprintln!("wrote the tables into {}", file.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn compare(args: &ProfileArgs) -> anyhow::Result<Record> {
    if Rights::now() != Rights::Root {
        bail!(
            "profilers need root: run `sudo -E env PATH=\"$PATH\" cargo xtask peers profile --mode \
             off-cpu`, or become root"
        );
    }
    let (targets, tools) = (tools::targets(&args.workload)?, tools::chosen(&args.only)?);
    let programs = match &args.off_cpu.programs {
        Some(folder) => folder.clone(),
        None => {
            let packages = ["build", "--release", "-p", "wingbeat", "-p", "wingbeat-workloads"];
            Steps::default().run(cargo().args(packages))?;
            repository().join("target/release")
        }
    };
    let plan = Plan {
        rounds: args.rounds.unwrap_or(if args.quick { 1 } else { 5 }),
        seconds: args.off_cpu.seconds.unwrap_or(if args.quick { 1 } else { 2 }),
        targets,
        tools,
        programs,
    };
    let out = repository().join(OUT);
    let figures = out.join("off-cpu.json");
    fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
    let stop = measure::stop_on_signals()?;
    // perf and bpftrace find tracepoints there.
    let _tracefs = Tracefs::mounted()?;
    let mut record = conditions(&plan);
    for round in 0..plan.rounds {
        measure_round(&plan, round, &out.join("runs"), &stop, &mut record)?;
        if stop.load(Ordering::Relaxed) {
            record.stopped_early = true;
            record.notes.push("Stopped early: the last round is not complete.".to_owned());
            break;
        }
        record::write(&record, &figures)?;
    }
    record::write(&record, &figures)?;
    eprintln!("wrote all figures to {}", figures.display());
    Ok(record)
}

/// An empty record that says where, when, and with what.
fn conditions(plan: &Plan) -> Record {
    let super::record::Record { date, machine, command, notes, .. } = measure::conditions();
    let mut record = Record {
        date,
        machine,
        command: without_programs(&command),
        notes,
        rounds: plan.rounds,
        seconds: plan.seconds,
        ..Record::default()
    };
    for tool in &plan.tools {
        let version = tool.version(&plan.programs);
        if let Some(install) = tool.missing() {
            let note = format!("{} is missing: install it with `{install}`.", tool.name);
            eprintln!("warning: {note}");
            record.notes.push(note);
        }
        record.tools.push(ToolVersion {
            name: tool.name.to_owned(),
            chain: tool.chain.to_owned(),
            version,
        });
    }
    record
}

/// The command as one would type it elsewhere: where the programs lay is of no interest.
fn without_programs(command: &str) -> String {
    let mut words = command.split(' ');
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        if word == "--programs" {
            words.next();
        } else if !word.starts_with("--programs=") {
            kept.push(word);
        }
    }
    kept.join(" ")
}

fn measure_round(
    plan: &Plan,
    round: u32,
    out: &Path,
    stop: &AtomicBool,
    record: &mut Record,
) -> anyhow::Result<()> {
    for &target in &plan.targets {
        let place = format!("round {}, {}", round + 1, target.name);
        let job = |name: &str| -> anyhow::Result<Job<'_>> {
            let dir = fresh(&out.join(format!("{}-{name}", target.name)))?;
            Ok(Job { target, seconds: plan.seconds, programs: &plan.programs, dir })
        };
        let (report, cpu_ns) = job("alone")?.alone()?;
        eprintln!("{place}, alone: {}", report.pace());
        let name = target.name.to_owned();
        record.alone.push(Alone { target: name.clone(), round, report, cpu_ns });
        for tool in turned(&plan.tools, round) {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if tool.missing().is_some() || !target.is_for(&tool) {
                continue;
            }
            match job(tool.folder)?.watched(&tool) {
                Ok((report, outcome)) => {
                    eprintln!("{place}, {}: {}", tool.name, report.pace());
                    let tool = tool.name.to_owned();
                    record.runs.push(Run { tool, target: name.clone(), round, report, outcome });
                }
                // The signal also reached the tool.
                Err(_) if stop.load(Ordering::Relaxed) => return Ok(()),
                Err(error) => {
                    let failure = format!("{place}, {}: {error:#}", tool.name);
                    eprintln!("failed: {failure}");
                    record.failures.push(failure);
                }
            }
        }
        if target.is_sleepy() && find_program("perf").is_some() {
            match agree::both_at_once(&job("both")?, round) {
                Ok(found) => record.agreements.push(found),
                Err(_) if stop.load(Ordering::Relaxed) => return Ok(()),
                Err(error) => {
                    let failure = format!("{place}, wingbeat and perf at once: {error:#}");
                    eprintln!("failed: {failure}");
                    record.failures.push(failure);
                }
            }
        }
    }
    Ok(())
}

/// The tools, beginning with another one each round, lest one always run first.
fn turned(tools: &[Tool], round: u32) -> Vec<Tool> {
    let mut tools = tools.to_vec();
    if !tools.is_empty() {
        let first = usize::try_from(round).unwrap_or(0) % tools.len();
        tools.rotate_left(first);
    }
    tools
}

/// An empty folder, for files that stay until the same place comes again.
fn fresh(dir: &Path) -> anyhow::Result<PathBuf> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("cannot empty {}", dir.display()))?;
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    Ok(dir.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_take_turns_in_being_first() {
        let all = tools::chosen(&[]).expect("all tools");
        let first = |round| turned(&all, round)[0].name;
        assert_ne!(first(0), first(1));
        let rounds = u32::try_from(all.len()).expect("a handful");
        assert_eq!(first(0), first(rounds));
        assert!(turned(&[], 3).is_empty());
    }

    #[test]
    fn the_command_is_kept_without_folders() {
        let check = |text, expected| assert_eq!(without_programs(text), expected);
        check("peers profile --programs a --quick", "peers profile --quick");
        check("peers profile --programs=a", "peers profile");
        check("peers profile", "peers profile");
    }
}

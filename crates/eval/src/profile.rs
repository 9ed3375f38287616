//! `cargo xtask peers profile`: `wingbeat profile` beside what one would use instead of it.
//!
//! Figures from different machines, or from different hours on a shared one, cannot be compared. So
//! the tools take turns on the same workloads, round after round, each beside a run alone, and
//! every figure is a median over the rounds with its spread. docs/peers.md says what they mean.
//!
//! Off the CPU there are two questions: what it costs to watch every switch, and whether the times are
//! right. `work-token` switches as often as the machine can. `work-sleepy` hardly runs: wingbeat and perf
//! watch it at the same time, so that both see the very same blocks, and their sums are compared.

mod agree;
mod attach;
mod figures;
mod goals;
mod off_cpu;
mod on_cpu;
pub(crate) mod parse;
pub(crate) mod process;
mod record;
pub(crate) mod settings;
mod sums;
mod text;
mod tools;
mod workload;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};

use self::{
    record::{Record, Run},
    settings::Tracefs,
    tools::Tool,
    workload::{Job, SLEEPY, Workload},
};
use crate::{
    comparison::{self, Origin, Stop, chosen, fresh, keep, need_root, out, write},
    tools::find,
};

/// What `wingbeat profile` measures while it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Samples of what runs
    OnCpu,
    /// Time off the CPU, beside perf's and bpftrace's `sched_switch`
    OffCpu,
}

/// How `wingbeat profile` is compared.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// What is measured
    #[arg(long, value_enum, default_value_t = Mode::OnCpu)]
    mode: Mode,
    /// One round of one second, at 999 and 9999 Hz: shows that all works, not how fast it is
    #[arg(long)]
    quick: bool,
    /// Rounds over all workloads, frequencies and tools [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Samples per second (on-cpu) [default: 99,999,9999]
    #[arg(long, value_name = "HZ", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=50_000))]
    hz: Vec<u32>,
    /// Only these tools; `wingbeat` counts as one
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Only these workloads
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    workload: Vec<String>,
    /// Also write the tables into this file, between its marks when it has them
    #[arg(long, value_name = "FILE")]
    markdown: Vec<PathBuf>,
    /// Measure nothing: make the tables from the figures of an earlier run
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "rounds", "hz", "only", "workload"])]
    from: Option<PathBuf>,
    /// Seconds that each target works (off-cpu) [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: Option<u32>,
    /// Folder with wingbeat and the workloads [default: a release build of this tree]
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
}

impl ProfileArgs {
    /// Seconds that each target works; 0 where it does a fixed amount of work.
    fn seconds(&self) -> u32 {
        match self.mode {
            Mode::OnCpu => 0,
            Mode::OffCpu => self.seconds.unwrap_or(if self.quick { 1 } else { 2 }),
        }
    }
}

/// Measures, or reads what was measured, and prints the tables.
pub(crate) fn run(args: &ProfileArgs) -> anyhow::Result<ExitCode> {
    match args.mode {
        Mode::OnCpu if args.seconds.is_some() => {
            bail!("--seconds belongs to --mode off-cpu: add that, or leave it out")
        }
        Mode::OffCpu if !args.hz.is_empty() => {
            bail!("--hz is for samples, and --mode off-cpu takes none: leave it out")
        }
        _ => {}
    }
    let record = match &args.from {
        Some(file) => comparison::kept(file)?,
        None => measure(args)?,
    };
    let full = text::full(&record, args.mode);
    println!("{full}");
    if record.stopped_early && args.from.is_none() {
        eprintln!("stopped early: no other file was written");
        return Ok(ExitCode::FAILURE);
    }
    match args.mode {
        Mode::OnCpu => {
            let summary = text::summary(&record);
            write(&args.markdown, &[("peers profile", &full), ("peers summary", &summary)])?;
        }
        Mode::OffCpu => write(&args.markdown, &[("peers profile off-cpu", &full)])?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What is to be measured.
struct Plan {
    mode: Mode,
    frequencies_hz: Vec<u32>,
    workloads: Vec<Workload>,
    tools: Vec<Tool>,
    /// How much work each target does, as it takes it.
    amount: String,
    programs: PathBuf,
}

/// One place in a round: a run alone, and then the tools.
struct Block {
    workload: Workload,
    frequency_hz: u32,
    tools: Vec<Tool>,
}

fn plan(args: &ProfileArgs) -> anyhow::Result<Plan> {
    let mode = args.mode;
    let what = |what: &str| match mode {
        Mode::OnCpu => what.to_owned(),
        Mode::OffCpu => format!("{what} for time off the CPU"),
    };
    let tools = chosen(tools::all(mode), &what("tool"), |tool| tool.name, &args.only)?;
    let workloads = chosen(workload::all(mode), &what("workload"), |it| it.name, &args.workload)?;
    let programs = match &args.programs {
        Some(folder) => {
            fs::canonicalize(folder).with_context(|| format!("cannot find {}", folder.display()))?
        }
        None => comparison::build(&["wingbeat", "wingbeat-workloads"])?,
    };
    let amount = match mode {
        Mode::OnCpu => {
            let cpu_s = if args.quick { 1.0 } else { 4.0 };
            workload::units_for(cpu_s, &programs, &fresh("trial")?)?.to_string()
        }
        Mode::OffCpu => format!("{}s", args.seconds()),
    };
    let frequencies_hz = match (mode, args.hz.is_empty(), args.quick) {
        (Mode::OffCpu, ..) => vec![0],
        (_, false, _) => args.hz.clone(),
        (_, true, true) => vec![999, 9999],
        (_, true, false) => vec![99, 999, 9999],
    };
    Ok(Plan { mode, frequencies_hz, workloads, tools, amount, programs })
}

fn measure(args: &ProfileArgs) -> anyhow::Result<Record> {
    need_root("profilers need", "profile …")?;
    let stop = Stop::on_signals()?;
    let mut plan = plan(args)?;
    let figures = out("")?.join(match plan.mode {
        Mode::OnCpu => "profile.json",
        Mode::OffCpu => "off-cpu.json",
    });
    // perf and bpftrace find tracepoints there.
    let _tracefs = (plan.mode == Mode::OffCpu).then(Tracefs::mounted).transpose()?;
    let mut record = Record {
        origin: Origin::now(),
        rounds: args.rounds.unwrap_or(if args.quick { 1 } else { 5 }),
        seconds: args.seconds(),
        tools: plan.tools.iter().map(|tool| tool.record(&plan.programs)).collect(),
        ..Record::default()
    };
    for missing in &record.tools {
        if let Some(install) = &missing.install {
            eprintln!("missing: {}; install it with `{install}`", missing.name);
        }
    }
    let mut is_here = record.tools.iter().map(|tool| tool.version.is_some());
    plan.tools.retain(|_| is_here.next().unwrap_or(false));

    let mut unable: Vec<String> = Vec::new();
    for round in 0..record.rounds {
        for block in blocks(&plan, round, &mut unable) {
            if !stop.is_asked() {
                run_block(&plan, &block, round, &stop, &mut record)?;
            }
        }
        if stop.is_asked() {
            record.stopped_early = true;
            unable.push("Stopped early: the last round is not complete.".to_owned());
            break;
        }
        keep(&record, &figures)?;
    }
    record.origin.notes.extend(unable);
    keep(&record, &figures)?;
    eprintln!("wrote all figures to {}", figures.display());
    Ok(record)
}

impl Plan {
    fn job<'a>(&'a self, block: &Block, dir: &'a Path) -> Job<'a> {
        let Block { workload, frequency_hz, .. } = *block;
        Job { workload, amount: &self.amount, frequency_hz, programs: &self.programs, dir }
    }
}

/// The places of a round. The tools begin with another one each round, lest one always run first.
fn blocks(plan: &Plan, round: u32, unable: &mut Vec<String>) -> Vec<Block> {
    let mut blocks = Vec::new();
    for workload in &plan.workloads {
        for &frequency_hz in &plan.frequencies_hz {
            let fits = |tool: &&Tool| workload.is_for(tool.name, frequency_hz);
            let mut tools: Vec<Tool> = plan.tools.iter().filter(fits).copied().collect();
            for tool in tools.extract_if(.., |tool| workload.forks && !tool.follows_children) {
                let sentence = format!(
                    "{} is not run on {}: it samples one process and not its children.",
                    tool.name, workload.name
                );
                if !unable.contains(&sentence) {
                    unable.push(sentence);
                }
            }
            if !tools.is_empty() {
                let first = round as usize % tools.len();
                tools.rotate_left(first);
                blocks.push(Block { workload: *workload, frequency_hz, tools });
            }
        }
    }
    blocks
}

fn run_block(
    plan: &Plan,
    block: &Block,
    round: u32,
    stop: &Stop,
    record: &mut Record,
) -> anyhow::Result<()> {
    let Block { workload, frequency_hz, ref tools } = *block;
    let at = match plan.mode {
        Mode::OnCpu => format!(" at {frequency_hz} Hz"),
        Mode::OffCpu => String::new(),
    };
    let place = format!("round {}, {}{at}", round + 1, workload.name);
    let fresh = |tool: &str| {
        let tool = tool.replace(' ', "");
        fresh(&format!("{}-{frequency_hz}-{tool}", workload.name))
    };
    let run = |tool: &str, (target, outcome)| {
        let run = Run {
            tool: tool.to_owned(),
            workload: workload.name.to_owned(),
            frequency_hz,
            round,
            target,
            outcome,
        };
        eprintln!(
            "{place}, {}: {}",
            if tool.is_empty() { "alone" } else { tool },
            progress(plan, &run)
        );
        run
    };
    let failed = |what: &str, error: &anyhow::Error| {
        let failure = format!("{place}, {what}: {error:#}");
        eprintln!("failed: {failure}");
        failure
    };
    let Some(alone) = stop.unless_asked(plan.job(block, &fresh("alone")?).alone())? else {
        return Ok(());
    };
    record.alone.push(run("", alone));
    for tool in tools {
        let outcome = (tool.run)(&plan.job(block, &fresh(tool.name)?));
        if stop.is_asked() {
            // The signal also reached the tool: its figures mean nothing.
            return Ok(());
        }
        match outcome {
            Ok(found) => record.runs.push(run(tool.name, found)),
            Err(error) => record.failures.push(failed(tool.name, &error)),
        }
    }
    if workload.name == SLEEPY && find("perf").is_ok() {
        let agreement = agree::both_at_once(&plan.job(block, &fresh("both")?), round);
        match agreement {
            _ if stop.is_asked() => {}
            Ok(found) => record.agreements.push(found),
            Err(error) => record.failures.push(failed("wingbeat and perf at once", &error)),
        }
    }
    Ok(())
}

/// What a reader of the terminal wants to know of a run at once.
fn progress(plan: &Plan, run: &Run) -> String {
    let target = &run.target;
    match (plan.mode, run.outcome.seen) {
        (Mode::OffCpu, _) => {
            let pace = target.units as f64 / (target.wall_time_ns as f64 / 1e9);
            format!("{pace:.0} rounds per second")
        }
        (_, Some(samples)) => {
            format!("{:.2} s of CPU, {samples} samples", target.cpu_time_ns as f64 / 1e9)
        }
        (_, None) => format!("{:.2} s of CPU", target.cpu_time_ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(mode: Mode) -> Plan {
        Plan {
            mode,
            frequencies_hz: if mode == Mode::OnCpu { vec![99, 999] } else { vec![0] },
            workloads: workload::all(mode).to_vec(),
            tools: tools::all(mode).to_vec(),
            amount: String::new(),
            programs: PathBuf::new(),
        }
    }

    #[test]
    fn tools_take_turns_in_being_first() {
        let plan = plan(Mode::OnCpu);
        let first = |round| blocks(&plan, round, &mut Vec::new())[0].tools[0].name;
        assert_eq!((first(0), first(1), first(6)), ("wingbeat", "perf", "wingbeat"));
    }

    #[test]
    fn tools_run_only_where_they_can() {
        let check = |mode, name: &str, hz, expected: Option<&[&str]>| {
            let mut unable = Vec::new();
            let blocks = blocks(&plan(mode), 0, &mut unable);
            let block = blocks.iter().find(|b| b.workload.name == name && b.frequency_hz == hz);
            let tools = block.map(|b| b.tools.iter().map(|tool| tool.name).collect::<Vec<_>>());
            assert_eq!(tools.as_deref(), expected, "{name} at {hz} Hz");
            assert_eq!(unable.len(), if mode == Mode::OnCpu { 2 } else { 0 }, "{unable:?}");
        };
        let all = ["wingbeat", "perf", "samply", "bpftrace", "bcc", "probee"];
        check(Mode::OnCpu, "threads", 99, Some(&all));
        check(Mode::OnCpu, "forks", 999, Some(&all[..4]));
        check(Mode::OnCpu, "deep-26", 999, Some(&all[..2]));
        check(Mode::OnCpu, "deep-26", 99, None);
        let off = tools::all(Mode::OffCpu).iter().map(|tool| tool.name).collect::<Vec<_>>();
        check(Mode::OffCpu, "token", 0, Some(&off));
        check(Mode::OffCpu, "sleepy", 0, Some(&["wingbeat", "perf", "bpftrace"]));
    }
}

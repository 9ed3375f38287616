//! `cargo xtask peers unwind`: are stacks whole, and the same as others see them?
//!
//! wingbeat, perf and samply walk the stacks of programs as they are: built without frame pointers, or
//! stripped. perf copies the stack and walks it afterwards by the files' tables with no limit of time, so
//! it is what the others are compared with. Each tool has a run of its own, so that a small difference
//! is chance.

mod cost;
mod figures;
mod functions;
mod kernel;
mod stacks;
mod target;
mod text;
mod tools;

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::Context as _;
use clap::Args;
use serde::{Deserialize, Serialize};

use self::{
    figures::{Figures, Seen},
    functions::Functions,
    target::Target,
    text::text,
    tools::{Job, PERF, Run, Tool, WINGBEAT},
};
use crate::{
    comparison::{Common, Origin, Stop, build, chosen, fresh, kept, need_root, out},
    table::NONE,
};

/// The name that stands for the row about the kernel among the targets.
const KERNEL: &str = "kernel";

/// How often wingbeat samples unless it is told: of all processes, nobody asks for more.
const DEFAULT_HZ: u32 = 99;

const NOT_INSTALLED: &str = "not installed";

/// How stack walks are compared.
#[derive(Debug, Args)]
pub(crate) struct UnwindArgs {
    /// Runs of each tool on each target
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Samples per second
    #[arg(long, value_name = "HZ", default_value_t = 999)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=50_000))]
    hz: u32,
    /// Only these tools; `wingbeat` counts as one
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Only these targets; `kernel` is the time that a sample takes in the kernel
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    target: Vec<String>,
    /// Keep what earlier runs measured on other targets, and show it too
    #[arg(long)]
    add: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    origin: Origin,
    rounds: u32,
    hz: u32,
    /// Each with its version, and what was run.
    tools: Vec<String>,
    rows: Vec<Row>,
    kernel: Vec<Kernel>,
}

/// A tool on a target, over the rounds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Row {
    target: String,
    tool: String,
    /// Why there are no figures, or fewer.
    note: Option<String>,
    figures: Vec<Figures>,
}

/// Time in the kernel by one way to walk.
#[derive(Debug, Serialize, Deserialize)]
struct Kernel {
    unwind: String,
    ns: Vec<f64>,
}

/// What all runs share.
struct Bed<'a> {
    args: &'a UnwindArgs,
    tools: Vec<Tool>,
    wingbeat: PathBuf,
    stop: Stop,
}

pub(crate) fn run(args: &UnwindArgs) -> anyhow::Result<ExitCode> {
    need_root("profilers need", "unwind …")?;
    let tools = chosen(&tools::ALL, "tool", |tool| tool.name, &args.only)?;
    let names: Vec<_> = target::ALL.iter().map(|it| it.name).chain([KERNEL]).collect();
    let names = chosen(&names, "target", |name| name, &args.target)?;
    let stop = Stop::on_signals()?;
    let bed = Bed { args, tools, wingbeat: args.common.wingbeat()?, stop };
    let mut record = Record {
        origin: Origin::now(),
        rounds: args.rounds,
        hz: args.hz,
        tools: bed.tools.iter().map(Tool::sentence).collect(),
        rows: Vec::new(),
        kernel: Vec::new(),
    };
    for target in target::ALL.iter().filter(|it| names.contains(&it.name)) {
        if !bed.stop.is_asked() {
            record.rows.extend(bed.rows(target)?);
        }
    }
    if names.contains(&KERNEL) && !bed.stop.is_asked() {
        record.kernel = bed.kernel()?;
    }
    if args.add {
        record.add(kept(&out("")?.join("unwind.json"))?);
    }
    args.common.finish("unwind", &record, &text(&record), &bed.stop)
}

impl Record {
    /// What an earlier run has of targets that this one lacks.
    fn add(&mut self, earlier: Self) {
        let has = |row: &Row| self.rows.iter().any(|mine| mine.target == row.target);
        let more: Vec<_> = earlier.rows.into_iter().filter(|row| !has(row)).collect();
        self.rows.extend(more);
        let place = |row: &Row| target::ALL.iter().position(|it| it.name == row.target);
        self.rows.sort_by_key(place);
        if self.kernel.is_empty() {
            self.kernel = earlier.kernel;
        }
    }
}

/// What stands in the place of figures; what begins otherwise is too long for that.
fn not_installed(program: &str) -> String {
    format!("{NOT_INSTALLED}: {program}")
}

impl Bed<'_> {
    /// All tools on a target. What cannot be is said in its row, and ends nothing.
    fn rows(&self, target: &Target) -> anyhow::Result<Vec<Row>> {
        let name = target.name.to_owned();
        let without = |why: String| {
            let (target, tool) = (name.clone(), NONE.to_owned());
            vec![Row { target, tool, note: Some(why), ..Row::default() }]
        };
        if let Some(lacks) = target.lacks() {
            return Ok(without(not_installed(lacks)));
        }
        let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
        if let Err(error) = target.make(folder.path()) {
            return Ok(without(format!("cannot be made: {error:#}")));
        }
        let row = |tool: &Tool| Row {
            target: name.clone(),
            tool: tool.name.to_owned(),
            note: tool.lacks().map(not_installed),
            ..Row::default()
        };
        let tools = self.tools.iter().filter(|tool| !target.with_all || tool.name == WINGBEAT);
        let mut rows: Vec<Row> = tools.map(row).collect();
        for round in 0..self.args.rounds {
            if let Err(error) = self.round(target, folder.path(), round, &mut rows) {
                let failed = format!("failed alone: {error:#}");
                rows.iter_mut().for_each(|row| row.note = Some(failed.clone()));
            }
        }
        Ok(rows)
    }

    /// The target alone, then under each tool.
    fn round(
        &self,
        target: &Target,
        folder: &Path,
        round: u32,
        rows: &mut [Row],
    ) -> anyhow::Result<()> {
        let hz = if target.with_all { DEFAULT_HZ } else { self.args.hz };
        let wingbeat = self.wingbeat.as_path();
        let job = |tool: &str| {
            let out = fresh(&format!("unwind-{}-{tool}", target.name))?;
            anyhow::Ok(Job { target: *target, folder, hz, wingbeat, out })
        };
        let alone = job("alone")?.launch(&Command::new("env"))?;
        let mut functions = Functions::default();
        let mut seen: Vec<(&mut Row, Run, Seen)> = Vec::new();
        for row in rows {
            let Some(tool) = self.tools.iter().find(|tool| tool.name == row.tool) else { continue };
            if tool.lacks().is_some() || self.stop.is_asked() {
                continue;
            }
            match (tool.run)(&job(tool.name)?) {
                Ok(run) => {
                    let place = format!("round {}, {}", round + 1, target.name);
                    eprintln!("{place}, {}: {} samples", tool.name, run.samples);
                    let known: Vec<_> =
                        run.stacks.frames.iter().map(|frame| functions.of(frame)).collect();
                    let found = Seen::of(&run.stacks, &known, |it| functions.is_root(it));
                    seen.push((row, run, found));
                }
                Err(_) if self.stop.is_asked() => {}
                Err(error) => row.note = Some(format!("failed: {error:#}")),
            }
        }
        let perf = seen.iter().position(|(row, ..)| row.tool == PERF);
        let theirs = perf.map(|perf| seen[perf].2.clone());
        for (row, run, found) in seen {
            row.figures.push(Figures::of(&run, &found, theirs.as_ref(), &alone, &functions));
        }
        Ok(())
    }

    fn kernel(&self) -> anyhow::Result<Vec<Kernel>> {
        let workload = build(&["wingbeat-workloads"])?.join("work-deep");
        let _statistics = kernel::Statistics::kept()?;
        let mut found = ["auto", "frame-pointer"]
            .map(|unwind| Kernel { unwind: unwind.to_owned(), ns: Vec::new() });
        for _ in 0..self.args.rounds {
            for way in &mut found {
                let (wingbeat, hz) = (&self.wingbeat, self.args.hz);
                let ns = kernel::ns_per_sample(wingbeat, &workload, &way.unwind, hz);
                let Some(ns) = self.stop.unless_asked(ns)? else { return Ok(found.into()) };
                eprintln!("kernel part, {}: {ns:.0} ns per sample", way.unwind);
                way.ns.push(ns);
            }
        }
        Ok(found.into())
    }
}

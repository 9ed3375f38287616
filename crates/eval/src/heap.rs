//! `cargo xtask peers heap`: whether what `wingbeat heap` says is true, and what it costs.
//!
//! Sums are compared with those of valgrind's DHAT and of dhat-rs, sites with heaptrack's, the slowdown with heaptrack's and
//! memleak's. A leak has to be found, and nothing may be left behind.

mod dhat;
mod heaptrack;
mod leak;
mod left;
mod pages;
mod programs;
mod said;
mod sites;
mod slowdown;
mod target;
mod text;
mod truth;
mod wingbeat;

use std::{
    path::PathBuf,
    process::{Command, ExitCode},
    time::Duration,
};

use clap::Args;
use serde::{Deserialize, Serialize};

use self::{
    leak::Leak,
    left::{Attached, Killed},
    pages::Pages,
    programs::Folder,
    sites::Sites,
    slowdown::Slow,
    truth::{Sampled, Truth},
};
use crate::{
    comparison::{Common, Origin, Stop, chosen, keep, kept, need_root, out},
    tools,
};

/// The figures of this command.
const NAME: &str = "heap";

/// What can be measured.
const PARTS: [&str; 9] =
    ["truth", "dhat-rs", "sampled", "sites", "slowdown", "leak", "kill", "attach", "pages"];

/// How it is measured.
#[derive(Debug, Args)]
pub(crate) struct HeapArgs {
    /// Shorter runs and fewer: shows that all works
    #[arg(long)]
    quick: bool,
    /// Only these parts: truth, dhat-rs, sampled, sites, slowdown, leak, kill, attach, pages
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Keep what earlier runs measured of other parts, and show it too
    #[arg(long)]
    add: bool,
    /// Runs with samples [default: 200, or 20 with --quick]
    #[arg(long, value_name = "N")]
    runs: Option<u32>,
    /// Rounds of the slowdown [default: 3, or 1 with --quick]
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    #[command(flatten)]
    common: Common,
}

impl HeapArgs {
    /// How long the CPU time of a target is taken.
    fn window(&self) -> Duration {
        Duration::from_secs(if self.quick { 1 } else { 4 })
    }

    /// How often samples are taken of a program.
    fn runs(&self) -> u32 {
        self.runs.unwrap_or(if self.quick { 20 } else { 200 })
    }

    fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 1 } else { 3 })
    }

    /// How often a target is attached to.
    fn attach_times(&self) -> u32 {
        if self.quick { 20 } else { 1000 }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    origin: Origin,
    /// Each with its version.
    tools: Vec<String>,
    truth: Vec<Truth>,
    dhat_rs: Option<Truth>,
    sampled: Option<Sampled>,
    sites: Vec<Sites>,
    slowdown: Vec<Slow>,
    leaks: Vec<Leak>,
    killed: Option<Killed>,
    attached: Option<Attached>,
    #[serde(default)]
    pages: Option<Pages>,
}

/// What all parts share.
struct Bed<'a> {
    args: &'a HeapArgs,
    wingbeat: PathBuf,
    folder: Folder,
    stop: Stop,
}

impl Bed<'_> {
    /// `wingbeat heap`.
    fn heap(&self) -> Command {
        let mut command = Command::new(&self.wingbeat);
        command.args(["heap", "--color", "never"]);
        command
    }
}

pub(crate) fn run(args: &HeapArgs) -> anyhow::Result<ExitCode> {
    need_root("probes need", NAME)?;
    let parts = chosen(&PARTS, "part", |part| part, &args.only)?;
    let stop = Stop::on_signals()?;
    let origin = Origin::now();
    let mut record: Record = match args.add {
        true => kept(&out("")?.join(format!("{NAME}.json")))?,
        false => Record { origin, ..Record::default() },
    };
    record.tools = versions();
    let bed = Bed { args, wingbeat: args.common.wingbeat()?, folder: Folder::new()?, stop };
    for part in parts {
        let done = record.measure(&bed, part);
        let done = bed.stop.unless_asked(done)?;
        // `--add` goes on from here.
        keep(&record, &out("")?.join(format!("{NAME}.json")))?;
        if done.is_none() {
            break;
        }
    }
    args.common.finish(NAME, &record, &text::text(&record), &bed.stop)
}

impl Record {
    fn measure(&mut self, bed: &Bed<'_>, part: &str) -> anyhow::Result<()> {
        match part {
            "truth" => self.truth = truth::exact(bed)?,
            "dhat-rs" => self.dhat_rs = Some(truth::dhat_rs(bed)?),
            "sampled" => self.sampled = truth::sampled(bed)?,
            "sites" => self.sites = sites::sites(bed)?,
            "slowdown" => self.slowdown = slowdown::slowdown(bed)?,
            "leak" => self.leaks = leak::leaks(bed)?,
            "kill" => self.killed = Some(left::killed(bed)?),
            "pages" => self.pages = Some(pages::pages(bed)?),
            _ => self.attached = Some(left::attached(bed)?),
        }
        Ok(())
    }
}

/// What is compared with, as far as it is there.
fn versions() -> Vec<String> {
    let version = |name: &&str| match tools::missing(name) {
        Some(_) => format!("{name}: not installed"),
        None => format!("{name} {}", tools::version(name)),
    };
    ["valgrind", "heaptrack", "memleak-bpfcc", "strace", "perf"].iter().map(version).collect()
}

//! The three that walk stacks, each from a command to the stacks of its samples.

use std::{
    fs::{self, File},
    io::{BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::Context as _;
use flate2::read::GzDecoder;

use super::{
    cost::Cost,
    stacks::{Place, Stacks, of_firefox, of_perf},
    target::Target,
};
use crate::{
    comparison::create,
    profile::{
        parse::{number, perf_stats, samply_lost, summary},
        process,
        settings::Paranoia,
    },
    tools,
};

/// What a tool that watches everybody gets to begin.
const SET_UP: Duration = Duration::from_millis(500);

pub(super) const WINGBEAT: &str = "wingbeat";
pub(super) const PERF: &str = "perf";
pub(super) const SAMPLY: &str = "samply";

/// The peers after wingbeat, as it knows most names, and perf before samply, which is compared with it.
pub(super) const ALL: [Tool; 3] = [
    Tool { name: WINGBEAT, chain: "wingbeat profile --unwind auto", run: wingbeat },
    Tool {
        name: PERF,
        chain: "perf record --call-graph dwarf,65528 -e cpu-clock, then perf script --no-inline",
        run: perf,
    },
    Tool { name: SAMPLY, chain: "samply record --save-only", run: samply },
];

#[derive(Debug, Clone, Copy)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    /// What is run.
    chain: &'static str,
    pub(super) run: fn(&Job<'_>) -> anyhow::Result<Run>,
}

impl Tool {
    /// The program that it lacks here; wingbeat lacks none.
    pub(super) fn lacks(&self) -> Option<&'static str> {
        (self.name != WINGBEAT && tools::find(self.name).is_err()).then_some(self.name)
    }

    /// Its name and version, and what is run, or how to get it.
    pub(super) fn sentence(&self) -> String {
        let Self { name, chain, .. } = self;
        match tools::missing(name).filter(|_| self.lacks().is_some()) {
            Some(install) => format!("{name}: not installed; install it with `{install}`"),
            None if *name == WINGBEAT => format!("{name}: `{chain}`"),
            None => format!("{name} {}: `{chain}`", tools::version(name)),
        }
    }
}

/// One run that is to be made.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) target: Target,
    /// Where the target's files are.
    pub(super) folder: &'a Path,
    pub(super) hz: u32,
    pub(super) wingbeat: &'a Path,
    /// An empty folder for the files of this run.
    pub(super) out: PathBuf,
}

/// What a tool made of a run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) stacks: Stacks,
    pub(super) samples: u64,
    pub(super) lost: u64,
    /// The share of complete stacks, where the tool says so itself.
    pub(super) complete: Option<f64>,
    pub(super) bytes_per_sample: Option<f64>,
    /// Of the tool and the target.
    pub(super) cost: Cost,
    /// The tool's CPU time after the recording, where it tells symbols from writing.
    pub(super) symbols_ns: Option<u64>,
    pub(super) writing_ns: Option<u64>,
    /// The tool's memory until the recording ended, where it does more after that.
    pub(super) recording_bytes: Option<u64>,
}

impl Job<'_> {
    fn file(&self, name: &str) -> PathBuf {
        self.out.join(name)
    }

    fn messages(&self) -> PathBuf {
        self.file("messages")
    }

    /// Runs the target under a command.
    pub(super) fn launch(&self, command: &Command) -> anyhow::Result<Cost> {
        self.target.run(self.folder, command, &self.file("times"), &self.messages())
    }
}

fn open(file: &Path) -> anyhow::Result<BufReader<File>> {
    let opened = File::open(file).with_context(|| format!("{} was not written", file.display()))?;
    Ok(BufReader::new(opened))
}

fn wingbeat(job: &Job<'_>) -> anyhow::Result<Run> {
    let (profile, told) = (job.file("profile.json"), job.file("summary.json"));
    let mut command = Command::new(job.wingbeat);
    command.args(["profile", "--quiet", "--unwind", "auto", "-F", &job.hz.to_string(), "-o"]);
    command.arg(&profile).arg("--summary-json").arg(&told);
    let cost = if job.target.with_all {
        watch(job, command.arg("--all"))?
    } else {
        job.launch(command.arg("--"))?
    };
    let told = summary(&told)?;
    let count = |path: &str| number(&told, path);
    let complete = count("/stacks/complete")?;
    let of = complete + count("/stacks/truncated")? + count("/stacks/broken")?;
    Ok(Run {
        stacks: of_firefox(open(&profile)?, Place::Address)?,
        samples: count("/ticks/sampled")?,
        lost: count("/ticks/lost")?,
        complete: (of > 0).then(|| complete as f64 / of as f64),
        bytes_per_sample: told["bytes_per_sample"].as_f64(),
        cost,
        symbols_ns: Some(count("/own/cpu_time_ns/symbolize")?),
        writing_ns: Some(count("/own/cpu_time_ns/write")?),
        recording_bytes: Some(count("/own/rss_max_record_bytes")?),
    })
}

/// Runs the target while a command watches everybody; the cost is of both.
fn watch(job: &Job<'_>, command: &mut Command) -> anyhow::Result<Cost> {
    let watcher = process::start(command, Stdio::null(), Stdio::null(), &job.messages())?;
    thread::sleep(SET_UP);
    let cost = job.launch(&Command::new("env"));
    process::interrupt(&watcher)?;
    let watched = process::finish(watcher, WINGBEAT, &job.messages())?;
    Ok(cost?.then(watched))
}

fn perf(job: &Job<'_>) -> anyhow::Result<Run> {
    let (data, text) = (job.file("perf.data"), job.file("script.txt"));
    let mut record = Command::new("perf");
    record.args(["record", "--quiet", "--call-graph", "dwarf,65528", "-e", "cpu-clock"]);
    // Buffers for a thousand copies of a stack.
    record.args(["-m", "64M", "-F", &job.hz.to_string(), "-o"]).arg(&data).arg("--");
    let recorded = job.launch(&record)?;
    let mut script = Command::new("perf");
    script.args(["script", "--no-inline", "--max-stack", "1024", "-F", "pid,ip,sym,dso", "-i"]);
    let printed = process::run(script.arg(&data), create(&text)?.into(), &job.messages())?;
    let (samples, lost) = perf_stats(&data, "cpu-clock")?;
    let bytes = fs::metadata(&data).context("perf left no recording")?.len();
    let stacks = of_perf(open(&text)?)?;
    // Some hundred megabytes.
    fs::remove_file(&data).context("cannot remove perf's recording")?;
    Ok(Run {
        stacks,
        samples,
        lost,
        complete: None,
        bytes_per_sample: (samples > 0).then(|| bytes as f64 / samples as f64),
        cost: recorded.then(printed),
        symbols_ns: Some(printed.cpu_ns),
        writing_ns: None,
        recording_bytes: None,
    })
}

fn samply(job: &Job<'_>) -> anyhow::Result<Run> {
    // samply 0.13 refuses level 2 even to root.
    let _lowered = Paranoia::at_most(1)?;
    let profile = job.file("profile.json.gz");
    let mut command = Command::new(SAMPLY);
    command.args(["record", "--save-only", "--no-open", "--rate", &job.hz.to_string(), "-o"]);
    let cost = job.launch(command.arg(&profile).arg("--"))?;
    let json: Box<dyn Read> = Box::new(BufReader::new(GzDecoder::new(open(&profile)?)));
    let stacks = of_firefox(json, Place::Relative)?;
    let said = fs::read(job.messages()).unwrap_or_default();
    Ok(Run {
        samples: stacks.stacks.iter().map(|(_, samples)| samples).sum(),
        stacks,
        lost: samply_lost(&String::from_utf8_lossy(&said)),
        complete: None,
        bytes_per_sample: None,
        cost,
        symbols_ns: None,
        writing_ns: None,
        recording_bytes: None,
    })
}

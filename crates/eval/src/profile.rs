//! `cargo xtask peers profile`: cost and sample counts of `wingbeat profile` with perf and samply.
//!
//! Figures from different machines, or from different hours on a shared one, cannot be compared. So
//! the tools take turns on the same workloads, round after round, each next to a run alone.
//! docs/peers.md explains the figures.

use std::{
    fs::{self, File},
    io::{BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::Context as _;
use clap::Args;
use flate2::bufread::GzDecoder;
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;

use crate::{
    child::{Usage, create, pipeline, run, text_of},
    comparison::{
        ALONE, Bed, Common, Comparison, Results, Run, WINGBEAT, chosen, is_stopped, of_rounds,
        read_json,
    },
    numbers::{NONE, Spread, Unit, column, distinct, show, table},
    samplers::{Summary, perf_samples, samply_lost},
    tools::{Setting, described, find, version_of},
};

/// How CPU profiles are compared.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// One round of one second, at 999 and 9999 Hz: shows that it works, not how fast it is
    #[arg(long)]
    quick: bool,
    /// Rounds over all workloads, frequencies and tools [default: 5, or 1 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Samples per second [default: 99,999,9999, or 999,9999 with --quick]
    #[arg(long, value_name = "HZ", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=50_000))]
    hz: Vec<u32>,
    /// Only these tools: wingbeat, perf, samply
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Only these workloads: deep, threads, forks, deep-26
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    workload: Vec<String>,
    #[command(flatten)]
    pub(crate) common: Common,
}

pub(crate) const COMPARISON: Comparison<ProfileArgs> = Comparison {
    name: "profile",
    root: Some("profilers"),
    needs: &[],
    measure,
    texts,
    pages: &[("peers profile", "docs/peers.md"), ("peers summary", "README.md")],
};

/// A profiler, from start to a written output.
struct Sampler {
    name: &'static str,
    /// Programs that have to be in `PATH`; the first has the version.
    needs: &'static [&'static str],
    sample: fn(&Job<'_>) -> anyhow::Result<Values>,
}

const PERF: &str = "perf";
const SAMPLY: &str = "samply";

const SAMPLERS: [Sampler; 3] = [
    Sampler { name: WINGBEAT, needs: &[], sample: wingbeat },
    Sampler {
        name: PERF,
        needs: &["perf", "inferno-collapse-perf", "inferno-flamegraph"],
        sample: perf,
    },
    Sampler { name: SAMPLY, needs: &["samply"], sample: samply },
];

struct Workload {
    name: &'static str,
    /// Arguments of `work` before and after the amount of work.
    mode: &'static str,
    frames: &'static [&'static str],
    /// The only frequency and the only tools that it is for.
    only: Option<(u32, [&'static str; 2])>,
}

const WORKLOADS: [Workload; 4] = [
    Workload { name: "deep", mode: "deep", frames: &[], only: None },
    Workload { name: "threads", mode: "threads", frames: &[], only: None },
    Workload { name: "forks", mode: "forks", frames: &[], only: None },
    Workload {
        name: "deep-26",
        mode: "deep",
        frames: &["19", "19"],
        only: Some((999, [WINGBEAT, PERF])),
    },
];

/// Named figures of a run.
type Values = Vec<(&'static str, f64)>;

/// A run to make.
struct Job<'a> {
    workload: &'a Workload,
    units: u64,
    hz: u32,
    wingbeat: &'a Path,
    work: &'a Path,
    folder: PathBuf,
}

/// What the workload reports.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Target {
    units: u64,
    /// With children, from its fork until just before its exit.
    cpu_ns: u64,
    /// The end of its work, on the monotonic clock.
    end_ns: u64,
}

impl Job<'_> {
    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn messages(&self) -> PathBuf {
        self.file("messages")
    }

    /// Runs the target alone, or under a command that takes it as its last words.
    fn launch(&self, under: Option<Command>) -> anyhow::Result<(Target, Usage)> {
        let mut command = match under {
            Some(mut command) => {
                command.arg("--").arg(self.work);
                command
            }
            None => Command::new(self.work),
        };
        command.arg(self.workload.mode).arg(self.units.to_string()).args(self.workload.frames);
        let report = self.file("target.json");
        command.env("WINGBEAT_WORK_REPORT", &report);
        let usage = run(&mut command, Stdio::null(), &self.messages())?;
        Ok((read_json(&report).context("the target left no report")?, usage))
    }
}

/// Figures about the cost of a tool that has just written its output.
fn costs(hz: u32, target: Target, usage: Usage) -> Values {
    let now = clock_gettime(ClockId::Monotonic);
    let finish_s = now.tv_sec as f64 + now.tv_nsec as f64 / 1e9 - target.end_ns as f64 / 1e9;
    vec![
        ("hz", hz.into()),
        ("target_s", target.cpu_ns as f64 / 1e9),
        ("cpu_s", usage.cpu_ns as f64 / 1e9),
        ("finish_s", finish_s),
        ("memory_mb", usage.rss_max_bytes as f64 / 1e6),
    ]
}

fn wingbeat(job: &Job<'_>) -> anyhow::Result<Values> {
    let summary = job.file("summary.json");
    let mut command = Command::new(job.wingbeat);
    command.args(["profile", "--quiet", "--frequency", &job.hz.to_string(), "--output"]);
    command.arg(job.file("flamegraph.svg")).arg("--summary-json").arg(&summary);
    let (target, usage) = job.launch(Some(command))?;
    let mut values = costs(job.hz, target, usage);
    let summary = Summary::read(&summary)?;
    let own_ns = summary.sum("/own/cpu_time_ns", &["record", "symbolize", "write"])?;
    values.extend([
        ("samples", summary.number("/ticks/sampled")?),
        ("lost", summary.number("/ticks/lost")?),
        ("bytes_per_sample", summary.number("/bytes_per_sample")?),
        ("own_account_s", own_ns / 1e9),
    ]);
    Ok(values)
}

/// perf with frame pointers, and inferno for the picture: what most people do.
///
/// The event is named because without it perf takes hardware cycles where there are any, and the
/// comparison would then be between clocks.
fn perf(job: &Job<'_>) -> anyhow::Result<Values> {
    let data = job.file("perf.data");
    let mut record = Command::new("perf");
    record.args(["record", "--quiet", "-g", "-e", "cpu-clock", "-F", &job.hz.to_string(), "-o"]);
    record.arg(&data);
    let (target, recorded) = job.launch(Some(record))?;
    let mut script = Command::new("perf");
    script.args(["script", "-i"]).arg(&data);
    let draw = ["inferno-collapse-perf", "inferno-flamegraph"].map(Command::new);
    let mut chain: Vec<Command> = [script].into_iter().chain(draw).collect();
    let picture = create(&job.file("flamegraph.svg"))?;
    let drawn = pipeline(&mut chain, picture, &job.messages())?;
    let mut values = costs(job.hz, target, recorded.then(drawn));
    let (samples, lost) = perf_samples(&data, "cpu-clock")?;
    let bytes = fs::metadata(&data).context("perf left no recording")?.len() as f64;
    values.extend([("samples", samples), ("lost", lost)]);
    values.extend((samples > 0.0).then(|| ("bytes_per_sample", bytes / samples)));
    Ok(values)
}

/// samply's recording alone, into a file that nobody opens: it names functions in the browser.
fn samply(job: &Job<'_>) -> anyhow::Result<Values> {
    let _lowered = Setting::for_samply()?;
    let profile = job.file("profile.json.gz");
    let mut command = Command::new("samply");
    command.args(["record", "--save-only", "--no-open", "--rate", &job.hz.to_string()]);
    command.arg("--output").arg(&profile);
    let (target, usage) = job.launch(Some(command))?;
    // The kernel copies up to 32 kB of stack for each sample; the file has no size of that.
    let mut values = costs(job.hz, target, usage);
    let file = File::open(&profile).context("samply left no profile")?;
    let samples = firefox_samples(BufReader::new(GzDecoder::new(BufReader::new(file))))?;
    values.extend([("samples", samples), ("lost", samply_lost(&text_of(&job.messages())))]);
    Ok(values)
}

/// Samples of all threads in a profile for the Firefox Profiler.
///
/// Read as a stream: the memory of this program is copied into the figures of its later children.
fn firefox_samples(json: impl Read) -> anyhow::Result<f64> {
    #[derive(Deserialize)]
    struct Profile {
        threads: Vec<Thread>,
    }
    #[derive(Deserialize)]
    struct Thread {
        samples: Samples,
    }
    #[derive(Deserialize)]
    struct Samples {
        length: u32,
    }
    let profile: Profile =
        serde_json::from_reader(json).context("not a profile for the Firefox Profiler")?;
    Ok(profile.threads.iter().map(|thread| f64::from(thread.samples.length)).sum())
}

fn measure(args: &ProfileArgs, bed: &Bed, results: &mut Results) -> anyhow::Result<()> {
    let mut samplers = chosen(&SAMPLERS, |it| it.name, &args.only)?;
    let workloads = chosen(&WORKLOADS, |it| it.name, &args.workload)?;
    let work = bed.work()?;
    let version = version_of(Command::new(&bed.wingbeat).arg("--version"));
    let peers = samplers.iter().filter_map(|it| it.needs.first()).map(|name| described(name));
    results.origin.tools = [format!("wingbeat {version}")].into_iter().chain(peers).collect();
    samplers.retain(|it| {
        let missing = it.needs.iter().find_map(|name| find(name).err());
        missing.iter().for_each(|error| eprintln!("{} is left out: {error}", it.name));
        missing.is_none()
    });
    let job = |workload, units, hz, name: &str| {
        let (wingbeat, work) = (bed.wingbeat.as_path(), work.as_path());
        anyhow::Ok(Job { workload, units, hz, wingbeat, work, folder: bed.fresh(name)? })
    };
    let (trial, _) = job(&WORKLOADS[0], 10_000, 0, "trial")?.launch(None)?;
    let units = units_for(if args.quick { 1.0 } else { 4.0 }, trial);
    let usual: &[u32] = if args.quick { &[999, 9999] } else { &[99, 999, 9999] };
    let frequencies = if args.hz.is_empty() { usual } else { &args.hz };
    for round in 0..args.rounds.unwrap_or(if args.quick { 1 } else { 5 }) {
        for workload in &workloads {
            for &hz in frequencies {
                let is_for = |it: &&&Sampler| {
                    workload.only.is_none_or(|(at, names)| at == hz && names.contains(&it.name))
                };
                let mut turns: Vec<&Sampler> = samplers.iter().filter(is_for).copied().collect();
                if turns.is_empty() || is_stopped() {
                    continue;
                }
                // Another one begins in each round.
                let first = round as usize % turns.len();
                turns.rotate_left(first);
                let case = format!("{}, {hz} Hz", workload.name);
                let name = |tool: &str| format!("{case}, {tool}");
                let (target, usage) = job(workload, units, hz, &name(ALONE))?.launch(None)?;
                let alone = Run::new((&case, ALONE), round, costs(hz, target, usage));
                results.add((&case, ALONE), round, Ok(alone));
                for Sampler { name: tool, sample, .. } in turns {
                    let values = job(workload, units, hz, &name(tool)).and_then(|it| sample(&it));
                    let place = (case.as_str(), *tool);
                    results.add(place, round, values.map(|it| Run::new(place, round, it)));
                }
            }
        }
    }
    Ok(())
}

/// Units that take this much CPU time; whole thousands, so that two runs mostly do the same.
fn units_for(cpu_s: f64, trial: Target) -> u64 {
    let unit_s = trial.cpu_ns.max(1) as f64 / 1e9 / trial.units.max(1) as f64;
    (cpu_s / unit_s / 1000.0).round().clamp(1.0, 1e6) as u64 * 1000
}

/// A figure of a run.
type Metric = fn(&Results, &Run) -> Option<f64>;

/// Samples per CPU second of the target ÷ frequency. 1 is right.
fn rate(_: &Results, run: &Run) -> Option<f64> {
    Some(run.get("samples")? / run.get("target_s")? / run.get("hz")?)
}

fn slowdown(results: &Results, run: &Run) -> Option<f64> {
    Some(run.get("target_s")? / results.beside(run, ALONE)?.get("target_s")? - 1.0)
}

fn finish_s(_: &Results, run: &Run) -> Option<f64> {
    run.get("finish_s")
}

fn memory_mb(_: &Results, run: &Run) -> Option<f64> {
    run.get("memory_mb")
}

fn bytes(_: &Results, run: &Run) -> Option<f64> {
    run.get("bytes_per_sample")
}

fn lost(_: &Results, run: &Run) -> Option<f64> {
    let (lost, samples) = (run.get("lost")?, run.get("samples")?);
    Some(lost / (lost + samples))
}

/// The tool's own CPU seconds, without the target's.
fn own_s(results: &Results, run: &Run) -> Option<f64> {
    // The target's cost after its report, in its exit, shows without a tool.
    let exits = results.rows.iter().filter_map(|alone| {
        let is_same = alone.tool == ALONE && workload_of(&alone.case) == workload_of(&run.case);
        is_same.then(|| Some(alone.get("cpu_s")? - alone.get("target_s")?))?
    });
    let exit_s = Spread::of(exits).map_or(0.0, |spread| spread.median);
    Some(run.get("cpu_s")? - run.get("target_s")? - exit_s)
}

fn workload_of(case: &str) -> &str {
    case.split(',').next().unwrap_or(case)
}

/// A tool's own cost as a fixed part and a part for each sample, in one round.
struct Growth {
    round: u32,
    fixed_s: f64,
    slope_us: f64,
}

/// The two highest frequencies.
fn growth_hz(results: &Results) -> Option<(u32, u32)> {
    let mut all: Vec<u32> =
        results.rows.iter().filter_map(|it| Some(it.get("hz")? as u32)).collect();
    all.sort_unstable();
    all.dedup();
    if let [.., low, high] = all[..] { Some((low, high)) } else { None }
}

/// The line through the runs at those frequencies, for each round.
fn growth(results: &Results, tool: &str, workload: &str) -> Vec<Growth> {
    let Some((low, high)) = growth_hz(results) else { return Vec::new() };
    let [low, high] = [low, high].map(|hz| format!("{workload}, {hz} Hz"));
    let of = |few: &Run| {
        let many = results.runs(&high, tool).find(|many| many.round == few.round)?;
        let more = many.get("samples")? - few.get("samples")?;
        let (few_s, many_s) = (own_s(results, few)?, own_s(results, many)?);
        let slope_s = (many_s - few_s) / more;
        let fixed_s = few_s - slope_s * few.get("samples")?;
        (more > 0.0).then_some(Growth { round: few.round, fixed_s, slope_us: slope_s * 1e6 })
    };
    results.runs(&low, tool).filter_map(of).collect()
}

/// A part of the growth of one tool ÷ that of another in the same round.
fn growth_ratio(
    results: &Results,
    (tool, other): (&str, &str),
    workload: &str,
    part: fn(&Growth) -> f64,
) -> Option<Spread> {
    let others = growth(results, other, workload);
    Spread::of(growth(results, tool, workload).iter().filter_map(|it| {
        let other = others.iter().find(|other| other.round == it.round)?;
        Some(part(it) / part(other))
    }))
}

/// Where a figure is to lie.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bound {
    AtMost(f64),
    /// No further from 1 than this.
    NearOne(f64),
}

use Bound::{AtMost, NearOne};

impl Bound {
    fn limits(self) -> (f64, f64) {
        match self {
            AtMost(most) => (f64::NEG_INFINITY, most),
            NearOne(margin) => (1.0 - margin, 1.0 + margin),
        }
    }

    /// 0 is reached, 1 is missed but not in all rounds, 2 is missed.
    fn missed(self, spread: Spread) -> usize {
        let (least, most) = self.limits();
        if (least..=most).contains(&spread.median) {
            0
        } else if spread.min <= most && spread.max >= least {
            1
        } else {
            2
        }
    }

    fn worst(self, figures: Vec<(Spread, String)>) -> Option<(Spread, String)> {
        let distance = |spread: Spread| match self {
            AtMost(_) => spread.median,
            NearOne(_) => (spread.median - 1.0).abs(),
        };
        let order = |a: Spread, b: Spread| {
            let missed = self.missed(a).cmp(&self.missed(b));
            missed.then(distance(a).total_cmp(&distance(b)))
        };
        figures.into_iter().max_by(|(a, _), (b, _)| order(*a, *b))
    }
}

/// A goal of wingbeat, which is about the worst of its figures.
struct Goal {
    what: &'static str,
    bound: Bound,
    unit: Unit,
    /// With where they were taken.
    figures: fn(&Results) -> Vec<(Spread, String)>,
}

const fn goal(
    what: &'static str,
    bound: Bound,
    unit: Unit,
    figures: fn(&Results) -> Vec<(Spread, String)>,
) -> Goal {
    Goal { what, bound, unit, figures }
}

const RATIO: Unit = (1.0, 3, "");
const PERCENT: Unit = (100.0, 1, " %");

// perf counts from the start of each process, and drops the begun period at its end: half a sample for each process,
// which on short-lived ones is more than 1 %.
const GOALS: [Goal; 9] = [
    goal("samples per CPU second ÷ frequency", NearOne(0.01), RATIO, |it| ours(it, rate, "")),
    goal("the same ÷ perf's", NearOne(0.01), RATIO, |results| {
        let all = of_perf(results, rate, |a, b| a / b).into_iter();
        all.filter(|(_, place)| !place.starts_with("forks")).collect()
    }),
    goal("the same ÷ perf's, on forks", NearOne(0.01), RATIO, |results| {
        let all = of_perf(results, rate, |a, b| a / b).into_iter();
        all.filter(|(_, place)| place.starts_with("forks")).collect()
    }),
    goal("own CPU per sample ÷ perf's chain's", AtMost(0.2), RATIO, |results| {
        of_growth(results, PERF, |it| it.slope_us)
    }),
    goal("own CPU per sample ÷ samply's", AtMost(0.5), RATIO, |results| {
        of_growth(results, SAMPLY, |it| it.slope_us)
    }),
    goal("fixed own CPU ÷ perf's chain's", AtMost(1.0), RATIO, |results| {
        of_growth(results, PERF, |it| it.fixed_s)
    }),
    goal("slowdown − perf's", AtMost(0.0), (100.0, 1, " points"), |results| {
        of_perf(results, slowdown, |a, b| a - b)
    }),
    goal("bytes per sample of 26 frames", AtMost(350.0), (1.0, 0, ""), |results| {
        ours(results, bytes, "deep-26")
    }),
    goal("target's end to file ÷ perf's chain's", AtMost(1.0), RATIO, |results| {
        of_perf(results, finish_s, |a, b| a / b)
    }),
];

/// A figure of a tool on a case over the rounds.
fn spread(results: &Results, case: &str, tool: &str, metric: Metric) -> Option<Spread> {
    Spread::of(results.runs(case, tool).filter_map(|run| metric(results, run)))
}

fn ours(results: &Results, metric: Metric, workload: &str) -> Vec<(Spread, String)> {
    let cases = results.cases().into_iter().filter(|case| case.starts_with(workload));
    let all = cases.map(|case| (spread(results, case, WINGBEAT, metric), case.to_owned()));
    all.filter_map(|(spread, case)| Some((spread?, case))).collect()
}

/// A figure compared with perf's in the same round.
fn of_perf(
    results: &Results,
    metric: Metric,
    compare: fn(f64, f64) -> f64,
) -> Vec<(Spread, String)> {
    let of = |case: &str| {
        let pairs = results.runs(case, WINGBEAT).filter_map(|run| {
            let theirs = metric(results, results.beside(run, PERF)?)?;
            Some(compare(metric(results, run)?, theirs))
        });
        Some((Spread::of(pairs)?, case.to_owned()))
    };
    results.cases().into_iter().filter_map(of).collect()
}

fn of_growth(results: &Results, peer: &str, part: fn(&Growth) -> f64) -> Vec<(Spread, String)> {
    let workloads = distinct(results.cases().into_iter().map(workload_of));
    let of = |workload: &str| {
        let ratio = growth_ratio(results, (WINGBEAT, peer), workload, part)?;
        Some((ratio, workload.to_owned()))
    };
    workloads.into_iter().filter_map(of).collect()
}

fn texts(results: &Results) -> Vec<String> {
    let rounds = results.rows.iter().map(|run| run.round + 1).max().unwrap_or(0);
    let more = of_rounds(rounds);
    let goals = [results.origin.text(&more), account(results), results.failures(), goals(results)];
    let goals: Vec<String> = goals.into_iter().filter(|part| !part.is_empty()).collect();
    let summary = growth_hz(results).map_or_else(String::new, |(low, high)| {
        format!(
            "{}\nOn one thread, stacks of 26 to 50 frames; samples at {low} Hz, own CPU time from {low} and \
             {high} Hz, the rest at {high} Hz:\n\n{}",
            results.origin.line(&more),
            summary(results, (low, high))
        )
    });
    vec![goals.join("\n"), summary, figures(results)]
}

/// A note if wingbeat's own account of its CPU time is not the kernel's.
fn account(results: &Results) -> String {
    let gaps = results.rows.iter().filter_map(|run| {
        let own_s = own_s(results, run)?;
        Some((run.get("own_account_s")? - own_s).abs() / own_s)
    });
    let gap = Spread::of(gaps).map(|gap| gap.max).filter(|gap| *gap > 0.1);
    gap.map_or_else(String::new, |gap| {
        let percent = 100.0 * gap;
        format!("- wingbeat's own account of its CPU time and the kernel's differ by up to {percent:.0} %.\n")
    })
}

fn goals(results: &Results) -> String {
    const VERDICTS: [&str; 3] = ["reached", "missed, but not in all rounds", "**missed**"];
    type Row = (&'static Goal, Option<(Spread, String)>);
    let limit = |(goal, _): &Row| match goal.bound {
        AtMost(most) => format!("at most {}{}", most * goal.unit.0, goal.unit.2),
        NearOne(_) => format!("{} to {}", goal.bound.limits().0, goal.bound.limits().1),
    };
    table(
        GOALS.iter().map(|goal| (goal, goal.bound.worst((goal.figures)(results)))),
        &[
            column("figure", |(goal, _): &Row| goal.what),
            column("goal", limit),
            column("worst", |(goal, it): &Row| show(it.as_ref().map(|it| it.0), goal.unit)),
            column("where", |(_, it): &Row| it.as_ref().map_or(NONE, |it| &it.1).to_owned()),
            column("verdict", |(goal, it): &Row| {
                it.as_ref().map_or("not measured", |it| VERDICTS[goal.bound.missed(it.0)])
            }),
        ],
    )
}

/// The main figures on one workload.
fn summary(results: &Results, (low, high): (u32, u32)) -> String {
    let (low, high) = (format!("deep, {low} Hz"), format!("deep, {high} Hz"));
    let of = |case: &str, tool: &str, metric: Metric, unit| {
        show(spread(results, case, tool, metric), unit)
    };
    let (high, low) = (high.as_str(), low.as_str());
    let metric =
        |head, metric: Metric, unit| column(head, move |tool: &&str| of(high, tool, metric, unit));
    let part = |part: fn(&Growth) -> f64, places| {
        move |tool: &&str| {
            let growth = growth(results, tool, "deep");
            show(Spread::of(growth.iter().map(part)), (1.0, places, ""))
        }
    };
    let over_ours = |tool: &&str| {
        let ratio = growth_ratio(results, (tool, WINGBEAT), "deep", |it| it.slope_us);
        show(ratio.filter(|_| *tool != WINGBEAT), (1.0, 1, ""))
    };
    let has_growth = |tool: &&str| !growth(results, tool, "deep").is_empty();
    table(
        SAMPLERS.iter().map(|it| it.name).filter(has_growth),
        &[
            column("tool", |tool: &&str| (*tool).to_owned()),
            column("samples ÷ due", |tool: &&str| of(low, tool, rate, RATIO)),
            metric("slowdown", slowdown, PERCENT),
            column("own CPU, fixed, s", part(|it| it.fixed_s, 2)),
            column("per sample, µs", part(|it| it.slope_us, 1)),
            column("÷ wingbeat", over_ours),
            metric("end to file, s", finish_s, (1.0, 2, "")),
            metric("memory, MB", memory_mb, (1.0, 0, "")),
        ],
    )
}

/// All figures of all tools.
fn figures(results: &Results) -> String {
    type Row<'a> = (&'a str, &'a str);
    let rows = results.cases().into_iter().flat_map(|case| {
        let tools = SAMPLERS.iter().map(move |it| (case, it.name));
        tools.filter(|(case, tool)| results.runs(case, tool).next().is_some())
    });
    let metric = |head, metric: Metric, unit| {
        column(head, move |(case, tool): &Row<'_>| show(spread(results, case, tool, metric), unit))
    };
    table(
        rows,
        &[
            column("workload", |row: &Row<'_>| row.0.to_owned()),
            column("tool", |row: &Row<'_>| row.1.to_owned()),
            metric("samples ÷ due", rate, RATIO),
            metric("lost", lost, PERCENT),
            metric("slowdown", slowdown, PERCENT),
            metric("own CPU, s", own_s, (1.0, 2, "")),
            metric("end to file, s", finish_s, (1.0, 2, "")),
            metric("memory, MB", memory_mb, (1.0, 0, "")),
            metric("bytes per sample", bytes, (1.0, 0, "")),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::{cells_of, results};

    /// Two rounds of wingbeat and perf with 4 s of work, and 1 ms for its exit.
    fn measured() -> Results {
        let run = |hz: f64, target_s: f64, own_s: f64, samples: f64| {
            let cpu_s = target_s + 0.001 + own_s;
            [
                ("hz", hz),
                ("target_s", target_s),
                ("cpu_s", cpu_s),
                ("samples", samples),
                ("finish_s", own_s),
            ]
        };
        results(&[
            ("deep, 1000 Hz", ALONE, 0, &run(1000.0, 4.0, 0.0, 0.0)),
            ("deep, 1000 Hz", WINGBEAT, 0, &run(1000.0, 4.0, 0.14, 4000.0)),
            ("deep, 1000 Hz", PERF, 0, &run(1000.0, 4.4, 0.7, 4400.0)),
            ("deep, 1000 Hz", ALONE, 1, &run(1000.0, 5.0, 0.0, 0.0)),
            ("deep, 1000 Hz", WINGBEAT, 1, &run(1000.0, 4.0, 0.14, 3880.0)),
            ("deep, 10000 Hz", WINGBEAT, 0, &run(10_000.0, 4.0, 0.5, 40_000.0)),
            ("deep, 10000 Hz", PERF, 0, &run(10_000.0, 4.0, 4.26, 40_000.0)),
        ])
    }

    #[test]
    fn goals_are_about_the_worst_figure() {
        let rows = cells_of(&goals(&measured()));
        let check = |what: &str, expected: [&str; 4]| {
            let row = rows.iter().find(|row| row[0] == what).expect("a goal");
            assert_eq!(row[1..], expected, "{what}");
        };
        let near = "0.99 to 1.01";
        let unclear = "missed, but not in all rounds";
        let rate = "samples per CPU second ÷ frequency";
        check(rate, [near, "0.985 (0.970 to 1.000)", "deep, 1000 Hz", unclear]);
        check("the same ÷ perf's, on forks", [near, NONE, NONE, "not measured"]);
        // 10 µs for each sample, and 100.
        check("own CPU per sample ÷ perf's chain's", ["at most 0.2", "0.100", "deep", "reached"]);
        let points = ["at most 0 points", "−10.0 points", "deep, 1000 Hz", "reached"];
        check("slowdown − perf's", points);
        let texts = texts(&measured());
        let summary = cells_of(&texts[1]);
        assert_eq!(
            summary[0][..6],
            ["wingbeat", "0.985 (0.970 to 1.000)", NONE, "0.10", "10.0", NONE]
        );
        assert_eq!(summary[1][5], "10.0", "{}", texts[1]);
        assert_eq!(cells_of(&texts[2]).len(), 4, "{}", texts[2]);
    }

    #[test]
    fn verdicts() {
        let check = |bound: Bound, (min, median, max), expected| {
            assert_eq!(bound.missed(Spread { median, min, max }), expected, "{bound:?}, {median}");
        };
        check(AtMost(0.2), (0.1, 0.19, 0.4), 0);
        check(AtMost(0.2), (0.1, 0.21, 0.4), 1);
        check(AtMost(0.2), (0.21, 0.3, 0.4), 2);
        check(NearOne(0.01), (0.9, 1.01, 1.2), 0);
        check(NearOne(0.01), (0.95, 0.98, 0.995), 1);
        check(NearOne(0.01), (1.02, 1.03, 1.04), 2);
        let spread = |min, median| Spread { median, min, max: median };
        let figures = [("a", spread(0.5, 0.5)), ("b", spread(1.5, 1.5)), ("c", spread(0.9, 1.6))];
        let figures = figures.map(|(place, spread)| (spread, place.to_owned()));
        assert_eq!(AtMost(1.0).worst(figures.into()).map(|it| it.1).as_deref(), Some("b"));
    }

    #[test]
    fn samples_and_units() {
        let json = r#"{"meta": {"version": 24}, "threads": [
            {"name": "a", "samples": {"length": 2, "stack": [null, 1]}},
            {"name": "b", "samples": {"length": 3, "weight": [1, 1, 1]}}], "pages": []}"#;
        assert_eq!(firefox_samples(json.as_bytes()).ok(), Some(5.0));
        assert!(firefox_samples(&b"{}"[..]).is_err());
        let trial = |cpu_ns| Target { units: 10_000, cpu_ns, end_ns: 0 };
        assert_eq!(units_for(1.0, trial(170_000_000)), 59_000);
        assert_eq!(units_for(1.0, trial(0)), 1_000_000_000);
    }
}

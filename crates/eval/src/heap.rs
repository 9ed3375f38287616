//! `cargo xtask peers heap`: are the sums of `wingbeat heap` right, and what does it cost the program?
//!
//! Sums of all allocations are compared with those of valgrind's DHAT, the cost with heaptrack's and memleak-bpfcc's.

use std::{
    env,
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use clap::Args;
use serde::Deserialize;

use crate::{
    child::{Running, both_outputs, text_of},
    comparison::{Bed, Common, Comparison, Results, Run, WINGBEAT, is_stopped, read_json},
    numbers::{NONE, Share, Spread, column, median, table, verdict},
    tools::{DATA, Program, described, find, shell},
};

/// How heap profiles are compared.
#[derive(Debug, Args)]
pub(crate) struct HeapArgs {
    /// One round of a second: shows that it works
    #[arg(long)]
    quick: bool,
    /// Rounds of the cost [default: 3, or 1 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Runs with samples [default: 200, or 20 with --quick]
    #[arg(long, value_name = "N")]
    runs: Option<u32>,
    #[command(flatten)]
    pub(crate) common: Common,
}

pub(crate) const COMPARISON: Comparison<HeapArgs> = Comparison {
    name: "heap",
    root: Some("probes"),
    needs: &["gcc"],
    measure,
    texts,
    pages: &[("peers heap", "docs/peers.md")],
};

const DHAT: &str = "valgrind";

/// So that nothing is refused: how much slower the target becomes is what is measured.
const ANY_BUDGET: [&str; 2] = ["--budget", "100000"];

/// Allocations of a second; 0 stands for as many as it can.
const RATES: [(u32, &str); 2] = [(RATE, "at 100000 allocations/s"), (0, "at full speed")];
const RATE: u32 = 100_000;

/// Bytes between samples: some hundreds of samples in the first program.
const SAMPLE: &str = "16K";

/// What may watch the target: its label, what has to be installed, its command, and when it is ready.
struct Watcher {
    label: &'static str,
    needs: &'static str,
    /// FILE and PID stand for a file to write and the target. Without PID it starts the target itself.
    words: &'static [&'static str],
    ready: Ready,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ready {
    /// It starts the target.
    FromStart,
    /// It holds a link of an eBPF program.
    Links,
    Prints(&'static str),
}

const ALONE: &str = "nothing";
const OURS: &str = "`wingbeat heap`";
const MEMLEAK: &str = "`memleak-bpfcc`";

const WATCHERS: [Watcher; 5] = [
    Watcher { label: ALONE, needs: "env", words: &["env"], ready: Ready::FromStart },
    Watcher { label: OURS, needs: "env", words: &["heap", "--pid", "PID"], ready: Ready::Links },
    Watcher {
        label: "`wingbeat heap --exact`",
        needs: "env",
        words: &["heap", "--exact", "--pid", "PID"],
        ready: Ready::Links,
    },
    Watcher {
        label: "`heaptrack`, from the start",
        needs: "heaptrack",
        words: &["heaptrack", "-o", "FILE"],
        ready: Ready::FromStart,
    },
    Watcher {
        label: MEMLEAK,
        needs: "memleak-bpfcc",
        words: &["memleak-bpfcc", "-p", "PID", "1"],
        ready: Ready::Prints("Top 10 stacks"),
    },
];

fn measure(args: &HeapArgs, bed: &Bed, results: &mut Results) -> anyhow::Result<()> {
    results.origin.tools = ["valgrind", "heaptrack", "memleak-bpfcc"].map(described).into();
    let folder = bed.fresh("programs")?;
    for program in &DATA.heap {
        if let Err(error) = program.make(&folder) {
            results.add((&program.name, WINGBEAT), 0, Err(error));
            continue;
        }
        let wingbeat = exactly(bed, &folder, program, &["--exact"]);
        results.add((&program.name, WINGBEAT), 0, wingbeat);
        results.add((&program.name, DHAT), 0, by_dhat(&folder, program));
    }
    let sampled = |round| {
        let run = exactly(bed, &folder, &DATA.heap[0], &["--sample", SAMPLE])?;
        anyhow::Ok(Run { case: SAMPLE.to_owned(), round, ..run })
    };
    for round in 0..args.runs.unwrap_or(if args.quick { 20 } else { 200 }) {
        results.add((SAMPLE, WINGBEAT), round, sampled(round));
    }
    let make = "gcc -g -O2 -pthread -o calls \"$REPOSITORY/crates/eval/programs/calls.c\"";
    shell(&folder, make)?;
    let window = Duration::from_secs(if args.quick { 1 } else { 4 });
    for round in 0..args.rounds.unwrap_or(if args.quick { 1 } else { 3 }) {
        for (rate, case) in RATES {
            for watcher in WATCHERS.iter().filter(|_| !is_stopped()) {
                let place = (case, watcher.label);
                let run = watched(bed, &folder, watcher, rate, window);
                results.add(place, round, run.map(|it| Run::new(place, round, it)));
            }
        }
    }
    Ok(())
}

/// A program as the last words of a command, with few variables.
fn under(mut command: Command, folder: &Path, program: &Program) -> anyhow::Result<Command> {
    let words = shell(folder, &format!("echo {}", program.run))?;
    command.args(words.split_whitespace()).current_dir(folder);
    command.env_clear().env("PATH", env::var_os("PATH").unwrap_or_default());
    // As many allocations as there are objects.
    command.envs([("LC_ALL", "C"), ("PYTHONMALLOC", "malloc"), ("PYTHONHASHSEED", "0")]);
    Ok(command)
}

/// A program under `wingbeat heap`, alone as valgrind runs it.
fn exactly(bed: &Bed, folder: &Path, program: &Program, flags: &[&str]) -> anyhow::Result<Run> {
    let file = folder.join("wingbeat.json");
    let mut wingbeat = Command::new(&bed.wingbeat);
    wingbeat.args(["heap", "--color", "never"]).args(flags).args(["--no-inherit", "-o"]);
    wingbeat.arg(&file).arg("--");
    let said = both_outputs(&mut under(wingbeat, folder, program)?)?;
    let said = said.0 + &said.1;
    let mut run = Run::new((&program.name, WINGBEAT), 0, sums(&read_json(&file)?));
    run.values.extend(margin(&said).map(|margin| ("margin".to_owned(), margin)));
    run.note = said.lines().find(|line| line.contains("found no room")).map(str::to_owned);
    Ok(run)
}

fn by_dhat(folder: &Path, program: &Program) -> anyhow::Result<Run> {
    let file = folder.join("valgrind.json");
    let mut valgrind = Command::new(find(DHAT)?);
    // What the C library frees at the end for valgrind, the program does not.
    valgrind.args(["--tool=dhat", "--run-libc-freeres=no", "--run-cxx-freeres=no"]);
    valgrind.arg(format!("--dhat-out-file={}", file.display()));
    both_outputs(&mut under(valgrind, folder, program)?)?;
    Ok(Run::new((&program.name, DHAT), 0, sums(&read_json(&file)?)))
}

/// A file of DHAT, as far as it is needed.
#[derive(Debug, Deserialize)]
struct Dhat {
    pps: Vec<Point>,
}

#[derive(Debug, Deserialize)]
struct Point {
    tb: u64,
    tbk: u64,
    gb: u64,
    eb: u64,
    ebk: u64,
}

/// Sums over a whole run: all, at the moment with most, and at the end.
const SUMS: [&str; 5] = ["bytes", "blocks", "peak_bytes", "end_bytes", "end_blocks"];

fn sums(dhat: &Dhat) -> [(&'static str, f64); 5] {
    let mut sums = [0; 5];
    for Point { tb, tbk, gb, eb, ebk } in &dhat.pps {
        for (sum, more) in sums.iter_mut().zip([tb, tbk, gb, eb, ebk]) {
            *sum += more;
        }
    }
    [0, 1, 2, 3, 4].map(|index| (SUMS[index], sums[index] as f64))
}

/// Half of the interval around the total, as a part of it.
fn margin(text: &str) -> Option<f64> {
    let total = text.lines().find_map(|line| line.strip_prefix("  total "))?;
    let (_, rest) = total.split_once('±')?;
    Some(rest.split_whitespace().next()?.parse::<f64>().ok()? / 100.0)
}

/// The program that allocates until it is told to end.
struct Target {
    running: Running,
    /// Three numbers of 8 bytes: its process, its allocations, and what ends it if it is not 0.
    file: PathBuf,
}

impl Target {
    /// Starts it under a command.
    fn start(mut under: Command, folder: &Path, rate: u32) -> anyhow::Result<Self> {
        let file = folder.join("numbers");
        fs::write(&file, [0; 24]).context("cannot write the target's numbers")?;
        under.arg(folder.join("calls")).arg(&file).args([&rate.to_string(), "0", "1"]);
        let messages = folder.join("target-messages");
        let running = Running::connected(&mut under, Stdio::null(), Stdio::null(), &messages)?;
        let target = Self { running, file };
        target.running.wait_until("the target allocates", || target.number(1) > 0)?;
        Ok(target)
    }

    fn number(&self, index: usize) -> u64 {
        let bytes = fs::read(&self.file).unwrap_or_default();
        let number = bytes.chunks_exact(8).nth(index).and_then(|it| it.try_into().ok());
        number.map_or(0, u64::from_ne_bytes)
    }

    /// CPU time of its thread.
    fn cpu_ns(&self) -> anyhow::Result<u64> {
        let text = text_of(Path::new(&format!("/proc/{}/schedstat", self.number(0))));
        let time = text.split_whitespace().next().and_then(|word| word.parse().ok());
        time.context("the target is gone")
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // Also where it is the child of a tool. It may have ended by itself.
        let file = File::options().write(true).open(&self.file);
        let _ = file.and_then(|file| file.write_all_at(&1_u64.to_ne_bytes(), 16));
        let _ = self.running.ends_within(Duration::from_secs(5));
    }
}

/// CPU time of an allocation and its free, and allocations of a second, under a watcher.
fn watched(
    bed: &Bed,
    folder: &Path,
    watcher: &Watcher,
    rate: u32,
    window: Duration,
) -> anyhow::Result<[(&'static str, f64); 2]> {
    find(watcher.needs)?;
    let is_ours = watcher.words[0] == "heap";
    let command = |pid: u64| {
        let program = if is_ours { bed.wingbeat.as_path() } else { Path::new(watcher.words[0]) };
        let mut command = Command::new(program);
        command.args(is_ours.then_some("heap")).env("PYTHONUNBUFFERED", "1");
        command.args(watcher.words[1..].iter().map(|word| match *word {
            "FILE" => folder.join("heaptrack").display().to_string(),
            "PID" => pid.to_string(),
            word => word.to_owned(),
        }));
        command.args(ANY_BUDGET.iter().filter(|_| is_ours));
        command
    };
    let is_above = watcher.ready == Ready::FromStart;
    let under = if is_above { command(0) } else { Command::new("env") };
    let target = Target::start(under, folder, rate)?;
    let attached = if is_above {
        None
    } else {
        let messages = folder.join(format!("messages-{}", target.number(0)));
        let running = Running::start(&mut command(target.number(0)), &messages)?;
        running.wait_until("it watches", || match watcher.ready {
            Ready::Prints(words) => running.messages().contains(words),
            _ => has_link(running.pid()),
        })?;
        Some(running)
    };
    // What is measured first is over by then.
    thread::sleep(Duration::from_secs(1));
    let (begin, count, cpu_ns) = (Instant::now(), target.number(1), target.cpu_ns()?);
    thread::sleep(window);
    let allocations = target.number(1).saturating_sub(count) as f64;
    let cpu_ns = target.cpu_ns()?.saturating_sub(cpu_ns) as f64;
    let per_second = allocations / begin.elapsed().as_secs_f64();
    ensure!(allocations > 0.0, "the target stands still");
    if let Some(running) = attached {
        running.interrupt()?;
        // Python ends by the signal.
        running.finish().map(drop).or_else(|error| if is_ours { Err(error) } else { Ok(()) })?;
    }
    Ok([("allocation_ns", cpu_ns / allocations), ("per_second", per_second)])
}

/// Whether a process holds a link of an eBPF program.
fn has_link(pid: u32) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    files.map(|file| text_of(&file.path())).any(|text| text.contains("link_id:"))
}

fn texts(results: &Results) -> Vec<String> {
    let costs = costs(results);
    let mut parts = vec![results.origin.text(""), sums_table(results), costs, share(results)];
    parts.extend([sampled(results), results.failures()]);
    parts.retain(|part| !part.is_empty());
    vec![parts.join("\n")]
}

fn sums_table(results: &Results) -> String {
    let both = |case: &str, sum: &str| {
        let [ours, dhat] = [WINGBEAT, DHAT].map(|tool| results.spread(case, tool, sum));
        ours.zip(dhat).map(|(ours, dhat)| (ours.median, dhat.median))
    };
    let by = |(ours, dhat): (f64, f64)| if ours == dhat { 0.0 } else { ours / dhat - 1.0 };
    let sum = |name: &'static str| {
        column(name, move |case: &&str| match both(case, name) {
            None => NONE.to_owned(),
            Some((ours, dhat)) if ours == dhat => format!("{ours}"),
            Some((ours, dhat)) => {
                let percent = format!("{:+.5} %", 100.0 * by((ours, dhat))).replace('-', "−");
                format!("{ours}; DHAT {dhat} ({percent})")
            }
        })
    };
    let within = |case: &&str| {
        let all = SUMS.iter().map(|name| Some(by(both(case, name)?).abs() <= 0.001));
        let all: Option<Vec<bool>> = all.collect();
        all.map_or(NONE, |all| verdict(all.into_iter().all(|is_near| is_near)))
    };
    let has_sums = |case: &&str| both(case, SUMS[0]).is_some();
    table(
        results.cases().into_iter().filter(has_sums),
        &[
            column("program", |case: &&str| (*case).to_owned()),
            sum(SUMS[0]),
            sum(SUMS[1]),
            column("within 0.1 % of DHAT?", within),
        ],
    )
}

/// Median CPU time that a watcher adds to an allocation.
fn added_ns(results: &Results, case: &str, tool: &str) -> Option<f64> {
    let of = |tool| results.spread(case, tool, "allocation_ns").map(|it| it.median);
    Some(of(tool)? - of(ALONE)?)
}

fn costs(results: &Results) -> String {
    let mut columns = vec![column("watched by", |tool: &&str| (*tool).to_owned())];
    for (_, case) in RATES {
        columns.push(column(format!("added {case}"), move |tool: &&str| {
            let added_ns = added_ns(results, case, tool).filter(|_| *tool != ALONE);
            added_ns.map_or(NONE.to_owned(), |ns| format!("{:.2} µs", ns / 1e3))
        }));
        columns.push(column("allocations/s", move |tool: &&str| {
            median(results.spread(case, tool, "per_second"), (1e-3, 0, " k"))
        }));
    }
    let has_figures = |tool: &&str| added_ns(results, RATES[0].1, tool).is_some();
    table(WATCHERS.iter().map(|it| it.label).filter(has_figures), &columns)
}

fn share(results: &Results) -> String {
    let of = |tool| added_ns(results, RATES[0].1, tool);
    of(OURS).zip(of(MEMLEAK)).map_or_else(String::new, |(ours, theirs)| {
        format!(
            "At {RATE} allocations a second `wingbeat heap` adds {:.0} % of what memleak-bpfcc adds; goal: at most \
             25 %: {}.\n",
            100.0 * ours / theirs,
            verdict(ours / theirs <= 0.25)
        )
    })
}

/// How often the interval around a total of samples holds the exact total.
fn sampled(results: &Results) -> String {
    let program = results.cases().first().copied().unwrap_or_default();
    let exact = results.spread(program, WINGBEAT, "bytes");
    let runs =
        results.runs(SAMPLE, WINGBEAT).filter_map(|it| Some((it.get("bytes")?, it.get("margin")?)));
    let runs: Vec<(f64, f64)> = runs.collect();
    let (Some(exact), false) = (exact, runs.is_empty()) else { return String::new() };
    let held = runs.iter().filter(|(bytes, part)| (bytes - exact.median).abs() <= part * bytes);
    let share = Share { hits: held.count(), of: runs.len() };
    let (low, high) = share.interval().unwrap_or((0.0, 1.0));
    let margin = Spread::of(runs.iter().map(|it| it.1));
    format!(
        "With `--sample {SAMPLE}`, the interval (± {}) held the true total in {} of {} runs: {:.1} % to {:.1} % of all, \
         at 95 %. Goal: 95 %: {}.\n",
        median(margin, (100.0, 1, " %")),
        share.hits,
        share.of,
        100.0 * low,
        100.0 * high,
        verdict(high >= 0.95)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::{cells_of, results};

    #[test]
    fn figures_are_read() {
        let json = r#"{"ftbl": ["[root]"], "pps": [{"tb": 100, "tbk": 2, "gb": 60, "eb": 50, "ebk": 1, "fs": [0]},
            {"tb": 8, "tbk": 2, "gb": 8, "eb": 1, "ebk": 1, "fs": [0]}]}"#;
        let found = sums(&serde_json::from_str(json).expect("it has all"));
        assert_eq!(found.map(|it| it.1), [108.0, 4.0, 68.0, 51.0, 2.0]);
        let text = "  calls   137,000 allocations\n  total   13 MB ± 3.1 % in 136,200 blocks\n";
        assert_eq!(margin(text), Some(0.031));
        assert_eq!(margin("  total   5 bytes in 1 block\n"), None);
    }

    #[test]
    fn sums_and_costs_are_judged() {
        let sums = |bytes| SUMS.map(|name| (name, if name == "bytes" { bytes } else { 7.0 }));
        let cost = |ns| [("allocation_ns", ns), ("per_second", 1e5)];
        let found = results(&[
            ("C", WINGBEAT, 0, &sums(99_999.0)),
            ("C", DHAT, 0, &sums(100_000.0)),
            ("Rust", WINGBEAT, 0, &sums(90.0)),
            ("Rust", DHAT, 0, &sums(100.0)),
            ("go", WINGBEAT, 0, &sums(90.0)),
            (SAMPLE, WINGBEAT, 0, &[("bytes", 105_000.0), ("margin", 0.05)]),
            (SAMPLE, WINGBEAT, 1, &[("bytes", 106_000.0), ("margin", 0.05)]),
            (RATES[0].1, ALONE, 0, &cost(10.0)),
            (RATES[0].1, OURS, 0, &cost(2010.0)),
            (RATES[0].1, MEMLEAK, 0, &cost(10_010.0)),
        ]);
        let rows = cells_of(&sums_table(&found));
        assert_eq!(rows[0], ["C", "99999; DHAT 100000 (−0.00100 %)", "7", "reached"]);
        assert_eq!((rows.len(), &*rows[1][3]), (2, "**missed**"));
        let rows = cells_of(&costs(&found));
        assert_eq!(rows[0][..3], [ALONE, NONE, "100 k"]);
        assert_eq!(rows[1], [OURS, "2.00 µs", "100 k", NONE, NONE]);
        let text = &texts(&found)[0];
        assert!(text.contains("adds 20 % of what") && text.contains("in 1 of 2 runs"), "{text}");
    }
}

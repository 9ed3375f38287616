//! `cargo xtask peers guilty`: whether `wingbeat run --profile` names the function that made a benchmark slower, and
//! names nobody where nothing changed.
//!
//! Regressions of known place are built into copies of the examples and of two public projects, one after the other.
//! Each benchmark is measured several times before and with each of them. What is compared is the fastest report of
//! both: on a machine that others use, one may take half as long again as the next.

mod cases;
mod inject;
mod measure;
mod pairs;
mod said;
mod scratch;
mod text;

use std::{fs, path::Path, process::ExitCode};

use anyhow::Context as _;
use clap::Args;
use serde::{Deserialize, Serialize};
use wingbeat_track::store::Retention;

use self::{
    cases::{Benchmark, CASES, Case, Expected, Tool},
    inject::Injected,
    measure::{Bench, file},
    pairs::Pair,
    said::{Said, named, plain},
    scratch::{Scratch, copy},
};
use crate::{
    comparison::{Common, Origin, Stop, chosen, keep, kept, need_root, out},
    table,
};

/// What is measured.
#[derive(Debug, Args)]
pub(crate) struct GuiltyArgs {
    /// Cases to measure [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Pairs of runs of unchanged code for each benchmark, which are the history of the cases as well
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(3..=100))]
    pairs: u32,
    /// Reports of each case, the fastest of which is compared
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=5))]
    reports: u32,
    /// Put the results beside those of earlier runs, in place of those of the same names
    #[arg(long)]
    add: bool,
    #[command(flatten)]
    common: Common,
}

/// Reports of unchanged code where the result is a count.
const COUNTS: u32 = 2;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    origin: Origin,
    cases: Vec<Found>,
    unchanged: Vec<Unchanged>,
}

/// What came of a case.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Found {
    name: String,
    what: String,
    before: f64,
    after: f64,
    /// The first sentence about the cause, whether it names a function or not.
    sentence: Option<String>,
    is_right: bool,
    /// Reports, and those of them that raised an alert.
    reports: usize,
    alerts: usize,
}

/// A benchmark of code that did not change.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Unchanged {
    benchmark: String,
    pairs: Vec<Pair>,
    /// Reports with a history that a fixed threshold can be applied to.
    judged: usize,
    /// Functions that alerts among them named.
    named: Vec<String>,
    alerts: usize,
}

/// The figures of this command.
const NAME: &str = "guilty";

pub(crate) fn run(args: &GuiltyArgs) -> anyhow::Result<ExitCode> {
    let cases = chosen(CASES, "case", |case| case.name, &args.only)?;
    need_root("a profile needs", NAME)?;
    let stop = Stop::on_signals()?;
    let origin = Origin::now();
    let mut record: Record = match args.add {
        true => kept(&out("")?.join(format!("{NAME}.json")))?,
        false => Record { origin, ..Record::default() },
    };
    let wingbeat = args.common.wingbeat()?;
    let scratch = Scratch::new()?;
    let bench = Bench { wingbeat: &wingbeat, scratch: &scratch };
    let mut benchmarks: Vec<Benchmark> = cases.iter().map(|case| case.benchmark).collect();
    benchmarks.sort();
    benchmarks.dedup();
    for benchmark in benchmarks {
        let of_it: Vec<_> = cases.iter().filter(|case| case.benchmark == benchmark).collect();
        let done = self::benchmark(&bench, benchmark, &of_it, args, &stop, &mut record);
        let done = stop.unless_asked(done)?;
        // `--add` goes on from here.
        keep(&record, &out("")?.join(format!("{NAME}.json")))?;
        if done.is_none() {
            break;
        }
    }
    let place = |found: &Found| CASES.iter().position(|case| case.name == found.name);
    record.cases.sort_by_key(place);
    args.common.finish(NAME, &record, &text::text(&record), &stop)
}

/// Measures a benchmark without a change, and with each of its cases.
fn benchmark(
    bench: &Bench<'_>,
    benchmark: Benchmark,
    cases: &[&Case],
    args: &GuiltyArgs,
    stop: &Stop,
    record: &mut Record,
) -> anyhow::Result<()> {
    let name = match benchmark.tool {
        Tool::Criterion(target) => format!("{target}: {}", benchmark.name),
        Tool::Bench => benchmark.name.to_owned(),
    };
    // Counts are the same each time: no pair of them tells anything.
    let is_counted = benchmark.tool == Tool::Bench;
    let store = bench.scratch.store("unchanged")?;
    let mut reports = Vec::new();
    for number in 1..=if is_counted { COUNTS } else { 2 * args.pairs } {
        let said = bench.report(benchmark, &store)?;
        eprintln!("{name}, unchanged {number}: {:.2}", said.value);
        reports.push(said);
        if stop.is_asked() {
            return Ok(());
        }
    }
    if !is_counted {
        record.unchanged.retain(|it| it.benchmark != name);
        record.unchanged.push(unchanged(name, &reports, &store)?);
    }
    // Of older reports the store has no profile when a case has been measured.
    let reports_max = Retention::default().newest.saturating_sub(args.reports as usize);
    let newest = &reports[reports.len().saturating_sub(reports_max)..];
    let before = fastest(newest).context("nothing was measured")?;
    for case in cases {
        let count = if is_counted { 1 } else { args.reports };
        let found = self::case(bench, case, &store, before, count)?;
        let sentence = found.sentence.as_deref().unwrap_or(table::NONE);
        let right = if found.is_right { "right" } else { "WRONG" };
        eprintln!("{}: {:.2}, {sentence}: {right}", case.name, found.after);
        record.cases.retain(|it| it.name != found.name);
        record.cases.push(found);
        if stop.is_asked() {
            return Ok(());
        }
    }
    Ok(())
}

fn unchanged(benchmark: String, reports: &[Said], store: &Path) -> anyhow::Result<Unchanged> {
    let functions =
        reports.iter().filter_map(|said| Some(named(said.sentence.as_deref()?)?.function));
    Ok(Unchanged {
        benchmark,
        pairs: pairs::of_store(&file(store))?,
        judged: reports.iter().filter(|said| said.baseline.is_some()).count(),
        named: functions.collect(),
        alerts: reports.iter().filter(|said| said.has_alert).count(),
    })
}

fn fastest(reports: &[Said]) -> Option<&Said> {
    reports.iter().min_by(|a, b| a.value.total_cmp(&b.value))
}

/// Measures a case, with the history of the unchanged code, and asks for the difference from one of its reports.
fn case(
    bench: &Bench<'_>,
    case: &Case,
    history: &Path,
    before: &Said,
    count: u32,
) -> anyhow::Result<Found> {
    let store = bench.scratch.store(case.name)?;
    copy(history, &store)?;
    let projects = bench.scratch.projects();
    let injected = Injected::new(&projects, case.edits)?;
    bench.scratch.commit(case.what)?;
    let reports: Vec<Said> =
        (0..count).map(|_| bench.report(case.benchmark, &store)).collect::<anyhow::Result<_>>()?;
    let after = fastest(&reports).context("nothing was measured")?;
    let sentence = bench.sentence(case.benchmark, &store, [before, after])?;
    let is_right = match sentence.as_deref().and_then(named) {
        Some(named) => {
            let line = line(&projects, case.expected, named.place.as_deref())?;
            case.expected.is_met(&plain(&named.function), line.as_deref())
        }
        None => false,
    };
    drop(injected);
    bench.scratch.commit("Take it back")?;
    Ok(Found {
        name: case.name.to_owned(),
        what: case.what.to_owned(),
        before: before.value,
        after: after.value,
        sentence,
        is_right,
        alerts: reports.iter().filter(|said| said.has_alert).count(),
        reports: reports.len(),
    })
}

/// The text of the line that was named, where lines are expected.
fn line(
    projects: &Path,
    expected: Expected,
    place: Option<&str>,
) -> anyhow::Result<Option<String>> {
    let (Expected::Lines(file, _), Some((at, number))) =
        (expected, place.and_then(|place| place.rsplit_once(':')))
    else {
        return Ok(None);
    };
    if !file.ends_with(at) {
        return Ok(None);
    }
    let file = projects.join(file);
    let text =
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let number: usize = number.parse().unwrap_or(0);
    Ok(number.checked_sub(1).and_then(|at| text.lines().nth(at)).map(str::to_owned))
}
